//! The tool `control`: steers an execution and answers its questions. An agent cannot give an approval,
//! unless the config allows it; otherwise a person gives it through the client or on the command line.

use actbook_engine::policy::StepAnswer as Verdict;
use rmcp::model::CallToolResponse;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{ALL_PROFILES, CallVariant, OfferedTool, ToolEffect};
use crate::caller::Caller;
use crate::error::Error;
use crate::mcp::McpEndpoint;
use crate::mcp::answer::{self, ApprovalRoute};
use crate::mcp::cures;
use crate::mcp::elicit;
use crate::mcp::request::AgentRequest;
use crate::service::{Decision, FoundExecution, quote};

const ERROR_CHARS_MAX: usize = 500;

// Arguments of `control`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ControlInput {
    execution_id: String,
    action: ControlAction,
    /// Needed for retry, skip, happened, did_not_happen, abandon
    step_id: Option<String>,
    /// Why; it is journaled
    reason: Option<String>,
    /// With happened or skip: the step's output; with retry: the fields its tool asks for
    output: Option<Value>,
    /// With retry or did_not_happen: all arguments of the call, corrected
    arguments: Option<Value>,
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
    Abandon,
}

/// Which arguments each action takes.
const CONTROL_VARIANTS: &[CallVariant] = &[
    CallVariant::when_action("pause", &["execution_id"], &["reason"]),
    CallVariant::when_action("resume", &["execution_id"], &["reason"]),
    CallVariant::when_action("cancel", &["execution_id"], &["reason"]),
    CallVariant::when_action("retry", &["execution_id", "step_id"], &["reason", "output", "arguments"]),
    CallVariant::when_action("skip", &["execution_id", "step_id"], &["reason", "output"]),
    CallVariant::when_action("approve", &["execution_id"], &["step_id", "reason"]),
    CallVariant::when_action("reject", &["execution_id"], &["step_id", "reason"]),
    CallVariant::when_action("happened", &["execution_id", "step_id"], &["reason", "output"]),
    CallVariant::when_action("did_not_happen", &["execution_id", "step_id"], &["reason", "arguments"]),
    CallVariant::when_action("compensate", &["execution_id"], &["step_id", "reason"]),
    CallVariant::when_action("abandon", &["execution_id", "step_id"], &["reason"]),
];

/// Defines the tool `control`.
pub fn define_control() -> OfferedTool {
    OfferedTool::new::<ControlInput>(
        "control",
        "Answer an execution's question or steer it. pause, resume, cancel (undoes nothing). For a failed or unknown step: retry (with `arguments` to correct the call), skip, happened (it took effect), did_not_happen, abandon (end as failed). compensate: undo all that may have run. approve, reject: a person's answer, asked through your client where it can.",
        ToolEffect::ActsOutside,
        answer::execution_schema(),
        ALL_PROFILES,
    )
    .with_call_variants(CONTROL_VARIANTS)
}

/// Answers a call of `control`: applies the action as the agent, or puts an approval to a person.
pub async fn handle_control(
    endpoint: &McpEndpoint,
    request: &AgentRequest,
    input: ControlInput,
) -> Result<CallToolResponse, Error> {
    let caller = match input.action {
        ControlAction::Approve | ControlAction::Reject => {
            match endpoint.approval_route_of_execution(request, &input.execution_id).await? {
                ApprovalRoute::Agent => request.caller.clone(),
                ApprovalRoute::CommandLine => return Err(needs_person_error(endpoint, &input).await?),
                ApprovalRoute::Elicitation => {
                    let (step, reason) = (input.step_id.as_deref(), input.reason.as_deref());
                    return elicit::elicit_approval(endpoint, request, &input.execution_id, step, reason)
                        .await;
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
        | ControlAction::Abandon => request.caller.clone(),
    };
    let (is_undo, reason) = (input.action == ControlAction::Compensate, input.reason.clone());
    let found = apply_action(endpoint, &caller, input).await?;
    if is_undo
        && let Some(response) = elicit_undo_approval(endpoint, request, &found, reason.as_deref()).await?
    {
        return Ok(response);
    }
    continue_and_answer(endpoint, request, &found).await
}

/// Puts the approval of an undo to the person. None: none is needed, or the client cannot show a form.
async fn elicit_undo_approval(
    endpoint: &McpEndpoint,
    request: &AgentRequest,
    found: &FoundExecution,
    reason: Option<&str>,
) -> Result<Option<CallToolResponse>, Error> {
    let id = found.id.as_str();
    let view = endpoint.service().view(id).await?;
    let needs_approval = elicit::find_open_approval(&view, None).is_ok();
    if !needs_approval
        || endpoint.approval_route_of_execution(request, id).await? != ApprovalRoute::Elicitation
    {
        return Ok(None);
    }
    elicit::elicit_approval(endpoint, request, id, None, reason).await.map(Some)
}

/// Lets the execution continue after a command, and answers with its view. If this process has another
/// toolset and cannot drive it, the text says so.
pub async fn continue_and_answer(
    endpoint: &McpEndpoint,
    request: &AgentRequest,
    found: &FoundExecution,
) -> Result<CallToolResponse, Error> {
    let (view, not_driven) = endpoint.background().continue_and_view(found).await?;
    let mut answer = endpoint.execution_answer(request, view).await?;
    if let Some(error) = not_driven {
        let cure = cures::cure_for_agent(error.code, &error.cure);
        let error = quote::line(&error.to_string(), ERROR_CHARS_MAX);
        answer.text.push_str(&format!("\nIt is recorded, but nobody here goes on: {error}; {cure}"));
    }
    Ok(answer.into_result().into())
}

/// Sends the action to the service.
async fn apply_action(
    endpoint: &McpEndpoint,
    caller: &Caller,
    input: ControlInput,
) -> Result<FoundExecution, Error> {
    let service = endpoint.service();
    let ControlInput { execution_id: id, action, step_id, reason, output, arguments, .. } = input;
    let verdict = match action {
        ControlAction::Pause => return Ok(service.pause(caller, &id, reason).await?.0),
        ControlAction::Resume => return resume(endpoint, caller, &id, reason).await,
        ControlAction::Cancel => return Ok(service.cancel(caller, &id, reason).await?.0),
        ControlAction::Approve => return Ok(service.approve(caller, &id, step_id, reason).await?.0),
        ControlAction::Reject => return Ok(service.reject(caller, &id, step_id, reason).await?.0),
        ControlAction::Compensate if step_id.is_none() => {
            return Ok(service.undo(caller, &id, reason).await?.0);
        }
        ControlAction::Compensate => Verdict::Compensate,
        ControlAction::Retry => Verdict::Retry,
        ControlAction::Skip => Verdict::Skip,
        ControlAction::Happened => Verdict::Happened,
        ControlAction::DidNotHappen => Verdict::DidNotHappen,
        ControlAction::Abandon => Verdict::Abandon,
    };
    let step = step_id.expect("the call variant requires it");
    let (found, _) = match (arguments, output) {
        (Some(_), Some(_)) => {
            let message = "control with action \"retry\" takes either `arguments` or `output`";
            return Err(Error::new("invalid_argument", message, "leave one of the two out"));
        }
        (Some(arguments), None) => service.retry_with(caller, &id, step, verdict, reason, arguments).await?,
        (None, output) => service.decide(caller, &id, step, verdict, reason, output).await?,
    };
    Ok(found)
}

/// Lifts a pause. The command has no reason: with one, the decision to continue is journaled instead.
async fn resume(
    endpoint: &McpEndpoint,
    caller: &Caller,
    id: &str,
    reason: Option<String>,
) -> Result<FoundExecution, Error> {
    let Some(reason) = reason else { return endpoint.background().resume(caller, id).await };
    let decision =
        Decision { decision: "continue".to_owned(), reason: Some(reason), step: None, details: None };
    Ok(endpoint.service().record_decision(caller, id, decision).await?.0)
}

/// The error that names the commands for a person. Err: the approval is not open.
async fn needs_person_error(endpoint: &McpEndpoint, input: &ControlInput) -> Result<Error, Error> {
    let view = endpoint.service().view(&input.execution_id).await?;
    elicit::find_open_approval(&view, input.step_id.as_deref())?;
    let step = input.step_id.as_deref().map(|step| format!(" {step}")).unwrap_or_default();
    let id = &view.id;
    let cure = format!(
        "ask your user to run `actbook approve {id}{step}` or `actbook reject {id}{step}`, then call status with wait_s"
    );
    let message = "yes or no to an approval is a person's word; an agent cannot give it";
    Ok(Error::new("needs_a_person", message, cure))
}
