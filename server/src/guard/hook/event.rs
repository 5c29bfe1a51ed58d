//! Reads a client's hook event. What is not understood is refused, so that no call passes unread. The names of fields
//! and events of all clients are read from any of them: some clients run the hooks that are meant for another.

use actbook_engine::long_number::quote_inexact_in_json;
use serde_json::{Map, Value, json};

use super::super::GuardedCall;
use super::{HookClient, names};

/// An event, in one form for all clients.
#[derive(Clone, Debug, PartialEq)]
pub struct HookEvent {
    /// The client's own id of the session.
    pub session: String,
    /// The agent's working folder.
    pub folder: Option<String>,
    /// The project's folder, where the client names it beside the agent's.
    pub project: Option<String>,
    pub permission_mode: Option<String>,
    pub kind: HookEventKind,
    /// The event is about one class of tools: Cursor sends it beside the generic one about the same call.
    pub is_granular: bool,
}

/// What has happened, or is about to.
#[derive(Clone, Debug, PartialEq)]
pub enum HookEventKind {
    CallBegins(GuardedCall),
    CallEnded {
        call: GuardedCall,
        output: Value,
    },
    CallFailed {
        call: GuardedCall,
        error: String,
        /// The call was stopped while it ran.
        interrupted: bool,
    },
    /// A hook or a person refused the call, so that it was not made.
    CallNotMade {
        call: GuardedCall,
        error: String,
    },
    SessionStarted {
        /// The agent begins with an empty context.
        fresh: bool,
    },
    /// The agent, or this subagent, has finished its turn: no call of it is in flight any more.
    TurnEnded {
        agent: Option<String>,
    },
    SessionEnded {
        reason: String,
    },
    /// An event that needs no answer.
    Other,
}

/// Longest name of a tool, and longest id, in bytes.
const NAME_BYTES_MAX: usize = 1_000;
/// Longest folder, in bytes: that of the file system.
const FOLDER_BYTES_MAX: usize = 4_096;

/// The names of one field in the clients' events.
const SESSION: [&str; 3] = ["session_id", "sessionId", "conversation_id"];
const EVENT: [&str; 2] = ["hook_event_name", "hookEventName"];
const TOOL: [&str; 2] = ["tool_name", "toolName"];
const INPUT: [&str; 2] = ["tool_input", "toolArgs"];
const OUTPUT: [&str; 6] =
    ["tool_response", "tool_output", "tool_result", "toolResult", "result_json", "output"];
const CALL_ID: [&str; 3] = ["tool_use_id", "toolUseId", "toolCallId"];
const AGENT: [&str; 2] = ["agent_id", "agentId"];

impl HookEvent {
    /// Reads an event; `Err` says what is missing or wrong.
    pub fn parse(client: HookClient, text: &str) -> Result<Self, String> {
        let exact = quote_inexact_in_json(text);
        let event: Value =
            serde_json::from_str(&exact).map_err(|error| format!("the event is not JSON: {error}"))?;
        let fields = EventFields { client, event: &event };
        let name = match fields.text(&EVENT) {
            Some(name) => name,
            None => fields.infer_event().ok_or("the event has no text `hook_event_name`")?.to_owned(),
        };
        let session = fields.text(&SESSION).ok_or("the event has no text `session_id`")?;
        let kind = fields.kind(&name)?;
        let input = fields.value(&INPUT).and_then(Value::as_str);
        let is_rounded = exact.len() != text.len() || input.is_some_and(loses_digits);
        if is_rounded && matches!(kind, HookEventKind::CallBegins(_)) {
            return Err("a number of the call does not fit into 64 bits and would lose digits".to_owned());
        }
        let (folder, permission_mode) = (fields.folder(), fields.text(&["permission_mode"]));
        let project = fields.workspace();
        let read = Self { session, folder, project, permission_mode, kind, is_granular: is_granular(&name) };
        read.check_lengths().map(|()| read)
    }

    /// Refuses names that are longer than any client's: they stand in entries of the journal, and not beside them.
    fn check_lengths(&self) -> Result<(), String> {
        let call = self.call();
        let of_call = call.iter().flat_map(|call| [&call.client_tool, &call.id, &call.agent]).flatten();
        let names = of_call.chain([&self.session]).map(|name| (name, NAME_BYTES_MAX));
        let folder = self.folder.iter().map(|folder| (folder, FOLDER_BYTES_MAX));
        match names.chain(folder).find(|(text, bytes_max)| text.len() > *bytes_max) {
            Some((_, bytes_max)) => {
                Err(format!("a name or a folder in the event has more than {bytes_max} bytes"))
            }
            None => Ok(()),
        }
    }

    /// The call that the event is about.
    pub fn call(&self) -> Option<&GuardedCall> {
        match &self.kind {
            HookEventKind::CallBegins(call)
            | HookEventKind::CallEnded { call, .. }
            | HookEventKind::CallFailed { call, .. }
            | HookEventKind::CallNotMade { call, .. } => Some(call),
            HookEventKind::SessionStarted { .. }
            | HookEventKind::TurnEnded { .. }
            | HookEventKind::SessionEnded { .. }
            | HookEventKind::Other => None,
        }
    }

    /// The same event with its call changed.
    pub fn with_call(&self, change: impl FnOnce(GuardedCall) -> GuardedCall) -> Self {
        let mut event = self.clone();
        match &mut event.kind {
            HookEventKind::CallBegins(call)
            | HookEventKind::CallEnded { call, .. }
            | HookEventKind::CallFailed { call, .. }
            | HookEventKind::CallNotMade { call, .. } => *call = change(std::mem::take(call)),
            HookEventKind::SessionStarted { .. }
            | HookEventKind::TurnEnded { .. }
            | HookEventKind::SessionEnded { .. }
            | HookEventKind::Other => {}
        }
        event
    }

    /// Whether a call is about to begin, which must not pass if the event cannot be handled.
    pub fn blocks_on_failure(&self) -> bool {
        matches!(self.kind, HookEventKind::CallBegins(_))
    }

    pub fn ends_session(&self) -> bool {
        matches!(self.kind, HookEventKind::SessionEnded { .. })
    }

    /// Whether the agent begins with an empty context.
    pub fn is_fresh(&self) -> bool {
        matches!(self.kind, HookEventKind::SessionStarted { fresh: true })
    }
}

/// Cursor's events about one class of tools.
fn is_granular(event: &str) -> bool {
    const GRANULAR: [&str; 6] = [
        "beforeShellExecution",
        "afterShellExecution",
        "beforeMCPExecution",
        "afterMCPExecution",
        "beforeReadFile",
        "afterFileEdit",
    ];
    GRANULAR.contains(&event)
}

/// The fields of an event, under the names of any client.
#[derive(Clone, Copy, Debug)]
struct EventFields<'a> {
    client: HookClient,
    event: &'a Value,
}

impl<'a> EventFields<'a> {
    fn value(self, names: &[&str]) -> Option<&'a Value> {
        names.iter().find_map(|name| self.event.get(*name))
    }

    fn text(self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| self.event.get(*name)?.as_str()).map(str::to_owned)
    }

    /// The agent's folder; Cursor leaves it empty and names the folders of the workspace. A relative one says nothing.
    fn folder(self) -> Option<String> {
        self.text(&["cwd"]).filter(|folder| folder.starts_with('/')).or_else(|| self.workspace())
    }

    /// The first folder of the workspace, as Cursor names it.
    fn workspace(self) -> Option<String> {
        self.event.get("workspace_roots")?.get(0)?.as_str().map(str::to_owned)
    }

    /// The name of an event that does not say it: Copilot's, told apart by their fields. What names a tool and tells no
    /// outcome is a call that is about to begin.
    fn infer_event(self) -> Option<&'static str> {
        let has = |names: &[&str]| self.value(names).is_some();
        match self.client {
            HookClient::Copilot if has(&TOOL) && has(&["toolResult"]) => Some("PostToolUse"),
            HookClient::Copilot if has(&TOOL) && has(&["error"]) => Some("PostToolUseFailure"),
            HookClient::Copilot if has(&TOOL) => Some("PreToolUse"),
            HookClient::Copilot if has(&["source"]) => Some("SessionStart"),
            HookClient::Copilot if has(&["reason"]) => Some("SessionEnd"),
            HookClient::Copilot if has(&["stopReason"]) && has(&["agentName"]) => Some("SubagentStop"),
            HookClient::Copilot if has(&["stopReason"]) => Some("Stop"),
            HookClient::Copilot if has(&["prompt"]) => Some("UserPromptSubmit"),
            HookClient::ClaudeCode
            | HookClient::Codex
            | HookClient::Cursor
            | HookClient::Gemini
            | HookClient::Vscode
            | HookClient::Copilot => None,
        }
    }

    fn kind(self, event: &str) -> Result<HookEventKind, String> {
        Ok(match event {
            "PreToolUse" | "preToolUse" | "BeforeTool" => HookEventKind::CallBegins(self.call()?),
            "beforeShellExecution" | "beforeMCPExecution" | "beforeReadFile" => {
                HookEventKind::CallBegins(self.granular_call(event)?)
            }
            "PostToolUse" | "postToolUse" | "AfterTool" => self.ended(self.call()?),
            "afterShellExecution" | "afterMCPExecution" | "afterFileEdit" => {
                self.ended(self.granular_call(event)?)
            }
            "PostToolUseFailure" | "postToolUseFailure" => self.failed(self.call()?),
            "SessionStart" | "sessionStart" => {
                // Cursor names no source: it sends the event only where a conversation begins.
                let source = self.text(&["source"]);
                let fresh = matches!(source.as_deref(), Some("startup" | "clear" | "new"))
                    || (source.is_none() && self.client == HookClient::Cursor);
                HookEventKind::SessionStarted { fresh }
            }
            "Stop" | "stop" | "AfterAgent" | "agentStop" => HookEventKind::TurnEnded { agent: None },
            "SubagentStop" | "subagentStop" => match self.text(&AGENT) {
                Some(agent) => HookEventKind::TurnEnded { agent: Some(agent) },
                None => HookEventKind::Other,
            },
            "SessionEnd" | "sessionEnd" => {
                let reason = self.text(&["reason"]).unwrap_or_else(|| "the client ended it".to_owned());
                HookEventKind::SessionEnded { reason }
            }
            _ => HookEventKind::Other,
        })
    }

    /// The call of an event about a tool.
    fn call(self) -> Result<GuardedCall, String> {
        let name = self.text(&TOOL).ok_or("the event has no text `tool_name`")?;
        let input = self.value(&INPUT).cloned().ok_or("the event has no `tool_input`")?;
        Ok(self.guarded(match self.named_mcp_tool() {
            Some(server_and_tool) => names::normalize_mcp_call(&name, server_and_tool, parsed(input)),
            None => names::normalize_call(self.client, &name, parsed(input)),
        }))
    }

    /// Server and tool, where the client names them beside the tool's whole name, as Gemini does.
    fn named_mcp_tool(self) -> Option<(&'a str, &'a str)> {
        let context = self.event.get("mcp_context")?;
        Some((context.get("server_name")?.as_str()?, context.get("tool_name")?.as_str()?))
    }

    /// The call of one of Cursor's events about a class of tools, with what the generic event has of it too.
    fn granular_call(self, event: &str) -> Result<GuardedCall, String> {
        let field =
            |name: &str| self.value(&[name]).cloned().ok_or_else(|| format!("the event has no `{name}`"));
        let (name, input) = match event {
            "beforeShellExecution" | "afterShellExecution" => {
                ("Shell".to_owned(), json!({ "command": field("command")? }))
            }
            "beforeReadFile" => ("Read".to_owned(), json!({ "file_path": field("file_path")? })),
            "afterFileEdit" => ("Write".to_owned(), json!({ "file_path": field("file_path")? })),
            _ => {
                let name = self.text(&TOOL).ok_or("the event has no text `tool_name`")?;
                (format!("MCP:{}", name.trim_start_matches("MCP:")), parsed(field("tool_input")?))
            }
        };
        Ok(self.guarded(names::normalize_call(self.client, &name, input)))
    }

    /// The call with what the event says of it beside its tool and arguments.
    fn guarded(self, call: GuardedCall) -> GuardedCall {
        GuardedCall { folder: self.folder(), id: self.text(&CALL_ID), agent: self.text(&AGENT), ..call }
    }

    /// The end of a call, with what it returned. Gemini and Copilot report failures in the result.
    fn ended(self, call: GuardedCall) -> HookEventKind {
        let output = self.value(&OUTPUT).cloned().unwrap_or(Value::Null);
        let output = if self.client == HookClient::Cursor { parsed(output) } else { output };
        let result = output.get("resultType").or_else(|| output.get("result_type")).and_then(Value::as_str);
        let error = output.get("error").filter(|error| !error.is_null());
        if let Some(error) = error.filter(|_| self.client == HookClient::Gemini) {
            return HookEventKind::CallFailed { call, error: plain_text(error), interrupted: false };
        }
        let tells_result = matches!(self.client, HookClient::Copilot | HookClient::Vscode);
        match result.filter(|_| tells_result) {
            Some("rejected" | "denied") => HookEventKind::CallNotMade { call, error: plain_text(&output) },
            Some("failure") => {
                HookEventKind::CallFailed { call, error: plain_text(&output), interrupted: false }
            }
            Some(_) | None => HookEventKind::CallEnded { call, output },
        }
    }

    fn failed(self, call: GuardedCall) -> HookEventKind {
        let error = self.value(&["error", "error_message"]).map(plain_text).unwrap_or_default();
        let failure = self.text(&["failure_type"]);
        if failure.as_deref() == Some("permission_denied") {
            return HookEventKind::CallNotMade { call, error };
        }
        let is_interrupt = self.event.get("is_interrupt") == Some(&Value::Bool(true));
        let interrupted = is_interrupt || failure.as_deref() == Some("timeout");
        HookEventKind::CallFailed { call, error, interrupted }
    }
}

/// A text that is the JSON of an object, as that object: some clients send arguments so.
fn parsed(value: Value) -> Value {
    let parse = |text| serde_json::from_str::<Map<String, Value>>(&quote_inexact_in_json(text)).ok();
    value.as_str().and_then(parse).map_or(value, Value::Object)
}

/// Whether a JSON text has a number that a value would hold without its last digits. One such number would look like
/// another, and a yes to the one would be spent by the other.
fn loses_digits(text: &str) -> bool {
    quote_inexact_in_json(text).len() != text.len()
}

/// A text as it is; any other value as JSON.
fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
