//! The operator's config overrides the plan's policies, and a server's hints count only if the operator
//! trusts the server.

use super::changing_server::ChangingServer;
use super::*;

fn act_tool(annotations: Value) -> Value {
    json!([{ "name": "act", "inputSchema": { "type": "object" }, "annotations": annotations }])
}

/// A plan whose first call crashes the server, which leaves its outcome unknown.
fn plan_with_crash(over: Value) -> Value {
    let mut step = json!({
        "id": "a", "tool": "shifty/act", "cancellable": "irreversible", "arguments": { "die": true },
        "retry": { "max_attempts": 2, "backoff": "1ms", "on": ["unavailable", "timeout"] },
    });
    for (name, value) in over.as_object().unwrap() {
        step[name] = value.clone();
    }
    json!({ "name": "dies", "steps": [step] })
}

/// Runs the plan; returns the exit code and the number of calls of `act`.
fn run_and_count_calls(shifty: &ChangingServer, plan: &Value) -> (Option<i32>, usize) {
    shifty.sandbox.write("plan.json", &plan.to_string());
    let ran = shifty.sandbox.run(&["run", "plan.json"]);
    (ran.code, shifty.calls_of("act"))
}

#[test]
fn unknown_outcome_is_retried_only_if_plan_and_config_allow_it() {
    let none = json!({});
    let hinted = json!({ "readOnlyHint": false, "idempotentHint": true });
    let idempotent = json!({ "idempotent": true });
    let cases = [
        ("nobody says so", &none, json!({}), &none, 1),
        ("the plan says so", &none, json!({}), &idempotent, 2),
        ("config says no", &none, json!({ "tools": { "act": { "idempotent": false } } }), &idempotent, 1),
        ("config says no to all of the server's", &none, json!({ "idempotent": false }), &idempotent, 1),
        ("config says so", &none, json!({ "tools": { "act": { "idempotent": true } } }), &none, 2),
        ("the server says so", &hinted, json!({}), &none, 1),
        ("a trusted server says so", &hinted, json!({ "trusted": true }), &none, 2),
        (
            "a trusted server says so, and config no",
            &hinted,
            json!({ "trusted": true, "tools": { "act": { "idempotent": false } } }),
            &none,
            1,
        ),
        (
            "config allows one attempt",
            &none,
            json!({ "tools": { "act": { "retry": { "max_attempts": 1 } } } }),
            &idempotent,
            1,
        ),
    ];
    for (name, annotations, words, over, calls) in cases {
        let shifty = ChangingServer::with_server_config(&act_tool(annotations.clone()), words);
        let code = if calls == 2 { 0 } else { 3 };
        assert_eq!(
            run_and_count_calls(&shifty, &plan_with_crash(over.clone())),
            (Some(code), calls),
            "{name}"
        );
    }
}

#[test]
fn config_approval_overrides_a_plan_that_waives_it() {
    let words = json!({ "tools": { "act": { "approval": "required" } } });
    let shifty = ChangingServer::with_server_config(&act_tool(json!({})), words);
    let plan = json!({ "name": "waives", "policy": { "approval": "none" }, "steps": [
        { "id": "a", "tool": "shifty/act", "cancellable": "irreversible" },
    ] });
    assert_eq!(run_and_count_calls(&shifty, &plan), (Some(3), 0));
    let id = shifty.sandbox.newest();
    assert_eq!(shifty.sandbox.json(&["show", &id])["waiting"][0]["for"], "approval");
    assert_eq!(shifty.sandbox.run(&["run", "waives", "--yes"]).code, Some(3), "--yes approves the plan only");
    assert_eq!(shifty.calls(), 0);
    shifty.sandbox.expect(0, &["approve", &id, "a"]);
    shifty.sandbox.expect(0, &["resume", &id]);
    assert_eq!(shifty.calls_of("act"), 1);
}

#[test]
fn plan_timeout_is_capped_by_config() {
    let sandbox = Sandbox::new();
    let config = json!({
        "mcpServers": { "files": { "command": BINARY, "args": ["demo-tools", "--folder", "work"] } },
        "servers": { "files": { "tools": { "sleep": { "timeout": "300ms" } } } },
    });
    sandbox.write("actbook.yaml", &config.to_string());
    let plan = json!({ "name": "long", "steps": [
        { "id": "a", "tool": "files/sleep", "arguments": { "ms": 600_000 }, "timeout": "10m", "read_only": true },
    ] });
    sandbox.write("plan.json", &plan.to_string());
    let check = sandbox.json(&["check", "plan.json"]);
    let found = check["findings"].as_array().unwrap().iter().find(|found| found["code"] == "config_decides");
    assert_eq!(found.unwrap()["path"], "steps[0].timeout");
    sandbox.expect(3, &["run", "plan.json"]);
    let view = sandbox.json(&["show", &sandbox.newest()]);
    assert_eq!(
        (&view["steps"][0]["status"], &view["steps"][0]["error"]["category"]),
        (&json!("unknown"), &json!("timeout"))
    );
}

#[test]
fn config_change_during_a_run_does_not_waive_its_approval() {
    let shifty = ChangingServer::with_server_config(
        &act_tool(json!({})),
        json!({ "tools": { "act": { "approval": "required" } } }),
    );
    let plan = json!({ "name": "holds", "steps": [
        { "id": "ask", "action": "Say go", "read_only": true },
        { "id": "a", "tool": "shifty/act", "cancellable": "irreversible" },
    ] });
    assert_eq!(run_and_count_calls(&shifty, &plan).0, Some(3));
    let id = shifty.sandbox.newest();
    shifty.set_server_config(json!({}));
    shifty.sandbox.expect(0, &["record", &id, "ask", "succeeded"]);
    shifty.sandbox.expect(3, &["resume", &id]);
    assert_eq!(
        (shifty.calls(), &shifty.sandbox.json(&["show", &id])["waiting"][0]["for"]),
        (0, &json!("approval"))
    );
}

#[test]
fn config_read_only_false_moves_the_point_of_no_return() {
    let shifty = ChangingServer::with_server_config(
        &act_tool(json!({})),
        json!({ "tools": { "act": { "read_only": false } } }),
    );
    let plan = json!({ "name": "turns", "policy": { "approval": "at_point_of_no_return" }, "steps": [
        { "id": "a", "tool": "shifty/act", "read_only": true },
    ] });
    shifty.sandbox.write("plan.json", &plan.to_string());
    assert_eq!(shifty.sandbox.json(&["check", "plan.json"])["point_of_no_return"], "a");
    assert_eq!(run_and_count_calls(&shifty, &plan), (Some(3), 0), "the step must wait for an approval");
}

#[test]
fn call_by_hand_of_a_tool_under_approval_asks_first() {
    let words = json!({ "tools": { "act": { "approval": "required" } } });
    let shifty = ChangingServer::with_server_config(&act_tool(json!({})), words);
    let sandbox = &shifty.sandbox;
    let call = ["tools", "call", "shifty/act", "{\"to\": \"ada\\u200b\"}"];
    let ran = sandbox.run(&call);
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    assert!(ran.stderr.contains("demands an approval") && ran.stderr.contains("--yes"), "{}", ran.stderr);
    assert_eq!(sandbox.json(&call)["code"], "not_approved");
    for (answer, code, calls) in [("n", 1, 0), ("", 1, 0), ("y", 0, 1)] {
        let mut terminal = sandbox.terminal(&call);
        terminal.wait_for("\"to\": \"ada\\u200b\"");
        terminal.wait_for("[y/N]");
        terminal.type_keys(&format!("{answer}\n"));
        let (ended, screen) = terminal.wait_for_exit();
        assert_eq!((ended, shifty.calls_of("act")), (Some(code), calls), "{screen}");
    }
    sandbox.expect(0, &["tools", "call", "shifty/act", "--arguments", "{}", "--yes"]);
    assert_eq!(shifty.calls_of("act"), 2);
}
