//! Roles over the API: each request needs its right, and payloads need theirs.

use serde_json::{Value, json};

use super::server::{WebServer, new_token};
use crate::cli::Sandbox;

const SECRETIVE: &str = "the-argument-itself";

/// An execution that waits for the approval of a step with `SECRETIVE` among its arguments; its path.
fn waiting_execution(server: &WebServer) -> String {
    let step = json!({
        "id": "a", "tool": "files/write_file", "approval": "required",
        "arguments": { "path": "a.txt", "content": SECRETIVE },
    });
    let plan = json!({ "name": "p", "steps": [step] });
    let started = server.post("/api/v1/executions", &json!({ "plan": plan, "wait_s": 30 }));
    format!("/api/v1/executions/{}", started.json()["id"].as_str().unwrap())
}

#[test]
fn role_without_a_right_is_refused() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let path = waiting_execution(&server);
    let plan = json!({ "plan": { "name": "q", "steps": [{ "id": "a", "action": "look" }] } });
    let requests = [
        ("/api/v1/plans".to_owned(), plan, "run"),
        (format!("{path}/pause"), json!({}), "operate"),
        (format!("{path}/resume"), json!({}), "operate"),
        (format!("{path}/decide"), json!({ "step_id": "a", "answer": "skip" }), "operate"),
        (format!("{path}/undo"), json!({}), "operate"),
        (format!("{path}/decisions"), json!({ "decision": "Stop.", "reason": "enough" }), "operate"),
        ("/api/v1/tokens".to_owned(), json!({ "name": "x", "role": "admin" }), "admin"),
        ("/api/v1/tools/files/write_file/accept".to_owned(), json!({}), "admin"),
        (format!("{path}/approve"), json!({ "step_id": "a" }), "approve"),
    ];
    let rights = [
        ("viewer", "read"),
        ("agent", "read run"),
        ("operator", "read run operate"),
        ("approver", "read approve"),
    ];
    for (role, rights) in rights {
        let token = new_token(&sandbox, role, role);
        assert_eq!(server.get_as(&token, &path).status, 200, "{role} reads");
        for (request, body, right) in &requests {
            if rights.split(' ').any(|own| own == *right) {
                continue;
            }
            let refused = server.post_as(&token, request, body);
            assert_eq!(refused.status, 403, "{role} {request}: {refused:?}");
            assert_eq!(refused.json()["code"], "forbidden");
            assert!(
                refused.json()["detail"].as_str().unwrap().contains(&format!("`{right}`")),
                "{refused:?}"
            );
        }
    }
    let head = server.get("/api/v1/executions").json();
    assert_eq!(head["items"][0]["status"], "blocked", "nothing was done: {head}");
    let approver = new_token(&sandbox, "approver", "ada");
    let yes = server.post_as(&approver, &format!("{path}/approve"), &json!({ "step_id": "a", "wait_s": 30 }));
    assert_eq!(yes.json()["status"], "succeeded", "{yes:?}");
}

#[test]
fn viewer_sees_no_payload() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let path = waiting_execution(&server);
    let viewer = new_token(&sandbox, "viewer", "eyes");
    for shown in [&path, &format!("{path}/steps"), &format!("{path}/steps/a"), &format!("{path}/journal")] {
        let whole = server.get(shown);
        let withheld = server.get_as(&viewer, shown);
        assert_eq!(withheld.status, 200, "{shown}: {withheld:?}");
        assert!(!withheld.body.contains(SECRETIVE), "{shown}: {withheld:?}");
        assert_eq!(whole.body.contains(SECRETIVE), !shown.ends_with("/journal"), "{shown}: {whole:?}");
    }
    let view = server.get_as(&viewer, &path).json();
    assert_eq!(view["steps"][0]["arguments"]["withheld"], Value::Bool(true), "{view}");
    for refused in ["/api/v1/questions", &format!("{path}/export")] {
        assert_eq!(server.get_as(&viewer, refused).status, 403, "{refused}");
    }
}

#[test]
fn admin_manages_tokens_over_the_api() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let created =
        server.post("/api/v1/tokens", &json!({ "name": "ci", "role": "viewer", "expires_in_s": 60 }));
    assert_eq!(created.status, 201, "{created:?}");
    let token = created.json()["token"].as_str().unwrap().to_owned();
    assert_eq!(server.get_as(&token, "/api/v1/whoami").json()["actor"], "program:ci");
    let listed = server.get("/api/v1/tokens");
    assert!(listed.body.contains("\"ci\"") && !listed.body.contains(&token), "{listed:?}");
    let id = created.json()["id"].as_str().unwrap().to_owned();
    let revoked = server.send_json_as(&server.token, "DELETE", &format!("/api/v1/tokens/{id}"), &json!({}));
    assert_eq!(revoked.json()["status"], "revoked", "{revoked:?}");
    assert_eq!(server.get_as(&token, "/api/v1/whoami").status, 401);
}

#[test]
fn rotated_token_is_replaced_and_good_for_a_day() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let old = new_token(&sandbox, "operator", "claude");
    let new = sandbox.expect(0, &["token", "rotate", "claude"]).trim().to_owned();
    assert_ne!(old, new);
    for token in [&old, &new] {
        let who = server.get_as(token, "/api/v1/whoami").json();
        assert_eq!((&who["actor"], &who["role"]), (&json!("program:claude"), &json!("operator")));
    }
    let listed = server.get("/api/v1/tokens").json();
    let expires = |item: &Value| item["expires_at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let ours = listed["items"].as_array().unwrap().iter().filter(|item| item["name"] == "claude");
    let mut expiries: Vec<jiff::Timestamp> = ours.map(expires).collect();
    expiries.sort();
    let hours = |at: jiff::Timestamp| (at - jiff::Timestamp::now()).total(jiff::Unit::Hour).unwrap();
    assert!((23.0..=24.0).contains(&hours(expiries[0])), "{listed}");
    assert!(hours(expiries[1]) > 24.0 * 80.0, "{listed}");
}

#[test]
fn repeated_key_creates_no_second_token_and_hides_the_secret() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let bearer = format!("Bearer {}", server.token);
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Idempotency-Key", "one-token"),
    ];
    let body = json!({ "name": "ci", "role": "viewer" }).to_string();
    let create = || server.send("POST", "/api/v1/tokens", &headers, &body);
    let (first, again) = (create(), create());
    assert!(first.json()["token"].is_string(), "{first:?}");
    assert_eq!((again.status, again.header("idempotency-replayed")), (201, "true"), "{again:?}");
    assert_eq!((&again.json()["id"], &again.json()["token"]), (&first.json()["id"], &Value::Null));
}
