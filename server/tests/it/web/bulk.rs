//! One command to many executions: what matches, what is left alone, and what goes on from call to call.

use serde_json::{Value, json};

use super::server::{WebServer, expect};
use crate::cli::{BINARY, Sandbox};

const PATH: &str = "/api/v1/executions:bulk";

/// Starts an execution of this plan and waits until it asks or ends; its path.
fn start(server: &WebServer, plan: &Value) -> String {
    let view = expect(201, &server.post("/api/v1/executions", &json!({ "plan": plan, "wait_s": 30 })));
    format!("/api/v1/executions/{}", view["id"].as_str().unwrap())
}

/// A plan whose one step an agent performs.
fn by_hand() -> Value {
    json!({ "name": "hand", "steps": [{ "id": "a", "action": "look" }] })
}

/// A plan with one call of this tool, which is not repeated by itself.
fn one_call(name: &str, tool: &str, arguments: Value) -> Value {
    json!({ "name": name, "steps": [{ "id": "a", "tool": tool, "arguments": arguments, "read_only": true }] })
}

fn status(server: &WebServer, path: &str) -> String {
    expect(200, &server.get(path))["status"].as_str().unwrap().to_owned()
}

#[test]
fn command_acts_on_exactly_those_that_were_counted() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let counted: Vec<String> = (0..3).map(|_| start(&server, &by_hand())).collect();
    let pause = |more: Value| {
        let mut body = json!({ "action": "pause", "filter": { "plan": "hand" }, "reason": "freeze" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.post(PATH, &body)
    };
    let count = expect(200, &pause(json!({ "dry_run": true })));
    assert_eq!((&count["matched"], &count["done"], &count["refused"]), (&json!(3), &json!(0), &json!([])));
    let later = start(&server, &by_hand());
    let first = expect(200, &pause(json!({ "cursor": count["next_cursor"], "limit": 2 })));
    assert_eq!((&first["matched"], &first["done"]), (&json!(2), &json!(2)), "{first}");
    for other in [json!({ "filter": { "plan": "other" } }), json!({ "action": "cancel" })] {
        let mut more = json!({ "cursor": first["next_cursor"] });
        more.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
        assert_eq!(expect(400, &pause(more))["code"], "foreign_cursor", "{other}");
    }
    let last = expect(200, &pause(json!({ "cursor": first["next_cursor"], "limit": 2 })));
    assert_eq!((&last["done"], &last["next_cursor"]), (&json!(1), &Value::Null), "{last}");
    assert!(counted.iter().all(|path| status(&server, path) == "paused"));
    assert_ne!(status(&server, &later), "paused", "it was started after the count");
    let journal = expect(200, &server.get("/api/v1/journal?kind=paused"));
    assert_eq!(journal["items"].as_array().map(Vec::len), Some(3));
    assert_eq!(journal["items"][0]["body"]["reason"], "freeze", "{journal}");
    let resumed = expect(200, &server.post(PATH, &json!({ "action": "resume", "filter": {} })));
    assert_eq!(resumed["done"], 3, "{resumed}");
    let cancelled = expect(200, &server.post(PATH, &json!({ "action": "cancel", "filter": {} })));
    assert_eq!((&cancelled["matched"], &cancelled["done"]), (&json!(4), &json!(4)), "{cancelled}");
    let ended = expect(200, &server.get(&format!("{later}?wait_s=30")));
    assert_eq!(ended["status"], "cancelled");
}

#[test]
fn retry_leaves_unknown_outcomes_and_approvals_alone() {
    let sandbox = Sandbox::new();
    let demo = json!({ "command": BINARY, "args": ["demo-tools", "--folder", "work"] });
    sandbox.write_config(json!({ "mcpServers": { "files": demo, "fragile": demo } }));
    let server = WebServer::start(&sandbox);
    let failed = start(&server, &one_call("fails", "files/read_file", json!({ "path": "late.txt" })));
    let mut asks = one_call("asks", "files/list_files", json!({}));
    asks["steps"][0]["approval"] = json!("required");
    let asking = start(&server, &asks);
    let lost = json!({ "id": "a", "tool": "fragile/crash", "arguments": { "after_effect": "charged.txt" } });
    let unknown = start(&server, &json!({ "name": "lost", "steps": [lost] }));
    let view = expect(200, &server.get(&unknown));
    assert_eq!(view["steps"][0]["status"], "unknown", "{view}");
    sandbox.write("work/late.txt", "here now");
    let body = json!({ "action": "retry", "filter": {}, "dry_run": true });
    assert_eq!(expect(200, &server.post(PATH, &body))["matched"], 1);
    let done = expect(200, &server.post(PATH, &json!({ "action": "retry", "filter": {} })));
    assert_eq!((&done["matched"], &done["done"]), (&json!(1), &json!(1)), "{done}");
    assert_eq!(expect(200, &server.get(&format!("{failed}?wait_s=30")))["status"], "succeeded");
    assert_eq!(status(&server, &asking), "blocked");
    let view = expect(200, &server.get(&unknown));
    assert_eq!((&view["status"], &view["steps"][0]["attempts"]), (&json!("blocked"), &json!(1)), "{view}");
}

#[test]
fn repeated_key_gives_the_stored_result() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let path = start(&server, &by_hand());
    let token = format!("Bearer {}", server.token);
    let headers = [
        ("Authorization", token.as_str()),
        ("Content-Type", "application/json"),
        ("Idempotency-Key", "stop-all"),
    ];
    let send = |action: &str| {
        let body = json!({ "action": action, "filter": { "plan": "hand" } });
        server.send("POST", PATH, &headers, &body.to_string())
    };
    let first = send("pause");
    assert_eq!(expect(200, &first)["done"], 1);
    expect(200, &server.post(&format!("{path}/resume"), &json!({})));
    let again = send("pause");
    assert_eq!((expect(200, &again), again.header("idempotency-replayed")), (first.json(), "true"));
    assert_ne!(status(&server, &path), "paused", "nothing was done this time");
    assert_eq!(expect(422, &send("cancel"))["code"], "key_reused");
}

#[test]
fn decisions_about_one_execution_are_no_bulk_actions() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    for action in ["approve", "reject", "happened", "undo", "skip", "rerun"] {
        let refused = expect(422, &server.post(PATH, &json!({ "action": action, "filter": {} })));
        assert_eq!(refused["errors"][0]["pointer"], "/action", "{refused}");
    }
    for wrong in [json!({ "status": "happy" }), json!({ "since": "tomorrowish" })] {
        let refused = server.post(PATH, &json!({ "action": "pause", "filter": wrong }));
        assert!([400, 422].contains(&refused.status), "{refused:?}");
    }
    let unfiltered = expect(422, &server.post(PATH, &json!({ "action": "pause" })));
    assert!(unfiltered["detail"].as_str().unwrap().contains("filter"), "all are named by an empty filter");
    let ended =
        expect(200, &server.post(PATH, &json!({ "action": "retry", "filter": { "status": "failed" } })));
    assert_eq!((&ended["matched"], &ended["next_cursor"]), (&json!(0), &Value::Null), "it has ended");
}
