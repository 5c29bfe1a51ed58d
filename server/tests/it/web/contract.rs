//! The API as tools of others see it: Schemathesis calls every operation with what the document allows and with what
//! it does not, Redocly lints the document, and a client written from `docs/api.md` plays a story.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use super::server::{WebServer, expect};
use crate::cli::Sandbox;
use crate::counts::times;
use crate::mcp::conformance::{clients_folder, node_command};

/// Asserts that a program exits with success; its output.
#[track_caller]
fn expect_success(mut command: Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{out}\n{err}");
    out.into_owned()
}

/// What operations can be called with: ids and names of what is there.
struct Content {
    executions: Vec<String>,
    plan: String,
    /// Tokens that may be revoked.
    tokens: Vec<String>,
}

/// Fills a server: executions that wait, failed and were undone; versions of a plan; a note, a task and tokens.
fn fill(server: &WebServer) -> Content {
    let write = json!({
        "id": "first", "tool": "files/write_file", "arguments": { "path": "a.txt", "content": "x" },
        "compensation": { "tool": "files/delete_file", "arguments": { "path": "${arguments.path}" } },
    });
    let lasts = [
        json!({ "id": "second", "tool": "files/list_files", "arguments": {}, "approval": "required" }),
        json!({ "id": "second", "tool": "files/read_file", "arguments": { "path": "none" } }),
        json!({ "id": "second", "action": "look" }),
    ];
    let start = |last: &Value| {
        let plan = json!({ "name": "careful", "task": "T-1", "steps": [write, last] });
        let view = expect(201, &server.post("/api/v1/executions", &json!({ "plan": plan, "wait_s": 60 })));
        view["id"].as_str().unwrap().to_owned()
    };
    let executions: Vec<String> = lasts.iter().map(start).collect();
    let undo = format!("/api/v1/executions/{}/undo", executions[1]);
    expect(200, &server.post(&undo, &json!({ "wait_s": 60 })));
    expect(201, &server.post("/api/v1/tasks", &json!({ "id": "T-1", "title": "One" })));
    let note = json!({ "value": { "port": 4700 }, "type": "fact" });
    expect(200, &server.send_json_as(&server.token, "PUT", "/api/v1/context/port", &note));
    let plans = expect(200, &server.get("/api/v1/plans"));
    let token = |number| {
        let body = json!({ "name": format!("spare-{number}"), "role": "viewer" });
        expect(201, &server.post("/api/v1/tokens", &body))["id"].as_str().unwrap().to_owned()
    };
    let plan = plans["items"][0]["id"].as_str().unwrap().to_owned();
    Content { executions, plan, tokens: (0..3).map(token).collect() }
}

/// The settings of Schemathesis for a server with this content.
fn schemathesis_settings(token: &str, content: &Content) -> String {
    let Content { executions, plan, tokens } = content;
    let settings = include_str!("schemathesis.toml");
    let replaced = [
        ("TOKEN", token.to_owned()),
        ("EXECUTIONS", json!(executions).to_string()),
        ("PLANS", json!([plan, "careful"]).to_string()),
        ("SPARE_TOKENS", json!(tokens).to_string()),
    ];
    replaced.iter().fold(settings.to_owned(), |text, (name, value)| text.replace(&format!("@{name}@"), value))
}

#[test]
fn every_operation_keeps_to_the_document() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let content = fill(&server);
    sandbox.write("schemathesis.toml", &schemathesis_settings(&server.token, &content));
    let url = format!("http://{}/openapi.json", server.process.address);
    let mut run = Command::new(clients_folder().join("schemathesis/bin/schemathesis"));
    let cases = times("ACTBOOK_API_CASES", 12).to_string();
    run.current_dir(sandbox.folder.path()).env("HOME", sandbox.folder.path()).env("NO_COLOR", "1");
    run.args(["run", &url, "--checks", "all", "--max-examples", &cases, "--continue-on-failure"]);
    run.args(["--header", &format!("Authorization: Bearer {}", server.token)]);
    let said = expect_success(run);
    assert!(!said.contains("Authentication failed"), "its token was revoked meanwhile:\n{said}");
    let verified = expect(200, &server.post("/api/v1/journal:verify", &json!({})));
    assert_eq!(verified["ok"], true, "{verified}");
}

#[test]
fn redocly_finds_nothing_in_the_document() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    sandbox.write("openapi.json", &server.get("/openapi.json").body);
    let mut lint = node_command();
    lint.arg(clients_folder().join("node_modules/@redocly/cli/bin/cli.js"));
    lint.args(["lint", "openapi.json", "--format", "json", "--max-problems", "50"]);
    lint.current_dir(sandbox.folder.path()).env("REDOCLY_TELEMETRY", "off");
    let found: Value = serde_json::from_str(&expect_success(lint)).unwrap();
    assert_eq!(found["problems"], json!([]), "{found}");
}

#[test]
fn client_of_the_documentation_plays_its_story() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let mut client = Command::new("python3");
    client.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/api_client.py"));
    client.args([&format!("http://{}", server.process.address), &server.token]);
    let said = expect_success(client);
    assert!(said.contains("execution_started") && said.contains("each once"), "{said}");
}
