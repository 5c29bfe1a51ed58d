//! Hooks: one event of an agent's client on stdin, one answer in the client's own form. A call that nothing stops gets
//! no decision, because saying `allow` would bypass the client's own prompts; `allow` is said only after a person's yes.

mod answer;
mod client;
mod event;
mod names;
mod searches;
mod twins;

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
pub use client::HookClient;
pub use event::{HookEvent, HookEventKind};

/// Time that is left before the client's limit when a held call is answered.
const LIMIT_MARGIN: Duration = Duration::from_secs(5);

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
    let event = &event.with_call(|call| guard.recognise(call));
    if let Some(call) = event.call().filter(|_| event.is_granular)
        && let Some((part, step)) = twins::find_twin(guard, &origin, call).await?
    {
        if event.blocks_on_failure() {
            let decision = guard.decision_about(&part, &step, None).await?;
            return answer_decision(guard, &caller, call, decision, limit).await;
        }
        // The generic event about the same call reports how it ended.
        return Ok(HookAnswer::NoDecision);
    }
    answer_event(guard, &caller, &origin, event, limit).await
}

/// Answers an event that no other event told before.
async fn answer_event(
    guard: &Guard<'_>,
    caller: &Caller,
    origin: &SessionOrigin,
    event: &HookEvent,
    limit: Duration,
) -> Result<HookAnswer, Error> {
    match &event.kind {
        HookEventKind::CallBegins(call) => begin_call(guard, caller, origin, call, limit).await,
        HookEventKind::CallEnded { call, output } => {
            let output = guard.service.sessions().as_stored_output(output);
            let outcome = ReportedOutcome::Succeeded { output };
            guard.end_call(caller, origin, call, outcome).await.map(|()| HookAnswer::NoDecision)
        }
        HookEventKind::CallFailed { call, error, interrupted } => {
            let outcome = failed_outcome(&guard.service.sessions().as_stored_message(error), *interrupted);
            guard.end_call(caller, origin, call, outcome).await.map(|()| HookAnswer::NoDecision)
        }
        HookEventKind::CallNotMade { call, error } => {
            let outcome = refused_outcome(&guard.service.sessions().as_stored_message(error));
            guard.end_known_call(caller, origin, call, outcome).await.map(|_| HookAnswer::NoDecision)
        }
        HookEventKind::SessionStarted { .. } => {
            let part = guard.open_session(caller, origin).await?;
            guard.begin_snapshot(&part).await;
            Ok(HookAnswer::NoDecision)
        }
        HookEventKind::TurnEnded { agent } => {
            let given_up = guard.give_up_calls(caller, origin, agent.as_deref()).await;
            given_up.map(|()| HookAnswer::NoDecision)
        }
        HookEventKind::SessionEnded { reason } => {
            let reason = guard.service.sessions().as_stored_message(reason);
            guard.close(caller, origin, &reason).await.map(|()| HookAnswer::NoDecision)
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
    answer_decision(guard, caller, call, decision, limit).await
}

/// The answer to a call that was decided about.
async fn answer_decision(
    guard: &Guard<'_>,
    caller: &Caller,
    call: &GuardedCall,
    decision: CallDecision,
    limit: Duration,
) -> Result<HookAnswer, Error> {
    let CallDecision::Waits { part, step, say } = &decision else { return Ok(answer_of(decision)) };
    let ask = guard.config.guard.clone().unwrap_or_default().ask;
    let hold = match ask.via {
        AskVia::Refuse => Duration::ZERO,
        AskVia::Client | AskVia::Hold => ask.hold.min(limit.saturating_sub(LIMIT_MARGIN)),
    };
    let answered = guard.await_answer(caller, part, step, call, hold).await?;
    Ok(match answer_of(answered) {
        HookAnswer::Deny { reason } => HookAnswer::Deny { reason: format!("{say}; {reason}") },
        other => other,
    })
}

fn answer_of(decision: CallDecision) -> HookAnswer {
    match decision {
        CallDecision::Started { by_yes: false, .. } => HookAnswer::NoDecision,
        CallDecision::Started { by_yes: true, .. } => {
            HookAnswer::Allow { reason: "a person approved this call".to_owned() }
        }
        CallDecision::AskClient { say } => HookAnswer::Ask { reason: say },
        CallDecision::Refused { say } => HookAnswer::Deny { reason: say },
        CallDecision::Waits { say, .. } => HookAnswer::Deny { reason: say },
    }
}

/// How a call ended that a hook or a person refused in the client: it was not made.
fn refused_outcome(error: &str) -> ReportedOutcome {
    let category = ErrorCategory::Policy;
    let error = json!({ "message": error });
    ReportedOutcome::Failed { category, error, unsent: true, retry_after_ms: None }
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
