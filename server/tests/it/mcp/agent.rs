//! An MCP client over stdio that knows the protocol and nothing of Actbook.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use serde_json::{Value, json};

use crate::cli::Sandbox;
use crate::waiting::TEST_TIMEOUT;

/// The result of one tool call.
#[derive(Clone, Debug)]
pub struct ToolAnswer {
    pub text: String,
    pub content: Value,
    pub is_error: bool,
    pub full_result: Value,
}

impl ToolAnswer {
    /// The rest of the first line of the text that starts with `begins`.
    #[track_caller]
    pub fn text_after(&self, begins: &str) -> &str {
        let line = self.text.lines().find_map(|line| line.strip_prefix(begins));
        line.unwrap_or_else(|| panic!("no line begins with {begins:?}:\n{}", self.text))
    }

    /// The first call that a `Next:` line of the text suggests: tool and arguments.
    #[track_caller]
    pub fn next_call(&self) -> (String, Value) {
        self.text
            .lines()
            .filter_map(|line| line.strip_prefix("Next: "))
            .find_map(parse_call)
            .unwrap_or_else(|| panic!("no call follows:\n{}", self.text))
    }

    pub fn id(&self) -> &str {
        self.content["id"].as_str().unwrap()
    }
}

/// The first `tool {…}` in a line, as a reader would copy it; `None` if there is no such call.
pub fn parse_call(line: &str) -> Option<(String, Value)> {
    let at = line.find('{')?;
    let tool = line[..at].trim_end().rsplit(' ').next()?.to_owned();
    let arguments = serde_json::Deserializer::from_str(&line[at..]).into_iter::<Value>().next()?.ok()?;
    Some((tool, arguments))
}

/// Answers a request of the server, given its method and params, with a result.
type ReplyHandler = Box<dyn FnMut(&str, &Value) -> Value>;

/// An MCP client and the server process that it talks to.
pub struct Agent {
    pub child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    last_request_id: u64,
    /// The `_meta` of every request; only the modern protocol has one.
    meta: Option<Value>,
    pub schemas: BTreeMap<String, jsonschema::Validator>,
    pub notifications: Vec<Value>,
    replies: ReplyHandler,
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.stdin.take());
        if self.child.try_wait().unwrap().is_none() {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
    }
}

impl Agent {
    /// Starts the command and opens a session of the legacy protocol.
    pub fn legacy(sandbox: &Sandbox, words: &[&str], version: &str, capabilities: Value) -> Self {
        let mut agent = Self::start(sandbox, words);
        agent.initialize(version, capabilities);
        agent
    }

    /// Opens a session of the legacy protocol.
    pub fn initialize(&mut self, version: &str, capabilities: Value) {
        let client = json!({ "name": "scripted", "version": "1" });
        let params =
            json!({ "protocolVersion": version, "capabilities": capabilities, "clientInfo": client });
        let result = self.request("initialize", params).unwrap();
        assert_eq!(result["protocolVersion"], version);
        assert_eq!(result["serverInfo"], json!({ "name": "actbook", "version": env!("CARGO_PKG_VERSION") }));
        self.notify("notifications/initialized", json!({}));
        self.load_output_schemas();
    }

    /// Starts the command and talks the modern protocol, which has no session.
    pub fn modern(sandbox: &Sandbox, words: &[&str], capabilities: Value) -> Self {
        let mut agent = Self::start(sandbox, words);
        agent.meta = Some(request_meta("scripted", capabilities));
        let result = agent.request("server/discover", json!({})).unwrap();
        assert!(result["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")));
        agent.load_output_schemas();
        agent
    }

    /// `actbook mcp` with a legacy session and no client capabilities.
    pub fn new(sandbox: &Sandbox) -> Self {
        Self::legacy(sandbox, &["mcp"], "2025-11-25", json!({}))
    }

    /// Starts the command without sending anything.
    pub fn start(sandbox: &Sandbox, words: &[&str]) -> Self {
        Self::launch(sandbox.command(words))
    }

    /// Spawns a command that serves MCP over stdio, without sending anything.
    pub fn launch(mut command: std::process::Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // Only protocol messages may appear on stdout.
                let message = serde_json::from_str(&line).unwrap_or_else(|_| json!({ "stray": line }));
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            stdin,
            lines,
            last_request_id: 0,
            meta: None,
            schemas: BTreeMap::new(),
            notifications: Vec::new(),
            replies: Box::new(|method, _| panic!("the server asks for {method}")),
        }
    }

    /// Sets the handler of the server's requests.
    pub fn with_replies(mut self, replies: impl FnMut(&str, &Value) -> Value + 'static) -> Self {
        self.replies = Box::new(replies);
        self
    }

    /// Compiles the output schema of every listed tool.
    fn load_output_schemas(&mut self) {
        let listed = self.request("tools/list", json!({})).unwrap();
        for tool in listed["tools"].as_array().unwrap() {
            // Tools of other servers need none.
            let Some(schema) = tool.get("outputSchema") else { continue };
            let validator = jsonschema::validator_for(schema).unwrap();
            self.schemas.insert(tool["name"].as_str().unwrap().to_owned(), validator);
        }
    }

    pub fn send(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{message}\n").as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    pub fn send_line(&mut self, line: &str) {
        self.send_bytes(line.as_bytes());
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(&[bytes, b"\n"].concat()).unwrap();
        stdin.flush().unwrap();
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Sends a request without waiting for its answer; returns its id.
    pub fn send_request(&mut self, method: &str, mut params: Value) -> u64 {
        self.last_request_id += 1;
        if let Some(meta) = &self.meta {
            let mut whole = meta.clone();
            if let Some(own) = params["_meta"].as_object() {
                whole.as_object_mut().unwrap().extend(own.clone());
            }
            params["_meta"] = whole;
        }
        let id = self.last_request_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// The next message from the server, of any kind.
    #[track_caller]
    pub fn next_message(&mut self) -> Value {
        self.lines.recv_timeout(TEST_TIMEOUT).expect("a message from the server")
    }

    /// Waits for the answer to a request; replies to the server's requests and keeps notifications meanwhile.
    #[track_caller]
    pub fn answer_to(&mut self, id: u64) -> Result<Value, Value> {
        loop {
            let message = self.next_message();
            assert!(message.get("stray").is_none(), "not the protocol: {message}");
            match (message["method"].as_str(), message.get("id")) {
                (Some(method), Some(asked)) => {
                    let reply = (self.replies)(method, &message["params"]);
                    // A reply with an `error` is sent as the protocol's error.
                    self.send(&match reply.get("error") {
                        Some(error) => json!({ "jsonrpc": "2.0", "id": asked, "error": error }),
                        None => json!({ "jsonrpc": "2.0", "id": asked, "result": reply }),
                    });
                }
                (Some(_), None) => self.notifications.push(message),
                (None, Some(answered)) if *answered == id => {
                    return match message.get("error") {
                        Some(error) => Err(error.clone()),
                        None => Ok(message["result"].clone()),
                    };
                }
                (None, _) => {}
            }
        }
    }

    #[track_caller]
    pub fn request(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.send_request(method, params);
        self.answer_to(id)
    }

    /// Like `request`; `None`: the server has ended without an answer.
    pub fn request_to_live_server(&mut self, method: &str, params: Value) -> Option<Result<Value, Value>> {
        self.last_request_id += 1;
        let id = self.last_request_id;
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        // The pipe is broken once the server has ended.
        drop(self.stdin.as_mut()?.write_all(format!("{line}\n").as_bytes()));
        loop {
            let message = match self.lines.recv_timeout(TEST_TIMEOUT) {
                Ok(message) => message,
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => panic!("no answer to {method}"),
            };
            if message["id"] == id && message.get("method").is_none() {
                let error = message.get("error").cloned();
                return Some(error.map_or_else(|| Ok(message["result"].clone()), Err));
            }
        }
    }

    /// Waits for a notification of this method, and removes it from those kept.
    #[track_caller]
    pub fn wait_for_notification(&mut self, method: &str) -> Value {
        if let Some(at) = self.notifications.iter().position(|one| one["method"] == method) {
            return self.notifications.remove(at);
        }
        loop {
            let message = self.next_message();
            if message["method"] == method {
                return message;
            }
        }
    }

    /// Calls a tool; panics on a protocol error, not on a refusal.
    #[track_caller]
    pub fn call(&mut self, tool: &str, arguments: Value) -> ToolAnswer {
        let result = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        let result = result.unwrap_or_else(|error| panic!("{tool}: {error}"));
        self.read_answer(tool, result)
    }

    /// Validates a tool result against its schema and splits it into its parts.
    #[track_caller]
    pub fn read_answer(&self, tool: &str, result: Value) -> ToolAnswer {
        let content = result["structuredContent"].clone();
        if let Err(error) = self.schemas[tool].validate(&content) {
            panic!("{tool} answers against its schema: {error}\n{content}");
        }
        let text = result["content"][0]["text"].as_str().unwrap();
        // Every `Next:` line has its structured call in `next`, and no other line begins like it.
        if let Some(next) = content["next"].as_array() {
            let lines = text.lines().filter(|line| line.trim_start().starts_with("Next:")).count();
            assert_eq!(lines, next.len(), "{text}");
        }
        ToolAnswer {
            text: text.to_owned(),
            is_error: result["isError"] == true,
            content,
            full_result: result,
        }
    }

    /// Calls a tool and asserts that it is not refused.
    #[track_caller]
    pub fn call_ok(&mut self, tool: &str, arguments: Value) -> ToolAnswer {
        let answer = self.call(tool, arguments);
        assert!(!answer.is_error, "{tool} refuses:\n{}", answer.text);
        answer
    }

    /// Calls a tool and asserts that it is refused with code, message and cure.
    #[track_caller]
    pub fn call_refused(&mut self, tool: &str, arguments: Value) -> ToolAnswer {
        let answer = self.call(tool, arguments);
        assert!(answer.is_error, "{tool} should refuse:\n{}", answer.text);
        let error = &answer.content["error"];
        assert!(error["code"].is_string() && error["message"].is_string() && error["cure"].is_string());
        answer
    }

    /// Makes a suggested call and asserts that it is not refused.
    #[track_caller]
    pub fn make_call(&mut self, (tool, arguments): (String, Value)) -> ToolAnswer {
        self.call_ok(&tool, arguments)
    }

    /// Closes stdin and returns the exit code.
    pub fn close(mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.child.wait().unwrap().code()
    }
}

/// The `_meta` of a modern request of this client.
pub fn request_meta(client: &str, capabilities: Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": client, "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}
