//! An `actbook serve` process in a sandbox, and modern MCP requests to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Child;

use serde_json::{Value, json};

use super::agent::request_meta;
use crate::cli::Sandbox;
use crate::waiting::{TEST_TIMEOUT, wait_for};

/// A running `actbook serve`, killed on drop.
pub struct ServeProcess {
    pub child: Child,
    /// `host:port`.
    pub address: String,
    /// What the process printed when it was ready.
    pub ready: Value,
}

impl Drop for ServeProcess {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A parsed HTTP response.
#[derive(Clone, Debug)]
pub struct HttpReply {
    pub status: u16,
    pub body: String,
}

impl HttpReply {
    /// The last JSON-RPC message, from a plain body or from an event stream; null if there is none.
    pub fn message(&self) -> Value {
        let mut events = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        let last = events.rfind(|data| !data.trim().is_empty()).unwrap_or(&self.body);
        serde_json::from_str(last).unwrap_or(Value::Null)
    }

    /// The JSON-RPC error code; 0 if the message is no error.
    pub fn error_code(&self) -> i64 {
        self.message()["error"]["code"].as_i64().unwrap_or(0)
    }
}

impl ServeProcess {
    /// A server whose `/mcp` needs no token: the agents of these tests are told apart by their client's name.
    pub fn start(sandbox: &Sandbox) -> Self {
        Self::start_with(sandbox, &["serve", "--listen", "127.0.0.1:0", "--without-tokens", "--json"])
    }

    pub fn start_with(sandbox: &Sandbox, words: &[&str]) -> Self {
        Self::from_child(sandbox.start(words))
    }

    /// Reads the process's stdout up to the line that names the address that it listens on.
    pub fn from_child(mut child: Child) -> Self {
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut documents = lines.map(|line| {
            serde_json::from_str::<Value>(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
        });
        let ready = documents.find(|document| document["listen"].is_string()).expect("it listens");
        let address = ready["listen"].as_str().unwrap().to_owned();
        Self { child, address, ready }
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream
    }

    /// The bytes of one modern request, to be sent on its own connection.
    pub fn request_bytes(&self, method: &str, params: Value) -> Vec<u8> {
        self.request_bytes_as("scripted", json!({}), method, params)
    }

    pub fn request_bytes_as(
        &self,
        client: &str,
        capabilities: Value,
        method: &str,
        mut params: Value,
    ) -> Vec<u8> {
        let mut whole = request_meta(client, capabilities);
        if let Some(own) = params["_meta"].as_object() {
            whole.as_object_mut().unwrap().extend(own.clone());
        }
        params["_meta"] = whole;
        let name = ["name", "uri", "taskId"].iter().find_map(|field| params[*field].as_str());
        let name = name.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let headers = format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{name}");
        self.post_bytes(&headers, &body)
    }

    pub fn post_bytes(&self, headers: &str, body: &str) -> Vec<u8> {
        let (at, length) = (&self.address, body.len());
        format!(
            "POST /mcp HTTP/1.1\r\nHost: {at}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {length}\r\n{headers}\
             Connection: close\r\n\r\n{body}"
        )
        .into_bytes()
    }

    /// Sends bytes and reads until the server closes the connection.
    pub fn exchange(&self, bytes: &[u8]) -> HttpReply {
        let mut stream = self.connect();
        // The server may close the connection early while the request is still being written.
        drop(stream.write_all(bytes));
        let mut response = Vec::new();
        drop(stream.read_to_end(&mut response));
        parse_reply(&response)
    }

    #[track_caller]
    pub fn call(&self, tool: &str, arguments: Value) -> Value {
        let reply =
            self.exchange(&self.request_bytes("tools/call", json!({ "name": tool, "arguments": arguments })));
        let message = reply.message();
        assert!(message["result"].is_object(), "{tool}: {reply:?}");
        message["result"].clone()
    }

    pub fn resident_mb(&self) -> u64 {
        resident_mb(self.child.id())
    }

    /// Waits until the process, which was asked to stop, has exited; returns its exit code.
    pub fn wait_for_exit(&mut self) -> Option<i32> {
        wait_for("the process to exit", || self.child.try_wait().unwrap()).code()
    }
}

pub fn resident_mb(pid: u32) -> u64 {
    memory_mb(pid, "VmRSS:")
}

/// The peak memory of a process.
pub fn peak_mb(pid: u32) -> u64 {
    memory_mb(pid, "VmHWM:")
}

fn memory_mb(pid: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() / 1024
}

fn parse_reply(bytes: &[u8]) -> HttpReply {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if is_chunked { decode_chunked(body) } else { body.to_owned() };
    HttpReply { status, body }
}

pub fn decode_chunked(body: &str) -> String {
    let mut whole = String::new();
    let mut rest = body;
    while let Some((size, after)) = rest.split_once("\r\n") {
        let Ok(size) = usize::from_str_radix(size.trim(), 16) else { break };
        if size == 0 || after.len() < size {
            whole.push_str(&after[..size.min(after.len())]);
            break;
        }
        whole.push_str(&after[..size]);
        rest = after[size..].trim_start_matches("\r\n");
    }
    whole
}
