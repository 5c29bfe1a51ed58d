//! The stream of events: live, filtered, resumed by position without a gap or a repetition.

use serde_json::json;

use super::open_stream::OpenStream;
use super::server::{WebServer, new_token};
use crate::cli::Sandbox;
use crate::durability::rng::SeededRng;

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
fn stream_beyond_the_journals_end_is_refused() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    note(&server, "one");
    let beyond = head(&server) + 1;
    let bearer = format!("Bearer {}", server.token);
    let credential = ("Authorization", bearer.as_str());
    let after = server.send("GET", &format!("/api/v1/events?after={beyond}"), &[credential], "");
    let beyond = beyond.to_string();
    let resumed = server.send("GET", "/api/v1/events", &[credential, ("Last-Event-ID", &beyond)], "");
    for refused in [after, resumed] {
        assert_eq!((refused.status, &refused.json()["code"]), (409, &json!("beyond_head")), "{refused:?}");
    }
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
    stream.wait_for_end();
    assert_eq!(server.get_as(&token, "/api/v1/whoami").status, 401);
}

#[test]
fn streams_that_are_cut_anywhere_resume_without_gap_or_repetition() {
    const STREAMS: usize = 8;
    const NOTES: u64 = 150;
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let start = head(&server);
    std::thread::scope(|scope| {
        for _ in 0..STREAMS {
            let (server, mut rng) = (&server, SeededRng::from_env("cut streams"));
            scope.spawn(move || {
                let mut last = start;
                while last < start + NOTES {
                    let header = format!("Last-Event-ID: {last}\r\n");
                    let mut stream = OpenStream::open(server, &server.token, "", &header);
                    for _ in 0..=rng.below(12) {
                        if last < start + NOTES {
                            assert_eq!(stream.next().0, last + 1);
                            last += 1;
                        }
                    }
                    // Dropped with events unread, and sometimes in the middle of one.
                    stream.read_bytes(rng.below(300));
                }
            });
        }
        for number in 0..NOTES {
            note(&server, &format!("note-{number}"));
        }
        // The last streams wait for bytes of further events before they are dropped.
        note(&server, "one-more");
    });
}

#[test]
fn stream_resumes_at_a_restarted_server_without_gap_or_repetition() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    note(&server, "before");
    let mut stream = OpenStream::open(&server, &server.token, "?after=0", "");
    let end = head(&server);
    let last = (1..=end).map(|expected| (expected, stream.next().0));
    assert!(last.into_iter().all(|(expected, id)| expected == id));
    note(&server, "unread");
    let token = server.token.clone();
    // Killed: nothing is said to the stream.
    drop(server);
    sandbox.expect(0, &["context", "set", "meanwhile", "by another process"]);
    let server = WebServer::start(&sandbox);
    let header = format!("Last-Event-ID: {end}\r\n");
    let mut resumed = OpenStream::open(&server, &token, "", &header);
    note(&server, "after");
    for expected in end + 1..=end + 3 {
        assert_eq!(resumed.next().0, expected);
    }
}
