//! What a person agrees to on a page is what the page showed: answers with a value, and an undo, count for nothing
//! else.

use serde_json::{Value, json};

use super::pages::hidden_field;
use super::server::{WebServer, new_token};
use crate::cli::Sandbox;

/// Starts an execution and waits for its end or its first question; its id.
fn start(server: &WebServer, steps: &Value) -> String {
    let body = json!({ "plan": { "name": "p", "steps": steps }, "wait_s": 30 });
    let started = server.post("/api/v1/executions", &body);
    started.json()["id"].as_str().unwrap_or_else(|| panic!("{started:?}")).to_owned()
}

fn write(id: &str, more: &Value) -> Value {
    let mut step = json!({
        "id": id, "tool": "files/write_file", "arguments": { "path": format!("{id}.txt"), "content": id },
        "compensation": { "tool": "files/delete_file", "arguments": { "path": "${arguments.path}" } },
    });
    step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    step
}

#[test]
fn undo_makes_only_the_calls_that_were_shown() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    let guarded = write("b", &json!({ "approval": "required", "depends_on": ["a"] }));
    let id = start(&server, &json!([write("a", &json!({})), guarded]));
    let api = format!("/api/v1/executions/{id}");
    let page = server.page(&cookie, &format!("/executions/{id}/confirm?action=undo"));
    let shown = hidden_field(&page, "calls").to_owned();
    let preview = server.post(&format!("{api}/undo"), &json!({ "dry_run": true }));
    assert_eq!(preview.json()["calls"], *shown, "{preview:?}");

    let yes = json!({ "step_id": "b", "wait_s": 30 });
    assert_eq!(server.post(&format!("{api}/approve"), &yes).json()["status"], "succeeded");
    for calls in [shown.as_str(), ""] {
        let fields = [("action", "undo"), ("calls", calls)];
        let late = server.submit(&cookie, &format!("/executions/{id}/control"), &fields);
        assert_eq!(late.status, 409, "{late:?}");
        assert!(late.body.contains("b.txt"), "the page shows what it would do by now: {late:?}");
    }
    let late = server.post(&format!("{api}/undo"), &json!({ "calls": shown }));
    assert_eq!((late.status, &late.json()["code"]), (409, &json!("stale_question")), "{late:?}");
    assert!(sandbox.path("work/a.txt").exists() && sandbox.path("work/b.txt").exists());

    let journal = sandbox.follow_journal();
    let page = server.page(&cookie, &format!("/executions/{id}/confirm?action=undo"));
    let fields = [("action", "undo"), ("calls", hidden_field(&page, "calls"))];
    let done = server.submit(&cookie, &format!("/executions/{id}/control"), &fields);
    assert_eq!(done.status, 303, "{done:?}");
    journal.wait_for("execution_ended", None);
    journal.wait_for("execution_ended", None);
    assert!(!sandbox.path("work/a.txt").exists() && !sandbox.path("work/b.txt").exists());
}

#[test]
fn operator_without_approve_gets_a_question_instead_of_a_guarded_undo() {
    let sandbox = Sandbox::new();
    let config = std::fs::read_to_string(sandbox.path("actbook.yaml")).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    config["servers"]["files"]["tools"]["delete_file"] = json!({ "approval": "required" });
    sandbox.write_config(config);
    let server = WebServer::start(&sandbox);
    let operator = new_token(&sandbox, "operator", "ops");
    let failing =
        json!({ "id": "b", "tool": "files/read_file", "arguments": { "path": "none" }, "depends_on": ["a"] });
    for by in ["undo", "decide", "page"] {
        let id = start(&server, &json!([write("a", &json!({})), failing]));
        let api = format!("/api/v1/executions/{id}");
        let asked = match by {
            "undo" => {
                server.post_as(&operator, &format!("{api}/undo"), &json!({ "reason": "wrong", "wait_s": 30 }))
            }
            "decide" => {
                let undo = json!({ "step_id": "b", "answer": "compensate", "wait_s": 30 });
                server.post_as(&operator, &format!("{api}/decide"), &undo)
            }
            _ => {
                let confirm = server.get_as(&operator, &format!("/executions/{id}/confirm?action=undo")).body;
                let body = format!("action=undo&calls={}", hidden_field(&confirm, "calls"));
                let token = format!("Bearer {operator}");
                let form = "application/x-www-form-urlencoded";
                let headers = [("Authorization", token.as_str()), ("Content-Type", form)];
                server.send("POST", &format!("/executions/{id}/control"), &headers, &body)
            }
        };
        assert!([200, 303].contains(&asked.status), "{by}: {asked:?}");
        assert!(sandbox.path("work/a.txt").exists(), "{by}: the guarded call was made");
        let view = server.get_as(&operator, &format!("{api}?wait_s=30")).json();
        assert_eq!(view["waiting"][0]["options"], json!(["approve", "reject"]), "{by}: {view}");
        let refused = server.post_as(&operator, &format!("{api}/approve"), &json!({}));
        assert_eq!(refused.status, 403, "{by}: {refused:?}");
        let approver = new_token(&sandbox, "approver", "ada");
        let undone = server.post_as(&approver, &format!("{api}/approve"), &json!({ "wait_s": 30 }));
        assert_eq!(undone.json()["status"], "compensated", "{by}: {undone:?}");
        assert!(!sandbox.path("work/a.txt").exists(), "{by}");
    }
}
