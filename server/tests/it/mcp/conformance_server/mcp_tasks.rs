//! Tools of the suite that become MCP tasks. These live in memory and end with the process. (The MCP tasks of
//! the real endpoint are executions, and live in the journal.)

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock,
    CreateTaskResult, ErrorData, InputRequest,
};
use rmcp::task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions};
use serde_json::Value;

use super::input_rounds::input_request;
use super::{McpRequestContext, from_json, string_argument, text_response};

/// How the job of an MCP task ends.
type TaskToolResult = Result<CallToolResult, TaskExit>;

/// Calls a tool that becomes an MCP task if the client supports that; None: it is no such tool.
pub async fn call_task_tool(
    tasks: &TaskManager,
    request: &CallToolRequestParams,
    context: &McpRequestContext,
) -> Option<Result<CallToolResponse, ErrorData>> {
    let declared = context.client_capabilities().is_some_and(|client| client.supports_tasks());
    let job = match request.name.as_ref() {
        "greet" => return Some(Ok(text_response(format!("Hello, {}!", string_argument(request, "name"))))),
        "slow_compute" => TaskToolJob::Compute(seconds_argument(request)),
        "failing_job" => TaskToolJob::ToolError,
        "protocol_error_job" => TaskToolJob::ProtocolError,
        "confirm_delete" => TaskToolJob::RequestInputs(&["confirm"]),
        "multi_input" => TaskToolJob::RequestInputs(&["user_name", "step2"]),
        "test_tool_with_task" => match super::input_rounds::answered_name(request) {
            Some(name) => TaskToolJob::Greet(name),
            None => return Some(super::input_rounds::request_name()),
        },
        _ => return None,
    };
    if declared {
        let spawned = tasks.spawn(TaskOptions::new(), |task| Box::pin(job.run(task)));
        return Some(Ok(CreateTaskResult::new(spawned).into()));
    }
    match job {
        TaskToolJob::Compute(span) => {
            // The suite says how long the tool computes.
            drop(tokio::time::timeout(span, std::future::pending::<()>()).await);
            Some(Ok(text_response("computed")))
        }
        TaskToolJob::ToolError
        | TaskToolJob::ProtocolError
        | TaskToolJob::RequestInputs(_)
        | TaskToolJob::Greet(_) => {
            let needed = ClientCapabilities::builder().enable_tasks().build();
            Some(Err(ErrorData::missing_required_client_capability(needed)))
        }
    }
}

/// The argument `seconds`; 0 if there is none.
fn seconds_argument(request: &CallToolRequestParams) -> Duration {
    let given = request.arguments.as_ref().and_then(|arguments| arguments.get("seconds"));
    Duration::from_secs(given.and_then(Value::as_u64).unwrap_or(0))
}

/// What a tool does once it runs.
enum TaskToolJob {
    Compute(Duration),
    /// Ends with a tool result that is an error.
    ToolError,
    /// Ends with a protocol error.
    ProtocolError,
    /// Requests these inputs, then ends.
    RequestInputs(&'static [&'static str]),
    Greet(String),
}

impl TaskToolJob {
    /// Runs as an MCP task.
    async fn run(self, task: TaskContext) -> TaskToolResult {
        match self {
            Self::Compute(span) => match tokio::time::timeout(span, task.cancelled()).await {
                Ok(()) => Err(TaskExit::Cancelled),
                Err(_) => Ok(text_result("computed")),
            },
            Self::ToolError => Ok(CallToolResult::error(vec![ContentBlock::text("the job failed")])),
            Self::ProtocolError => Err(TaskExit::Error(ErrorData::internal_error("the job broke", None))),
            Self::RequestInputs(names) => {
                let inputs = names.iter().map(|name| request_input(&task, name));
                futures_util::future::try_join_all(inputs).await?;
                Ok(text_result("answered"))
            }
            Self::Greet(name) => Ok(text_result(&format!("Hello, {name}!"))),
        }
    }
}

/// Requests one input from the client of the MCP task.
async fn request_input(task: &TaskContext, name: &str) -> Result<Value, TaskExit> {
    let request: InputRequest = from_json(input_request(name)).map_err(TaskExit::Error)?;
    task.request_input(name, request).await
}

/// A successful tool result with one text.
fn text_result(text: &str) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}
