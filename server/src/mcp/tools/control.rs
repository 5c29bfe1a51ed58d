//! `control`: what is said to an execution. An agent's yes to an approval is no approval, unless the
//! config says so or a person gives it through the client.

use actbook_engine::policy::Answer as Verdict;
use rmcp::model::CallToolResponse;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{EVERYWHERE, Effect, Offered, ToolUse};
use crate::caller::Caller;
use crate::error::Error;
use crate::mcp::Door;
use crate::mcp::answer::{self, Doors};
use crate::mcp::ask::Ask;
use crate::mcp::cures;
use crate::mcp::elicit;
use crate::service::{Decision, Found, quote};

const ERROR_CHARS_MAX: usize = 500;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Control {
    execution_id: String,
    action: Action,
    /// Needed for retry, skip, happened, did_not_happen, abandon
    step_id: Option<String>,
    /// Why; it is journaled
    reason: Option<String>,
    /// With happened or skip: the step's output; with retry: the fields its tool asks for
    output: Option<Value>,
    /// With retry or did_not_happen: all arguments of the call, corrected
    arguments: Option<Value>,
    #[expect(dead_code, reason = "read where the call comes in")]
    idempotency_key: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    Pause,
    Resume,
    Cancel,
    Retry,
    Skip,
    Approve,
    Reject,
    Happened,
    DidNotHappen,
    Compensate,
    Abandon,
}

/// `execution_id` and `action` are required of every call.
const USES: &[ToolUse] = &[
    ToolUse::action("pause", &["execution_id"], &["reason"]),
    ToolUse::action("resume", &["execution_id"], &["reason"]),
    ToolUse::action("cancel", &["execution_id"], &["reason"]),
    ToolUse::action("retry", &["execution_id", "step_id"], &["reason", "output", "arguments"]),
    ToolUse::action("skip", &["execution_id", "step_id"], &["reason", "output"]),
    ToolUse::action("approve", &["execution_id"], &["step_id", "reason"]),
    ToolUse::action("reject", &["execution_id"], &["step_id", "reason"]),
    ToolUse::action("happened", &["execution_id", "step_id"], &["reason", "output"]),
    ToolUse::action("did_not_happen", &["execution_id", "step_id"], &["reason", "arguments"]),
    ToolUse::action("compensate", &["execution_id"], &["step_id", "reason"]),
    ToolUse::action("abandon", &["execution_id", "step_id"], &["reason"]),
];

pub fn control() -> Offered {
    Offered::new::<Control>(
        "control",
        "Answer an execution's question or steer it. pause, resume, cancel (undoes nothing). For a failed or unknown step: retry (with `arguments` to correct the call), skip, happened (it took effect), did_not_happen, abandon (end as failed). compensate: undo all that may have run. approve, reject: a person's answer, asked through your client where it can.",
        Effect::Acts,
        answer::execution_schema(),
        EVERYWHERE,
    )
    .with_uses(USES)
}

pub async fn say(door: &Door, ask: &Ask, asked: Control) -> Result<CallToolResponse, Error> {
    let by = match asked.action {
        Action::Approve | Action::Reject => match door.doors_of(ask, &asked.execution_id).await? {
            Doors::Agent => ask.caller.clone(),
            Doors::Terminal => return Err(needs_a_person(door, &asked).await?),
            Doors::Person => {
                let (step, reason) = (asked.step_id.as_deref(), asked.reason.as_deref());
                return elicit::approval(door, ask, &asked.execution_id, step, reason).await;
            }
        },
        Action::Pause
        | Action::Resume
        | Action::Cancel
        | Action::Retry
        | Action::Skip
        | Action::Happened
        | Action::DidNotHappen
        | Action::Compensate
        | Action::Abandon => ask.caller.clone(),
    };
    let (undoes, reason) = (asked.action == Action::Compensate, asked.reason.clone());
    let found = told(door, &by, asked).await?;
    if undoes && let Some(asks) = ask_for_undo(door, ask, &found, reason.as_deref()).await? {
        return Ok(asks);
    }
    answered(door, ask, &found).await
}

/// Puts an undo that waits for a yes to the person at the client. None: it waits for none, or the client
/// cannot ask.
async fn ask_for_undo(
    door: &Door,
    ask: &Ask,
    found: &Found,
    reason: Option<&str>,
) -> Result<Option<CallToolResponse>, Error> {
    let id = found.id.as_str();
    let view = door.service().view(id).await?;
    let waits = elicit::open_approval(&view, None).is_ok();
    if !waits || door.doors_of(ask, id).await? != Doors::Person {
        return Ok(None);
    }
    elicit::approval(door, ask, id, None, reason).await.map(Some)
}

/// The execution as it is now that somebody has spoken, and whoever drives goes on.
pub async fn answered(door: &Door, ask: &Ask, found: &Found) -> Result<CallToolResponse, Error> {
    let (view, elsewhere) = door.background().answered(found).await?;
    let mut answer = answer::execution(&view, door.doors(ask));
    if let Some(error) = elsewhere {
        let cure = cures::of(error.code, &error.cure);
        let error = quote::line(&error.to_string(), ERROR_CHARS_MAX);
        answer.text.push_str(&format!("\nIt is recorded, but nobody here goes on: {error}; {cure}"));
    }
    Ok(answer.into_result().into())
}

async fn told(door: &Door, by: &Caller, asked: Control) -> Result<Found, Error> {
    let service = door.service();
    let Control { execution_id: id, action, step_id, reason, output, arguments, .. } = asked;
    let verdict = match action {
        Action::Pause => return Ok(service.pause(by, &id, reason).await?.0),
        Action::Resume => return resumed(door, by, &id, reason).await,
        Action::Cancel => return Ok(service.cancel(by, &id, reason).await?.0),
        Action::Approve => return Ok(service.approve(by, &id, step_id, reason).await?.0),
        Action::Reject => return Ok(service.reject(by, &id, step_id, reason).await?.0),
        Action::Compensate if step_id.is_none() => return Ok(service.undo(by, &id, reason).await?.0),
        Action::Compensate => Verdict::Compensate,
        Action::Retry => Verdict::Retry,
        Action::Skip => Verdict::Skip,
        Action::Happened => Verdict::Happened,
        Action::DidNotHappen => Verdict::DidNotHappen,
        Action::Abandon => Verdict::Abandon,
    };
    let step = step_id.expect("the table of uses asks for it");
    let told = match (arguments, output) {
        (Some(_), Some(_)) => {
            let message = "control with action \"retry\" takes either `arguments` or `output`";
            return Err(Error::new("invalid_argument", message, "leave one of the two out"));
        }
        (Some(arguments), None) => service.retry_with(by, &id, step, verdict, reason, arguments).await?,
        (None, output) => service.decide(by, &id, step, verdict, reason, output).await?,
    };
    Ok(told.0)
}

/// A resume has no place for a reason of its own: with one, it is journaled as the decision to continue.
async fn resumed(door: &Door, by: &Caller, id: &str, reason: Option<String>) -> Result<Found, Error> {
    let Some(reason) = reason else { return door.background().resume(by, id).await };
    let decision =
        Decision { decision: "continue".to_owned(), reason: Some(reason), step: None, details: None };
    Ok(door.service().record_decision(by, id, decision).await?.0)
}

/// What a person can do about an approval that is waited for.
async fn needs_a_person(door: &Door, asked: &Control) -> Result<Error, Error> {
    let view = door.service().view(&asked.execution_id).await?;
    elicit::open_approval(&view, asked.step_id.as_deref())?;
    let step = asked.step_id.as_deref().map(|step| format!(" {step}")).unwrap_or_default();
    let id = &view.id;
    let cure = format!(
        "ask your user to run `actbook approve {id}{step}` or `actbook reject {id}{step}`, then call status with wait_s"
    );
    let message = "yes or no to an approval is a person's word; an agent cannot give it";
    Ok(Error::new("needs_a_person", message, cure))
}
