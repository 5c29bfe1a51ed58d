//! Reads a client's hook event. What is not understood is refused, so that no call passes unread.

use serde_json::Value;

use super::super::GuardedCall;
use super::{HookClient, names};

/// An event, in one form for all clients.
#[derive(Clone, Debug, PartialEq)]
pub struct HookEvent {
    /// The client's own id of the session.
    pub session: String,
    /// The agent's working folder.
    pub folder: Option<String>,
    pub permission_mode: Option<String>,
    pub kind: HookEventKind,
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

impl HookEvent {
    /// Reads an event; `Err` says what is missing or wrong.
    pub fn parse(client: HookClient, text: &str) -> Result<Self, String> {
        let event: Value =
            serde_json::from_str(text).map_err(|error| format!("the event is not JSON: {error}"))?;
        let text = |name: &str| event.get(name).and_then(Value::as_str).map(str::to_owned);
        let required = |name: &str| text(name).ok_or_else(|| format!("the event has no text `{name}`"));
        let folder = text("cwd");
        let call = || read_call(client, &event, folder.clone());
        let kind = match required("hook_event_name")?.as_str() {
            "PreToolUse" => HookEventKind::CallBegins(call()?),
            "PostToolUse" => HookEventKind::CallEnded {
                call: call()?,
                output: event.get("tool_response").cloned().unwrap_or(Value::Null),
            },
            "PostToolUseFailure" => HookEventKind::CallFailed {
                call: call()?,
                error: text("error").unwrap_or_default(),
                interrupted: event.get("is_interrupt") == Some(&Value::Bool(true)),
            },
            "SessionStart" => {
                let fresh = matches!(text("source").as_deref(), Some("startup" | "clear"));
                HookEventKind::SessionStarted { fresh }
            }
            "Stop" => HookEventKind::TurnEnded { agent: None },
            "SubagentStop" => match text("agent_id") {
                Some(agent) => HookEventKind::TurnEnded { agent: Some(agent) },
                None => HookEventKind::Other,
            },
            "SessionEnd" => {
                let reason = text("reason").unwrap_or_else(|| "the client ended it".to_owned());
                HookEventKind::SessionEnded { reason }
            }
            _ => HookEventKind::Other,
        };
        Ok(Self {
            session: required("session_id")?,
            folder: text("cwd"),
            permission_mode: text("permission_mode"),
            kind,
        })
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

/// The call of an event about a tool.
fn read_call(client: HookClient, event: &Value, folder: Option<String>) -> Result<GuardedCall, String> {
    let text = |name: &str| event.get(name).and_then(Value::as_str).map(str::to_owned);
    let name = text("tool_name").ok_or("the event has no text `tool_name`")?;
    let input = event.get("tool_input").cloned().ok_or("the event has no `tool_input`")?;
    let (tool, arguments) = names::normalize_call(client, &name, input);
    Ok(GuardedCall {
        tool,
        arguments,
        folder,
        by_agent: true,
        id: text("tool_use_id"),
        agent: text("agent_id"),
    })
}
