//! An `actbook serve` process and HTTP requests to it.

use std::io::{BufRead, BufReader, Read, Write};

use serde_json::Value;

use crate::cli::Sandbox;
use crate::mcp::serve_process::{ServeProcess, decode_chunked};

/// A running server that needs credentials, and an admin's token.
pub struct WebServer {
    pub process: ServeProcess,
    pub token: String,
}

/// A parsed HTTP response.
#[derive(Clone, Debug)]
pub struct WebReply {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

/// Asserts the status of a response; its body.
#[track_caller]
pub fn expect(status: u16, reply: &WebReply) -> Value {
    assert_eq!(reply.status, status, "{reply:?}");
    reply.json()
}

impl WebReply {
    /// The first header of this name; empty if there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(given, _)| given == name).map_or("", |(_, value)| value)
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The `name=value` of the cookie that the response sets.
    pub fn cookie(&self) -> String {
        self.header("set-cookie").split(';').next().unwrap().to_owned()
    }
}

impl WebServer {
    pub fn start(sandbox: &Sandbox) -> Self {
        Self::start_with(sandbox, &[])
    }

    pub fn start_with(sandbox: &Sandbox, words: &[&str]) -> Self {
        let words = [&["serve", "--listen", "127.0.0.1:0", "--json"], words].concat();
        let process = ServeProcess::start_with(sandbox, &words);
        Self { process, token: new_token(sandbox, "admin", "tester") }
    }

    /// Sends a request with exactly these headers besides Host, and reads the whole response.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> WebReply {
        let host = &self.process.address;
        self.send_to_host(host, method, path, headers, body)
    }

    /// Like `send`, with this Host header.
    pub fn send_to_host(
        &self,
        host: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> WebReply {
        let mut stream = self.process.connect();
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        parse_reply(&bytes)
    }

    /// A GET with the admin's token.
    pub fn get(&self, path: &str) -> WebReply {
        self.get_as(&self.token, path)
    }

    pub fn get_as(&self, token: &str, path: &str) -> WebReply {
        self.send("GET", path, &[("Authorization", &format!("Bearer {token}"))], "")
    }

    /// A request with a JSON body and the admin's token.
    pub fn post(&self, path: &str, body: &Value) -> WebReply {
        self.post_as(&self.token, path, body)
    }

    pub fn post_as(&self, token: &str, path: &str, body: &Value) -> WebReply {
        self.send_json_as(token, "POST", path, body)
    }

    pub fn send_json_as(&self, token: &str, method: &str, path: &str, body: &Value) -> WebReply {
        let token = format!("Bearer {token}");
        let headers = [("Authorization", token.as_str()), ("Content-Type", "application/json")];
        self.send(method, path, &headers, &body.to_string())
    }

    /// The first event of a stream of pages, opened with this token.
    pub fn first_part(&self, token: &str, path: &str) -> String {
        let mut stream = self.process.connect();
        let host = &self.process.address;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n")
            .unwrap();
        let lines = BufReader::new(stream).lines().map(Result::unwrap);
        let event = lines.skip_while(|line| !line.starts_with("data:")).take_while(|line| !line.is_empty());
        event.collect::<Vec<_>>().join("\n")
    }

    /// Signs in with the one-time URL that the process printed; the session's cookie as `name=value`.
    pub fn sign_in(&self) -> String {
        let reply = self.send("GET", &self.login_path(), &[], "");
        assert_eq!(reply.status, 303, "{reply:?}");
        reply.cookie()
    }

    /// Path and query of the one-time URL that the process printed.
    pub fn login_path(&self) -> String {
        path_of(self.process.ready["login_url"].as_str().unwrap())
    }
}

/// Path and query of a URL.
pub fn path_of(url: &str) -> String {
    let (_, rest) = url.split_once("://").unwrap();
    rest[rest.find('/').unwrap()..].to_owned()
}

/// A new token with this role and name.
pub fn new_token(sandbox: &Sandbox, role: &str, name: &str) -> String {
    sandbox.expect(0, &["token", "create", "--role", role, "--name", name]).trim().to_owned()
}

fn parse_reply(bytes: &[u8]) -> WebReply {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let is_chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let body = if is_chunked { decode_chunked(body) } else { body.to_owned() };
    WebReply { status: status.unwrap_or(0), headers, body }
}
