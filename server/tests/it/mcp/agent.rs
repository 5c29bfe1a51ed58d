//! A client over stdio that knows the protocol and nothing of Actbook.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use crate::cli::{House, PATIENCE};

/// What a call of a tool gave.
#[derive(Clone, Debug)]
pub struct Answer {
    pub text: String,
    pub content: Value,
    pub is_error: bool,
    pub whole: Value,
}

impl Answer {
    /// What is after this word on a line of the text.
    #[track_caller]
    pub fn line(&self, begins: &str) -> &str {
        let line = self.text.lines().find_map(|line| line.strip_prefix(begins));
        line.unwrap_or_else(|| panic!("no line begins with {begins:?}:\n{}", self.text))
    }

    /// The first call that the text says to make: a tool and its arguments.
    #[track_caller]
    pub fn next(&self) -> (String, Value) {
        self.text
            .lines()
            .filter_map(|line| line.strip_prefix("Next: "))
            .find_map(call_in)
            .unwrap_or_else(|| panic!("no call follows:\n{}", self.text))
    }

    pub fn id(&self) -> &str {
        self.content["id"].as_str().unwrap()
    }
}

/// `tool {…}` somewhere in a line, as a reader would take it out of it.
pub fn call_in(line: &str) -> Option<(String, Value)> {
    let at = line.find('{')?;
    let tool = line[..at].trim_end().rsplit(' ').next()?.to_owned();
    let arguments = serde_json::Deserializer::from_str(&line[at..]).into_iter::<Value>().next()?.ok()?;
    Some((tool, arguments))
}

type Replies = Box<dyn FnMut(&str, &Value) -> Value>;

pub struct Agent {
    pub child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    next: u64,
    /// The newer protocol says in each request who asks.
    meta: Option<Value>,
    pub schemas: BTreeMap<String, jsonschema::Validator>,
    pub notifications: Vec<Value>,
    replies: Replies,
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
    pub fn legacy(house: &House, words: &[&str], version: &str, capabilities: Value) -> Self {
        let mut agent = Self::start(house, words);
        agent.greet(version, capabilities);
        agent
    }

    /// Opens a session of the older protocol.
    pub fn greet(&mut self, version: &str, capabilities: Value) {
        let client = json!({ "name": "scripted", "version": "1" });
        let hello = json!({ "protocolVersion": version, "capabilities": capabilities, "clientInfo": client });
        let said = self.request("initialize", hello).unwrap();
        assert_eq!(said["protocolVersion"], version);
        assert_eq!(said["serverInfo"], json!({ "name": "actbook", "version": env!("CARGO_PKG_VERSION") }));
        self.notify("notifications/initialized", json!({}));
        self.learn();
    }

    pub fn modern(house: &House, words: &[&str], capabilities: Value) -> Self {
        let mut agent = Self::start(house, words);
        agent.meta = Some(meta("scripted", capabilities));
        let said = agent.request("server/discover", json!({})).unwrap();
        assert!(said["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")));
        agent.learn();
        agent
    }

    pub fn new(house: &House) -> Self {
        Self::legacy(house, &["mcp"], "2025-11-25", json!({}))
    }

    pub fn start(house: &House, words: &[&str]) -> Self {
        Self::launch(house.command(words))
    }

    /// A command that serves MCP over stdio; nothing was said to it yet.
    pub fn launch(mut command: std::process::Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // Whatever is not the protocol has no place on stdout.
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
            next: 0,
            meta: None,
            schemas: BTreeMap::new(),
            notifications: Vec::new(),
            replies: Box::new(|method, _| panic!("the server asks for {method}")),
        }
    }

    /// How to answer what the server asks.
    pub fn replying(mut self, replies: impl FnMut(&str, &Value) -> Value + 'static) -> Self {
        self.replies = Box::new(replies);
        self
    }

    fn learn(&mut self) {
        let listed = self.request("tools/list", json!({})).unwrap();
        for tool in listed["tools"].as_array().unwrap() {
            let validator = jsonschema::validator_for(&tool["outputSchema"]).unwrap();
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

    /// Sends a request and leaves its answer for later.
    pub fn ask(&mut self, method: &str, mut params: Value) -> u64 {
        self.next += 1;
        if let Some(meta) = &self.meta {
            let mut whole = meta.clone();
            if let Some(own) = params["_meta"].as_object() {
                whole.as_object_mut().unwrap().extend(own.clone());
            }
            params["_meta"] = whole;
        }
        let id = self.next;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    #[track_caller]
    pub fn message(&mut self) -> Value {
        self.lines.recv_timeout(PATIENCE).expect("the server says something")
    }

    /// The answer to a request, whatever comes before it.
    #[track_caller]
    pub fn answer_to(&mut self, id: u64) -> Result<Value, Value> {
        loop {
            let message = self.message();
            assert!(message.get("stray").is_none(), "not the protocol: {message}");
            match (message["method"].as_str(), message.get("id")) {
                (Some(method), Some(asked)) => {
                    let result = (self.replies)(method, &message["params"]);
                    self.send(&json!({ "jsonrpc": "2.0", "id": asked, "result": result }));
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
        let id = self.ask(method, params);
        self.answer_to(id)
    }

    /// Waits for a notification of this kind.
    #[track_caller]
    pub fn told(&mut self, method: &str) -> Value {
        if let Some(at) = self.notifications.iter().position(|one| one["method"] == method) {
            return self.notifications.remove(at);
        }
        loop {
            let message = self.message();
            if message["method"] == method {
                return message;
            }
        }
    }

    #[track_caller]
    pub fn call(&mut self, tool: &str, arguments: Value) -> Answer {
        let result = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        let result = result.unwrap_or_else(|error| panic!("{tool}: {error}"));
        self.read(tool, result)
    }

    #[track_caller]
    pub fn read(&self, tool: &str, result: Value) -> Answer {
        let content = result["structuredContent"].clone();
        if let Err(error) = self.schemas[tool].validate(&content) {
            panic!("{tool} answers against its schema: {error}\n{content}");
        }
        let text = result["content"][0]["text"].as_str().unwrap();
        // What a text says to do next is there as calls, too, and nothing else begins like it.
        if let Some(next) = content["next"].as_array() {
            let lines = text.lines().filter(|line| line.trim_start().starts_with("Next:")).count();
            assert_eq!(lines, next.len(), "{text}");
        }
        Answer { text: text.to_owned(), is_error: result["isError"] == true, content, whole: result }
    }

    /// The same, and it must be no refusal.
    #[track_caller]
    pub fn good(&mut self, tool: &str, arguments: Value) -> Answer {
        let answer = self.call(tool, arguments);
        assert!(!answer.is_error, "{tool} refuses:\n{}", answer.text);
        answer
    }

    #[track_caller]
    pub fn refused(&mut self, tool: &str, arguments: Value) -> Answer {
        let answer = self.call(tool, arguments);
        assert!(answer.is_error, "{tool} should refuse:\n{}", answer.text);
        let error = &answer.content["error"];
        assert!(error["code"].is_string() && error["message"].is_string() && error["cure"].is_string());
        answer
    }

    /// Makes the call that a text told to make.
    #[track_caller]
    pub fn follow(&mut self, (tool, arguments): (String, Value)) -> Answer {
        self.good(&tool, arguments)
    }

    /// Closes stdin and gives the exit code.
    pub fn leave(mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.child.wait().unwrap().code()
    }
}

pub fn meta(client: &str, capabilities: Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": client, "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}
