//! Clients that hold connections and send endless bodies: memory stays bounded, and other requests are
//! served.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;

use serde_json::json;

use super::serve_process::{ServeProcess, peak_mb};
use crate::cli::Sandbox;
use crate::waiting::TEST_TIMEOUT;

/// Limit of the process's memory while it is sent bodies of 800 MB in total.
const PEAK_MB_MAX: u64 = 250;
const BODY_BYTES: usize = 8 << 20;
const CLIENTS: usize = 100;
/// The number of such bodies that fit into the total.
const READ_AT_ONCE: usize = 4;

/// Reads status and headers of a response; empty if none arrives.
fn read_head(stream: &TcpStream) -> String {
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

#[test]
fn unfinished_bodies_stay_within_the_total_memory_limit() {
    let sandbox = Sandbox::new();
    let server = ServeProcess::start(&sandbox);
    let head_of_request = server.post_bytes("", "");
    let head_of_request = String::from_utf8(head_of_request).unwrap();
    let announced = head_of_request.replace("Content-Length: 0", &format!("Content-Length: {BODY_BYTES}"));
    let streams: Vec<TcpStream> = (0..CLIENTS).map(|_| server.connect()).collect();
    // One body shared by all clients keeps the test's own memory small.
    let body = vec![b' '; BODY_BYTES - 1];
    std::thread::scope(|scope| {
        let (sender, answers) = channel();
        for stream in &streams {
            let (sender, announced, body) = (sender.clone(), &announced, &body);
            scope.spawn(move || {
                let mut writing = stream;
                // The server may close the connection of a refused client while that client still sends.
                let sent = writing.write_all(announced.as_bytes());
                drop(sent.and_then(|()| writing.write_all(body)));
                drop(sender.send(read_head(stream)));
            });
        }
        for _ in 0..CLIENTS - READ_AT_ONCE {
            let answer = answers.recv_timeout(TEST_TIMEOUT).expect("the others are refused");
            assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
            assert!(answer.to_ascii_lowercase().contains("retry-after: 1"), "{answer}");
        }
        // Ordinary requests are served meanwhile.
        server.call("status", json!({}));
        let peak = peak_mb(server.child.id());
        assert!(peak < PEAK_MB_MAX, "{peak} MB");
        streams.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    });
}

#[test]
fn small_body_of_very_many_values_is_refused() {
    const OBJECTS: usize = 300_000;
    let sandbox = Sandbox::new();
    let server = ServeProcess::start(&sandbox);
    let object = r#"{"":0},"#;
    for body in [
        format!("[{}0]", object.repeat(OBJECTS)),
        format!(r#"{{"plan":"[{}0]"}}"#, object.replace('"', r#"\""#).repeat(OBJECTS)),
        format!("text={}", "%7B%22%22%3a0%7D%2C".repeat(OBJECTS)),
    ] {
        let reply = server.exchange(&server.post_bytes("", &body));
        assert_eq!(reply.status, 413, "{reply:?}");
        assert!(reply.body.contains("too many values"), "{reply:?}");
    }
    let peak = peak_mb(server.child.id());
    assert!(peak < PEAK_MB_MAX, "{peak} MB");
}

/// `serve` in a process with a limit of open files.
fn serve_with_descriptors(sandbox: &Sandbox, descriptors: usize) -> ServeProcess {
    let plain = sandbox.command(&["serve", "--listen", "127.0.0.1:0", "--without-tokens", "--json"]);
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!("ulimit -n {descriptors}; exec \"$@\""), "sh"]);
    limited.arg(plain.get_program()).args(plain.get_args()).current_dir(sandbox.folder.path());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    ServeProcess::from_child(limited.spawn().unwrap())
}

/// Opens a subscription stream; returns it with the head of its response.
fn open_stream(server: &ServeProcess) -> (TcpStream, String) {
    let wanted = json!({ "notifications": { "resourceSubscriptions": ["actbook://guide"] } });
    let mut stream = server.connect();
    stream.write_all(&server.request_bytes("subscriptions/listen", wanted)).unwrap();
    let head = read_head(&stream);
    (stream, head)
}

#[test]
fn health_routes_answer_while_streams_hold_every_connection() {
    const DESCRIPTORS: usize = 320;
    let sandbox = Sandbox::new();
    let server = serve_with_descriptors(&sandbox, DESCRIPTORS);
    let mut open = Vec::new();
    let refused = loop {
        let (stream, head) = open_stream(&server);
        if !head.starts_with("HTTP/1.1 200") {
            break head;
        }
        open.push(stream);
        assert!(open.len() < DESCRIPTORS, "no connection limit was reached");
    };
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    for path in ["/healthz", "/readyz"] {
        let asked = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", server.address);
        let reply = server.exchange(asked.as_bytes());
        assert_eq!((reply.status, reply.body.trim()), (200, "ok"), "{path}: {reply:?}");
    }
    drop(open);
    // Connection slots are released when the server notices that the connections are closed.
    let started = std::time::Instant::now();
    while !open_stream(&server).1.starts_with("HTTP/1.1 200") {
        assert!(started.elapsed() < TEST_TIMEOUT, "no connection slot is released");
    }
}
