//! Lists by every filter, and by every pair of filters, equal a brute-force filter over the raw journal, with
//! executions in several stretches of ids.

use std::collections::{BTreeMap, BTreeSet};

use actbook::error::Error;
use actbook::service::{ExecutionFilter, Terms};
use actbook::store::{executions, journal};
use actbook_engine::policy::{ErrorCategory, ExecutionStatus};
use serde_json::Value;

use super::{PLANS, answer_random, run_random, skip_to_next_stretch};
use crate::durability::fixture::ServiceFixture;
use crate::durability::rng::SeededRng;
use crate::store::{ScratchDatabase, TENANT, for_each_database};

const STRETCHES: usize = 4;
const EXECUTIONS_PER_STRETCH: usize = 9;
const PAGE: u64 = 5;

/// What the journal says about one execution.
struct RawExecution {
    row: executions::ExecutionRow,
    tools: BTreeSet<String>,
    actors: BTreeSet<String>,
    categories: BTreeSet<String>,
}

async fn read_raw(scratch: &ScratchDatabase) -> Vec<RawExecution> {
    let rows = executions::all(TENANT).all(&scratch.db).await.unwrap();
    let mut raw: BTreeMap<u64, RawExecution> = rows
        .into_iter()
        .map(|row| {
            let (tools, actors, categories) = Default::default();
            (row.id.0, RawExecution { row, tools, actors, categories })
        })
        .collect();
    for entry in journal::between(TENANT, 0, u64::MAX).all(&scratch.db).await.unwrap() {
        let Some(execution) = raw.get_mut(&entry.stream.0) else { continue };
        execution.actors.insert(entry.actor.to_string());
        let body: Value = serde_json::from_str(&entry.body).unwrap();
        let kind = entry.kind.split('.').next().unwrap();
        if kind == "attempt_started" {
            let (_, tools) = PLANS.iter().find(|(name, _)| *name == execution.row.plan_name).unwrap();
            let step: usize = body["step"].as_str().unwrap()[1..].parse().unwrap();
            execution.tools.insert(tools[step].to_owned());
        }
        if ["step_failed", "step_unknown"].contains(&kind) {
            execution.categories.insert(body["category"].as_str().unwrap().to_owned());
        }
    }
    raw.into_values().rev().collect()
}

/// Whether an execution whose values are `values` passes.
fn passes<'a>(terms: &Terms<String>, values: impl Iterator<Item = &'a str> + Clone) -> bool {
    let has = |wanted: &String| values.clone().any(|value| value == wanted);
    (terms.any_of.is_empty() || terms.any_of.iter().any(has)) && !terms.none_of.iter().any(has)
}

fn passes_filter(filter: &ExecutionFilter, raw: &RawExecution) -> bool {
    let row = &raw.row;
    let servers = raw.tools.iter().map(|tool| tool.split_once('/').unwrap().0);
    let texts = [row.plan_name.as_str()].into_iter().chain(row.task.as_deref());
    let texts = texts.chain(raw.tools.iter().chain(&raw.actors).chain(&raw.categories).map(String::as_str));
    let has_word = |word: &String| {
        let word = word.to_lowercase();
        row.public_id.starts_with(&word) || texts.clone().any(|text| text.to_lowercase().contains(&word))
    };
    passes(&filter.status.clone().map(|status| status.to_string()), [row.status.as_str()].into_iter())
        && passes(&filter.plan, [row.plan.as_str(), row.plan_name.as_str()].into_iter())
        && passes(&filter.task, row.task.as_deref().into_iter())
        && passes(&filter.tool, raw.tools.iter().map(String::as_str))
        && passes(&filter.server, servers)
        && passes(&filter.actor, raw.actors.iter().map(String::as_str))
        && passes(
            &filter.category.clone().map(|category| category.to_string()),
            raw.categories.iter().map(String::as_str),
        )
        && filter.since.is_none_or(|since| row.started_at >= since)
        && filter.until.is_none_or(|until| row.started_at < until)
        && filter.words.iter().all(has_word)
}

/// A change to a filter.
type Change = Box<dyn Fn(&mut ExecutionFilter)>;

/// Conditions on every attribute, grouped so that two of one group contradict or repeat each other.
fn conditions(raw: &[RawExecution]) -> Vec<Vec<Change>> {
    fn text(field: fn(&mut ExecutionFilter) -> &mut Terms<String>, values: &[&str]) -> Vec<Change> {
        let mut changes: Vec<Change> = Vec::new();
        for value in values.iter().map(|value| (*value).to_owned()) {
            let excluded = value.clone();
            changes.push(Box::new(move |filter| field(filter).any_of.push(value.clone())));
            changes.push(Box::new(move |filter| field(filter).none_of.push(excluded.clone())));
        }
        changes
    }
    let status = |status: ExecutionStatus| -> [Change; 2] {
        [
            Box::new(move |filter| filter.status.any_of.push(status)),
            Box::new(move |filter| filter.status.none_of.push(status)),
        ]
    };
    let category = |category: ErrorCategory| -> [Change; 2] {
        [
            Box::new(move |filter| filter.category.any_of.push(category)),
            Box::new(move |filter| filter.category.none_of.push(category)),
        ]
    };
    let word = |word: String| -> Change { Box::new(move |filter| filter.words.push(word.clone())) };
    let middle = raw[raw.len() / 2].row.started_at;
    let id_prefix = raw[raw.len() / 3].row.public_id[..4].to_owned();
    vec![
        text(|filter| &mut filter.plan, &["alpha", "beta", &raw[0].row.plan, "no such plan"]),
        text(|filter| &mut filter.task, &["T-1", "job 7"]),
        text(|filter| &mut filter.tool, &["t/ok", "t/no", "t/never"]),
        text(|filter| &mut filter.server, &["t", "u"]),
        text(|filter| &mut filter.actor, &["agent:hal", "person:eve"]),
        [ErrorCategory::ToolError, ErrorCategory::Timeout].into_iter().flat_map(category).collect(),
        [ExecutionStatus::Succeeded, ExecutionStatus::Failed, ExecutionStatus::Blocked]
            .into_iter()
            .flat_map(status)
            .collect(),
        vec![
            word("ALPH".into()),
            word("lost".into()),
            word("t-1".into()),
            word(id_prefix),
            word("nothing".into()),
        ],
        vec![
            Box::new(move |filter| filter.since = Some(middle)),
            Box::new(move |filter| filter.until = Some(middle)),
        ],
    ]
}

/// The streams on all pages of a list.
async fn read_pages(fixture: &ServiceFixture, filter: &ExecutionFilter) -> Vec<u64> {
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page = fixture.executions().list_page(filter, cursor.as_deref(), PAGE).await.unwrap();
        assert_eq!(page.behind, 0);
        found.extend(page.items.iter().map(|item| item.stream.0));
        cursor = page.next_cursor;
        if cursor.is_none() {
            return found;
        }
    }
}

async fn write_executions(
    fixture: &mut ServiceFixture,
    scratch: &ScratchDatabase,
    rng: &mut SeededRng,
) -> Vec<String> {
    let mut ids = Vec::new();
    for stretch in 0..STRETCHES {
        if stretch > 0 {
            skip_to_next_stretch(fixture, scratch).await;
        }
        for _ in 0..EXECUTIONS_PER_STRETCH {
            ids.push(run_random(fixture, rng).await);
            if rng.once_in(4) {
                fixture.service.catch_up(|_| {}).await.unwrap();
            }
            // An execution of an older stretch gets its values late.
            let older = rng.pick(&ids).clone();
            if rng.once_in(3) {
                answer_random(fixture, rng, &older).await;
            }
        }
    }
    ids
}

#[test]
fn each_filter_and_each_pair_equals_a_brute_force_filter() {
    for_each_database(async |scratch| {
        let mut rng = SeededRng::from_env("filters");
        let mut fixture = ServiceFixture::open(&scratch.url).await;
        write_executions(&mut fixture, &scratch, &mut rng).await;
        let raw = read_raw(&scratch).await;
        assert!(raw[0].row.id.0 / 65_536 >= STRETCHES as u64 - 1, "ids are in several stretches");
        let conditions = conditions(&raw);
        let check = async |changes: &[&Change]| {
            let mut filter = ExecutionFilter::default();
            changes.iter().for_each(|change| change(&mut filter));
            let expected = raw.iter().filter(|raw| passes_filter(&filter, raw)).map(|raw| raw.row.id.0);
            assert_eq!(read_pages(&fixture, &filter).await, expected.collect::<Vec<_>>(), "{filter:?}");
        };
        check(&[]).await;
        for (number, group) in conditions.iter().enumerate() {
            for one in group {
                check(&[one]).await;
                for other in conditions[number + 1..].iter().flatten() {
                    // Every pair on SQLite; PostgreSQL runs the same statements, and a third of the pairs.
                    if scratch.kind == crate::store::Kind::Sqlite || rng.once_in(3) {
                        check(&[one, other]).await;
                    }
                }
            }
            check(&group.iter().step_by(2).collect::<Vec<_>>()).await;
        }
    });
}

#[test]
fn time_ranges_hold_where_ids_and_times_do_not_rise_together() {
    for_each_database(async |scratch| {
        let mut rng = SeededRng::from_env("times");
        let mut fixture = ServiceFixture::open(&scratch.url).await;
        write_executions(&mut fixture, &scratch, &mut rng).await;
        fixture.service.journal().rebuild().await.unwrap();
        // Minutes, hours and days apart, some of them backwards: processes have clocks of their own.
        let spread =
            "UPDATE executions SET started_at = started_at + (id % 5 - 2) * 5400000 + id / 9 % 4 * 86400007";
        scratch.execute(spread).await;
        fixture.service.catch_up(|_| {}).await.unwrap();
        let raw = read_raw(&scratch).await;
        let cursors = "SELECT position FROM caught_up WHERE name = 'starts'";
        let projected = scratch.db.read(cursors, Vec::new()).await.unwrap()[0].uint(0).unwrap();
        for cursor in [projected, projected / 2] {
            // What an older version projected meanwhile is not in the table.
            scratch.execute(&format!("UPDATE caught_up SET position = {cursor} WHERE name = 'starts'")).await;
            for edge in raw.iter().step_by(4) {
                let at = edge.row.started_at;
                for (since, until) in [
                    (Some(at), None),
                    (None, Some(at)),
                    (None, Some(at + 1)),
                    (Some(at - 7_200_000), Some(at)),
                ] {
                    for plan in [None, Some("beta".to_owned())] {
                        let filter =
                            ExecutionFilter { since, until, plan: plan.into(), ..Default::default() };
                        let expected: Vec<u64> = raw
                            .iter()
                            .filter(|raw| passes_filter(&filter, raw))
                            .map(|raw| raw.row.id.0)
                            .collect();
                        assert_eq!(read_pages(&fixture, &filter).await, expected, "{cursor} {filter:?}");
                    }
                }
            }
        }
    });
}

#[test]
fn pages_have_no_gap_and_no_repetition_while_entries_arrive() {
    for_each_database(async |scratch| {
        let mut rng = SeededRng::from_env("arriving");
        let mut fixture = ServiceFixture::open(&scratch.url).await;
        let ids = write_executions(&mut fixture, &scratch, &mut rng).await;
        let filters = [
            ExecutionFilter { plan: "beta".to_owned().into(), ..Default::default() },
            ExecutionFilter {
                plan: Terms { any_of: Vec::new(), none_of: vec!["alpha".into()] },
                ..Default::default()
            },
            ExecutionFilter { server: "t".to_owned().into(), ..Default::default() },
            ExecutionFilter::default(),
        ];
        for filter in &filters {
            let raw = read_raw(&scratch).await;
            let expected: Vec<u64> =
                raw.iter().filter(|raw| passes_filter(filter, raw)).map(|raw| raw.row.id.0).collect();
            let (mut found, mut cursor) = (Vec::new(), None);
            loop {
                let page = fixture.executions().list_page(filter, cursor.as_deref(), 3).await.unwrap();
                found.extend(page.items.iter().map(|item| item.stream.0));
                run_random(&mut fixture, &mut rng).await;
                let older = rng.pick(&ids).clone();
                answer_random(&fixture, &mut rng, &older).await;
                cursor = page.next_cursor;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(found, expected, "{filter:?}");
        }
    });
}

#[test]
fn cursor_of_another_filter_is_refused() {
    for_each_database(async |scratch| {
        let mut rng = SeededRng::from_env("cursors");
        let mut fixture = ServiceFixture::open(&scratch.url).await;
        for _ in 0..4 {
            run_random(&mut fixture, &mut rng).await;
        }
        let all = ExecutionFilter::default();
        let page = fixture.executions().list_page(&all, None, 2).await.unwrap();
        let cursor = page.next_cursor.expect("there are four");
        assert_eq!(fixture.executions().list_page(&all, Some(&cursor), 2).await.unwrap().items.len(), 2);
        let alpha = ExecutionFilter { plan: "alpha".to_owned().into(), ..Default::default() };
        for (filter, cursor) in [(&alpha, cursor.as_str()), (&all, "7"), (&all, "")] {
            let refused = fixture.executions().list_page(filter, Some(cursor), 2).await;
            assert!(matches!(refused, Err(Error::ForeignCursor)), "{refused:?}");
        }
        let refused = fixture.executions().questions(Some("7"), 2).await;
        assert!(matches!(refused, Err(Error::ForeignCursor)), "{refused:?}");
    });
}
