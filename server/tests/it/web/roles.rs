//! Roles over the API: each request needs its right, and payloads need theirs.

use serde_json::{Value, json};

use super::server::{WebServer, new_token};
use crate::cli::Sandbox;

const SECRETIVE: &str = "the-argument-itself";

/// The rights of each role.
const ROLES: [(&str, &[&str]); 5] = [
    ("viewer", &["read"]),
    ("agent", &["read", "run", "payloads"]),
    ("operator", &["read", "run", "payloads", "operate"]),
    ("approver", &["read", "payloads", "approve"]),
    ("admin", &["read", "run", "payloads", "operate", "approve", "admin"]),
];

/// The right that each operation needs.
const NEEDED: [(&str, &[&str]); 6] = [
    (
        "read",
        &[
            "search_notes",
            "get_note",
            "draw_execution",
            "get_timeline",
            "stream_events",
            "list_executions",
            "get_execution",
            "list_steps",
            "get_step",
            "list_entries",
            "get_journal_head",
            "verify_journal",
            "list_execution_entries",
            "list_plans",
            "get_plan",
            "compare_plan_versions",
            "draw_plan",
            "get_stats",
            "list_tasks",
            "get_task",
            "list_templates",
            "get_template",
            "list_tools",
            "get_tool",
            "list_servers",
            "whoami",
        ],
    ),
    ("payloads", &["export_execution", "list_questions"]),
    (
        "run",
        &[
            "set_note",
            "delete_note",
            "record_step",
            "record_decision",
            "record_action",
            "start_execution",
            "rerun_execution",
            "save_plan",
            "check_plan",
            "delete_plan",
            "add_task",
            "change_task",
            "use_template",
            "delete_template",
        ],
    ),
    (
        "operate",
        &[
            "command_executions",
            "pause_execution",
            "resume_execution",
            "cancel_execution",
            "undo_execution",
            "decide",
        ],
    ),
    ("approve", &["approve", "reject"]),
    (
        "admin",
        // Everybody may end an own session; this one is another's.
        &[
            "list_tokens",
            "create_token",
            "rotate_token",
            "revoke_token",
            "list_sessions",
            "end_session",
            "accept_tool",
        ],
    ),
];

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
        (format!("{path}/decisions"), json!({ "decision": "Stop.", "reason": "enough" }), "run operate"),
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
            let missing = right.split(' ').find(|right| rights.split(' ').all(|own| own != *right));
            let Some(missing) = missing else { continue };
            let refused = server.post_as(&token, request, body);
            assert_eq!(refused.status, 403, "{role} {request}: {refused:?}");
            assert_eq!(refused.json()["code"], "forbidden");
            assert!(
                refused.json()["detail"].as_str().unwrap().contains(&format!("`{missing}`")),
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

/// The right that an operation needs.
fn needed_right(operation: &str) -> &'static str {
    let found = NEEDED.iter().find(|(_, operations)| operations.contains(&operation));
    found.unwrap_or_else(|| panic!("`{operation}` has no entry in the table of rights")).0
}

/// A request to an operation of the document, about things that are not there: its path and its body.
fn request_to(path: &str, operation: &Value) -> (String, String) {
    let parts = path.split('/').map(|part| if part.starts_with('{') { "none" } else { part });
    let path = parts.collect::<Vec<_>>().join("/");
    let body = &operation["requestBody"]["content"]["application/json"]["example"];
    let body = if body.is_null() { String::new() } else { body.to_string() };
    // A position that is none, so that the stream does not begin.
    let query = if operation["operationId"] == "stream_events" { "?after=none" } else { "" };
    (format!("/api/v1{path}{query}"), body)
}

#[test]
fn every_operation_answers_each_role_as_the_table_says() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let tokens = ROLES.map(|(role, rights)| (role, rights, new_token(&sandbox, role, role)));
    let document = server.get("/openapi.json").json();
    let mut count = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            count += 1;
            let needed = needed_right(operation["operationId"].as_str().unwrap());
            let (path, body) = request_to(path, operation);
            let send = |authorization: &str| {
                let headers = [("Authorization", authorization), ("Content-Type", "application/json")];
                server.send(
                    &method.to_uppercase(),
                    &path,
                    &headers[usize::from(authorization.is_empty())..],
                    &body,
                )
            };
            let unknown = send("");
            assert_eq!(
                (unknown.status, unknown.header("www-authenticate")),
                (401, "Bearer"),
                "{method} {path}"
            );
            assert_eq!(unknown.json()["code"], "unauthorized");
            for (role, rights, token) in &tokens {
                let reply = send(&format!("Bearer {token}"));
                let refused = [401, 403].contains(&reply.status);
                assert_eq!(refused, !rights.contains(&needed), "{role} {method} {path}: {reply:?}");
                if refused {
                    let detail = reply.json()["detail"].as_str().unwrap().to_owned();
                    assert!(detail.contains(&format!("`{needed}`")), "{role} {method} {path}: {detail}");
                }
            }
        }
    }
    assert_eq!(count, NEEDED.iter().map(|(_, operations)| operations.len()).sum::<usize>());
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

#[test]
fn key_that_is_used_at_the_same_time_creates_one_token() {
    const REQUESTS: usize = 8;
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let bearer = format!("Bearer {}", server.token);
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Idempotency-Key", "one"),
    ];
    let body = json!({ "name": "ci", "role": "viewer" }).to_string();
    let start = std::sync::Barrier::new(REQUESTS);
    let create = || {
        start.wait();
        server.send("POST", "/api/v1/tokens", &headers, &body).json()
    };
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let requests: Vec<_> = (0..REQUESTS).map(|_| scope.spawn(create)).collect();
        requests.into_iter().map(|request| request.join().unwrap()).collect()
    });
    let ids: std::collections::BTreeSet<_> = answers.iter().map(|answer| answer["id"].to_string()).collect();
    let secrets = answers.iter().filter(|answer| answer["token"].is_string()).count();
    assert_eq!((ids.len(), secrets), (1, 1), "{answers:?}");
    let listed = sandbox.json(&["token", "list"]);
    let named = listed.as_array().unwrap().iter().filter(|token| token["name"] == "ci").count();
    assert_eq!(named, 1, "{listed}");
}
