//! A real HTTP server on loopback that answers calls with one configured behaviour and records every request.
//! It also acts as an MCP server up to `tools/call`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::*;
use crate::waiting::pause;

/// How the server answers. In texts, `{id}` is replaced by the request's id and `{result}` by a valid answer.
#[derive(Clone, Debug)]
pub enum ServerBehaviour {
    /// A well-formed response with the right length.
    Page {
        status: &'static str,
        headers: &'static str,
        body: &'static str,
    },
    /// This text, then the connection is closed.
    Raw(&'static str),
    RawThenReset(&'static str),
    RawThenHang(&'static str),
    /// This text, once the test opens the gate; then the connection is closed.
    GatedRaw(Arc<tokio::sync::Notify>, &'static str),
    /// This text, a byte at a time.
    Drip(&'static str),
    /// The head, then the second text repeated until the client stops reading.
    Endless(&'static str, &'static str),
    /// Reads at least so many bytes of the request, then resets the connection.
    ResetAfter(usize),
}

pub fn page(status: &'static str, headers: &'static str, body: &'static str) -> ServerBehaviour {
    ServerBehaviour::Page { status, headers, body }
}

/// One request that the server received.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    pub method: String,
    pub path: String,
    pub headers: String,
    pub body: Value,
}

impl ReceivedRequest {
    pub fn header(&self, name: &str) -> Option<String> {
        let line =
            |line: &str| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
        let found = self.headers.lines().filter_map(line).find(|(given, _)| given.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value)
    }

    fn rpc_method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }
}

pub struct HostileServer {
    pub port: u16,
    handler: Arc<ConnectionHandler>,
    serving: JoinHandle<()>,
}

impl Drop for HostileServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl HostileServer {
    /// Starts a server whose behaviour depends on the request.
    pub async fn start(does: impl Fn(&ReceivedRequest) -> ServerBehaviour + Send + Sync + 'static) -> Self {
        Self::serve(Box::new(does), None).await
    }

    pub async fn with_behaviour(does: ServerBehaviour) -> Self {
        let resets = match does {
            ServerBehaviour::ResetAfter(bytes) => Some(bytes),
            _ => None,
        };
        Self::serve(Box::new(move |_| does.clone()), resets).await
    }

    async fn serve(
        does: Box<dyn Fn(&ReceivedRequest) -> ServerBehaviour + Send + Sync>,
        resets: Option<usize>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let actor = Arc::new(ConnectionHandler {
            behaviour: does,
            reset_after_bytes: resets,
            ..ConnectionHandler::default()
        });
        let serving = tokio::spawn({
            let actor = actor.clone();
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let actor = actor.clone();
                    tokio::spawn(async move { actor.serve(stream).await });
                }
            }
        });
        Self { port, handler: actor, serving }
    }

    /// Enables `ResetAfter`: from now on connections are reset.
    pub fn arm(&self) {
        self.handler.armed.store(true, Ordering::SeqCst);
    }

    /// How many connections were reset.
    pub fn resets(&self) -> u64 {
        self.handler.reset_count.load(Ordering::SeqCst)
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The requests that were calls: without an MCP client's handshake and session requests.
    pub fn calls(&self) -> Vec<ReceivedRequest> {
        let seen = self.handler.requests.lock().unwrap();
        let of_mcp = |seen: &ReceivedRequest| seen.header("mcp-protocol-version").is_some();
        let is_call = |seen: &&ReceivedRequest| match seen.rpc_method() {
            "" => !of_mcp(seen),
            method => method == "tools/call",
        };
        seen.iter().filter(is_call).cloned().collect()
    }

    /// Bytes that endless answers wrote before the client stopped reading.
    pub fn bytes_written(&self) -> u64 {
        self.handler.bytes_written.load(Ordering::SeqCst)
    }

    /// Waits until this process has no socket to the server; false on time-out.
    pub async fn wait_for_disconnect(&self) -> bool {
        let started = Instant::now();
        while open_sockets_to(self.port) > 0 {
            if started.elapsed() > TIMEOUT {
                return false;
            }
            pause().await;
        }
        true
    }
}

/// Counts this process's TCP connections to this loopback port.
fn open_sockets_to(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let remote = format!("0100007F:{port:04X}");
    let rows = table.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let inodes: Vec<String> = rows
        .filter(|row| row.get(2) == Some(&remote.as_str()))
        .map(|row| format!("socket:[{}]", row[9]))
        .collect();
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let links = descriptors.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.filter(|link| inodes.iter().any(|inode| link.to_str() == Some(inode))).count()
}

/// Serves the connections and records their requests.
struct ConnectionHandler {
    behaviour: Box<dyn Fn(&ReceivedRequest) -> ServerBehaviour + Send + Sync>,
    reset_after_bytes: Option<usize>,
    armed: AtomicBool,
    reset_count: AtomicU64,
    requests: Mutex<Vec<ReceivedRequest>>,
    bytes_written: AtomicU64,
}

impl Default for ConnectionHandler {
    fn default() -> Self {
        Self {
            behaviour: Box::new(|_| page("200 OK", "", "")),
            reset_after_bytes: None,
            armed: AtomicBool::default(),
            reset_count: AtomicU64::default(),
            requests: Mutex::default(),
            bytes_written: AtomicU64::default(),
        }
    }
}

const RESULT: &str = r#"{"jsonrpc":"2.0","id":{id},"result":{"content":[{"type":"text","text":"yes"}],"structuredContent":{"said":"yes"}}}"#;

impl ConnectionHandler {
    async fn serve(&self, mut stream: TcpStream) {
        if let Some(bytes) = self.reset_after_bytes.filter(|_| self.armed.load(Ordering::SeqCst)) {
            let mut read = 0;
            while read < bytes {
                read += stream.read(&mut [0; 16]).await.unwrap_or(bytes);
            }
            self.reset_count.fetch_add(1, Ordering::SeqCst);
            return stream.set_zero_linger().unwrap();
        }
        while let Some(seen) = self.read_request(&mut stream).await {
            let does = match seen.rpc_method() {
                "" | "tools/call" => (self.behaviour)(&seen),
                _ => mcp_reply(&seen),
            };
            self.requests.lock().unwrap().push(seen.clone());
            if !self.respond(&mut stream, does, &seen).await {
                return;
            }
        }
    }

    async fn read_request(&self, stream: &mut TcpStream) -> Option<ReceivedRequest> {
        let mut text = Vec::new();
        loop {
            if let Some(seen) = parse_request(&text) {
                return Some(seen);
            }
            let mut chunk = [0; 4096];
            match stream.read(&mut chunk).await {
                Ok(count @ 1..) => text.extend_from_slice(&chunk[..count]),
                Ok(_) | Err(_) => return None,
            }
        }
    }

    /// Sends the response; returns whether the connection stays open.
    async fn respond(&self, stream: &mut TcpStream, does: ServerBehaviour, seen: &ReceivedRequest) -> bool {
        let id = seen.body["id"].to_string();
        let fill = |text: &str| text.replace("{result}", RESULT).replace("{id}", &id);
        let (text, then) = match &does {
            ServerBehaviour::Page { status, headers, body } => {
                let body = fill(body);
                let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
                (head + &body, "go on")
            }
            ServerBehaviour::Raw(text) => (fill(text), "close"),
            ServerBehaviour::GatedRaw(gate, text) => {
                gate.notified().await;
                (fill(text), "close")
            }
            ServerBehaviour::RawThenReset(text) => (fill(text), "reset"),
            ServerBehaviour::RawThenHang(text) | ServerBehaviour::Endless(text, _) => (fill(text), "hang"),
            ServerBehaviour::Drip(text) => return drip(stream, &fill(text)).await,
            ServerBehaviour::ResetAfter(_) => (String::new(), "reset"),
        };
        if stream.write_all(text.as_bytes()).await.is_err() {
            return false;
        }
        if let ServerBehaviour::Endless(_, chunk) = does {
            let chunk = chunk.repeat(1024);
            while stream.write_all(chunk.as_bytes()).await.is_ok() {
                self.bytes_written.fetch_add(chunk.len() as u64, Ordering::SeqCst);
            }
        }
        match then {
            "reset" => stream.set_zero_linger().unwrap(),
            "hang" => while stream.read(&mut [0; 1024]).await.is_ok_and(|count| count > 0) {},
            _ => {}
        }
        then == "go on"
    }
}

async fn drip(stream: &mut TcpStream, text: &str) -> bool {
    let mut tick = tokio::time::interval(Duration::from_millis(20));
    for byte in text.bytes() {
        tick.tick().await;
        if stream.write_all(&[byte]).await.is_err() {
            return false;
        }
    }
    true
}

/// Parses a complete request; `None` if bytes are missing.
fn parse_request(bytes: &[u8]) -> Option<ReceivedRequest> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let (first, headers) = head.split_once("\r\n")?;
    let mut words = first.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut seen = ReceivedRequest { method, path, headers: headers.to_owned(), body: Value::Null };
    let length = seen.header("content-length").map_or(0, |length| length.parse().unwrap());
    if body.len() < length {
        return None;
    }
    seen.body = serde_json::from_str(&body[..length]).unwrap_or_else(|_| json!(body[..length]));
    Some(seen)
}

/// The path at which it acts as a server of the newer protocol.
pub const NEWER_PATH: &str = "/newer";

/// Replies of an MCP server up to the call: of the older protocol with a session, of the newer one at
/// `NEWER_PATH`.
fn mcp_reply(seen: &ReceivedRequest) -> ServerBehaviour {
    const JSON: &str = "Content-Type: application/json\r\nMcp-Session-Id: s\r\nConnection: close\r\n";
    match seen.rpc_method() {
        "server/discover" if seen.path == NEWER_PATH => page(
            "200 OK",
            "Content-Type: application/json\r\nConnection: close\r\n",
            r#"{"jsonrpc":"2.0","id":{id},"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}}"#,
        ),
        "initialize" => page(
            "200 OK",
            JSON,
            r#"{"jsonrpc":"2.0","id":{id},"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"zoo","version":"1"}}}"#,
        ),
        "tools/list" => page(
            "200 OK",
            JSON,
            r#"{"jsonrpc":"2.0","id":{id},"result":{"tools":[{"name":"any","inputSchema":{"type":"object"}}]}}"#,
        ),
        "server/discover" => page("400 Bad Request", "Connection: close\r\n", "what?"),
        _ => page("202 Accepted", "Connection: close\r\n", ""),
    }
}
