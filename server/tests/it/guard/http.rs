//! Guarded agents over HTTP: which session their calls belong to.

use std::io::{BufRead, BufReader, Write};

use super::proxy::{sandbox, shifty, write};
use super::*;
use crate::mcp::serve_process::ServeProcess;

const SERVE: [&str; 6] = ["serve", "--guard", "--listen", "127.0.0.1:0", "--without-tokens", "--json"];

/// The ids of the sessions, newest first.
fn sessions(sandbox: &Sandbox) -> Vec<String> {
    let listed = sandbox.json(&["list"]);
    listed.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

/// Sends a message of the protocol with sessions; returns the reply's head and its last message.
fn post(server: &ServeProcess, session: Option<&str>, body: &Value) -> (String, Value) {
    use std::io::Read;
    let session = session.map(|id| format!("Mcp-Session-Id: {id}\r\n")).unwrap_or_default();
    let mut stream = server.connect();
    stream.write_all(&server.post_bytes(&session, &body.to_string())).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
    let message = data.filter_map(|data| serde_json::from_str(data).ok()).next_back().unwrap_or_default();
    (head.to_owned(), message)
}

/// Opens a session of the older protocol; returns its id.
fn open_session(server: &ServeProcess) -> String {
    let client = json!({ "name": "scripted", "version": "1" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    let (head, _) =
        post(server, None, &json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }));
    let id = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("mcp-session-id: ").map(str::to_owned));
    let id = id.unwrap_or_else(|| panic!("{head}"));
    post(server, Some(&id), &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    id
}

#[test]
fn each_session_of_the_older_protocol_is_one() {
    let sandbox = sandbox(json!({}), json!({}));
    let server = ServeProcess::start_with(&sandbox, &SERVE);
    let (one, other) = (open_session(&server), open_session(&server));
    for (session, path) in [(&one, "a.txt"), (&other, "b.txt"), (&one, "c.txt")] {
        let params = json!({ "name": "files__write_file", "arguments": write(path) });
        let request = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params });
        let (_, answer) = post(&server, Some(session), &request);
        assert!(answer["result"].is_object() && answer["result"]["isError"] != true, "{answer}");
    }
    let sessions = sessions(&sandbox);
    assert_eq!(sessions.len(), 2);
    let steps = |id: &String| sandbox.json(&["show", id])["steps"].as_array().unwrap().len();
    assert_eq!(sessions.iter().map(steps).collect::<Vec<_>>(), [1, 2]);
}

/// Another name for itself, which each request may give, begins no other session.
#[test]
fn caller_without_sessions_has_one_whatever_it_calls_itself() {
    let sandbox = sandbox(json!({ "budget": { "calls": 2 } }), json!({}));
    let server = ServeProcess::start_with(&sandbox, &SERVE);
    let mut answers = Vec::new();
    for (client, path) in [("one", "a.txt"), ("two", "b.txt"), ("three", "c.txt")] {
        let params = json!({ "name": "files__write_file", "arguments": write(path) });
        let reply = server.exchange(&server.request_bytes_as(client, json!({}), "tools/call", params));
        answers.push(reply.message()["result"]["isError"] == true);
    }
    assert_eq!(answers, [false, false, true], "the budget is the session's");
    assert_eq!(sessions(&sandbox).len(), 1);
    assert!(!sandbox.path("work/c.txt").exists());
}

#[test]
fn change_of_a_list_reaches_a_client_that_listens() {
    let sandbox = shifty(json!({}));
    let server = ServeProcess::start_with(&sandbox, &SERVE);
    let wanted = json!({ "notifications": { "toolsListChanged": true } });
    let mut stream = server.connect();
    stream.write_all(&server.request_bytes("subscriptions/listen", wanted)).unwrap();
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    let mut events =
        lines.filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
    let accepted = events.next().unwrap();
    assert_eq!(accepted["method"], "notifications/subscriptions/acknowledged", "{accepted}");
    assert_eq!(accepted["params"]["notifications"]["toolsListChanged"], true, "{accepted}");
    server.call("shifty__announce", json!({}));
    assert_eq!(events.next().unwrap()["method"], "notifications/tools/list_changed");
}
