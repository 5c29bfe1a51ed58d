//! The stream of events: live, filtered, resumed by position without a gap or a repetition.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::server::{WebServer, new_token};
use crate::cli::Sandbox;

/// An open stream of events.
pub struct OpenStream(BufReader<TcpStream>);

impl OpenStream {
    pub fn open(server: &WebServer, token: &str, query: &str, headers: &str) -> Self {
        let mut stream = server.process.connect();
        let host = &server.process.address;
        let request = format!(
            "GET /api/v1/events{query} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n{headers}Connection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(line.contains(" 200 "), "{line}");
        while !line.trim().is_empty() {
            line.clear();
            reader.read_line(&mut line).unwrap();
        }
        Self(reader)
    }

    /// The next event's id and data.
    pub fn next(&mut self) -> (u64, Value) {
        let (mut id, mut line) = (0, String::new());
        loop {
            line.clear();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "the stream ended");
            if let Some(given) = line.strip_prefix("id: ") {
                id = given.trim().parse().unwrap();
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return (id, serde_json::from_str(data).unwrap());
            }
        }
    }
}

fn note(server: &WebServer, key: &str) {
    let path = format!("/api/v1/context/{key}");
    let reply = server.send_json_as(&server.token, "PUT", &path, &json!({ "value": key }));
    assert_eq!(reply.status, 200, "{reply:?}");
}

fn head(server: &WebServer) -> u64 {
    server.get("/api/v1/journal/head").json()["position"].as_u64().unwrap()
}

#[test]
fn stream_sends_what_is_appended_and_resumes_without_gap_or_repetition() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    note(&server, "before");
    let start = head(&server);
    let mut live = OpenStream::open(&server, &server.token, "", "");
    note(&server, "one");
    let (id, entry) = live.next();
    assert_eq!((id, &entry["position"]), (start + 1, &json!(start + 1)));
    assert!(entry["payload"].is_null() && entry["recorded"].is_null(), "{entry}");
    drop(live);
    note(&server, "two");
    sandbox.expect(0, &["context", "set", "three", "by another process"]);
    let mut resumed = OpenStream::open(&server, &server.token, "", &format!("Last-Event-ID: {id}\r\n"));
    let mut whole = OpenStream::open(&server, &server.token, "?after=0", "");
    for expected in start + 2..=start + 3 {
        assert_eq!(resumed.next().0, expected);
    }
    for expected in 1..=start + 3 {
        assert_eq!(whole.next().0, expected);
    }
    note(&server, "four");
    assert_eq!((resumed.next().0, whole.next().0), (start + 4, start + 4));
}

#[test]
fn stream_that_fell_behind_the_ring_reads_the_journal() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let mut slow = OpenStream::open(&server, &server.token, "?after=0", "");
    // More entries than the ring holds, each of them several hundred bytes: the socket's buffers fill up first.
    let plan = json!({ "name": "many", "steps": (0..1_500)
        .map(|n| json!({ "id": format!("s{n}"), "tool": "files/echo", "arguments": { "n": n }, "read_only": true }))
        .collect::<Vec<_>>() });
    let body = json!({ "plan": plan, "wait_s": 60 });
    let ended = server.post("/api/v1/executions", &body);
    let ended = if ended.json()["status"] == "running" {
        server.get(&format!("/api/v1/executions/{}?wait_s=60", ended.json()["id"].as_str().unwrap()))
    } else {
        ended
    };
    assert_eq!(ended.json()["status"], "succeeded", "{}", ended.json()["status"]);
    let head = head(&server);
    for expected in 1..=head {
        assert_eq!(slow.next().0, expected);
    }
}

#[test]
fn stream_is_filtered_by_execution_plan_task_and_kind() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let start = |name: &str, task: &str| {
        let plan = json!({ "name": name, "task": task, "steps": [{ "id": "a", "action": "look" }] });
        let view = server.post("/api/v1/executions", &json!({ "plan": plan, "wait_s": 30 })).json();
        view["id"].as_str().unwrap().to_owned()
    };
    let (one, other) = (start("one", "T-1"), start("other", "T-2"));
    let first =
        |query: &str| OpenStream::open(&server, &server.token, &format!("?after=0&{query}"), "").next().1;
    assert_eq!(first(&format!("execution={other}"))["execution"], json!(other));
    assert_eq!(first("plan=other")["execution"], json!(other));
    assert_eq!(first("task=T-2")["execution"], json!(other));
    assert_eq!(first("task=T-1&kind=execution_started")["execution"], json!(one));
    assert_eq!(first("kind=plan_saved")["kind"], "plan_saved.2");
}

#[test]
fn revoked_token_ends_its_stream() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let token = new_token(&sandbox, "viewer", "watcher");
    let mut stream = OpenStream::open(&server, &token, "?kind=nothing", "");
    sandbox.expect(0, &["token", "revoke", "watcher"]);
    let mut line = String::new();
    while stream.0.read_line(&mut line).unwrap() != 0 {
        line.clear();
    }
    assert_eq!(server.get_as(&token, "/api/v1/whoami").status, 401);
}
