//! `actbook demo-tools`: an MCP server over stdio with real effects in one folder, for the demo, for
//! tests and for trying plans out. It knows its folder and nothing of Actbook.

mod catalog;
mod folder;
mod task_tools;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock, ErrorData,
    GetTaskParams, GetTaskResult, Implementation, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, ServerCapabilities, ServerConfig, Tool, UpdateTaskParams,
};
use rmcp::service::{RequestContext, RoleServer, ServiceExt};
use rmcp::{ServerHandler, transport};
use serde_json::{Value, json};

use folder::DemoFolder;
use task_tools::DemoTasks;

/// The request metadata field that carries the idempotency key.
const IDEMPOTENCY_KEY_META: &str = "actbook/idempotency-key";
/// How often a sleeping call reports progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
/// The exit code of the process after `crash`.
const CRASH_EXIT_CODE: i32 = 70;

/// Serves MCP on stdio until stdin ends. `long` adds tools that answer with a task or ask back.
pub async fn serve(folder: PathBuf, long: bool) -> anyhow::Result<()> {
    std::fs::create_dir_all(&folder)?;
    let mut tools = catalog::base_tools();
    tools.extend(long.then(catalog::long_tools).into_iter().flatten());
    let tasks = long.then(|| DemoTasks::open(folder.join(".tasks"))).transpose()?;
    let server = DemoTools { folder: Arc::new(DemoFolder::open(&folder)?), tools, tasks };
    server.serve(transport::stdio()).await?.waiting().await?;
    Ok(())
}

/// The MCP server.
struct DemoTools {
    folder: Arc<DemoFolder>,
    tools: Vec<catalog::DemoTool>,
    /// `None` without the tools that answer with a task.
    tasks: Option<DemoTasks>,
}

impl ServerHandler for DemoTools {
    fn get_info(&self) -> ServerConfig {
        let builder = ServerCapabilities::builder().enable_tools();
        let builder = if self.tasks.is_some() { builder.enable_tasks() } else { builder };
        ServerConfig::new(builder.build())
            .with_server_info(Implementation::new("actbook-demo-tools", env!("CARGO_PKG_VERSION")))
            .with_instructions("Real effects, confined to one folder. Paths are relative to it.")
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.iter().map(|offered| offered.tool.clone()).collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.find_tool(name).map(|offered| offered.tool.clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let unknown = || ErrorData::invalid_params(format!("Unknown tool: {}", request.name), None);
        let offered = self.find_tool(&request.name).ok_or_else(unknown)?;
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        if let Err(error) = offered.validator.validate(&arguments) {
            return Err(ErrorData::invalid_params(
                format!("arguments{}: {error}", error.instance_path()),
                None,
            ));
        }
        let key = context.meta.get(IDEMPOTENCY_KEY_META).and_then(Value::as_str).unwrap_or("-");
        if offered.has_effect() {
            self.folder.log_call(&request.name, key).map_err(internal_error)?;
        }
        if let (Some(tasks), "append_later") = (&self.tasks, request.name.as_ref()) {
            return tasks.create(&arguments).map(CallToolResponse::Task).map_err(internal_error);
        }
        let (replies, state) = (request.input_responses.as_ref(), request.request_state.as_deref());
        let answer = match request.name.as_ref() {
            "sign" => match task_tools::sign(&self.folder, &arguments, replies, state)? {
                Ok(output) => Ok(output),
                Err(asks) => return Ok(CallToolResponse::InputRequired(asks)),
            },
            "echo" => Ok(arguments),
            "sleep" => sleep_with_progress(number_argument(&arguments, "ms"), &context).await,
            "crash" => crash(&self.folder, &arguments),
            effect => run_folder_tool(self.folder.clone(), effect.to_owned(), arguments).await?,
        };
        Ok(CallToolResponse::Complete(match answer {
            Ok(output) => CallToolResult::structured(output),
            Err(why) => CallToolResult::error(vec![ContentBlock::text(why)]),
        }))
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.tasks()?.poll(&request.task_id, &self.folder)?))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks()?.supply_input(&request.task_id, &request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks()?.cancel(&request.task_id)
    }
}

impl DemoTools {
    /// The tasks; an error if this server has no tools that answer with one.
    fn tasks(&self) -> Result<&DemoTasks, ErrorData> {
        self.tasks.as_ref().ok_or_else(|| ErrorData::invalid_params("no task was ever given out", None))
    }

    /// The tool of this name; `None` if there is none.
    fn find_tool(&self, name: &str) -> Option<&catalog::DemoTool> {
        self.tools.iter().find(|offered| offered.tool.name == name)
    }
}

fn internal_error(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

/// Runs a tool on the folder in a blocking thread. The inner error is the tool's, the outer one the server's.
async fn run_folder_tool(
    folder: Arc<DemoFolder>,
    tool: String,
    arguments: Value,
) -> Result<Result<Value, String>, ErrorData> {
    tokio::task::spawn_blocking(move || folder.run_tool(&tool, &arguments)).await.map_err(internal_error)
}

/// Sleeps for `ms`, reporting progress; an error if the client cancels the call.
async fn sleep_with_progress(ms: u64, context: &RequestContext<RoleServer>) -> Result<Value, String> {
    let started = tokio::time::Instant::now();
    let total = Duration::from_millis(ms);
    while started.elapsed() < total {
        let left = total.saturating_sub(started.elapsed());
        tokio::select! {
            () = context.ct.cancelled() => return Err("cancelled".to_owned()),
            () = tokio::time::sleep(left.min(PROGRESS_INTERVAL)) => {}
        }
        report_progress(started.elapsed().as_millis() as f64, ms as f64, context).await;
    }
    Ok(json!({ "slept_ms": ms }))
}

/// Sends a progress notification if the client asked for them.
async fn report_progress(done: f64, total: f64, context: &RequestContext<RoleServer>) {
    let Some(token) = context.meta.get_progress_token() else { return };
    let progress = ProgressNotificationParam::new(token, done.min(total)).with_total(total);
    if let Err(error) = context.peer.notify_progress(progress).await {
        tracing::debug!(%error, "progress was not delivered");
    }
}

/// Exits the process without answering the call, after writing the file `after_effect` if it is given.
fn crash(folder: &DemoFolder, arguments: &Value) -> Result<Value, String> {
    if let Some(path) = arguments.get("after_effect").and_then(Value::as_str) {
        folder.run_tool("write_file", &json!({ "path": path, "content": "written before the crash\n" }))?;
    }
    std::process::exit(CRASH_EXIT_CODE)
}

/// A whole number among the arguments. The schema has been checked, so it is there; 0 otherwise.
fn number_argument(arguments: &Value, name: &str) -> u64 {
    arguments.get(name).and_then(Value::as_u64).unwrap_or(0)
}
