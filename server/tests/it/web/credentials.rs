//! Every request needs a credential, on loopback too; roles limit what it may do.

use serde_json::{Value, json};

use super::open_stream::OpenStream;
use super::server::{WebReply, WebServer, new_token};
use crate::cli::Sandbox;
use crate::waiting::wait_until;

/// A modern MCP call of a tool; `token`: what it authenticates with.
fn call_tool(server: &WebServer, token: Option<&str>, tool: &str, arguments: Value) -> Value {
    call_tool_as(server, token, json!({}), tool, arguments)
}

/// Calls a tool with a client of these capabilities.
fn call_tool_as(
    server: &WebServer,
    token: Option<&str>,
    capabilities: Value,
    tool: &str,
    arguments: Value,
) -> Value {
    let authorization = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let params = json!({ "name": tool, "arguments": arguments });
    let bytes = server.process.request_bytes_as("scripted", capabilities, "tools/call", params);
    let bytes = String::from_utf8(bytes).unwrap().replacen(
        "Content-Type",
        &format!("{authorization}Content-Type"),
        1,
    );
    server.process.exchange(bytes.as_bytes()).message()
}

#[test]
fn dialog_of_a_client_counts_only_with_a_persons_token() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let step = json!({ "id": "a", "tool": "files/list_files", "arguments": {}, "approval": "required" });
    let plan = json!({ "name": "p", "steps": [step] });
    let start = |token: &str| {
        let arguments = json!({ "plan": plan, "wait_s": 45 });
        let dialogs = json!({ "elicitation": {} });
        call_tool_as(&server, Some(token), dialogs, "execute_plan", arguments)["result"].clone()
    };
    for role in ["agent", "operator"] {
        let answer = start(&new_token(&sandbox, role, role));
        assert_eq!(answer["structuredContent"]["status"], "blocked", "{role}: {answer}");
    }
    let words = ["token", "create", "--role", "operator", "--person", "--name", "ada"];
    let persons = sandbox.json(&words)["token"].as_str().unwrap().to_owned();
    for token in [&persons, &server.token] {
        let answer = start(token);
        assert_eq!(answer["resultType"], "input_required", "{answer}");
    }
}

/// A request to `/mcp` of the older protocol, with this token, session and body.
fn legacy_request(server: &WebServer, token: &str, method: &str, session: &str, body: &Value) -> WebReply {
    let bearer = format!("Bearer {token}");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("Mcp-Session-Id", session),
    ];
    let headers = &headers[..if session.is_empty() { 3 } else { 4 }];
    server.send(method, "/mcp", headers, &body.to_string())
}

#[test]
fn session_of_the_older_protocol_is_for_the_token_that_opened_it() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let tokens = ["operator", "agent"].map(|role| new_token(&sandbox, role, role));
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" },
    } });
    let opened = legacy_request(&server, &tokens[0], "POST", "", &hello);
    let session = opened.header("mcp-session-id").to_owned();
    assert!(!session.is_empty(), "{opened:?}");
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
    for method in ["POST", "DELETE"] {
        let foreign = legacy_request(&server, &tokens[1], method, &session, &list);
        assert_eq!(foreign.status, 404, "{method}: {foreign:?}");
    }
    assert_eq!(legacy_request(&server, &tokens[0], "POST", &session, &ready).status, 202);
    assert_eq!(legacy_request(&server, &tokens[0], "POST", &session, &list).status, 200);
    let headers = format!(
        "Authorization: Bearer {}\r\nAccept: text/event-stream\r\nMcp-Session-Id: {session}\r\n",
        tokens[0]
    );
    let mut stream = OpenStream::get(&server, "/mcp", &headers);
    sandbox.expect(0, &["token", "revoke", "operator"]);
    stream.wait_for_end();
}

#[test]
fn request_without_a_credential_is_refused_on_loopback() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    for path in ["/api/v1/whoami", "/api/v1/executions", "/openapi.json", "/metrics", "/", "/executions/x"] {
        let reply = server.send("GET", path, &[], "");
        assert_eq!(reply.status, 401, "{path}: {reply:?}");
        assert_eq!(reply.header("www-authenticate"), "Bearer", "{path}");
    }
    let problem = server.send("GET", "/api/v1/whoami", &[], "");
    assert_eq!(problem.header("content-type"), "application/problem+json");
    assert_eq!(problem.json()["code"], "unauthorized");
    assert_eq!(problem.json()["instance"], "/api/v1/whoami");
    for path in ["/healthz", "/readyz", "/login"] {
        assert_eq!(server.send("GET", path, &[], "").status, 200, "{path}");
    }
}

#[test]
fn mcp_without_a_token_is_refused_with_the_command_that_gives_one() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let json_type = ("Content-Type", "application/json");
    let refused = server.send("POST", "/mcp", &[json_type], "{}");
    assert_eq!((refused.status, refused.header("www-authenticate")), (401, "Bearer"));
    let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
    let line = format!("actbook install --client CLIENT --url http://{}/mcp", server.process.address);
    assert!(message.contains(&line), "{message}");
    assert_eq!(refused.json()["jsonrpc"], "2.0");
    let cookie = server.sign_in();
    let with_cookie = server.send("POST", "/mcp", &[json_type, ("Cookie", &cookie)], "{}");
    assert_eq!(with_cookie.status, 401, "a session is no credential for /mcp");
}

#[test]
fn without_tokens_opens_mcp_alone() {
    let sandbox = Sandbox::new();
    let server = WebServer::start_with(&sandbox, &["--without-tokens"]);
    assert!(call_tool(&server, None, "status", json!({}))["result"].is_object());
    assert_eq!(server.send("GET", "/api/v1/whoami", &[], "").status, 401);
    let wrong = call_tool(&server, Some("abk_wrong"), "status", json!({}));
    assert!(wrong["error"]["message"].is_string(), "a wrong token is refused where none is needed: {wrong}");
}

#[test]
fn token_names_the_actor_and_its_use_is_recorded() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let whoami = server.get("/api/v1/whoami").json();
    assert_eq!(whoami["actor"], "program:tester");
    assert_eq!(whoami["role"], "admin");
    let token = new_token(&sandbox, "agent", "claude");
    let noted = call_tool(&server, Some(&token), "set_context", json!({ "key": "port", "value": "4700" }));
    assert_eq!(noted["result"]["isError"], Value::Bool(false), "{noted}");
    let entry = sandbox.json(&["journal", "--actor", "agent:claude"]);
    assert_eq!(entry["body"]["key"], "port", "{entry}");
    let is_used = |tokens: &Value| {
        let tokens = tokens.as_array().unwrap();
        tokens.iter().any(|token| token["name"] == "claude" && token["last_used_at"].is_string())
    };
    wait_until("the use to be recorded", || is_used(&sandbox.json(&["token", "list"])));
}

#[test]
fn expired_revoked_and_mistyped_tokens_are_refused() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let status = |token: &str| server.get_as(token, "/api/v1/whoami").status;
    let expired = sandbox.expect(0, &["token", "create", "--role", "admin", "--expires", "1ms"]);
    assert_eq!(status(expired.trim()), 401);
    let revoked = new_token(&sandbox, "admin", "gone");
    assert_eq!(status(&revoked), 200);
    sandbox.expect(0, &["token", "revoke", "gone"]);
    assert_eq!(status(&revoked), 401);
    let mut shorter = server.token.clone();
    let other = if shorter.pop() == Some('x') { 'y' } else { 'x' };
    let mistyped = format!("{shorter}{other}");
    for wrong in [&shorter, &mistyped, "", "abk_", &server.token.replace("abk_", "abp_")] {
        assert_eq!(status(wrong), 401, "{wrong:?}");
    }
    let statuses = |name: &str| {
        let tokens = sandbox.json(&["token", "list"]);
        let found = tokens.as_array().unwrap().iter().find(|token| token["name"] == name).cloned();
        found.unwrap()["status"].clone()
    };
    assert_eq!((statuses("gone"), statuses("admin")), (json!("revoked"), json!("expired")));
}

#[test]
fn database_holds_hashes_of_secrets_alone() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let (code, cookie) = (server.login_path(), server.sign_in());
    let secrets =
        [server.token.as_str(), code.split_once("code=").unwrap().1, cookie.split_once('=').unwrap().1];
    let mut files = 0;
    for file in std::fs::read_dir(sandbox.path("data/actbook")).unwrap().flatten() {
        let Ok(bytes) = std::fs::read(file.path()) else { continue };
        files += 1;
        for secret in secrets {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{:?} holds a secret", file.path());
        }
    }
    assert!(files > 1, "the database was not looked at");
}

#[test]
fn role_without_a_right_is_refused_on_mcp() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let code = |reply: &Value| reply["result"]["structuredContent"]["error"]["code"].clone();
    let viewer = new_token(&sandbox, "viewer", "eyes");
    let refused = call_tool(&server, Some(&viewer), "status", json!({}));
    assert!(refused["error"]["message"].as_str().unwrap().contains("arguments and outputs"), "{refused}");
    let approver = new_token(&sandbox, "approver", "ada");
    let read = call_tool(&server, Some(&approver), "status", json!({}));
    assert_eq!(read["result"]["isError"], Value::Bool(false), "{read}");
    let plan = json!({ "name": "p", "steps": [{ "id": "a", "action": "look" }] });
    let refused = call_tool(&server, Some(&approver), "execute_plan", json!({ "plan": plan.clone() }));
    assert_eq!(code(&refused), "forbidden", "{refused}");
    let agent = new_token(&sandbox, "agent", "worker");
    let started = call_tool(&server, Some(&agent), "execute_plan", json!({ "plan": plan }));
    let id = started["result"]["structuredContent"]["id"].as_str().unwrap().to_owned();
    let cancel = json!({ "execution_id": id, "action": "cancel" });
    let refused = call_tool(&server, Some(&agent), "control", cancel.clone());
    assert_eq!(code(&refused), "forbidden", "{refused}");
    let operator = new_token(&sandbox, "operator", "boss");
    let cancelled = call_tool(&server, Some(&operator), "control", cancel);
    assert_eq!(cancelled["result"]["isError"], Value::Bool(false), "{cancelled}");
}

#[test]
fn install_with_url_writes_a_token_into_a_private_file() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let url = server.process.url();
    sandbox.expect(0, &["install", "--client", "cursor", "--url", &url]);
    let file = sandbox.path(".cursor/mcp.json");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let written: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let entry = &written["mcpServers"]["actbook"];
    assert_eq!(entry["url"], url);
    let token = entry["headers"]["Authorization"].as_str().unwrap().strip_prefix("Bearer ").unwrap();
    let result = call_tool(&server, Some(token), "status", json!({}));
    assert_eq!(result["result"]["isError"], Value::Bool(false), "{result}");
    let printed = sandbox.expect(0, &["install", "--client", "claude-code", "--url", &url, "--print"]);
    let line = format!(
        "claude mcp add --transport http actbook {url} --header 'Authorization: Bearer ${{ACTBOOK_TOKEN}}'\n"
    );
    assert_eq!(printed, line);
    let printed = sandbox.expect(0, &["install", "--client", "vscode", "--url", &url, "--print"]);
    assert!(printed.contains("${env:ACTBOOK_TOKEN}") && !printed.contains("abk_"), "{printed}");
}
