//! Many connections at once: what is idle or slow costs a bounded amount of memory and keeps nobody else waiting.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;

use super::live::{start_agent_steps, succeed};
use super::open_stream::OpenStream;
use super::server::WebServer;
use crate::cli::Sandbox;
use crate::mcp::serve_process::peak_mb;

/// A connection on which one request was answered and that is kept open.
fn idle_connection(server: &WebServer) -> TcpStream {
    let mut stream = server.process.connect();
    let host = &server.process.address;
    write!(stream, "GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    stream
}

#[test]
fn idle_and_live_connections_take_little_memory_and_give_it_back() {
    const IDLE: usize = 500;
    const LIVE: usize = 200;
    const ROUNDS: usize = 3;
    const GROWTH_MB_MAX: u64 = 30;
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let id = start_agent_steps(&server, ROUNDS);
    let _idle: Vec<TcpStream> = (0..IDLE).map(|_| idle_connection(&server)).collect();
    let credential = format!("Authorization: Bearer {}\r\n", server.token);
    let path = format!("/executions/{id}/live?view=steps");
    let mut first_mb = None;
    for round in 0..ROUNDS {
        let mut live: Vec<OpenStream> =
            (0..LIVE).map(|_| OpenStream::get(&server, &path, &credential)).collect();
        let output = format!("output-of-round-{round}");
        succeed(&server, &id, &format!("s{round}"), &output);
        live.iter_mut().for_each(|stream| stream.wait_for(&output));
        assert_eq!(server.get("/readyz").status, 200);
        let resident = server.process.resident_mb();
        let first = *first_mb.get_or_insert(resident);
        assert!(resident <= first + GROWTH_MB_MAX, "{first} MB in the first round, then {resident} MB");
    }
}

#[test]
fn clients_that_read_nothing_do_not_grow_the_servers_memory() {
    const CLIENTS: usize = 40;
    const PAUSES: usize = 1_000;
    /// Each pause makes an entry of this size: more than the connections' buffers hold in all.
    const REASON_BYTES: usize = 8_000;
    const GROWTH_MB_MAX: u64 = 100;
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let id = start_agent_steps(&server, 1);
    let credential = format!("Authorization: Bearer {}\r\n", server.token);
    let path = format!("/executions/{id}/live?view=journal");
    let mut events: Vec<OpenStream> =
        (0..CLIENTS).map(|_| OpenStream::open(&server, &server.token, "?after=0", "")).collect();
    let mut pages: Vec<OpenStream> =
        (0..CLIENTS).map(|_| OpenStream::get(&server, &path, &credential)).collect();
    let before = server.process.resident_mb();
    let reason = "x".repeat(REASON_BYTES);
    let command = |action: &str, body: &serde_json::Value| {
        let reply = server.post(&format!("/api/v1/executions/{id}/{action}"), body);
        assert_eq!(reply.status, 200, "{reply:?}");
    };
    for _ in 0..PAUSES {
        command("pause", &json!({ "reason": reason }));
        command("resume", &json!({}));
    }
    let after = server.process.resident_mb();
    assert!(after <= before + GROWTH_MB_MAX, "{before} MB, then {after} MB");
    // They have lost nothing: the streams of entries have them all, the pages show the newest state.
    let head = server.get("/api/v1/journal/head").json()["position"].as_u64().unwrap();
    let slow = &mut events[0];
    for expected in 1..=head {
        assert_eq!(slow.next().0, expected);
    }
    succeed(&server, &id, "s0", "the end");
    pages[0].wait_for("succeeded");
}

#[test]
fn export_of_large_values_takes_little_memory() {
    const STEPS: usize = 40;
    const MIB: usize = 1024 * 1024;
    /// The lines of the file have more than twice as many, with their quotation marks escaped.
    const GROWTH_MB_MAX: u64 = 40;
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.path("work")).unwrap();
    sandbox.write("work/long.txt", &"\"".repeat(MIB / 4));
    let step = |no: usize| json!({ "id": format!("s{no}"), "tool": "files/read_file", "arguments": { "path": "long.txt" } });
    let steps: Vec<_> = (0..STEPS).map(step).collect();
    sandbox.write("long.json", &json!({ "name": "long", "steps": steps }).to_string());
    sandbox.expect(0, &["run", "long.json"]);
    let server = WebServer::start(&sandbox);
    let id = sandbox.newest();
    let (file, before) = (format!("/api/v1/executions/{id}/export"), peak_mb(server.process.child.id()));
    let whole = server.get(&file);
    assert!(whole.body.len() > STEPS * MIB, "{} bytes", whole.body.len());
    sandbox.write("long.actbook", &whole.body);
    sandbox.expect(0, &["verify", "long.actbook"]);
    let token = format!("Bearer {}", server.token);
    let headers =
        [("Authorization", token.as_str()), ("Range", "bytes=1000-1999"), ("If-Range", whole.header("etag"))];
    let part = server.send("GET", &file, &headers, "");
    assert_eq!(
        part.header("content-range"),
        format!("bytes 1000-1999/{}", whole.body.len()),
        "{}",
        part.status
    );
    assert_eq!(part.body, whole.body[1_000..2_000]);
    let after = peak_mb(server.process.child.id());
    assert!(after <= before + GROWTH_MB_MAX, "{before} MB, then {after} MB");
}
