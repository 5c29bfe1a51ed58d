//! Statistics equal a recount of the raw journal, over random executions of every outcome, however often they
//! are read in between; and they survive a rebuild.

use std::collections::BTreeMap;

use actbook::service::view::QuestionKind;
use actbook::service::{DurationPercentiles, Stats, StatsFilter};
use actbook::store::Db;
use serde_json::Value;

use super::random_history;
use super::recount::{RawJournal, nearest_rank};
use crate::durability::call_stats;
use crate::durability::fixture::ServiceFixture;
use crate::durability::rng::SeededRng;
use crate::store::for_each_database;

const EXECUTIONS: usize = 40;
const ENDED_STATUSES: [&str; 4] = ["succeeded", "failed", "cancelled", "compensated"];
const HOUR_MS: i64 = 3_600_000;

#[test]
fn stats_equal_a_recount_of_the_journal() {
    for_each_database(async |scratch| {
        let mut rng = SeededRng::from_env("statistics");
        let fixture = ServiceFixture::with_timed_tools(&scratch.url).await;
        let read_stats =
            async || drop(fixture.service.journal().stats(&StatsFilter::default()).await.unwrap());
        random_history::run_random_executions(&fixture, &mut rng, EXECUTIONS, read_stats).await;
        let stats = fixture.service.journal().stats(&StatsFilter::default()).await.unwrap();
        assert_stats_equal(&stats, &RawJournal::read(&scratch.db).await);
        assert_tools(&stats, &scratch.db).await;
        assert_open_waits(&stats, &fixture).await;
        assert!(stats.executions.total == EXECUTIONS as u64 && stats.executions.by_status.len() > 2);
        assert!(!stats.failures.is_empty() && !stats.waiting.is_empty() && stats.retries.steps > 0);

        for plan in ["plan-0", "plan-3"] {
            let of = StatsFilter { plan: Some(plan.into()), ..StatsFilter::default() };
            let only =
                RawJournal::read(&scratch.db).await.retain_starts(|start| start["plan"]["name"] == plan);
            assert_stats_equal(&fixture.service.journal().stats(&of).await.unwrap(), &only);
        }
        let of = StatsFilter { task: Some("T-1".into()), ..StatsFilter::default() };
        let only = RawJournal::read(&scratch.db).await.retain_starts(|start: &Value| start["task"] == "T-1");
        assert_stats_equal(&fixture.service.journal().stats(&of).await.unwrap(), &only);
        let of = StatsFilter { since: Some(i64::MAX - 1), ..StatsFilter::default() };
        assert_stats_equal(
            &fixture.service.journal().stats(&of).await.unwrap(),
            &RawJournal::read(&scratch.db).await.retain_starts(|_| false),
        );

        for damage in
            ["DELETE FROM questions", "UPDATE confidences SET outcome = 'failed'", "DELETE FROM counts"]
        {
            scratch.execute(damage).await;
            fixture.service.journal().rebuild().await.unwrap();
            assert_eq!(
                fixture.service.journal().stats(&StatsFilter::default()).await.unwrap(),
                stats,
                "after {damage}"
            );
        }
        fixture.assert_verifies().await;
    });
}

fn assert_stats_equal(stats: &Stats, raw: &RawJournal) {
    assert_executions(stats, raw);
    assert_plans(stats, raw);
    let failures: BTreeMap<String, (u64, u64)> =
        stats.failures.iter().map(|one| (one.category.to_string(), (one.failed, one.unknown))).collect();
    assert_eq!(failures, raw.failures());
    let tries = raw.attempts_by_step();
    let again: Vec<_> = tries.values().filter(|(tries, _)| *tries > 1).collect();
    assert_eq!(stats.retries.steps, again.len() as u64);
    assert_eq!(stats.retries.attempts, again.iter().map(|(tries, _)| tries - 1).sum::<u64>());
    assert_eq!(stats.retries.succeeded, again.iter().filter(|(_, good)| *good).count() as u64);
    assert_waits(stats, raw);
    assert_longest(stats, raw);
    assert_claims(stats, raw);
}

fn assert_percentiles(took: &DurationPercentiles, raw: &[i64], what: &str) {
    let found = [took.p50_ms, took.p95_ms, took.p99_ms];
    assert_eq!(found, [50, 95, 99].map(|percent| nearest_rank(raw, percent)), "{what}: {raw:?}");
}

fn assert_executions(stats: &Stats, raw: &RawJournal) {
    let mut by_status: BTreeMap<String, u64> = BTreeMap::new();
    let mut by_hour: BTreeMap<i64, u64> = BTreeMap::new();
    for (_, started, end) in raw.execution_spans() {
        *by_status.entry(end.map_or_else(|| "open".into(), |(status, _)| status)).or_default() += 1;
        *by_hour.entry(started - started % HOUR_MS).or_default() += 1;
    }
    let executions = &stats.executions;
    let mut counted: BTreeMap<String, u64> = BTreeMap::new();
    for (status, count) in &executions.by_status {
        let status = if ENDED_STATUSES.contains(&status.as_str()) { status.as_str() } else { "open" };
        *counted.entry(status.to_owned()).or_default() += count;
    }
    assert_eq!(counted, by_status);
    let over_time = executions.over_time.iter();
    let over_time: BTreeMap<i64, u64> =
        over_time.map(|period| (period.from_ms, period.by_status.values().sum())).collect();
    assert_eq!(over_time, by_hour, "the periods are hours");
    let ended = ENDED_STATUSES.iter().filter_map(|status| by_status.get(*status)).sum::<u64>();
    let good = by_status.get("succeeded").copied().unwrap_or(0);
    assert_eq!(executions.success_rate, (ended > 0).then(|| good as f64 / ended as f64));
}

fn assert_plans(stats: &Stats, raw: &RawJournal) {
    let mut plans: BTreeMap<String, (u64, u64, Vec<i64>)> = BTreeMap::new();
    for (plan, started, end) in raw.execution_spans() {
        let (executions, good, took) = plans.entry(plan).or_default();
        *executions += 1;
        *good += u64::from(end.as_ref().is_some_and(|(status, _)| status == "succeeded"));
        took.extend(end.map(|(_, at)| at - started));
    }
    assert_eq!(stats.plans.len(), plans.len());
    for found in &stats.plans {
        let (executions, good, took) = &plans[&found.id];
        let counts = (found.executions, found.ended, found.succeeded);
        assert_eq!(counts, (*executions, took.len() as u64, *good), "{}", found.name);
        assert_percentiles(&found.took, took, &found.name);
    }
}

async fn assert_tools(stats: &Stats, db: &Db) {
    let mut raw = call_stats::recount(db).await;
    raw.retain(|name, _| name.contains('/'));
    let names: Vec<&String> = stats.tools.iter().map(|tool| &tool.tool).collect();
    assert_eq!(names, raw.keys().collect::<Vec<_>>());
    for tool in &stats.tools {
        let (seen, raw) = (&tool.stats, &raw[&tool.tool]);
        assert_eq!((seen.calls, seen.succeeded), (raw.calls, raw.succeeded), "{}", tool.tool);
        assert_eq!((&seen.failed, &seen.unknown), (&raw.failed, &raw.unknown), "{}", tool.tool);
        assert_percentiles(&seen.took, &raw.durations_ms, &tool.tool);
    }
}

fn assert_waits(stats: &Stats, raw: &RawJournal) {
    let waited = raw.waits_by_kind();
    let answered: BTreeMap<&str, Vec<i64>> = waited.into_iter().collect();
    for found in &stats.waiting {
        let raw = answered.get(found.r#for.as_str()).cloned().unwrap_or_default();
        assert_eq!((found.answered, found.total_ms), (raw.len() as u64, raw.iter().sum()), "{}", found.r#for);
        assert_percentiles(&found.took, &raw, found.r#for.as_str());
    }
    let kinds: Vec<&str> = stats.waiting.iter().map(|wait| wait.r#for.as_str()).collect();
    assert!(answered.keys().all(|kind| kinds.contains(kind)), "{answered:?}");
}

/// The open waits in the statistics equal those of all execution views.
async fn assert_open_waits(stats: &Stats, fixture: &ServiceFixture) {
    let mut open: BTreeMap<String, u64> = BTreeMap::new();
    for row in fixture.executions().list(&Default::default(), 1_000).await.unwrap() {
        let waiting = fixture.executions().view(&row.id).await.unwrap().waiting;
        for wait in waiting.iter().filter(|wait| wait.kind != QuestionKind::Agent) {
            let kind = serde_json::to_value(wait.kind).unwrap();
            *open.entry(kind.as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
    let counted = stats.waiting.iter().filter(|wait| wait.open > 0);
    let counted: BTreeMap<String, u64> = counted.map(|wait| (wait.r#for.to_string(), wait.open)).collect();
    assert_eq!(counted, open);
}

fn assert_longest(stats: &Stats, raw: &RawJournal) {
    let took = raw.durations_by_step();
    let mut longest: Vec<i64> = took.values().filter_map(|took| took.iter().max().copied()).collect();
    longest.sort_unstable_by(|one, other| other.cmp(one));
    longest.truncate(10);
    let found: Vec<i64> = stats.longest_steps.iter().map(|step| step.took_ms).collect();
    assert_eq!(found, longest);
    for step in &stats.longest_steps {
        let raw = &took[&(step.plan.clone(), step.step.clone())];
        assert_eq!((Some(step.took_ms), step.attempts), (raw.iter().max().copied(), raw.len() as u64));
    }
}

fn assert_claims(stats: &Stats, raw: &RawJournal) {
    let mut tenths: BTreeMap<u64, (u64, u64, f64)> = BTreeMap::new();
    for (confidence, good) in raw.judged_claims().into_values() {
        let tenth = ((confidence * 1000.0).round() as u64 / 100).min(9);
        let (claims, succeeded, sum) = tenths.entry(tenth).or_default();
        (*claims, *succeeded, *sum) = (*claims + 1, *succeeded + u64::from(good), *sum + confidence);
    }
    let found: Vec<(u64, u64, u64)> = stats
        .calibration
        .iter()
        .map(|one| ((one.from * 10.0).round() as u64, one.claims, one.succeeded))
        .collect();
    let expected: Vec<_> = tenths.iter().map(|(tenth, (claims, good, _))| (*tenth, *claims, *good)).collect();
    assert_eq!(found, expected);
    for (one, (claims, good, sum)) in stats.calibration.iter().zip(tenths.values()) {
        assert!((one.confidence - sum / *claims as f64).abs() < 1e-6, "{one:?}");
        assert_eq!(one.success_rate, *good as f64 / *claims as f64);
    }
}
