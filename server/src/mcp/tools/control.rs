//! The tool `control`: steers an execution and answers its questions. An agent cannot give an approval,
//! unless the config allows it; otherwise a person gives it through the client or on the command line.

use std::time::Duration;

use actbook_engine::policy::StepAnswer as Verdict;
use rmcp::model::CallToolResponse;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{ALL_PROFILES, AgentTool, CallVariant, ToolEffect, ToolProfile};
use crate::caller::Caller;
use crate::error::{AgentError, AgentErrorCode, Error};
use crate::mcp::McpEndpoint;
use crate::mcp::answer::{self, AgentAnswer, ApprovalRoute};
use crate::mcp::elicit;
use crate::mcp::error_report;
use crate::mcp::request::AgentRequest;
use crate::mcp::waiting::{self, WaitUntil};
use crate::service::{FoundExecution, quote};

const ERROR_CHARS_MAX: usize = 500;

// Arguments of `control`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ControlInput {
    execution_id: String,
    action: ControlAction,
    /// Needed for retry, skip, happened, did_not_happen, abandon
    step_id: Option<String>,
    /// Instead of step_id: several steps, one answer
    step_ids: Option<Vec<String>>,
    /// Why; it is journaled
    reason: Option<String>,
    /// With happened or skip: the step's output; with retry: the fields its tool asks for
    output: Option<Value>,
    /// With retry or did_not_happen: all arguments of the call, corrected
    arguments: Option<Value>,
    /// Seconds to wait for its end or next question
    wait_s: Option<f64>,
    #[expect(dead_code, reason = "`with_idempotency_key` reads it from the raw arguments")]
    idempotency_key: Option<String>,
}

// What `control` can do to an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ControlAction {
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
    // The command line's word for the same.
    Undo,
    Abandon,
}

/// Which arguments each action takes.
const CONTROL_VARIANTS: &[CallVariant] = &[
    CallVariant::when_action("pause", &["execution_id"], &["reason", "wait_s"]),
    CallVariant::when_action("resume", &["execution_id"], &["reason", "wait_s"]),
    CallVariant::when_action("cancel", &["execution_id"], &["reason", "wait_s"]),
    CallVariant::when_action(
        "retry",
        &["execution_id"],
        &["step_id", "step_ids", "reason", "output", "arguments", "wait_s"],
    ),
    CallVariant::when_action(
        "skip",
        &["execution_id"],
        &["step_id", "step_ids", "reason", "output", "wait_s"],
    ),
    CallVariant::when_action("approve", &["execution_id"], &["step_id", "reason", "wait_s"]),
    CallVariant::when_action("reject", &["execution_id"], &["step_id", "reason", "wait_s"]),
    CallVariant::when_action(
        "happened",
        &["execution_id"],
        &["step_id", "step_ids", "reason", "output", "wait_s"],
    ),
    CallVariant::when_action(
        "did_not_happen",
        &["execution_id"],
        &["step_id", "step_ids", "reason", "arguments", "wait_s"],
    ),
    CallVariant::when_action("compensate", &["execution_id"], &["step_id", "reason", "wait_s"]),
    CallVariant::when_action("undo", &["execution_id"], &["step_id", "reason", "wait_s"]),
    CallVariant::when_action("abandon", &["execution_id", "step_id"], &["reason", "wait_s"]),
];

impl AgentTool for ControlInput {
    const NAME: &str = "control";
    const DESCRIPTION: &str = "Answer an execution's question or steer it. pause, resume, cancel (undoes nothing). For a failed or unknown step: retry (with `arguments` to correct the call), skip, happened (it took effect), did_not_happen, abandon (end as failed). compensate (or undo): undo all that may have run. approve, reject: a person's answer, asked through your client where it can.";
    const EFFECT: ToolEffect = ToolEffect::ActsOutside;
    const PROFILES: &[ToolProfile] = ALL_PROFILES;
    const VARIANTS: &[CallVariant] = CONTROL_VARIANTS;
    type Answer = CallToolResponse;

    /// Applies the action as the agent, or puts an approval to a person; lets the execution continue, and
    /// answers with its view after `wait_s` at most.
    async fn handle(self, endpoint: &McpEndpoint, request: &AgentRequest) -> Result<CallToolResponse, Error> {
        let wait = waiting::parse_wait(self.wait_s)?;
        let caller = match self.action {
            ControlAction::Approve | ControlAction::Reject => {
                match endpoint.approval_route_of_execution(request, &self.execution_id).await? {
                    ApprovalRoute::Agent => request.caller.clone(),
                    ApprovalRoute::CommandLine => return Err(needs_person_error(endpoint, &self).await?),
                    ApprovalRoute::Elicitation => {
                        let (step, reason) = (self.step_id.as_deref(), self.reason.as_deref());
                        let id = &self.execution_id;
                        return elicit::elicit_approval(endpoint, request, id, step, reason, wait).await;
                    }
                }
            }
            ControlAction::Pause
            | ControlAction::Resume
            | ControlAction::Cancel
            | ControlAction::Retry
            | ControlAction::Skip
            | ControlAction::Happened
            | ControlAction::DidNotHappen
            | ControlAction::Compensate
            | ControlAction::Undo
            | ControlAction::Abandon => request.caller.clone(),
        };
        let (is_undo, reason) =
            (matches!(self.action, ControlAction::Compensate | ControlAction::Undo), self.reason.clone());
        let (found, refused) = apply_action(endpoint, &caller, self).await?;
        if is_undo
            && let Some(response) =
                elicit_undo_approval(endpoint, request, &found, reason.as_deref(), wait).await?
        {
            return Ok(response);
        }
        let mut answer = continued_answer(endpoint, request, &found, wait).await?;
        if !refused.is_empty() {
            let note = format!("not answered: {}", refused.join("; "));
            answer.text.push_str(&format!("\nNote: {note}"));
            answer.structured["note"] = note.into();
        }
        Ok(answer.into())
    }
}

/// Puts the approval of an undo to the person. None: none is needed, or the client cannot show a form.
async fn elicit_undo_approval(
    endpoint: &McpEndpoint,
    request: &AgentRequest,
    found: &FoundExecution,
    reason: Option<&str>,
    wait: Duration,
) -> Result<Option<CallToolResponse>, Error> {
    let id = found.id.as_str();
    let view = endpoint.service().executions().view(id).await?;
    let needs_approval = elicit::find_open_approval(&view, None).is_ok();
    if !needs_approval
        || endpoint.approval_route_of_execution(request, id).await? != ApprovalRoute::Elicitation
    {
        return Ok(None);
    }
    elicit::elicit_approval(endpoint, request, id, None, reason, wait).await.map(Some)
}

/// Lets the execution continue after a command, waits for its end or next question, and answers with its
/// view. If this process has another toolset and cannot drive it, the text says so.
pub async fn continued_answer(
    endpoint: &McpEndpoint,
    request: &AgentRequest,
    found: &FoundExecution,
    wait: Duration,
) -> Result<AgentAnswer, Error> {
    let (mut view, not_driven) = endpoint.service().executions().continue_and_view(found).await?;
    if not_driven.is_none() && !wait.is_zero() {
        let (service, id) = (endpoint.service(), found.id.as_str());
        view = waiting::wait_for_view(service, request, id, WaitUntil::Settled, wait).await?;
    }
    let mut answer = endpoint.execution_answer(request, view).await?;
    if let Some(error) = not_driven {
        let cure = error.cures().agent;
        let error = quote::line(&error.to_string(), ERROR_CHARS_MAX);
        answer.text.push_str(&format!(
            "\nIt is recorded, but no process here continues the execution: {error}; {cure}"
        ));
    }
    Ok(answer)
}

/// Sends the action to the service. Also returns why single steps were refused, a sentence each, if several
/// were named.
async fn apply_action(
    endpoint: &McpEndpoint,
    caller: &Caller,
    input: ControlInput,
) -> Result<(FoundExecution, Vec<String>), Error> {
    let service = endpoint.service();
    let whole = |found: FoundExecution| Ok((found, Vec::new()));
    let (id, reason) = (input.execution_id.clone(), input.reason.clone());
    let step_id = input.step_id.clone();
    let verdict = match input.action {
        ControlAction::Pause => return whole(service.executions().pause(caller, &id, reason).await?.0),
        ControlAction::Resume => {
            return whole(endpoint.service().executions().resume_with_reason(caller, &id, reason).await?);
        }
        ControlAction::Cancel => return whole(service.executions().cancel(caller, &id, reason).await?.0),
        ControlAction::Approve => {
            return whole(service.executions().approve(caller, &id, step_id, reason).await?.0);
        }
        ControlAction::Reject => {
            return whole(service.executions().reject(caller, &id, step_id, reason).await?.0);
        }
        ControlAction::Compensate | ControlAction::Undo if step_id.is_none() => {
            return whole(service.executions().undo(caller, &id, reason).await?.0);
        }
        ControlAction::Compensate | ControlAction::Undo => Verdict::Compensate,
        ControlAction::Retry => Verdict::Retry,
        ControlAction::Skip => Verdict::Skip,
        ControlAction::Happened => Verdict::Happened,
        ControlAction::DidNotHappen => Verdict::DidNotHappen,
        ControlAction::Abandon => Verdict::Abandon,
    };
    let step = match answered_steps(&input)? {
        AnsweredSteps::Several(steps) => {
            return decide_each(endpoint, caller, &id, steps, verdict, reason).await;
        }
        AnsweredSteps::One(step) => step,
    };
    whole(match (input.arguments, input.output) {
        (Some(_), Some(_)) => {
            let message = "control with action \"retry\" takes either `arguments` or `output`";
            let cure = "leave one of the two out";
            return Err(Error::agent(AgentErrorCode::InvalidArgument, message, cure));
        }
        (Some(arguments), None) => {
            service.executions().retry_with(caller, &id, step, verdict, reason, arguments).await?.0
        }
        (None, output) => service.executions().decide(caller, &id, step, verdict, reason, output).await?.0,
    })
}

/// The steps that an answer is for.
enum AnsweredSteps {
    One(String),
    Several(Vec<String>),
}

/// The steps that the arguments name. Err: none, both `step_id` and `step_ids`, or several with the values of
/// one.
fn answered_steps(input: &ControlInput) -> Result<AnsweredSteps, Error> {
    let refused =
        |path: &str, code, message, cure| Err(AgentError::new(code, message, cure).with_path(path).into());
    match (&input.step_id, &input.step_ids) {
        (Some(step), None) => Ok(AnsweredSteps::One(step.clone())),
        (Some(_), Some(_)) => {
            let message = "control takes either `step_id` or `step_ids`";
            refused("step_ids", AgentErrorCode::InvalidArgument, message, "leave one of the two out")
        }
        (None, Some(steps)) if !steps.is_empty() => match (&input.arguments, &input.output) {
            (None, None) => Ok(AnsweredSteps::Several(steps.clone())),
            (_, _) => {
                let message = "`arguments` and `output` are those of one step";
                let cure = "answer the steps one by one, with `step_id`";
                refused("step_ids", AgentErrorCode::InvalidArgument, message, cure)
            }
        },
        (None, _) => {
            let message = "control with this action needs `step_id` or `step_ids`";
            let cure = "status with the execution_id names its steps";
            refused("step_id", AgentErrorCode::MissingArgument, message, cure)
        }
    }
}

/// Gives several steps one answer. Each is an entry of its own, so a refused one does not stop the rest; also
/// returns why it was refused. Err: all were refused.
async fn decide_each(
    endpoint: &McpEndpoint,
    caller: &Caller,
    id: &str,
    steps: Vec<String>,
    verdict: Verdict,
    reason: Option<String>,
) -> Result<(FoundExecution, Vec<String>), Error> {
    let last = steps.len() - 1;
    let (mut decided, mut refused) = (None, Vec::new());
    for (number, step) in steps.into_iter().enumerate() {
        // Only the last entry has the request's own key: with it, all of the request has been made.
        let key =
            caller.key.as_ref().map(|key| if number == last { key.clone() } else { key.for_part(number) });
        let caller = caller.clone().with_key(key);
        match endpoint.service().executions().decide(&caller, id, step, verdict, reason.clone(), None).await {
            Ok((found, _)) => decided = Some(found),
            Err(error) => refused.push(error),
        }
    }
    let Some(found) = decided else { return Err(refused.swap_remove(0)) };
    let why = |error: Error| {
        let cure = error.cures().agent;
        format!("{}; {cure}", quote::line(&error_report::message_for_agent(&error), ERROR_CHARS_MAX))
    };
    Ok((found, refused.into_iter().map(why).collect()))
}

/// The error that names the commands with which a person answers an approval. Err: the approval is not open.
async fn needs_person_error(endpoint: &McpEndpoint, input: &ControlInput) -> Result<Error, Error> {
    let view = endpoint.service().executions().view(&input.execution_id).await?;
    let waiting = &view.waiting[elicit::find_open_approval(&view, input.step_id.as_deref())?];
    let step = input.step_id.as_deref().map(|step| format!(" {step}")).unwrap_or_default();
    let id = &view.id;
    let cure = format!(
        "ask your user to {}run `actbook approve {id}{step}` or `actbook reject {id}{step}`, then call status with wait_s",
        answer::page_words(waiting)
    );
    let message = "only a person can answer an approval; an agent cannot";
    Ok(Error::agent(AgentErrorCode::NeedsPerson, message, cure))
}
