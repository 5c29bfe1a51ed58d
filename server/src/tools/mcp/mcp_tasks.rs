//! MCP tasks (the Tasks extension): calls that a server continues in the background and that are polled until
//! they end. Also questions that a tool asks (`input_required`), and the replies to them.

use std::time::{Duration, Instant};

use rmcp::model::{
    CallToolRequestParams, CallToolResult, CancelTaskParams, CancelTaskRequest, ClientRequest, DetailedTask,
    ErrorCode, GetTaskParams, GetTaskRequest, InputRequests, InputRequiredResult, InputResponses, JsonObject,
    ServerResult, Task, TaskPayload, UpdateTaskParams, UpdateTaskRequest,
};
use rmcp::service::ServiceError;
use serde_json::{Value, json};

use super::connection::{McpConnection, tool_result};
use super::{DownstreamServer, StopFuture};
use crate::tools::Call;
use crate::tools::classify::RawOutcome;

/// A longer task id is not stored durably; then only this process can poll the task.
pub const MCP_TASK_ID_BYTES_MAX: usize = 1024;
/// The poll interval is what the server asks for, within these limits.
const POLL_MIN: Duration = Duration::from_millis(50);
const POLL_MAX: Duration = Duration::from_secs(30);
/// Poll interval where the server asks for none.
const POLL_DEFAULT: Duration = Duration::from_secs(1);
/// The time limit of one request about a task.
const ASK_LIMIT: Duration = Duration::from_secs(30);

/// How long and how often an MCP task is polled.
pub struct McpTaskWait {
    pub deadline: Instant,
    /// The call's timeout, for the message when the deadline passes.
    pub timeout: Duration,
    /// The poll interval that the server asks for.
    pub poll_interval: Option<Duration>,
}

/// The outcome of a call for which the server created a task.
pub fn task_created(task: &Task) -> RawOutcome {
    RawOutcome::McpTaskCreated {
        task: task.task_id.clone(),
        poll: task.poll_interval_ms.map(Duration::from_millis),
    }
}

/// The outcome of a call to which the tool answered with a question.
pub fn input_required(asks: &InputRequiredResult) -> RawOutcome {
    let empty = InputRequests::new();
    let requests = asks.input_requests.as_ref().unwrap_or(&empty);
    let mut question = question_json(requests);
    if let Some(state) = &asks.request_state {
        question["requestState"] = json!(state);
    }
    RawOutcome::InputRequired { question, began: false }
}

/// The question as the journal keeps it: `message`, shown where an error message would be, and
/// `inputRequests`.
fn question_json(requests: &InputRequests) -> Value {
    let requests = serde_json::to_value(requests).unwrap_or_default();
    let text =
        requests.as_object().into_iter().flatten().find_map(|(_, one)| one["params"]["message"].as_str());
    let message = format!("the tool asks: {}", text.unwrap_or("to be called again"));
    json!({ "message": message, "inputRequests": requests })
}

/// Adds the reply to a question, and the server's `requestState`, to a repeated call; unchanged if the call
/// has no reply.
pub fn with_reply(params: CallToolRequestParams, call: &Call) -> CallToolRequestParams {
    let Some(reply) = &call.context.reply else { return params };
    let params = params.with_input_responses(input_responses(&reply.answer));
    match reply.question.get("requestState").and_then(Value::as_str) {
        Some(state) => params.with_request_state(state),
        None => params,
    }
}

/// The answers to a question, by the keys of its requests; empty if `answer` is not an object.
fn input_responses(answer: &Value) -> InputResponses {
    let parts = answer.as_object().into_iter().flatten();
    parts.map(|(name, part)| (name.clone(), part.clone())).collect()
}

/// The id of the task whose question the call replies to. None: the call replies to no task.
pub fn replied_task(call: &Call) -> Option<&str> {
    call.context.reply.as_ref().and_then(|reply| reply.question.get("task")).and_then(Value::as_str)
}

/// Sends the reply to a task's question. `McpTaskCreated`: accepted, and the task is to be polled again;
/// `McpTaskLost`: not accepted.
pub async fn send_reply(connection: &McpConnection, task: &str, call: &Call) -> RawOutcome {
    let answer = call.context.reply.as_ref().map(|reply| input_responses(&reply.answer)).unwrap_or_default();
    let request = UpdateTaskRequest::new(UpdateTaskParams::new(task, answer));
    match send_request(connection, ClientRequest::UpdateTaskRequest(request)).await {
        Ok(_) => RawOutcome::McpTaskCreated { task: task.to_owned(), poll: None },
        Err(McpTaskRequestError { why, .. }) => {
            RawOutcome::McpTaskLost { why: format!("task {task} did not accept the reply: {why}") }
        }
    }
}

/// Polls a task, at least once, until it has ended, its deadline has passed, or the server no longer knows
/// it. Keeps polling while the server is down. Also returns whether the task was asked to stop, which it was
/// before the first poll if `stopped` is true.
pub async fn poll_until_ended<F>(
    server: &DownstreamServer,
    task: &str,
    wait: McpTaskWait,
    mut stop: StopFuture<'_, F>,
    mut stopped: bool,
) -> (RawOutcome, bool)
where
    F: Future<Output = ()> + Send,
{
    if stopped {
        request_cancel(server, task).await;
    }
    let mut poll = wait.poll_interval;
    loop {
        match poll_once(server, task).await {
            McpTaskPoll::Ended(raw) => return (raw, stopped),
            McpTaskPoll::Working(interval) => poll = interval.or(poll),
            McpTaskPoll::Unreachable(why) => tracing::debug!(task, why, "a task could not be polled"),
        }
        if Instant::now() >= wait.deadline {
            request_cancel(server, task).await;
            return (RawOutcome::TimedOut { after: wait.timeout }, stopped);
        }
        let pause = poll.unwrap_or(POLL_DEFAULT).clamp(POLL_MIN, POLL_MAX);
        let pause = pause.min(wait.deadline.saturating_duration_since(Instant::now()));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = &mut stop, if !stopped => {
                stopped = true;
                request_cancel(server, task).await;
            }
        }
    }
}

/// The result of polling a task once. `Ended`: completed, failed, lost, or asking a question.
enum McpTaskPoll {
    Ended(RawOutcome),
    /// Still running; with the poll interval that the server asks for.
    Working(Option<Duration>),
    /// The server did not answer; it may do so later.
    Unreachable(String),
}

/// Asks the server once for a task's status.
async fn poll_once(server: &DownstreamServer, task: &str) -> McpTaskPoll {
    let connection = match tokio::time::timeout(ASK_LIMIT, server.live_connection()).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => return McpTaskPoll::Unreachable(error.why),
        Err(_) => return McpTaskPoll::Unreachable("the server is not up".to_owned()),
    };
    let request = ClientRequest::GetTaskRequest(GetTaskRequest::new(GetTaskParams::new(task)));
    match send_request(&connection, request).await {
        Ok(ServerResult::GetTaskResult(found)) => poll_result(found.task),
        Ok(_) => McpTaskPoll::Ended(RawOutcome::McpTaskLost {
            why: format!("the server's answer about task {task} is not a task"),
        }),
        Err(McpTaskRequestError { why, is_unknown_task: true }) => {
            McpTaskPoll::Ended(RawOutcome::McpTaskLost {
                why: format!("the server does not know task {task} any more: {why}"),
            })
        }
        Err(McpTaskRequestError { why, is_unknown_task: false }) => McpTaskPoll::Unreachable(why),
    }
}

/// What the server's report about a task means.
fn poll_result(found: DetailedTask) -> McpTaskPoll {
    let DetailedTask { task, payload, .. } = found;
    match payload {
        TaskPayload::Completed { result } => McpTaskPoll::Ended(completed_task(result)),
        TaskPayload::Failed { error } => McpTaskPoll::Ended(failed_task(&error)),
        TaskPayload::Cancelled => McpTaskPoll::Ended(RawOutcome::McpTaskLost {
            why: format!("task {} was cancelled", task.task_id),
        }),
        TaskPayload::InputRequired { input_requests } => {
            let mut question = question_json(&input_requests);
            question["task"] = json!(task.task_id);
            McpTaskPoll::Ended(RawOutcome::InputRequired { question, began: true })
        }
        // A status that a later version of rmcp adds counts as still running.
        _ => McpTaskPoll::Working(task.poll_interval_ms.map(Duration::from_millis)),
    }
}

/// The outcome of a completed task, from its result; invalid if that is not a tool result.
fn completed_task(result: JsonObject) -> RawOutcome {
    match serde_json::from_value::<CallToolResult>(Value::Object(result)) {
        Ok(result) => tool_result(result),
        Err(error) => {
            RawOutcome::InvalidResponse { why: format!("the task's result is not a tool result: {error}") }
        }
    }
}

/// The outcome of a failed task, from its JSON-RPC error; code 0 if it has none.
fn failed_task(error: &JsonObject) -> RawOutcome {
    let code = error.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
    let message = error.get("message").and_then(Value::as_str).unwrap_or("the task failed").to_owned();
    RawOutcome::RpcError { code: code.unwrap_or(0), message, data: error.get("data").cloned() }
}

/// Asks the server to cancel a task; a failure is only logged. How the task ended is still found by polling.
async fn request_cancel(server: &DownstreamServer, task: &str) {
    let Ok(Ok(connection)) = tokio::time::timeout(ASK_LIMIT, server.live_connection()).await else { return };
    let request = CancelTaskRequest::new(CancelTaskParams::new(task));
    if let Err(McpTaskRequestError { why, .. }) =
        send_request(&connection, ClientRequest::CancelTaskRequest(request)).await
    {
        tracing::debug!(task, why, "a task could not be cancelled");
    }
}

/// Why a request about a task has no result.
struct McpTaskRequestError {
    why: String,
    /// The server says that there is no such task.
    is_unknown_task: bool,
}

/// Sends a request about a task and waits for its result, at most `ASK_LIMIT`.
async fn send_request(
    connection: &McpConnection,
    request: ClientRequest,
) -> Result<ServerResult, McpTaskRequestError> {
    let no_answer = |why: String| McpTaskRequestError { why, is_unknown_task: false };
    match tokio::time::timeout(ASK_LIMIT, connection.peer().send_request(request)).await {
        Err(_) => Err(no_answer(format!("no answer within {ASK_LIMIT:?}"))),
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(ServiceError::McpError(error))) => {
            let unknown_task =
                [ErrorCode::INVALID_PARAMS, ErrorCode::METHOD_NOT_FOUND, ErrorCode::RESOURCE_NOT_FOUND];
            Err(McpTaskRequestError {
                why: error.message.to_string(),
                is_unknown_task: unknown_task.contains(&error.code),
            })
        }
        Ok(Err(error)) => Err(no_answer(error.to_string())),
    }
}
