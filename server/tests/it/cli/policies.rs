//! The operator's config overrides the plan's policies, and a server's hints count only if the operator
//! trusts the server.

use super::shifty::Shifty;
use super::*;

fn tool(annotations: Value) -> Value {
    json!([{ "name": "act", "inputSchema": { "type": "object" }, "annotations": annotations }])
}

/// A plan whose first call crashes the server, which leaves its outcome unknown.
fn dies_once(over: Value) -> Value {
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
fn run(shifty: &Shifty, plan: &Value) -> (Option<i32>, usize) {
    shifty.house.write("plan.json", &plan.to_string());
    let ran = shifty.house.run(&["run", "plan.json"]);
    (ran.code, shifty.calls_of("act"))
}

#[test]
fn an_unknown_is_sent_again_only_where_plan_and_operator_let_it() {
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
        let shifty = Shifty::under(&tool(annotations.clone()), words);
        let code = if calls == 2 { 0 } else { 3 };
        assert_eq!(run(&shifty, &dies_once(over.clone())), (Some(code), calls), "{name}");
    }
}

#[test]
fn an_approval_that_config_demands_is_asked_for_though_the_plan_wants_none() {
    let words = json!({ "tools": { "act": { "approval": "required" } } });
    let shifty = Shifty::under(&tool(json!({})), words);
    let plan = json!({ "name": "waives", "policy": { "approval": "none" }, "steps": [
        { "id": "a", "tool": "shifty/act", "cancellable": "irreversible" },
    ] });
    assert_eq!(run(&shifty, &plan), (Some(3), 0));
    let id = shifty.house.newest();
    assert_eq!(shifty.house.json(&["show", &id])["waiting"][0]["for"], "approval");
    assert_eq!(shifty.house.run(&["run", "waives", "--yes"]).code, Some(3), "--yes approves the plan only");
    assert_eq!(shifty.calls(), 0);
    shifty.house.expect(0, &["approve", &id, "a"]);
    shifty.house.expect(0, &["resume", &id]);
    assert_eq!(shifty.calls_of("act"), 1);
}

#[test]
fn a_timeout_is_cut_to_what_config_allows() {
    let house = House::new();
    let config = json!({
        "mcpServers": { "files": { "command": BINARY, "args": ["demo-tools", "--folder", "work"] } },
        "servers": { "files": { "tools": { "sleep": { "timeout": "300ms" } } } },
    });
    house.write("actbook.yaml", &config.to_string());
    let plan = json!({ "name": "long", "steps": [
        { "id": "a", "tool": "files/sleep", "arguments": { "ms": 600_000 }, "timeout": "10m", "read_only": true },
    ] });
    house.write("plan.json", &plan.to_string());
    let check = house.json(&["check", "plan.json"]);
    let found = check["findings"].as_array().unwrap().iter().find(|found| found["code"] == "config_decides");
    assert_eq!(found.unwrap()["path"], "steps[0].timeout");
    house.expect(3, &["run", "plan.json"]);
    let view = house.json(&["show", &house.newest()]);
    assert_eq!(
        (&view["steps"][0]["status"], &view["steps"][0]["error"]["category"]),
        (&json!("unknown"), &json!("timeout"))
    );
}

#[test]
fn what_config_says_at_the_start_holds_to_the_end() {
    let shifty = Shifty::under(&tool(json!({})), json!({ "tools": { "act": { "approval": "required" } } }));
    let plan = json!({ "name": "holds", "steps": [
        { "id": "ask", "action": "Say go", "read_only": true },
        { "id": "a", "tool": "shifty/act", "cancellable": "irreversible" },
    ] });
    assert_eq!(run(&shifty, &plan).0, Some(3));
    let id = shifty.house.newest();
    shifty.config(json!({}));
    shifty.house.expect(0, &["record", &id, "ask", "succeeded"]);
    shifty.house.expect(3, &["resume", &id]);
    assert_eq!(
        (shifty.calls(), &shifty.house.json(&["show", &id])["waiting"][0]["for"]),
        (0, &json!("approval"))
    );
}

#[test]
fn the_point_of_no_return_lies_where_config_puts_it() {
    let shifty = Shifty::under(&tool(json!({})), json!({ "tools": { "act": { "read_only": false } } }));
    let plan = json!({ "name": "turns", "policy": { "approval": "at_point_of_no_return" }, "steps": [
        { "id": "a", "tool": "shifty/act", "read_only": true },
    ] });
    shifty.house.write("plan.json", &plan.to_string());
    assert_eq!(shifty.house.json(&["check", "plan.json"])["point_of_no_return"], "a");
    assert_eq!(run(&shifty, &plan), (Some(3), 0), "the step must wait for an approval");
}
