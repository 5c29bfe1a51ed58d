//! The history in pages: for every filter the pages together equal a full scan of the journal, also where the
//! journal index selects the segments to read.

use actbook::caller::Caller;
use actbook::service::view::EntryView;
use actbook::service::{
    ActionFacts, ActionRecord, ExecutionFilter, JournalFilter, ReportedStatus, Service, Terms,
};
use actbook::store::{journal, journal_index};
use actbook_engine::policy::{ErrorCategory, ExecutionStatus, StepAnswer};
use serde_json::{Value, json};

use crate::durability::fixture::{self, ServiceFixture};
use crate::durability::rng::SeededRng;
use crate::store::{ScratchDatabase, TENANT, for_each_database};

/// Enough that the journal index is used.
const ENTRIES: u64 = 12 * journal_index::ENTRIES_PER_SEGMENT;
const PAGE: u64 = 7;

/// Writes many standalone actions, with a few executions and a rare actor among them.
async fn write_long_journal(fixture: &ServiceFixture, rng: &mut SeededRng) {
    let act = |actor: String| {
        let caller = Caller::new(actor);
        let facts = ActionFacts { entity: Some("the lamp".into()), ..ActionFacts::default() };
        async move {
            let act = ActionRecord { facts, ..ActionRecord::default() };
            fixture.executions().record_action(&caller, act).await.unwrap();
        }
    };
    let chunk = ENTRIES / 12;
    for part in 0..12 {
        futures_util::future::join_all((0..chunk).map(|_| act("agent:many".into()))).await;
        if rng.once_in(2) {
            act("agent:rare".into()).await;
        }
        let (word, tool) = (format!("part {part}"), *rng.pick(&["t/ok", "t/no", "t/lost"]));
        let name = *rng.pick(&["alpha", "beta"]);
        let mut plan = fixture::plan(name, &[fixture::step("s", tool, &word)]);
        plan["task"] = json!(rng.pick(&["T-1", "T-2"]));
        let (id, _) = fixture.run(&plan, None).await;
        if tool != "t/ok" && rng.once_in(2) {
            fixture.decide(&id, "s", StepAnswer::Abandon, None).await;
        }
    }
}

async fn read_pages(service: &Service, filter: &JournalFilter) -> Vec<u64> {
    let mut filter = filter.clone();
    let mut found = Vec::new();
    loop {
        let page = service.journal().list(&filter, PAGE).await.unwrap();
        found.extend(page.iter().map(|entry| entry.position));
        match page.last() {
            Some(last) if page.len() as u64 == PAGE => filter.after = last.position,
            Some(_) | None => return found,
        }
    }
}

/// The positions of the entries that pass a filter, by a full scan.
async fn expected_positions(
    scratch: &ScratchDatabase,
    service: &Service,
    filter: &JournalFilter,
) -> Vec<u64> {
    let rows = service.executions().list(&ExecutionFilter::default(), 1_000).await.unwrap();
    let same = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|wanted| wanted == is);
    let fits = |entry: &journal::Entry| {
        let body: Value = serde_json::from_str(&entry.body).unwrap();
        let of = rows.iter().find(|row| row.stream == entry.stream);
        let plan =
            of.is_none_or(|row| same(&filter.plan, &row.plan.name) || same(&filter.plan, &row.plan.id));
        let owned = filter.plan.is_none() && filter.task.is_none() && filter.status.is_none();
        let task = of.is_none_or(|row| same(&filter.task, row.task.as_deref().unwrap_or("")));
        let status = of.is_none_or(|row| filter.status.is_none_or(|wanted| wanted == row.status));
        let words = filter.words.iter().all(|word| entry.kind.contains(word) || entry.body.contains(word));
        same(&filter.kind, entry.kind.split('.').next().unwrap_or_default())
            && same(&filter.actor, &entry.actor)
            && filter.category.is_none_or(|wanted| body["category"] == wanted.as_str())
            && filter.since.is_none_or(|since| entry.at >= since)
            && filter.until.is_none_or(|until| entry.at < until)
            && (owned || of.is_some() && plan && task && status)
            && words
            && entry.position > filter.after
    };
    let entries = journal::between(TENANT, 0, u64::MAX).all(&scratch.db).await.unwrap();
    entries.iter().filter(|entry| fits(entry)).map(|entry| entry.position).collect()
}

#[test]
fn pages_of_a_long_journal_equal_a_full_scan() {
    for_each_database(async |scratch| {
        let mut rng = SeededRng::from_env("pages");
        let fixture = ServiceFixture::open(&scratch.url).await;
        write_long_journal(&fixture, &mut rng).await;
        let entries = journal::between(TENANT, 0, u64::MAX).all(&scratch.db).await.unwrap();
        let at = |part: usize| entries[entries.len() * part / 10].at;
        let any = JournalFilter::default;
        let some = |word: &str| Some(word.to_owned());
        let filters = [
            JournalFilter { kind: some("attempt_ended"), ..any() },
            JournalFilter { kind: some("decided"), ..any() },
            JournalFilter { kind: some("paused"), ..any() },
            JournalFilter { actor: some("agent:rare"), ..any() },
            JournalFilter { actor: some("agent:rare"), since: Some(at(3)), until: Some(at(8)), ..any() },
            JournalFilter { plan: some("alpha"), ..any() },
            JournalFilter { plan: some("alpha"), task: some("T-2"), ..any() },
            JournalFilter { plan: some("beta"), kind: some("attempt_started"), ..any() },
            JournalFilter { task: some("T-1"), category: Some(ErrorCategory::Timeout), ..any() },
            JournalFilter { category: Some(ErrorCategory::ToolError), ..any() },
            JournalFilter { status: Some(ExecutionStatus::Blocked), ..any() },
            JournalFilter { status: Some(ExecutionStatus::Failed), kind: some("execution_ended"), ..any() },
            JournalFilter { plan: some("gamma"), ..any() },
            JournalFilter { kind: some("attempt_ended"), words: vec!["succeeded".into()], ..any() },
            JournalFilter { kind: some("execution_started"), after: ENTRIES / 2, ..any() },
            JournalFilter { since: Some(at(9)), kind: some("driver_changed"), ..any() },
        ];
        for filter in &filters {
            let found = read_pages(&fixture.service, filter).await;
            assert_eq!(found, expected_positions(&scratch, &fixture.service, filter).await, "{filter:?}");
        }
        // Entries appended after the index was built are found as well.
        fixture.run(&fixture::plan("alpha", &[fixture::step("late", "t/ok", "word")]), None).await;
        for filter in &filters {
            let found = read_pages(&fixture.service, filter).await;
            assert_eq!(found, expected_positions(&scratch, &fixture.service, filter).await, "{filter:?}");
        }
        fixture.service.journal().rebuild().await.unwrap();
        let rare = &filters[3];
        assert_eq!(
            read_pages(&fixture.service, rare).await,
            expected_positions(&scratch, &fixture.service, rare).await
        );
    });
}

#[test]
fn execution_list_applies_every_filter() {
    for_each_database(async |scratch| {
        let (fixture, started) =
            (ServiceFixture::open(&scratch.url).await, std::cell::RefCell::new(Vec::new()));
        let (service, hal) = (&fixture.service, Caller::new("agent:hal"));
        for (number, tool) in ["t/ok", "t/no", "t/lost", "t/ok", "t/no"].into_iter().enumerate() {
            let mut plan =
                fixture::plan(&format!("plan-{}", number % 2), &[fixture::step("s", tool, "word")]);
            plan["task"] = json!(format!("T-{}", number % 3));
            let (id, _) = fixture.run(&plan, None).await;
            started.borrow_mut().push(id);
        }
        let ids = started.into_inner();
        service.executions().record_decision(&hal, &ids[1], decision("wait and see")).await.unwrap();
        let check = async |filter: ExecutionFilter, expected: &[usize]| {
            let found = service.executions().list(&filter, 10).await.unwrap();
            let found: Vec<&str> = found.iter().map(|row| row.id.as_str()).collect();
            let expected: Vec<&str> = expected.iter().map(|number| ids[*number].as_str()).collect();
            assert_eq!(found, expected, "{filter:?}");
        };
        let any = ExecutionFilter::default;
        let some = |word: &str| Terms::from(word.to_owned());
        check(any(), &[4, 3, 2, 1, 0]).await;
        check(ExecutionFilter { plan: some("plan-1"), ..any() }, &[3, 1]).await;
        check(ExecutionFilter { task: some("T-1"), ..any() }, &[4, 1]).await;
        check(
            ExecutionFilter { status: ExecutionStatus::Blocked.into(), task: some("T-1"), ..any() },
            &[4, 1],
        )
        .await;
        check(ExecutionFilter { category: ErrorCategory::Timeout.into(), ..any() }, &[2]).await;
        check(ExecutionFilter { category: ErrorCategory::ToolError.into(), ..any() }, &[4, 1]).await;
        check(ExecutionFilter { actor: some("agent:hal"), ..any() }, &[1]).await;
        check(ExecutionFilter { actor: some("ada"), ..any() }, &[4, 3, 2, 1, 0]).await;
        check(ExecutionFilter { words: vec!["PLAN-1".into(), "t-0".into()], ..any() }, &[3]).await;
        check(ExecutionFilter { words: vec![ids[2].clone()], ..any() }, &[2]).await;
        check(ExecutionFilter { until: Some(0), ..any() }, &[]).await;
        let before = service.executions().find(&ids[2]).await.unwrap().stream;
        check(ExecutionFilter { before: Some(before.0), ..any() }, &[1, 0]).await;
    });
}

fn decision(text: &str) -> actbook::service::Decision {
    let details = Some(json!({ "looked_at": "the meter" }));
    actbook::service::Decision { decision: text.into(), reason: None, step: None, details }
}

#[test]
fn recorded_action_is_searchable_until_erased() {
    for_each_database(async |scratch| {
        let fixture = ServiceFixture::open(&scratch.url).await;
        let plan = json!({ "name": "by hand", "steps": [{ "id": "edit", "action": "Edit the file" }] });
        let (id, _) = fixture.run(&plan, None).await;
        let facts = ActionFacts {
            description: Some("rewrote the greeting".into()),
            kind: Some("file_edit".into()),
            entity: Some("greeting.txt".into()),
            before_state: Some(json!({ "lines": 1 })),
            after_state: Some(json!({ "lines": 2 })),
            confidence: Some(0.75),
            error: Some("the disk was slow".into()),
            ..ActionFacts::default()
        };
        let (execution, step) = (Some(id.clone()), Some("edit".to_owned()));
        let status = Some(ReportedStatus::Succeeded);
        let action = ActionRecord { execution, step, status, facts, ..ActionRecord::default() };
        fixture.executions().record_action(&fixture.caller, action).await.unwrap();
        fixture.executions().record_decision(&fixture.caller, &id, decision("ship it")).await.unwrap();
        let found = async |words: &[&str]| -> Vec<EntryView> {
            let words = words.iter().map(|&word| word.to_owned()).collect();
            fixture
                .service
                .journal()
                .list(&JournalFilter { words, ..JournalFilter::default() }, 10)
                .await
                .unwrap()
        };
        let act = &found(&["FILE_EDIT", "greeting.txt"]).await[0];
        let recorded = act.recorded.clone().unwrap();
        assert_eq!(act.kind, "action_recorded.2");
        assert_eq!((&recorded["type"], &recorded["entity"]), (&json!("file_edit"), &json!("greeting.txt")));
        assert_eq!(
            (&recorded["before_state"], &recorded["after_state"]),
            (&json!({ "lines": 1 }), &json!({ "lines": 2 }))
        );
        assert_eq!(
            (&recorded["confidence"], &recorded["error"]),
            (&json!(0.75), &json!("the disk was slow"))
        );
        assert_eq!(found(&["the", "meter"]).await.len(), 1, "details of decisions are found");
        let many = vec!["w".into(); journal::WORDS_MAX + 1];
        let refused = fixture
            .service
            .journal()
            .list(&JournalFilter { words: many, ..JournalFilter::default() }, 1)
            .await;
        assert!(refused.unwrap_err().to_string().contains("4"));

        fixture.claim_and_drive(&id).await;
        fixture.service.journal().cleanup(&fixture.caller, i64::MAX, false).await.unwrap();
        assert_eq!(found(&["greeting.txt"]).await.len(), 0, "an erased text is not found");
        let acts = JournalFilter { kind: Some("action_recorded".into()), ..JournalFilter::default() };
        let acts = fixture.service.journal().list(&acts, 10).await.unwrap();
        assert!(acts.len() == 1 && acts[0].recorded.is_none(), "the entry stays without its payload");
    });
}
