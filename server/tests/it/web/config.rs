//! What the config keeps holds over HTTP too: its secrets are refused by name, its command lines and addresses are not
//! shown, and a config that nobody trusts starts nothing.

use serde_json::{Value, json};

use super::pages::hidden_field;
use super::server::{WebReply, WebServer, new_token};
use crate::cli::Sandbox;

const SECRET: &str = "S3cr3t-of-the-deployment";

/// A sandbox whose config takes `SECRET` from a variable.
fn sandbox_with_secret() -> Sandbox {
    let sandbox = Sandbox { variables: vec![("DEPLOY_TOKEN", SECRET)], ..Sandbox::new() };
    let config = std::fs::read_to_string(sandbox.path("actbook.yaml")).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    config["commands"]["deploy"] = json!({ "argv": ["true", "house-style", "${env:DEPLOY_TOKEN}"] });
    config["http"] = json!({ "hook": { "url": "http://127.0.0.1:9/in/house", "method": "PUT" } });
    sandbox.write_config(config);
    sandbox
}

/// Asserts that a request was refused for the secret, by its variable, or took effect without it.
#[track_caller]
fn assert_kept_out(what: &str, reply: &WebReply) {
    assert!(!reply.body.contains(SECRET), "{what} shows it: {reply:?}");
    assert!(
        (reply.status == 422 && reply.body.contains("DEPLOY_TOKEN"))
            || [200, 201, 303].contains(&reply.status),
        "{what}: {reply:?}"
    );
}

#[test]
fn known_secret_enters_by_no_request_and_no_form() {
    let sandbox = sandbox_with_secret();
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    let holding = format!("x{SECRET}");
    let step =
        |argument: &str| json!({ "id": "a", "tool": "files/read_file", "arguments": { "path": argument } });
    let inputs = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
    let asks = json!({ "name": "asks", "inputs": inputs, "steps": [step("${inputs.path}")] });
    assert_eq!(server.post("/api/v1/plans", &json!({ "plan": asks })).status, 201);
    let started = server.post(
        "/api/v1/executions",
        &json!({ "plan": { "name": "fails", "steps": [step("none")] }, "wait_s": 30 }),
    );
    let id = started.json()["id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/executions/{id}");
    let refused = [
        ("POST", "/api/v1/plans".to_owned(), json!({ "plan": { "name": "p", "steps": [step(&holding)] } })),
        ("POST", "/api/v1/plans".to_owned(), json!({ "plan": { "name": holding, "steps": [step("x")] } })),
        (
            "POST",
            "/api/v1/executions".to_owned(),
            json!({ "plan_id": "asks", "inputs": { "path": holding } }),
        ),
        (
            "POST",
            format!("{path}/decide"),
            json!({ "step_id": "a", "answer": "retry", "arguments": { "path": holding } }),
        ),
        ("POST", "/api/v1/tasks".to_owned(), json!({ "id": holding, "title": "t" })),
        ("POST", "/api/v1/tokens".to_owned(), json!({ "name": holding, "role": "viewer" })),
    ];
    for (method, path, body) in refused {
        let reply = server.send_json_as(&server.token, method, &path, &body);
        assert_eq!(reply.status, 422, "{method} {body}: {reply:?}");
        assert!(reply.body.contains("DEPLOY_TOKEN"), "{method} {body}: {reply:?}");
    }
    let redacted = [
        ("POST", format!("{path}/pause"), json!({ "reason": holding })),
        (
            "POST",
            format!("{path}/decisions"),
            json!({ "decision": "noted", "reason": holding, "details": holding }),
        ),
        ("POST", "/api/v1/records".to_owned(), json!({ "description": holding, "output": holding })),
        ("PUT", format!("/api/v1/context/{holding}"), json!({ "value": 1 })),
        ("PUT", "/api/v1/context/note".to_owned(), json!({ "value": holding })),
        ("POST", "/api/v1/tasks".to_owned(), json!({ "id": "T-1", "fields": { "x": holding } })),
    ];
    for (method, path, body) in redacted {
        assert_kept_out(
            &format!("{method} {body}"),
            &server.send_json_as(&server.token, method, &path, &body),
        );
    }
    let token = format!("Bearer {}", server.token);
    let keyed = [("Authorization", token.as_str()), ("Idempotency-Key", holding.as_str())];
    assert_eq!(server.send("POST", &format!("{path}/resume"), &keyed, "").status, 422);
    assert_kept_out("the run form", &server.submit(&cookie, "/plans/asks/run", &[("path", &holding)]));
    let page = server.page(&cookie, &format!("/executions/{id}"));
    let fields = [("question", hidden_field(&page, "question")), ("answer", "skip"), ("reason", &holding)];
    assert_kept_out("the answer form", &server.submit(&cookie, &format!("/executions/{id}/answer"), &fields));
    let journal = sandbox.expect(0, &["journal", "--json", "--limit", "1000"]);
    assert!(!journal.contains(SECRET), "{journal}");
    for page in ["/api/v1/context", "/api/v1/tasks", "/api/v1/journal", "/", "/tasks", "/context"] {
        assert!(!server.get(page).body.contains(SECRET), "{page}");
    }
    let stored = std::fs::read(sandbox.path("data/actbook/actbook.db")).unwrap();
    assert!(!stored.windows(SECRET.len()).any(|bytes| bytes == SECRET.as_bytes()), "the database holds it");
}

#[test]
fn command_lines_and_addresses_of_the_config_are_shown_to_nobody() {
    let sandbox = sandbox_with_secret();
    let server = WebServer::start(&sandbox);
    let paths = [
        "/api/v1/tools",
        "/api/v1/servers",
        "/api/v1/tools/command/deploy",
        "/api/v1/tools/http/hook",
        "/tools",
    ];
    let agent = new_token(&sandbox, "agent", "claude");
    for path in paths {
        let reply = server.get_as(&agent, path);
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        for hidden in ["house-style", "/in/house", SECRET] {
            assert!(!reply.body.contains(hidden), "{path} shows {hidden}: {reply:?}");
        }
    }
}

#[test]
fn served_config_that_nobody_trusts_starts_nothing() {
    for is_changed in [false, true] {
        let sandbox = Sandbox::new();
        if !is_changed {
            std::fs::remove_dir_all(sandbox.path("data")).unwrap();
        }
        let act = json!({ "argv": ["sh", "-c", "touch started"] });
        let files = json!({ "command": "sh", "args": ["-c", "touch started; exec cat"] });
        let config =
            json!({ "mcpServers": { "files": files }, "commands": { "act": act }, "approvals": "agents" });
        std::fs::write(sandbox.path("actbook.yaml"), config.to_string()).unwrap();
        let plan =
            json!({ "name": "acts", "steps": [{ "id": "a", "tool": "command/act", "read_only": true }] });
        sandbox.write("plan.json", &plan.to_string());
        sandbox.expect(0, &["--config", "actbook.yaml", "plan", "save", "plan.json"]);
        let server = WebServer::start_with(&sandbox, &["--without-tokens"]);
        // A changed config has no effect: the one that was trusted holds, which has no such command.
        for (path, body) in [
            ("/api/v1/plans:check", json!({ "plan": plan })),
            ("/api/v1/plans", json!({ "plan": plan })),
            ("/api/v1/executions", json!({ "plan": plan, "wait_s": 30 })),
            ("/api/v1/executions", json!({ "plan_id": "acts", "wait_s": 30 })),
        ] {
            let reply = server.post(path, &body);
            let is_refused = reply.status == 422 || reply.json()["ok"] == json!(false);
            assert!(is_refused, "{path}: {reply:?}");
            assert!(is_changed || reply.body.contains("trust"), "{path}: {reply:?}");
        }
        let run = server.submit(&server.sign_in(), "/plans/acts/run", &[]);
        assert_eq!(run.status, 422, "{run:?}");
        for path in ["/api/v1/tools", "/api/v1/servers", "/api/v1/tools?server=files", "/tools"] {
            assert_eq!(server.get(path).status, 200, "{path}");
        }
        let called = server.process.call("execute_plan", json!({ "plan": plan, "wait_s": 10 }));
        assert_eq!(called["isError"], json!(true), "{called}");
        assert_eq!(sandbox.json(&["list"]), json!([]), "nothing was executed");
        assert!(!sandbox.path("started").exists(), "something was started");
    }
}
