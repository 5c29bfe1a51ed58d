//! The HTTP server: allowed hosts and origins, size and time limits, graceful shutdown.

use std::io::{Read, Write};

use serde_json::json;

use super::web::Server;
use super::{hold, steps, write};
use crate::cli::{House, PATIENCE};

const ROUTES: [&str; 4] = ["GET /healthz", "GET /readyz", "POST /mcp", "GET /nowhere"];

/// The status code of a request to this route with these headers.
fn request(server: &Server, route: &str, headers: &str) -> u16 {
    let bytes = format!("{route} HTTP/1.1\r\n{headers}Content-Length: 0\r\nConnection: close\r\n\r\n");
    server.exchange(bytes.as_bytes()).status
}

#[test]
fn every_route_answers_only_to_its_own_names_and_origins() {
    let house = House::new();
    let server = Server::start(&house);
    let port = server.at.rsplit(':').next().unwrap();
    let own = format!("Host: {}\r\n", server.at);
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
        format!("{own}Origin: http://{}\r\nOrigin: http://evil.example\r\n", server.at),
        format!("{own}Origin: chrome-extension://abc\r\n"),
    ];
    for route in ROUTES {
        for stranger in &strangers {
            let status = request(&server, route, stranger);
            assert!([400, 403].contains(&status), "{route} with {stranger:?} is answered: {status}");
        }
    }
    let friends = [
        own.clone(),
        format!("Host: localhost:{port}\r\n"),
        format!("Host: [::1]:{port}\r\n"),
        format!("{own}Origin: http://localhost:3000\r\n"),
        format!("{own}Origin: http://{}\r\n", server.at),
    ];
    for friend in &friends {
        assert_eq!(request(&server, "GET /healthz", friend), 200, "{friend:?}");
        assert_eq!(request(&server, "GET /readyz", friend), 200, "{friend:?}");
        assert_eq!(request(&server, "GET /nowhere", friend), 404, "{friend:?}");
    }
}

#[test]
fn it_listens_beyond_this_machine_only_when_told_so_by_name() {
    let house = House::new();
    let refused = house.run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.err.contains("no tokens yet") && refused.err.contains("--without-tokens"),
        "{}",
        refused.err
    );
    let words = ["serve", "--listen", "0.0.0.0:0", "--without-tokens", "--name", "book.example", "--json"];
    let server = Server::of(&house, &words);
    let port = server.at.rsplit(':').next().unwrap().to_owned();
    assert_eq!(request(&server, "GET /healthz", &format!("Host: book.example:{port}\r\n")), 200);
    assert_eq!(request(&server, "GET /healthz", "Host: other.example\r\n"), 403);
}

#[test]
fn it_listens_under_a_name_of_this_machine_too() {
    let house = House::new();
    let server = Server::of(&house, &["serve", "--listen", "localhost:0", "--json"]);
    assert_eq!(request(&server, "GET /healthz", &format!("Host: {}\r\n", server.at)), 200);
    let refused = house.run(&["serve", "--listen", "localhost"]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(refused.err.contains("localhost"), "{}", refused.err);
}

#[test]
fn a_request_that_is_too_large_in_any_way_is_refused() {
    let house = House::new();
    let server = Server::start(&house);
    let large = json!({ "jsonrpc": "2.0", "id": 1, "method": "x", "params": { "x": "y".repeat(9 << 20) } });
    assert_eq!(server.exchange(&server.post("", &large.to_string())).status, 413);
    let many: String = (0..200).map(|n| format!("X-{n}: y\r\n")).collect();
    assert_eq!(server.exchange(&server.post(&many, "{}")).status, 431);
    let long = format!("X-Long: {}\r\n", "y".repeat(200 << 10));
    assert_eq!(server.exchange(&server.post(&long, "{}")).status, 431);
    assert!(server.resident_mb() < 256, "{} MB", server.resident_mb());
    server.call("status", json!({}));
}

#[test]
fn who_sends_half_a_request_is_not_waited_for_for_ever() {
    let house = House::new();
    let server = Server::start(&house);
    let mut slow = server.connect();
    slow.write_all(b"POST /mcp HTTP/1.1\r\nHost: ").unwrap();
    let mut response = Vec::new();
    let asked = std::time::Instant::now();
    drop(slow.read_to_end(&mut response));
    assert!(asked.elapsed() < PATIENCE, "the connection was still open");
    server.call("status", json!({}));
}

#[test]
fn asked_to_leave_it_finishes_what_is_under_way_and_starts_nothing_more() {
    let house = House::new();
    let mut server = Server::start(&house);
    let plan = steps(&[hold("wait"), write("after", "after.txt")]);
    let started = server.call("execute_plan", json!({ "plan": plan }));
    let id = started["structuredContent"]["id"].as_str().unwrap().to_owned();
    let journal = house.journal();
    journal.until("attempt_started", Some("wait"));
    while !house.path("holding").exists() {
        std::thread::yield_now();
    }
    let pid = rustix::process::Pid::from_raw(server.child.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    // A server that is shutting down accepts no connections.
    while std::net::TcpStream::connect(&server.at).is_ok() {
        std::thread::yield_now();
    }
    house.release();
    journal.until("attempt_ended", Some("wait"));
    assert_eq!(server.ended(), Some(0));
    let view = house.json(&["show", &id]);
    assert_eq!(view["steps"][0]["status"], "succeeded", "the call in flight was recorded");
    assert!(!house.path("work/after.txt").exists(), "nothing further was started");
    // The next process continues the execution.
    let next = Server::start(&house);
    let ended = next.call("status", json!({ "execution_id": id, "wait_s": 60 }));
    assert_eq!(ended["structuredContent"]["status"], "succeeded", "{ended}");
}
