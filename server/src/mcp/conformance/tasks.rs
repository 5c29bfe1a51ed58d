//! Tools of the suite that become tasks. They live in memory: the fixture promises nothing beyond its
//! process. (The door's own tasks are executions, and live in the journal.)

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock,
    CreateTaskResult, ErrorData, InputRequest,
};
use rmcp::task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions};
use serde_json::Value;

use super::rounds::question;
use super::{Context, argument, shaped, text};

type Done = Result<CallToolResult, TaskExit>;

/// None: it is no tool of this kind.
pub async fn call(
    tasks: &TaskManager,
    request: &CallToolRequestParams,
    context: &Context,
) -> Option<Result<CallToolResponse, ErrorData>> {
    let declared = context.client_capabilities().is_some_and(|client| client.supports_tasks());
    let work = match request.name.as_ref() {
        "greet" => return Some(Ok(text(format!("Hello, {}!", argument(request, "name"))))),
        "slow_compute" => Work::Compute(seconds(request)),
        "failing_job" => Work::Fail,
        "protocol_error_job" => Work::Break,
        "confirm_delete" => Work::Ask(&["confirm"]),
        "multi_input" => Work::Ask(&["user_name", "step2"]),
        "test_tool_with_task" => match super::rounds::name_given(request) {
            Some(name) => Work::Greet(name),
            None => return Some(super::rounds::ask_name()),
        },
        _ => return None,
    };
    if declared {
        let spawned = tasks.spawn(TaskOptions::new(), |task| Box::pin(work.run(task)));
        return Some(Ok(CreateTaskResult::new(spawned).into()));
    }
    match work {
        Work::Compute(span) => {
            tokio::time::sleep(span).await;
            Some(Ok(text("computed")))
        }
        Work::Fail | Work::Break | Work::Ask(_) | Work::Greet(_) => {
            let needed = ClientCapabilities::builder().enable_tasks().build();
            Some(Err(ErrorData::missing_required_client_capability(needed)))
        }
    }
}

fn seconds(request: &CallToolRequestParams) -> Duration {
    let given = request.arguments.as_ref().and_then(|arguments| arguments.get("seconds"));
    Duration::from_secs(given.and_then(Value::as_u64).unwrap_or(0))
}

enum Work {
    Compute(Duration),
    Fail,
    Break,
    Ask(&'static [&'static str]),
    Greet(String),
}

impl Work {
    async fn run(self, task: TaskContext) -> Done {
        match self {
            Self::Compute(span) => tokio::select! {
                () = tokio::time::sleep(span) => Ok(said("computed")),
                () = task.cancelled() => Err(TaskExit::Cancelled),
            },
            Self::Fail => Ok(CallToolResult::error(vec![ContentBlock::text("the job failed")])),
            Self::Break => Err(TaskExit::Error(ErrorData::internal_error("the job broke", None))),
            Self::Ask(names) => {
                let asked = names.iter().map(|name| ask(&task, name));
                futures_util::future::try_join_all(asked).await?;
                Ok(said("answered"))
            }
            Self::Greet(name) => Ok(said(&format!("Hello, {name}!"))),
        }
    }
}

async fn ask(task: &TaskContext, name: &str) -> Result<Value, TaskExit> {
    let request: InputRequest = shaped(question(name)).map_err(TaskExit::Error)?;
    task.request_input(name, request).await
}

fn said(words: &str) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(words)])
}
