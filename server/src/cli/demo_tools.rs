//! `actbook demo-tools`: an MCP server over stdio with real effects in one folder, for the demo, for
//! tests and for trying plans out. Knows its folder and nothing of Actbook.

mod catalog;
mod folder;
mod long;

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

use folder::Folder;
use long::Tasks;

const KEY_META: &str = "actbook/idempotency-key";
/// How often a sleeping call reports.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);
/// What `crash` leaves as its exit code.
const CRASH_CODE: i32 = 70;

/// Serves until the input ends.
pub async fn serve(folder: PathBuf, long: bool) -> anyhow::Result<()> {
    std::fs::create_dir_all(&folder)?;
    let mut tools = catalog::tools();
    tools.extend(long.then(catalog::long_tools).into_iter().flatten());
    let tasks = long.then(|| Tasks::open(folder.join(".tasks"))).transpose()?;
    let server = DemoTools { folder: Arc::new(Folder::open(&folder)?), tools, tasks };
    server.serve(transport::stdio()).await?.waiting().await?;
    Ok(())
}

struct DemoTools {
    folder: Arc<Folder>,
    tools: Vec<catalog::Offered>,
    tasks: Option<Tasks>,
}

impl ServerHandler for DemoTools {
    fn get_info(&self) -> ServerConfig {
        let can = ServerCapabilities::builder().enable_tools();
        let can = if self.tasks.is_some() { can.enable_tasks() } else { can };
        ServerConfig::new(can.build())
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
        self.offered(name).map(|offered| offered.tool.clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let unknown = || ErrorData::invalid_params(format!("Unknown tool: {}", request.name), None);
        let offered = self.offered(&request.name).ok_or_else(unknown)?;
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        if let Err(error) = offered.validator.validate(&arguments) {
            return Err(ErrorData::invalid_params(
                format!("arguments{}: {error}", error.instance_path()),
                None,
            ));
        }
        let key = context.meta.get(KEY_META).and_then(Value::as_str).unwrap_or("-");
        if offered.has_effect() {
            self.folder.witness(&request.name, key).map_err(internal)?;
        }
        if let (Some(tasks), "append_later") = (&self.tasks, request.name.as_ref()) {
            return tasks.accept(&arguments).map(CallToolResponse::Task).map_err(internal);
        }
        let (replies, state) = (request.input_responses.as_ref(), request.request_state.as_deref());
        let answer = match request.name.as_ref() {
            "sign" => match long::sign(&self.folder, &arguments, replies, state)? {
                Ok(output) => Ok(output),
                Err(asks) => return Ok(CallToolResponse::InputRequired(asks)),
            },
            "echo" => Ok(arguments),
            "sleep" => sleep(number(&arguments, "ms"), &context).await,
            "crash" => crash(&self.folder, &arguments),
            effect => act(self.folder.clone(), effect.to_owned(), arguments).await?,
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
        Ok(GetTaskResult::new(self.tasks()?.look(&request.task_id, &self.folder)?))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks()?.update(&request.task_id, &request.input_responses)
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
    fn tasks(&self) -> Result<&Tasks, ErrorData> {
        self.tasks.as_ref().ok_or_else(|| ErrorData::invalid_params("no task was ever given out", None))
    }

    fn offered(&self, name: &str) -> Option<&catalog::Offered> {
        self.tools.iter().find(|offered| offered.tool.name == name)
    }
}

fn internal(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

async fn act(
    folder: Arc<Folder>,
    tool: String,
    arguments: Value,
) -> Result<Result<Value, String>, ErrorData> {
    tokio::task::spawn_blocking(move || folder.act(&tool, &arguments)).await.map_err(internal)
}

async fn sleep(ms: u64, context: &RequestContext<RoleServer>) -> Result<Value, String> {
    let started = tokio::time::Instant::now();
    let total = Duration::from_millis(ms);
    while started.elapsed() < total {
        let left = total.saturating_sub(started.elapsed());
        tokio::select! {
            () = context.ct.cancelled() => return Err("cancelled".to_owned()),
            () = tokio::time::sleep(left.min(PROGRESS_EVERY)) => {}
        }
        report(started.elapsed().as_millis() as f64, ms as f64, context).await;
    }
    Ok(json!({ "slept_ms": ms }))
}

async fn report(done: f64, total: f64, context: &RequestContext<RoleServer>) {
    let Some(token) = context.meta.get_progress_token() else { return };
    let progress = ProgressNotificationParam::new(token, done.min(total)).with_total(total);
    if let Err(error) = context.peer.notify_progress(progress).await {
        tracing::debug!(%error, "progress was not delivered");
    }
}

/// Leaves without a word, in the middle of the call, after the effect that was asked for.
fn crash(folder: &Folder, arguments: &Value) -> Result<Value, String> {
    if let Some(path) = arguments.get("after_effect").and_then(Value::as_str) {
        folder.act("write_file", &json!({ "path": path, "content": "written before the crash\n" }))?;
    }
    std::process::exit(CRASH_CODE)
}

/// The schema has been checked, so the argument is there.
fn number(arguments: &Value, name: &str) -> u64 {
    arguments.get(name).and_then(Value::as_u64).unwrap_or(0)
}
