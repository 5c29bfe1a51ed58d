//! Hooks: one event of an agent's client on stdin, one answer in the client's own form. A call that nothing stops gets
//! no decision, because saying `allow` would bypass the client's own prompts; `allow` is said only after a person's yes.

mod answer;
mod event;
mod names;

use std::time::Duration;

use actbook_engine::execution::ReportedOutcome;
use actbook_engine::policy::ErrorCategory;
use serde_json::{Value, json};

use super::{CallDecision, Guard, GuardedCall, SessionOrigin, paths};
use crate::caller::Caller;
use crate::config::AskVia;
use crate::error::Error;
use crate::service::SessionKey;

pub use answer::HookAnswer;
pub use event::{HookEvent, HookEventKind};

/// A client whose hooks are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookClient {
    ClaudeCode,
    Codex,
}

/// Time that is left before the client's limit when a held call is answered.
const LIMIT_MARGIN: Duration = Duration::from_secs(5);

impl HookClient {
    pub const ALL: [Self; 2] = [Self::ClaudeCode, Self::Codex];

    /// The client's name on the command line and in the journal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
        }
    }

    /// The time after which the client gives a hook up, unless it is configured otherwise.
    pub fn default_limit(self) -> Duration {
        match self {
            Self::ClaudeCode | Self::Codex => Duration::from_secs(600),
        }
    }

    /// Whether the client can ask its own person about a call, in this mode of permissions.
    fn can_ask(self, mode: Option<&str>) -> bool {
        match self {
            Self::ClaudeCode => matches!(mode, Some("default" | "acceptEdits" | "plan")),
            // It counts an `ask` as a failed hook, and makes the call.
            Self::Codex => false,
        }
    }
}

impl std::fmt::Display for HookClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for HookClient {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|client| client.as_str() == text);
        known.ok_or_else(|| format!("`{text}` is no client whose hooks are understood"))
    }
}

/// Handles one event and returns the answer. An `Err` is for the caller to turn into a denial: an error of ours never
/// lets a call pass.
pub async fn answer_hook(
    guard: &Guard<'_>,
    client: HookClient,
    event: &HookEvent,
    limit: Duration,
) -> Result<HookAnswer, Error> {
    let caller = Caller::new(format!("agent:{client}"));
    let origin = SessionOrigin {
        key: SessionKey { client: client.to_string(), key: event.session.clone() },
        folder: event.folder.as_deref().map(|folder| paths::resolve(folder, None)),
        is_fresh: event.is_fresh(),
        client_asks: client.can_ask(event.permission_mode.as_deref()),
    };
    match &event.kind {
        HookEventKind::CallBegins(call) => begin_call(guard, &caller, &origin, call, limit).await,
        HookEventKind::CallEnded { call, output } => {
            let outcome = ReportedOutcome::Succeeded { output: output.clone() };
            guard.end_call(&caller, &origin, call, outcome).await.map(|()| HookAnswer::NoDecision)
        }
        HookEventKind::CallFailed { call, error, interrupted } => {
            let outcome = failed_outcome(error, *interrupted);
            guard.end_call(&caller, &origin, call, outcome).await.map(|()| HookAnswer::NoDecision)
        }
        HookEventKind::SessionStarted { .. } => {
            guard.open_session(&caller, &origin).await.map(|_| HookAnswer::NoDecision)
        }
        HookEventKind::TurnEnded { agent } => {
            let given_up = guard.give_up_calls(&caller, &origin, agent.as_deref()).await;
            given_up.map(|()| HookAnswer::NoDecision)
        }
        HookEventKind::SessionEnded { reason } => {
            guard.close(&caller, &origin, reason).await.map(|()| HookAnswer::NoDecision)
        }
        HookEventKind::Other => Ok(HookAnswer::NoDecision),
    }
}

/// Decides about a call; one that is to be held waits for a person's answer until shortly before the client's limit.
async fn begin_call(
    guard: &Guard<'_>,
    caller: &Caller,
    origin: &SessionOrigin,
    call: &GuardedCall,
    limit: Duration,
) -> Result<HookAnswer, Error> {
    let decision = guard.begin_call(caller, origin, call).await?;
    let CallDecision::Waits { part, step, say } = &decision else { return Ok(answer_of(decision)) };
    let ask = guard.config.guard.clone().unwrap_or_default().ask;
    let hold = match ask.via {
        AskVia::Refuse => Duration::ZERO,
        AskVia::Client | AskVia::Hold => ask.hold.min(limit.saturating_sub(LIMIT_MARGIN)),
    };
    let answered = guard.await_answer(caller, part, step, hold).await?;
    Ok(match answer_of(answered) {
        HookAnswer::Deny { reason } => HookAnswer::Deny { reason: format!("{say}; {reason}") },
        other => other,
    })
}

fn answer_of(decision: CallDecision) -> HookAnswer {
    match decision {
        CallDecision::Started { by_yes: false } => HookAnswer::NoDecision,
        CallDecision::Started { by_yes: true } => {
            HookAnswer::Allow { reason: "a person approved this call".to_owned() }
        }
        CallDecision::AskClient { say } => HookAnswer::Ask { reason: say },
        CallDecision::Refused { say } => HookAnswer::Deny { reason: say },
        CallDecision::Waits { say, .. } => HookAnswer::Deny { reason: say },
    }
}

/// How a failed call ended: what an interrupted one did is unknown.
fn failed_outcome(error: &str, interrupted: bool) -> ReportedOutcome {
    let (error, retry_after_ms): (Value, _) = (json!({ "message": error }), None);
    if interrupted {
        let category = ErrorCategory::Unavailable;
        return ReportedOutcome::Unknown { category, error, retry_after_ms };
    }
    ReportedOutcome::Failed { category: ErrorCategory::ToolError, error, unsent: false, retry_after_ms }
}
