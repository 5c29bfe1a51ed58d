//! `/metrics`: what Prometheus reads, with a token, by any name of the server.

use serde_json::json;

use super::server::{WebServer, new_token};
use crate::cli::Sandbox;

#[test]
fn metrics_count_executions_calls_and_questions() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let good = json!({ "id": "a", "tool": "files/list_files", "arguments": {} });
    let bad = json!({ "id": "b", "tool": "files/read_file", "arguments": { "path": "none" } });
    for steps in [json!([good]), json!([good, bad])] {
        let body = json!({ "plan": { "name": "p", "steps": steps }, "wait_s": 60 });
        assert_eq!(server.post("/api/v1/executions", &body).status, 201);
    }
    let token = format!("Bearer {}", new_token(&sandbox, "viewer", "prometheus"));
    let reply = server.send_to_host("10.0.0.7:4700", "GET", "/metrics", &[("Authorization", &token)], "");
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    let head = server.get("/api/v1/journal/head").json()["position"].clone();
    for line in [
        "# TYPE actbook_executions_total counter",
        "actbook_executions_total{status=\"succeeded\"} 1",
        "actbook_executions_open{status=\"blocked\"} 1",
        "actbook_calls_total{server=\"files\",tool=\"list_files\",outcome=\"succeeded\"} 2",
        "actbook_calls_total{server=\"files\",tool=\"read_file\",outcome=\"failed\"} 1",
        "actbook_questions_waiting 1",
        &format!("actbook_journal_position {head}"),
    ] {
        assert!(reply.body.lines().any(|one| one == line), "no `{line}`:\n{}", reply.body);
    }
    let unknown = server.send_to_host("10.0.0.7:4700", "GET", "/metrics", &[], "");
    assert_eq!((unknown.status, unknown.header("www-authenticate")), (401, "Bearer"));
}
