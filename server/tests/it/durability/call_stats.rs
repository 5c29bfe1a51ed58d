//! Tool call statistics equal a recount from the raw journal entries, at any time and after any number of
//! reads.

use std::collections::BTreeMap;

use actbook_engine::id::StreamId;

use actbook::service::{ToolCallStats, ToolCallStatsByName};
use actbook::store::{Db, journal, payloads};
use actbook_engine::policy::{ExecutionStatus, StepAnswer};
use serde_json::{Value, json};

use super::fixture::{self, ServiceFixture};
use crate::store::{TENANT, for_each_database};

/// Statistics of one tool or server, recounted from the journal and its plans.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct RecountedStats {
    pub calls: u64,
    pub succeeded: u64,
    pub failed: BTreeMap<String, u64>,
    pub unknown: BTreeMap<String, u64>,
    pub durations_ms: Vec<i64>,
    last_error: Option<(i64, String)>,
}

const START_KINDS: [(&str, &str, &str); 3] = [
    ("attempt_started.2", "run", "attempt"),
    ("probe_started.1", "probe", "attempt"),
    ("compensation_started.1", "compensation", "compensation"),
];
const END_KINDS: [(&str, &str, &str); 3] = [
    ("attempt_ended.1", "run", "attempt"),
    ("probe_ended.1", "probe", "attempt"),
    ("compensation_ended.1", "compensation", "compensation"),
];

pub async fn recount(db: &Db) -> BTreeMap<String, RecountedStats> {
    let plans = plan_documents(db).await;
    let mut plan_of: BTreeMap<StreamId, Value> = BTreeMap::new();
    let mut begun: BTreeMap<(StreamId, String, &str, u64), (String, i64)> = BTreeMap::new();
    let mut raw: BTreeMap<String, RecountedStats> = BTreeMap::new();
    for entry in journal::between(TENANT, 0, u64::MAX).all(db).await.unwrap() {
        let (stream, at, kind) = (entry.stream, entry.at, entry.kind);
        let body: Value = serde_json::from_str(&entry.body).unwrap();
        if kind == "execution_started.3" {
            let digest = body["plan"]["digest"].as_str().unwrap();
            plan_of.insert(stream, plans[digest].clone());
        }
        let name = |key: &str, what| {
            (stream, body["step"].as_str().unwrap().to_owned(), what, body[key].as_u64().unwrap())
        };
        for (_, what, key) in START_KINDS.into_iter().filter(|(start, _, _)| *start == kind) {
            if let Some(tool) = called_tool(&plan_of[&stream], body["step"].as_str().unwrap(), what) {
                begun.insert(name(key, what), (tool, at));
            }
        }
        for (_, what, key) in END_KINDS.into_iter().filter(|(end, _, _)| *end == kind) {
            let Some((tool, since)) = begun.remove(&name(key, what)) else { continue };
            for of in [tool.split_once('/').unwrap().0.to_owned(), tool] {
                add_ended_call(raw.entry(of).or_default(), &body, since, at);
            }
        }
    }
    raw
}

fn add_ended_call(raw: &mut RecountedStats, body: &Value, since: i64, at: i64) {
    let outcome = match body["found"].as_str() {
        Some("error") => "failed",
        Some(_) => "succeeded",
        None => body["outcome"].as_str().unwrap(),
    };
    let category = body["category"].as_str().unwrap_or("none").to_owned();
    raw.calls += 1;
    match outcome {
        "succeeded" => raw.succeeded += 1,
        "failed" => *raw.failed.entry(category.clone()).or_default() += 1,
        _ => *raw.unknown.entry(category.clone()).or_default() += 1,
    }
    if body["unsent"] != true {
        raw.durations_ms.push(at - since);
    }
    if outcome != "succeeded" && raw.last_error.as_ref().is_none_or(|(known, _)| *known <= since) {
        raw.last_error = Some((since, outcome.to_owned()));
    }
}

async fn plan_documents(db: &Db) -> BTreeMap<String, Value> {
    let mut documents = BTreeMap::new();
    for entry in journal::between(TENANT, 0, u64::MAX).all(db).await.unwrap() {
        if entry.kind == "plan_saved.2" {
            let saved: Value = serde_json::from_str(&entry.body).unwrap();
            let payload = payloads::by_position(TENANT, entry.position).first(db).await.unwrap().unwrap();
            let document = serde_json::from_slice(&payload.body).unwrap();
            documents.insert(saved["digest"].as_str().unwrap().to_owned(), document);
        }
    }
    documents
}

/// The tool that Actbook calls for a step's run, probe or compensation; `None` where an agent or person acts.
fn called_tool(plan: &Value, step: &str, what: &str) -> Option<String> {
    let steps = plan["steps"].as_array().unwrap();
    let step = steps.iter().find(|found| found["id"] == step).unwrap();
    let named = match what {
        "probe" => &step["probe"]["tool"],
        "compensation" => &step["compensation"]["tool"],
        _ if step["by"] == "agent" => &Value::Null,
        _ => &step["tool"],
    };
    named.as_str().map(str::to_owned)
}

fn nearest_rank(took: &[i64], percent: usize) -> Option<i64> {
    let mut sorted = took.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

fn assert_equals_recount(stats: &ToolCallStatsByName, raw: &BTreeMap<String, RecountedStats>) {
    let all: BTreeMap<&String, &ToolCallStats> = stats.tools.iter().chain(&stats.servers).collect();
    assert_eq!(all.keys().copied().collect::<Vec<_>>(), raw.keys().collect::<Vec<_>>());
    for (name, raw) in raw {
        let seen = all[name];
        assert_eq!((seen.calls, seen.succeeded), (raw.calls, raw.succeeded), "{name}");
        assert_eq!((&seen.failed, &seen.unknown), (&raw.failed, &raw.unknown), "{name}");
        let took = &seen.took;
        let percentiles = [(took.p50_ms, 50), (took.p95_ms, 95), (took.p99_ms, 99)];
        for (found, percent) in percentiles {
            assert_eq!(
                found,
                nearest_rank(&raw.durations_ms, percent),
                "p{percent} of {name}: {:?}",
                raw.durations_ms
            );
        }
        let last = seen.last_error.as_ref().map(|error| error.outcome.to_string());
        assert_eq!(last, raw.last_error.as_ref().map(|(_, outcome)| outcome.clone()), "{name}");
    }
}

fn step(id: &str, tool: &str, ms: u64) -> Value {
    let undo = json!({ "tool": "t/undo", "arguments": { "ms": 1 } });
    json!({ "id": id, "tool": tool, "arguments": { "ms": ms }, "compensation": undo })
}

/// Runs one execution with probes that find yes, find no and fail, with retries, undo and an agent's step.
async fn write_history(fixture: &ServiceFixture, round: u64) {
    let probe =
        |tool: &str, ms: u64| json!({ "tool": tool, "arguments": { "ms": ms }, "happened": "output.exists" });
    let mut steps = vec![step("ok", "t/ok", round % 7), step("quick", "t/quick", 0)];
    for (id, probed) in [("yes", probe("t/look", 1)), ("no", probe("t/look", 3)), ("blind", probe("t/no", 0))]
    {
        let mut lost = step(id, "t/lost", 2);
        lost["probe"] = probed;
        steps.push(lost);
    }
    let mut away = step("away", "t/away", 0);
    away["retry"] = json!({ "max_attempts": 3, "backoff": "1ms", "on": ["unavailable"] });
    steps.push(away);
    steps.push(json!({ "id": "theirs", "tool": "t/ok", "by": "agent" }));
    let mut plan = fixture::plan("figures", &steps);
    plan["policy"] = json!({ "concurrency": 8 });
    for step in plan["steps"].as_array_mut().unwrap() {
        step["failure_policy"] = json!({ "action": "continue_others" });
    }
    let (id, status) = fixture.run(&plan, None).await;
    assert_eq!(status, ExecutionStatus::Blocked, "the agent's step waits");
    if round.is_multiple_of(2) {
        fixture.decide(&id, "blind", StepAnswer::Compensate, None).await;
    }
}

#[test]
fn call_stats_equal_a_recount_of_the_journal() {
    for_each_database(async |scratch| {
        let (one, other) = (
            ServiceFixture::with_timed_tools(&scratch.url).await,
            ServiceFixture::with_timed_tools(&scratch.url).await,
        );
        for round in 0..4 {
            write_history(&one, round).await;
            assert_equals_recount(
                &one.service.journal().tool_call_stats(None).await.unwrap(),
                &recount(&scratch.db).await,
            );
        }
        let counted = recount(&scratch.db).await;
        let no = &counted["t/no"];
        assert!(no.calls >= 4 && no.failed["none"] == 4, "probes that failed are counted: {no:?}");
        assert!(counted["t/lost"].unknown["timeout"] == 12 && counted["t/undo"].calls > 0, "{counted:?}");
        assert_eq!(counted["t/away"].failed["unavailable"], 12);
        assert_eq!(counted["t/away"].durations_ms.len(), 0, "unsent calls have no duration");

        let read_stats = || async { one.service.journal().tool_call_stats(None).await.unwrap() };
        let writing = async {
            for round in 4..8 {
                write_history(&other, round).await;
            }
        };
        let reading = async {
            for _ in 0..20 {
                tokio::join!(read_stats(), async {
                    other.service.journal().tool_call_stats(None).await.unwrap()
                });
            }
        };
        tokio::join!(writing, reading);
        assert_equals_recount(&read_stats().await, &recount(&scratch.db).await);
    });
}

#[test]
fn call_stats_survive_rebuild_and_cleanup_but_error_texts_are_erased() {
    for_each_database(async |scratch| {
        let fixture = ServiceFixture::with_timed_tools(&scratch.url).await;
        let (id, _) = fixture.run(&fixture::plan("fails", &[step("fails", "t/no", 1)]), None).await;
        let before = fixture.service.journal().tool_call_stats(None).await.unwrap();
        let error_text =
            |stats: &ToolCallStatsByName| stats.tools["t/no"].last_error.clone().unwrap().message;
        assert_eq!(error_text(&before).as_deref(), Some("t/no will not"));

        for damage in ["DELETE FROM counts", "UPDATE counts SET outcome = 'succeeded', n = 7", "SELECT 1"] {
            scratch.execute(damage).await;
            fixture.service.journal().rebuild().await.unwrap();
            assert_eq!(
                fixture.service.journal().tool_call_stats(None).await.unwrap(),
                before,
                "after {damage}"
            );
        }
        assert_eq!(fixture.decide(&id, "fails", StepAnswer::Abandon, None).await, ExecutionStatus::Failed);
        fixture.service.journal().cleanup(&fixture.caller, i64::MAX, false).await.unwrap();
        let after = fixture.service.journal().tool_call_stats(None).await.unwrap();
        assert_equals_recount(&after, &recount(&scratch.db).await);
        assert_eq!(after.tools["t/no"].failed, before.tools["t/no"].failed);
        assert_eq!(error_text(&after), None, "an erased text is not shown");
    });
}
