//! Many clients use the same request ids at the same time; each gets its own answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::serve_process::ServeProcess;
use crate::cli::Sandbox;
use crate::counts::times;
use crate::waiting::TEST_TIMEOUT;

const CLIENTS: usize = 200;
const CALLS: usize = 20_000;

/// A client of the legacy protocol with its own session, on a persistent connection.
struct SessionClient {
    stream: BufReader<TcpStream>,
    address: String,
    session: Option<String>,
}

impl SessionClient {
    fn new(server: &ServeProcess, name: &str) -> Self {
        let stream = server.connect();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut caller =
            Self { stream: BufReader::new(stream), address: server.address.clone(), session: None };
        let client = json!({ "name": name, "version": "1" });
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        caller.post(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello }));
        caller.post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        caller
    }

    fn post(&mut self, message: &Value) -> String {
        let body = message.to_string();
        let session = self.session.as_ref().map(|id| format!("Mcp-Session-Id: {id}\r\n")).unwrap_or_default();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n{session}\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        self.stream.get_mut().write_all(format!("{head}{body}").as_bytes()).unwrap();
        self.read_response()
    }

    fn read_line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn read_response(&mut self) -> String {
        let (mut length, mut chunked) = (0, false);
        assert!(self.read_line().contains(" 20"), "the status is not 2xx");
        loop {
            let line = self.read_line();
            let Some((name, value)) = line.split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().unwrap(),
                "transfer-encoding" => chunked = true,
                "mcp-session-id" => self.session = Some(value.to_owned()),
                _ => {}
            }
        }
        let mut whole = Vec::new();
        loop {
            let size = if chunked { usize::from_str_radix(&self.read_line(), 16).unwrap() } else { length };
            let mut part = vec![0; size];
            self.stream.read_exact(&mut part).unwrap();
            whole.extend(part);
            if chunked {
                self.read_line();
            }
            if !chunked || size == 0 {
                return String::from_utf8(whole).unwrap();
            }
        }
    }
}

#[test]
fn concurrent_clients_with_equal_ids_get_their_own_answers() {
    let sandbox = Sandbox::new();
    let server = ServeProcess::start(&sandbox);
    let each = times("ACTBOOK_ECHOES", CALLS) / CLIENTS;
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let server = &server;
            scope.spawn(move || {
                let mut caller = SessionClient::new(server, &format!("client-{client}"));
                for call in 1..=each {
                    // The refusal repeats the id that was asked for, so every answer shows whom it belongs
                    // to.
                    let word = format!("nobody-{client}-{call}");
                    let params = json!({ "name": "status", "arguments": { "execution_id": word } });
                    let body = caller.post(
                        &json!({ "jsonrpc": "2.0", "id": call, "method": "tools/call", "params": params }),
                    );
                    let last = body.lines().filter_map(|line| line.strip_prefix("data: ")).next_back();
                    let message: Value = serde_json::from_str(last.unwrap_or(&body)).unwrap();
                    assert_eq!(message["id"], call, "{message}");
                    let text = message["result"]["content"][0]["text"].as_str().unwrap();
                    assert!(text.contains(&format!("`{word}`")), "{client} was answered: {text}");
                }
            });
        }
    });
}
