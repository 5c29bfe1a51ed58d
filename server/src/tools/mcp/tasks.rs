//! Calls that a server goes on with by itself (the Tasks extension), and questions that it asks: what is
//! sent, what comes back, and how a task is asked after until it has ended.

use std::time::{Duration, Instant};

use rmcp::model::{
    CallToolRequestParams, CallToolResult, CancelTaskParams, CancelTaskRequest, ClientRequest, DetailedTask,
    ErrorCode, GetTaskParams, GetTaskRequest, InputRequests, InputRequiredResult, InputResponses, JsonObject,
    ServerResult, Task, TaskPayload, UpdateTaskParams, UpdateTaskRequest,
};
use rmcp::service::ServiceError;
use serde_json::{Value, json};

use super::connection::{Connection, tool_answer};
use super::{Server, Stop};
use crate::tools::Call;
use crate::tools::classify::Came;

/// A longer handle is not kept; the task is then asked after by this process alone.
pub const BYTES_MAX: usize = 1024;
/// How often a task is asked after: as the server says, within these.
const POLL_MIN: Duration = Duration::from_millis(50);
const POLL_MAX: Duration = Duration::from_secs(30);
const POLL_DEFAULT: Duration = Duration::from_secs(1);
/// One question to the server about a task.
const ASK_LIMIT: Duration = Duration::from_secs(30);

/// How long a task is waited for.
pub struct Wait {
    pub deadline: Instant,
    pub timeout: Duration,
    pub poll: Option<Duration>,
}

pub fn accepted(task: &Task) -> Came {
    Came::Background { task: task.task_id.clone(), poll: task.poll_interval_ms.map(Duration::from_millis) }
}

pub fn question(asks: &InputRequiredResult) -> Came {
    let nothing = InputRequests::new();
    let requests = asks.input_requests.as_ref().unwrap_or(&nothing);
    let mut question = asked(requests);
    if let Some(state) = &asks.request_state {
        question["requestState"] = json!(state);
    }
    Came::Question { question, began: false }
}

/// With a sentence that stands where an error's would.
fn asked(requests: &InputRequests) -> Value {
    let requests = serde_json::to_value(requests).unwrap_or_default();
    let words =
        requests.as_object().into_iter().flatten().find_map(|(_, one)| one["params"]["message"].as_str());
    let message = format!("the tool asks: {}", words.unwrap_or("to be called again"));
    json!({ "message": message, "inputRequests": requests })
}

/// The call again, with what it asked for and what it wants back.
pub fn with_reply(params: CallToolRequestParams, call: &Call) -> CallToolRequestParams {
    let Some(reply) = &call.carry.reply else { return params };
    let params = params.with_input_responses(responses(&reply.answer));
    match reply.question.get("requestState").and_then(Value::as_str) {
        Some(state) => params.with_request_state(state),
        None => params,
    }
}

fn responses(answer: &Value) -> InputResponses {
    let parts = answer.as_object().into_iter().flatten();
    parts.map(|(name, part)| (name.clone(), part.clone())).collect()
}

/// The task whose question the call replies to.
pub fn replied_to(call: &Call) -> Option<&str> {
    call.carry.reply.as_ref().and_then(|reply| reply.question.get("task")).and_then(Value::as_str)
}

/// Hands a task what it asked for; it then goes on.
pub async fn update(connection: &Connection, task: &str, call: &Call) -> Came {
    let answer = call.carry.reply.as_ref().map(|reply| responses(&reply.answer)).unwrap_or_default();
    let request = UpdateTaskRequest::new(UpdateTaskParams::new(task, answer));
    match ask(connection, ClientRequest::UpdateTaskRequest(request)).await {
        Ok(_) => Came::Background { task: task.to_owned(), poll: None },
        Err(Unanswered { why, .. }) => {
            Came::TaskLost { why: format!("task {task} did not take the reply: {why}") }
        }
    }
}

/// Asks after a task until it has ended, its time is up, or the server has forgotten it. It is looked at
/// once in any case. A server that is down for a while is waited for.
pub async fn follow<F>(
    server: &Server,
    task: &str,
    wait: Wait,
    mut stop: Stop<'_, F>,
    mut stopped: bool,
) -> (Came, bool)
where
    F: Future<Output = ()> + Send,
{
    if stopped {
        cancel(server, task).await;
    }
    let mut poll = wait.poll;
    loop {
        match look(server, task).await {
            Looked::Ended(came) => return (came, stopped),
            Looked::Working(said) => poll = said.or(poll),
            Looked::Away(why) => tracing::debug!(task, why, "a task could not be asked after"),
        }
        if Instant::now() >= wait.deadline {
            cancel(server, task).await;
            return (Came::TimedOut { after: wait.timeout }, stopped);
        }
        let pause = poll.unwrap_or(POLL_DEFAULT).clamp(POLL_MIN, POLL_MAX);
        let pause = pause.min(wait.deadline.saturating_duration_since(Instant::now()));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = &mut stop, if !stopped => {
                stopped = true;
                cancel(server, task).await;
            }
        }
    }
}

enum Looked {
    Ended(Came),
    Working(Option<Duration>),
    /// The server did not answer; it may do so later.
    Away(String),
}

async fn look(server: &Server, task: &str) -> Looked {
    let connection = match tokio::time::timeout(ASK_LIMIT, server.connection()).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(not_up)) => return Looked::Away(not_up.why),
        Err(_) => return Looked::Away("the server is not up".to_owned()),
    };
    let request = ClientRequest::GetTaskRequest(GetTaskRequest::new(GetTaskParams::new(task)));
    match ask(&connection, request).await {
        Ok(ServerResult::GetTaskResult(found)) => state(found.task),
        Ok(_) => {
            Looked::Ended(Came::TaskLost { why: format!("what the server says of task {task} is no task") })
        }
        Err(Unanswered { why, forgotten: true }) => Looked::Ended(Came::TaskLost {
            why: format!("the server does not know task {task} any more: {why}"),
        }),
        Err(Unanswered { why, forgotten: false }) => Looked::Away(why),
    }
}

fn state(found: DetailedTask) -> Looked {
    let DetailedTask { task, payload, .. } = found;
    match payload {
        TaskPayload::Completed { result } => Looked::Ended(completed(result)),
        TaskPayload::Failed { error } => Looked::Ended(failed(&error)),
        TaskPayload::Cancelled => {
            Looked::Ended(Came::TaskLost { why: format!("task {} was cancelled", task.task_id) })
        }
        TaskPayload::InputRequired { input_requests } => {
            let mut question = asked(&input_requests);
            question["task"] = json!(task.task_id);
            Looked::Ended(Came::Question { question, began: true })
        }
        // A status that rmcp learns later is one that has not ended as far as we know.
        _ => Looked::Working(task.poll_interval_ms.map(Duration::from_millis)),
    }
}

fn completed(result: JsonObject) -> Came {
    match serde_json::from_value::<CallToolResult>(Value::Object(result)) {
        Ok(result) => tool_answer(result),
        Err(error) => Came::Unintelligible { why: format!("the task's result is no tool result: {error}") },
    }
}

fn failed(error: &JsonObject) -> Came {
    let code = error.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
    let message = error.get("message").and_then(Value::as_str).unwrap_or("the task failed").to_owned();
    Came::Error { code: code.unwrap_or(0), message, data: error.get("data").cloned() }
}

/// As a wish: how the task ended is what it says itself.
async fn cancel(server: &Server, task: &str) {
    let Ok(Ok(connection)) = tokio::time::timeout(ASK_LIMIT, server.connection()).await else { return };
    let request = CancelTaskRequest::new(CancelTaskParams::new(task));
    if let Err(Unanswered { why, .. }) = ask(&connection, ClientRequest::CancelTaskRequest(request)).await {
        tracing::debug!(task, why, "a task could not be asked to stop");
    }
}

struct Unanswered {
    why: String,
    /// The server says that there is no such task.
    forgotten: bool,
}

async fn ask(connection: &Connection, request: ClientRequest) -> Result<ServerResult, Unanswered> {
    let unanswered = |why: String| Unanswered { why, forgotten: false };
    match tokio::time::timeout(ASK_LIMIT, connection.peer().send_request(request)).await {
        Err(_) => Err(unanswered(format!("no answer within {ASK_LIMIT:?}"))),
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(ServiceError::McpError(error))) => {
            let unknown =
                [ErrorCode::INVALID_PARAMS, ErrorCode::METHOD_NOT_FOUND, ErrorCode::RESOURCE_NOT_FOUND];
            Err(Unanswered { why: error.message.to_string(), forgotten: unknown.contains(&error.code) })
        }
        Ok(Err(error)) => Err(unanswered(error.to_string())),
    }
}
