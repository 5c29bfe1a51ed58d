//! What agents report of their own work, and what the answers say of it.

use serde_json::json;

use super::agent::Agent;
use super::work_plan;
use crate::cli::Sandbox;

#[test]
fn failed_compensation_by_hand_is_answered_shown_and_found() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let plan = work_plan(&[json!({ "id": "a", "action": "Do it"})]);
    let id = agent.call_ok("execute_plan", json!({ "plan": plan, "wait_s": 45 })).id().to_owned();
    agent.call_ok(
        "record_action",
        json!({ "execution_id": id, "step_id": "a", "status": "succeeded", "description": "did it" }),
    );
    let failed = agent.call_ok(
        "record_compensation",
        json!({
            "execution_id": id, "step_id": "a", "action_taken": "tried to delete it",
            "outcome": "failed", "reason": "it is locked",
        }),
    );
    let says = "Step `a` was not undone: its agent tried \"tried to delete it\", and failed, because \"it is locked\"";
    assert!(failed.text.contains(says), "{}", failed.text);
    assert_eq!(failed.content["status"], "succeeded", "nothing is undone");
    let shown = agent.call_ok("status", json!({ "execution_id": id, "step_id": "a" }));
    assert_eq!(shown.content["step"]["recorded"]["outcome"], "failed", "{}", shown.text);
    assert!(shown.text.contains("\"outcome\":\"failed\""), "{}", shown.text);
    let found = agent.call_ok("query_ledger", json!({ "execution_id": id, "kind": "compensation" }));
    let entries = found.content["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 1, "{}", found.text);
    assert_eq!(entries[0]["body"]["failed"], true, "{}", found.text);
}

#[test]
fn expression_in_corrected_arguments_is_refused_by_name() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let failing = json!({ "id": "a", "tool": "files/fail_times", "arguments": { "name": "x", "times": 9 } });
    let blocked = agent.call_ok("execute_plan", json!({ "plan": work_plan(&[failing]), "wait_s": 45 }));
    let arguments = json!({ "name": "${execution.id}", "times": 0 });
    let retry =
        json!({ "execution_id": blocked.id(), "step_id": "a", "action": "retry", "arguments": arguments });
    let refused = agent.call_refused("control", retry);
    assert!(refused.text.contains("`arguments.name` holds `${…}`"), "{}", refused.text);
    assert!(refused.text.contains("give the value itself"), "{}", refused.text);
    let shown = sandbox.run(&[
        "decide",
        blocked.id(),
        "a",
        "retry",
        "--arguments",
        &arguments.to_string(),
        "--reason",
        "x",
    ]);
    assert!(shown.code != Some(0) && shown.stderr.contains("`arguments.name` holds"), "{}", shown.stderr);
}

#[test]
fn deleting_without_an_owner_leaves_an_owned_note_alone() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    agent.call_ok("set_context", json!({ "key": "port", "value": "8080", "task": "T-1" }));
    let refused = agent.call_refused("set_context", json!({ "key": "port", "delete": true }));
    assert!(refused.text.contains("there is one of task `T-1`"), "{}", refused.text);
    agent.call_ok("set_context", json!({ "key": "port", "value": "80" }));
    agent.call_ok("set_context", json!({ "key": "port", "delete": true }));
    let left = agent.call_ok("query_context", json!({ "key": "port" }));
    assert_eq!(left.content["notes"][0]["value"], "8080", "{}", left.text);
    agent.call_ok("set_context", json!({ "key": "port", "delete": true, "task": "T-1" }));
}

#[test]
fn idempotency_key_holds_per_client_name_and_the_schema_says_so() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let plan = work_plan(&[json!({ "id": "own", "action": "Wait" })]);
    let start = json!({ "plan": plan, "idempotency_key": "k" });
    let first = agent.call_ok("execute_plan", start.clone());
    let shared = Agent::new(&sandbox).call_ok("execute_plan", start.clone());
    assert_eq!(first.id(), shared.id(), "another session of the same client");

    let mut other = Agent::start(&sandbox, &["mcp"]);
    let client = json!({ "name": "other", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    other.request("initialize", hello).unwrap();
    other.notify("notifications/initialized", json!({}));
    let started = other.request("tools/call", json!({ "name": "execute_plan", "arguments": start })).unwrap();
    assert_ne!(started["structuredContent"]["id"], first.content["id"], "{started}");

    let listed = other.request("tools/list", json!({})).unwrap();
    let tools = listed["tools"].as_array().unwrap();
    let execute = tools.iter().find(|tool| tool["name"] == "execute_plan").unwrap();
    let about = execute["inputSchema"]["properties"]["idempotency_key"]["description"].as_str().unwrap();
    assert!(about.contains("client of your name"), "{about}");
}

#[test]
fn repeated_key_of_a_retry_with_arguments_answers_repeated() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let failing = json!({ "id": "a", "tool": "files/fail_times", "arguments": { "name": "x", "times": 9 } });
    let blocked = agent.call_ok("execute_plan", json!({ "plan": work_plan(&[failing]), "wait_s": 45 }));
    let retry = json!({
        "execution_id": blocked.id(), "step_id": "a", "action": "retry",
        "arguments": { "name": "y", "times": 0 }, "idempotency_key": "k",
    });
    let first = agent.call_ok("control", retry.clone());
    assert!(first.content.get("repeated").is_none(), "{}", first.text);
    let ended = agent.call_ok("status", json!({ "execution_id": blocked.id(), "wait_s": 45 }));
    assert_eq!(ended.content["status"], "succeeded", "{}", ended.text);
    let second = agent.call_ok("control", retry);
    assert!(second.text.starts_with("Repeated: "), "{}", second.text);
    assert_eq!(second.content["status"], "succeeded", "{}", second.text);
}

#[test]
fn control_gives_several_steps_one_answer_and_waits() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let failing = |id: &str| {
        json!({
            "id": id, "tool": "files/fail_times", "arguments": { "name": id, "times": 1 },
            "failure_policy": { "action": "manual_decision" }, "read_only": true,
        })
    };
    let mut plan = work_plan(&["a", "b", "c"].map(failing));
    plan["policy"] = json!({ "concurrency": 3 });
    let id = agent.call_ok("execute_plan", json!({ "plan": plan, "wait_s": 45 })).id().to_owned();
    let retry = |steps: &[&str], key: &str| {
        json!({
            "execution_id": id, "action": "retry", "step_ids": steps, "reason": "it works now",
            "wait_s": 45, "idempotency_key": key,
        })
    };
    let some = agent.call_ok("control", retry(&["a", "nosuch"], "first"));
    assert_eq!(some.content["status"], "blocked", "{}", some.text);
    assert!(some.text_after("Note: not answered: ").contains("`nosuch`"), "{}", some.text);
    let ended = agent.call_ok("control", retry(&["b", "c"], "second"));
    assert_eq!(ended.content["status"], "succeeded", "it waits for the end: {}", ended.text);
    let again = agent.call_ok("control", retry(&["b", "c"], "second"));
    assert_eq!(again.content["repeated"], true, "{}", again.text);
    let decided = sandbox.expect(0, &["journal", "--kind", "decided"]);
    assert_eq!(decided.lines().count(), 3, "{decided}");
}

#[test]
fn several_steps_take_no_values_of_one() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let skip = json!({ "execution_id": "x", "action": "skip", "step_ids": ["a", "b"] });
    for (name, value) in [("output", json!({})), ("step_id", json!("a")), ("step_ids", json!([]))] {
        let mut skip = skip.clone();
        skip[name] = value;
        let refused = agent.call_refused("control", skip);
        assert!(
            refused.content["error"]["path"].as_str().unwrap().starts_with("step_id"),
            "{}",
            refused.text
        );
    }
}
