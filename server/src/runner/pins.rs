//! Calls whose tool no longer has the pinned definition. If an operator has accepted the new definition
//! since, the call is made again with it; otherwise the failure describes the change, for a decision.

use actbook_engine::chain::Digest;
use actbook_engine::execution::{Command, DueCall};
use actbook_engine::id::StreamId;
use actbook_engine::policy::ErrorCategory;
use serde_json::Value;

use super::RunnerInner;
use crate::store::tools as rows;
use crate::tools::{CallOutcome, ToolInfo, summarize_changes};

/// What follows from the end of a call whose tool was pinned.
pub enum PinVerdict {
    /// The call's outcome stands.
    Final(CallOutcome),
    /// Make the call again with this pin: an operator has accepted the tool's new definition.
    CallAgain(Digest),
}

/// Handles the end of a call. If it was refused unsent because its tool differs from `pin`: moves the pin to
/// the new definition if an operator has accepted that one, and has the call made again, unless a person had
/// approved the old one; else fails with what has changed. Other outcomes stand.
pub async fn check_pin(
    inner: &RunnerInner,
    stream: StreamId,
    call: &DueCall,
    pin: Option<Digest>,
    ended: CallOutcome,
) -> PinVerdict {
    let refused = matches!(&ended, CallOutcome::Failed { category: ErrorCategory::Policy, sent: false, .. });
    match pin.filter(|_| refused) {
        None => PinVerdict::Final(ended),
        // Boxed, to keep the future small for calls that are not refused.
        Some(pin) => Box::pin(check_changed_tool(inner, stream, call, pin, ended)).await,
    }
}

/// Compares the tool's live definition with `pin` and with the accepted one.
async fn check_changed_tool(
    inner: &RunnerInner,
    stream: StreamId,
    call: &DueCall,
    pin: Digest,
    ended: CallOutcome,
) -> PinVerdict {
    let live = match inner.tools.describe(&call.tool).await {
        Ok(info) if info.digest != pin => info,
        Ok(_) | Err(_) => return PinVerdict::Final(ended),
    };
    if !is_accepted(inner, &call.tool, live.digest) {
        return PinVerdict::Final(policy_failure(describe_change(inner, call, pin, &live).await));
    }
    let command = Command::MovePin { tool: call.tool.clone(), digest: live.digest };
    if let Err(error) = inner.ledger.command(&inner.actor, stream, command).await {
        tracing::warn!("the pin of an accepted tool could not be moved: {error}");
        return PinVerdict::Final(ended);
    }
    if call.pin_approved {
        PinVerdict::Final(policy_failure(format!(
            "`{}` has changed since it was approved; a retry asks again, for the new definition",
            call.tool
        )))
    } else {
        PinVerdict::CallAgain(live.digest)
    }
}

/// Whether an operator has accepted this definition of the tool; false also if that cannot be read.
fn is_accepted(inner: &RunnerInner, tool: &str, digest: Digest) -> bool {
    match inner.ledger.with_library(|library| library.accepted_definition(tool)) {
        Ok(accepted) => accepted == Some(digest),
        Err(error) => {
            tracing::warn!("the accepted tools cannot be read: {error}");
            false
        }
    }
}

/// The failure's message: what has changed since the plan was saved, and what to do.
async fn describe_change(inner: &RunnerInner, call: &DueCall, pin: Digest, live: &ToolInfo) -> String {
    let was = rows::by_digest(inner.tenant, &pin.to_string()).first(&inner.db).await.ok().flatten();
    let was: Option<Value> = was.and_then(|was| serde_json::from_str(&was.definition).ok());
    let mut now = live.object.as_ref().clone();
    inner.tools.redact(&mut now);
    let changes = was.map_or_else(
        || "its former definition is not known here".to_owned(),
        |was| summarize_changes(&call.tool, &was, &now),
    );
    format!(
        "`{0}` has changed since the plan was saved: {changes}; nothing was sent; read it, then \
         `actbook tools accept {0}` and retry the step, or save the plan again and run that",
        call.tool
    )
}

/// A call that failed by policy before it was sent.
fn policy_failure(message: String) -> CallOutcome {
    CallOutcome::Failed {
        category: ErrorCategory::Policy,
        message,
        sent: false,
        output: None,
        retry_after: None,
    }
}
