//! History queries through MCP and the command line: pages, filters and statistics.

use serde_json::{Value, json};

use super::agent::{AgentConversation, AgentFixture};
use crate::store::for_each_database;

fn plan(name: &str, task: &str) -> Value {
    json!({ "name": name, "task": task, "steps": [
        { "id": "look", "action": "Look at it" },
        { "id": "tell", "action": "Tell what was seen", "depends_on": ["look"] },
    ] })
}

/// Four executions: two succeed, one fails and is abandoned, one waits for its agent.
async fn write_history(agent: &AgentConversation) -> Vec<String> {
    let mut ids = Vec::new();
    for number in 0..4 {
        let document = plan(["survey", "report"][number % 2], &format!("T-{}", number / 2));
        let started = agent.call_ok("execute_plan", json!({ "plan": document })).await.0;
        let id = started["id"].as_str().unwrap().to_owned();
        let record = |step: &str, status: &str, confidence: f64| {
            json!({ "execution_id": id, "step_id": step, "status": status, "description": "seen",
                "type": "survey", "entity": "the bridge", "confidence": confidence })
        };
        if number < 3 {
            agent.call_ok("record_action", record("look", "succeeded", 0.9)).await;
            let status = if number == 2 { "failed" } else { "succeeded" };
            agent.call_ok("record_action", record("tell", status, 0.35)).await;
        }
        if number == 2 {
            let abandon =
                json!({ "execution_id": id, "action": "abandon", "step_id": "tell", "reason": "enough" });
            agent.call_ok("control", abandon).await;
        }
        ids.push(id);
    }
    ids
}

fn listed_ids(found: &Value) -> Vec<&str> {
    found["executions"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect()
}

#[test]
fn agent_queries_history_by_every_filter() {
    for_each_database(async |scratch| {
        let fixture = AgentFixture::new(Some(&scratch.url));
        let agent = fixture.connect_agent("full").await;
        let ids = write_history(&agent).await;
        let executions = async |query: Value| agent.call_ok("query_ledger", query).await.0;
        assert_eq!(listed_ids(&executions(json!({ "plan_id": "survey" })).await), [&ids[2], &ids[0]]);
        assert_eq!(listed_ids(&executions(json!({ "task": "T-1", "status": "failed" })).await), [&ids[2]]);
        let page = executions(json!({ "task": "T-0", "limit": 1 })).await;
        let next = executions(json!({ "task": "T-0", "limit": 1, "cursor": page["cursor"] })).await;
        assert_eq!([listed_ids(&page), listed_ids(&next)], [[&ids[1]], [&ids[0]]]);

        let kinds = async |query: Value| -> Vec<(String, Value)> {
            let found = agent.call_ok("query_ledger", query).await.0;
            let entries = found["entries"].as_array().unwrap().clone();
            entries.into_iter().map(|entry| (entry["kind"].as_str().unwrap().to_owned(), entry)).collect()
        };
        let ended = kinds(json!({ "plan_id": "survey", "kind": "execution_ended" })).await;
        assert_eq!(ended.len(), 2, "a kind needs no version");
        let failed = kinds(json!({ "task": "T-1", "category": "tool_error" })).await;
        assert!(failed.iter().all(|(_, entry)| entry["execution"] == ids[2]) && !failed.is_empty());
        let acts = kinds(json!({ "status": "failed", "search": "bridge survey" })).await;
        assert_eq!(acts.len(), 2, "recorded actions are found by their text");
        assert_eq!(acts[1].1["recorded"]["entity"], "the bridge");
        assert_eq!(acts[1].1["recorded"]["confidence"], 0.35);
        let first = agent.call_ok("query_ledger", json!({ "kind": "attempt_started", "limit": 3 })).await.0;
        let rest = json!({ "kind": "attempt_started", "limit": 200, "cursor": first["cursor"] });
        assert_eq!(kinds(rest).await.len(), 4, "the cursor continues after the page");
        let newest = kinds(json!({ "kind": "attempt_started", "limit": 1, "newest": true })).await;
        let oldest = kinds(json!({ "kind": "attempt_started", "limit": 1 })).await;
        assert!(newest[0].1["position"].as_u64() > oldest[0].1["position"].as_u64(), "{newest:?} {oldest:?}");
        let attempts = kinds(json!({ "kind": "attempt", "limit": 200 })).await;
        for kind in ["attempt_started.2", "attempt_ended.1"] {
            assert!(attempts.iter().any(|(found, _)| found == kind), "a prefix finds {kind}");
        }
        assert!(attempts.iter().all(|(found, _)| found.starts_with("attempt_")));
        assert_eq!(kinds(json!({ "since": "2999-01-31" })).await.len(), 0, "a date is accepted");
        assert!(!kinds(json!({ "since": "1999-01-31", "until": "2999-01-31" })).await.is_empty());
        assert!(!kinds(json!({ "since": "2h" })).await.is_empty(), "an age is accepted");
        let no_actor = agent.call_ok("query_ledger", json!({ "actor": "claude" })).await.1;
        assert!(no_actor.contains("agent:NAME or person:NAME"), "{no_actor}");
        for (query, word) in [
            (json!({ "kind": "attempt_endet" }), "did you mean `attempt_ended`?"),
            (
                json!({ "kind": "recorded" }),
                "`action_recorded`, `compensation_recorded`, `decision_recorded`",
            ),
            (json!({ "kind": "xyz" }), "`execution_started`"),
            (json!({ "since": "last week" }), "2030-01-31"),
            (json!({ "limit": 201 }), "1 to 200"),
            (json!({ "limit": 0 }), "1 to 200"),
            (json!({ "status": "blokced" }), "`blokced` is not one of running"),
            (json!({ "category": "slow" }), "`slow` is not one of invalid_arguments"),
        ] {
            let refused = agent.call_refused("query_ledger", query).await;
            assert!(refused.contains(word), "{refused}");
        }

        let recorder = fixture.connect_agent("record").await;
        let asked = json!({ "category": "tool_error", "search": "survey", "until": "2999-01-01T00:00:00Z" });
        assert_eq!(listed_ids(&recorder.call_ok("query_history", asked).await.0), [&ids[2]]);
        let dry = recorder.call_ok("cleanup_history", json!({ "older_than_days": 1 })).await.0;
        assert_eq!((&dry["dry_run"], &dry["executions"]), (&json!(true), &json!(0)));
    });
}

#[test]
fn stats_are_shown_to_agents_and_in_the_cli() {
    for_each_database(async |scratch| {
        let fixture = AgentFixture::new(Some(&scratch.url));
        let agent = fixture.connect_agent("full").await;
        let ids = write_history(&agent).await;
        let (stats, text) = agent.call_ok("stats", json!({})).await;
        assert_eq!(stats["executions"]["by_status"], json!({ "succeeded": 2, "failed": 1, "blocked": 1 }));
        assert_eq!(stats["failures"], json!([{ "category": "tool_error", "failed": 1, "unknown": 0 }]));
        let calibration = stats["calibration"].as_array().unwrap();
        let low = json!({ "from": 0.3, "to": 0.4, "claims": 3, "succeeded": 2, "confidence": 0.35 });
        assert!(low.as_object().unwrap().iter().all(|(name, value)| &calibration[0][name] == value));
        assert_eq!((&calibration[1]["claims"], &calibration[1]["success_rate"]), (&json!(3), &json!(1.0)));
        assert_eq!(
            (&stats["waiting"][0]["for"], &stats["waiting"][0]["answered"]),
            (&json!("decision"), &json!(1))
        );
        assert!(
            text.starts_with("4 executions: 1 blocked, 1 failed, 2 succeeded, 66.7 % succeeded"),
            "{text}"
        );

        let of_plan = fixture.run_json(&["stats", "--plan", "report", "--since", "1d"]).await;
        assert_eq!((&of_plan["plan"], &of_plan["executions"]["total"]), (&json!("report"), &json!(2)));
        assert_eq!(fixture.run_json(&["stats", "--task", "T-0"]).await["executions"]["success_rate"], 1.0);
        let page = fixture.run(&["stats"]).await;
        for word in ["4 executions, 66.7 % succeeded", "survey", "tool_error", "longest steps", "0.3 – 0.4"]
        {
            assert!(page.contains(word), "{word}: {page}");
        }
        assert!(!page.contains(['█', '▏', '\u{1b}']), "no charts and no colours in a pipe: {page}");

        let list = async |args: &[&str]| -> Vec<String> {
            let rows = fixture.run_json(&[&["list"], args].concat()).await;
            rows.as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(list(&["--limit", "2"]).await, [&*ids[3], &*ids[2]]);
        assert_eq!(list(&["--limit", "2", "--cursor", &ids[2]]).await, [&*ids[1], &*ids[0]]);
        assert_eq!(list(&["--plan", "survey", "--category", "tool_error"]).await, [&*ids[2]]);
        assert_eq!(list(&["--task", "T-1", "--search", "REPORT"]).await, [&*ids[3]]);
        let lines =
            fixture.run(&["journal", "--plan", "survey", "--kind", "execution_ended", "--limit", "1"]).await;
        let position = lines.split_whitespace().next().unwrap();
        let args =
            ["journal", "--plan", "survey", "--kind", "execution_ended", "--cursor", position, "--json"];
        let rest = fixture.run(&args).await;
        assert!(rest.lines().count() == 1 && rest.contains(&ids[2]), "{rest}");
        let lines = fixture.run(&["journal", "--status", "failed", "--category", "tool_error"]).await;
        assert!(lines.contains("attempt_ended") && lines.contains("step_failed"), "{lines}");
        assert!(fixture.run(&["journal", "--search", "bridge"]).await.contains("entity: the bridge"));
    });
}
