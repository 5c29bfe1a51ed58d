//! MCP tasks (an extension of the protocol): an execution shown as one. The id of the MCP task is the
//! execution's, and its state is read from the journal, so it outlives this process. Open questions become
//! input requests. Not to be confused with the product's tasks, which are things to do (the tool `task`).

use std::collections::BTreeMap;

use actbook_engine::policy::ExecutionStatus;
use rmcp::model::{
    CallToolResponse, CreateTaskResult, DetailedTask, ElicitRequest, ErrorData, GetTaskResult, InputRequest,
    InputRequests, InputResponses, JsonObject, Task, TaskPayload, TaskStatus,
};
use serde_json::Value;

use super::McpEndpoint;
use super::answer::{self, ApprovalRoute};
use super::elicit::{self, ShownQuestion};
use super::request::AgentRequest;
use crate::error::{AgentErrorCode, Error};
use crate::service::PersonQuestion;
use crate::service::quote;
use crate::service::view::ExecutionView;

/// How often a client should poll an MCP task.
const POLL_INTERVAL_MS: u64 = 1_000;
const QUESTION_CHARS_MAX: usize = 500;

/// The response that turns a call into an MCP task. None: the execution does not run, a step needs the agent,
/// or the client cannot handle MCP tasks or cannot show questions to a person.
pub fn mcp_task_response(request: &AgentRequest, view: &ExecutionView) -> Option<CallToolResponse> {
    let is_running = matches!(view.status, ExecutionStatus::Running | ExecutionStatus::Compensating);
    let is_supported =
        request.client_capabilities().supports_tasks() && request.can_elicit() && request.is_sessionless();
    let needs_agent = view.steps.iter().any(|step| step.by.is_some());
    (is_running && is_supported && !needs_agent)
        .then(|| CreateTaskResult::new(mcp_task(view, TaskStatus::Working)).into())
}

/// Answers `tasks/get` from the execution's current view. Err: there is no such execution.
pub async fn get_mcp_task(
    endpoint: &McpEndpoint,
    request: &AgentRequest,
    id: &str,
) -> Result<GetTaskResult, ErrorData> {
    let (view, questions) = elicit::open_questions(endpoint, request, id, None)
        .await
        .map_err(|error| unknown_mcp_task_error(&error))?;
    let route = endpoint.approval_route(request);
    let payload = match view.status {
        ExecutionStatus::Running | ExecutionStatus::Compensating | ExecutionStatus::Paused => {
            TaskPayload::Working
        }
        ExecutionStatus::Blocked => {
            let input_requests = input_requests(&questions);
            if input_requests.is_empty() || route == ApprovalRoute::CommandLine {
                TaskPayload::Working
            } else {
                TaskPayload::InputRequired { input_requests }
            }
        }
        ExecutionStatus::Cancelled => TaskPayload::Cancelled,
        ExecutionStatus::Succeeded | ExecutionStatus::Compensated | ExecutionStatus::Failed => {
            TaskPayload::Completed { result: mcp_task_result(&view, route)? }
        }
    };
    let task = mcp_task(&view, payload.status());
    Ok(GetTaskResult::new(DetailedTask::new(task, payload)))
}

/// The tool result of an ended execution, as JSON.
fn mcp_task_result(view: &ExecutionView, route: ApprovalRoute) -> Result<JsonObject, ErrorData> {
    let mut result = answer::execution_answer(view, route).into_result();
    result.is_error = Some(view.status == ExecutionStatus::Failed);
    let object = serde_json::to_value(result).and_then(serde_json::from_value);
    object.map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

/// The open questions as input requests, each under a key of its own.
fn input_requests(questions: &[PersonQuestion]) -> InputRequests {
    let requests = questions.iter().map(|question| {
        let request = ElicitRequest::new(elicit::elicitation_form(question));
        (ShownQuestion::from_question(question).input_key(), InputRequest::Elicitation(request))
    });
    requests.collect::<BTreeMap<_, _>>()
}

/// Answers `tasks/update`: applies the person's answers to the questions that are still open, and ignores
/// others. Err: there is no such execution, or an answer is refused.
pub async fn update_mcp_task(
    endpoint: &McpEndpoint,
    request: &AgentRequest,
    id: &str,
    responses: &InputResponses,
) -> Result<(), ErrorData> {
    let (_, questions) = elicit::open_questions(endpoint, request, id, None)
        .await
        .map_err(|error| unknown_mcp_task_error(&error))?;
    for (name, response) in responses {
        // An answer to a question that is not open, or no longer, is ignored.
        let open =
            questions.iter().find(|question| ShownQuestion::from_question(question).input_key() == *name);
        if let Some(open) = open {
            apply_response(endpoint, request, open, response).await.map_err(|error| to_error_data(&error))?;
        }
    }
    Ok(())
}

/// Applies one answer and lets the execution continue; does nothing if the person made no choice. Err: the
/// answer is malformed or refused.
async fn apply_response(
    endpoint: &McpEndpoint,
    request: &AgentRequest,
    question: &PersonQuestion,
    response: &Value,
) -> Result<(), Error> {
    let result = serde_json::from_value(response.clone()).map_err(|error| {
        let message = format!("the answer is not an elicitation result: {error}");
        Error::agent(AgentErrorCode::InvalidArgument, message, "answer the form")
    })?;
    if let Some((option, reason)) = elicit::chosen_option(result, &question.waiting) {
        let found = elicit::apply_answer(endpoint, request, question, option, reason).await?;
        endpoint.background().continue_execution(found.stream).await?;
    }
    Ok(())
}

/// Answers `tasks/cancel`: cancels the execution; does nothing if it has ended. Err: there is no such
/// execution.
pub async fn cancel_mcp_task(
    endpoint: &McpEndpoint,
    request: &AgentRequest,
    id: &str,
) -> Result<(), ErrorData> {
    let service = endpoint.service();
    let found = service.executions().find(id).await.map_err(|error| unknown_mcp_task_error(&error))?;
    match found.status {
        ExecutionStatus::Succeeded
        | ExecutionStatus::Failed
        | ExecutionStatus::Cancelled
        | ExecutionStatus::Compensated => Ok(()),
        ExecutionStatus::Running
        | ExecutionStatus::Paused
        | ExecutionStatus::Blocked
        | ExecutionStatus::Compensating => {
            let why = Some("the task was cancelled".to_owned());
            service
                .executions()
                .cancel(&request.caller, id, why)
                .await
                .map_err(|error| to_error_data(&error))?;
            endpoint
                .background()
                .continue_execution(found.stream)
                .await
                .map_err(|error| to_error_data(&error.into()))?;
            Ok(())
        }
    }
}

/// The MCP task that shows this execution, with this status.
fn mcp_task(view: &ExecutionView, status: TaskStatus) -> Task {
    let times = view.steps.iter().flat_map(|step| [step.started_at.as_deref(), step.ended_at.as_deref()]);
    let latest = times.flatten().max().unwrap_or(&view.started_at);
    let updated = view.ended_at.as_deref().unwrap_or(latest);
    let mut task = Task::new(view.id.to_string(), status, view.started_at.clone(), updated.to_owned());
    task.ttl_ms = None;
    task.poll_interval_ms = Some(POLL_INTERVAL_MS);
    let waits =
        view.waiting.first().map(|one| format!(": {}", quote::line(&one.question, QUESTION_CHARS_MAX)));
    let waits = waits.unwrap_or_default();
    let progress = view.progress;
    task.status_message =
        Some(format!("{}, {} of {} steps done{waits}", view.status, progress.done, progress.total));
    task
}

/// The protocol error for an id that names no execution.
fn unknown_mcp_task_error(error: &Error) -> ErrorData {
    ErrorData::invalid_params(error.to_string(), None)
}

/// A service error as a protocol error, with the cure for an agent.
fn to_error_data(error: &Error) -> ErrorData {
    let cure = error.cures().agent;
    ErrorData::invalid_params(format!("{}: {error}; {cure}", error.code()), None)
}
