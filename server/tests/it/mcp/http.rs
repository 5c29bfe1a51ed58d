//! The HTTP server: allowed hosts and origins, size and time limits, graceful shutdown.

use std::io::{Read, Write};

use serde_json::json;

use super::serve_process::ServeProcess;
use super::{hold_step, work_plan, write_step};
use crate::cli::Sandbox;
use crate::waiting::{TEST_TIMEOUT, wait_until};

const GUARDED_ROUTES: [&str; 5] = ["POST /mcp", "GET /nowhere", "GET /", "GET /login", "GET /api/v1/whoami"];

/// The status code of a request to this route with these headers.
fn request_status(server: &ServeProcess, route: &str, headers: &str) -> u16 {
    let bytes = format!("{route} HTTP/1.1\r\n{headers}Content-Length: 0\r\nConnection: close\r\n\r\n");
    server.exchange(bytes.as_bytes()).status
}

#[test]
fn guarded_routes_refuse_foreign_hosts_and_origins() {
    let sandbox = Sandbox::new();
    let server = ServeProcess::start(&sandbox);
    let port = server.address.rsplit(':').next().unwrap();
    let own = format!("Host: {}\r\n", server.address);
    let strangers = [
        "Host: evil.example\r\n".to_owned(),
        format!("Host: evil.example:{port}\r\n"),
        "Host: 127.0.0.1.evil.example\r\n".to_owned(),
        "Host: localhost.evil.example\r\n".to_owned(),
        "Host: evil.example#127.0.0.1\r\n".to_owned(),
        "Host: 127.0.0.1@evil.example\r\n".to_owned(),
        "Host: 0.0.0.0\r\n".to_owned(),
        "Host: 192.168.0.1\r\n".to_owned(),
        "Host: \r\n".to_owned(),
        "Host: 127.0.0.1:\r\n".to_owned(),
        "Host: 127.0.0.1:x\r\n".to_owned(),
        format!("{own}Host: evil.example\r\n"),
        String::new(),
        format!("{own}Origin: http://evil.example\r\n"),
        format!("{own}Origin: https://evil.example:{port}\r\n"),
        format!("{own}Origin: null\r\n"),
        format!("{own}Origin: \r\n"),
        format!("{own}Origin: file://\r\n"),
        format!("{own}Origin: http://127.0.0.1.evil.example\r\n"),
        format!("{own}Origin: http://localhost@evil.example\r\n"),
        format!("{own}Origin: http://{}\r\nOrigin: http://evil.example\r\n", server.address),
        format!("{own}Origin: chrome-extension://abc\r\n"),
    ];
    for route in GUARDED_ROUTES {
        for stranger in &strangers {
            let status = request_status(&server, route, stranger);
            assert!([400, 403].contains(&status), "{route} with {stranger:?} is answered: {status}");
        }
    }
    let friends = [
        own.clone(),
        format!("Host: localhost:{port}\r\n"),
        format!("Host: [::1]:{port}\r\n"),
        format!("{own}Origin: http://localhost:3000\r\n"),
        format!("{own}Origin: http://{}\r\n", server.address),
    ];
    for friend in &friends {
        assert_eq!(request_status(&server, "GET /healthz", friend), 200, "{friend:?}");
        assert_eq!(request_status(&server, "GET /readyz", friend), 200, "{friend:?}");
        assert_eq!(request_status(&server, "GET /nowhere", friend), 401, "{friend:?}");
    }
    assert_eq!(request_status(&server, "GET /healthz", "Host: 192.168.0.1\r\n"), 200, "probes use any name");
}

#[test]
fn non_loopback_listen_needs_tls_or_insecure_flag() {
    let sandbox = Sandbox::new();
    let refused = |words: &[&str], why: &str, cure: &str| {
        let refused = sandbox.run(&[&["serve", "--listen", "0.0.0.0:0"], words].concat());
        assert_eq!(refused.code, Some(1), "{words:?}");
        assert!(refused.stderr.contains(why) && refused.stderr.contains(cure), "{}", refused.stderr);
    };
    refused(&[], "plain text", "--public-url");
    refused(&["--public-url", "http://book.example"], "plain text", "--insecure");
    refused(&["--without-tokens", "--insecure"], "let anybody in", "actbook token create");
    let words = ["serve", "--listen", "0.0.0.0:0", "--insecure", "--name", "book.example", "--json"];
    let server = ServeProcess::start_with(&sandbox, &words);
    let port = server.address.rsplit(':').next().unwrap().to_owned();
    assert_eq!(request_status(&server, "POST /mcp", &format!("Host: book.example:{port}\r\n")), 401);
    assert_eq!(request_status(&server, "POST /mcp", "Host: other.example\r\n"), 403);
}

#[test]
fn listen_address_may_be_localhost() {
    let sandbox = Sandbox::new();
    let server = ServeProcess::start_with(&sandbox, &["serve", "--listen", "localhost:0", "--json"]);
    assert_eq!(request_status(&server, "GET /healthz", &format!("Host: {}\r\n", server.address)), 200);
    let refused = sandbox.run(&["serve", "--listen", "localhost"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("localhost"), "{}", refused.stderr);
}

#[test]
fn oversized_body_or_headers_are_refused() {
    let sandbox = Sandbox::new();
    let server = ServeProcess::start(&sandbox);
    let large = json!({ "jsonrpc": "2.0", "id": 1, "method": "x", "params": { "x": "y".repeat(9 << 20) } });
    assert_eq!(server.exchange(&server.post_bytes("", &large.to_string())).status, 413);
    let many: String = (0..200).map(|n| format!("X-{n}: y\r\n")).collect();
    assert_eq!(server.exchange(&server.post_bytes(&many, "{}")).status, 431);
    let long = format!("X-Long: {}\r\n", "y".repeat(200 << 10));
    assert_eq!(server.exchange(&server.post_bytes(&long, "{}")).status, 431);
    assert!(server.resident_mb() < 256, "{} MB", server.resident_mb());
    server.call("status", json!({}));
}

#[test]
fn incomplete_request_times_out() {
    let sandbox = Sandbox::new();
    let server = ServeProcess::start(&sandbox);
    let mut slow = server.connect();
    slow.write_all(b"POST /mcp HTTP/1.1\r\nHost: ").unwrap();
    let mut response = Vec::new();
    let asked = std::time::Instant::now();
    drop(slow.read_to_end(&mut response));
    assert!(asked.elapsed() < TEST_TIMEOUT, "the connection was still open");
    server.call("status", json!({}));
}

#[test]
fn sigterm_finishes_calls_in_flight_and_starts_no_more() {
    let sandbox = Sandbox::new();
    let mut server = ServeProcess::start(&sandbox);
    let plan = work_plan(&[hold_step("wait"), write_step("after", "after.txt")]);
    let started = server.call("execute_plan", json!({ "plan": plan }));
    let id = started["structuredContent"]["id"].as_str().unwrap().to_owned();
    let journal = sandbox.follow_journal();
    journal.wait_for("attempt_started", Some("wait"));
    wait_until("the call to be held", || sandbox.path("holding").exists());
    let pid = rustix::process::Pid::from_raw(server.child.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    // A server that is shutting down accepts no connections.
    wait_until("refused connections", || std::net::TcpStream::connect(&server.address).is_err());
    sandbox.release();
    journal.wait_for("attempt_ended", Some("wait"));
    assert_eq!(server.wait_for_exit(), Some(0));
    let view = sandbox.json(&["show", &id]);
    assert_eq!(view["steps"][0]["status"], "succeeded", "the call in flight was recorded");
    assert!(!sandbox.path("work/after.txt").exists(), "nothing further was started");
    // The next process continues the execution.
    let next = ServeProcess::start(&sandbox);
    let ended = next.call("status", json!({ "execution_id": id, "wait_s": 60 }));
    assert_eq!(ended["structuredContent"]["status"], "succeeded", "{ended}");
}
