//! Tools that answer with a task or ask back, for trying out what a plan does then: an append as a task that
//! survives the server, and a signature that asks for a name. Each task is a file in the folder.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rmcp::model::{
    CallToolResult, CreateTaskResult, DetailedTask, ErrorData, InputRequests, InputRequiredResult,
    InputResponses, Task, TaskPayload, TaskStatus,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::folder::DemoFolder;

/// How often a client should poll a task.
const POLL_MS: u64 = 50;
/// The request state that `sign` hands out with its question and expects back with the reply.
const REQUEST_STATE: &str = "first-round";

/// A task as it is stored in its file: an append that is due at a time.
#[derive(Debug, Serialize, Deserialize)]
struct StoredTask {
    path: String,
    content: String,
    due_at_ms: u64,
    /// The task waits for a name before it continues.
    asks: bool,
    cancelled: bool,
    /// The append's output; `None` until it was made.
    output: Option<Value>,
}

/// The server's tasks, a file each.
pub struct DemoTasks {
    folder: PathBuf,
}

impl DemoTasks {
    pub fn open(folder: PathBuf) -> io::Result<Self> {
        std::fs::create_dir_all(&folder)?;
        Ok(Self { folder })
    }

    /// Creates a task and returns its handle; the task is on disk first.
    pub fn create(&self, arguments: &Value) -> io::Result<CreateTaskResult> {
        let text = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
        let work = StoredTask {
            path: text("path"),
            content: text("content"),
            due_at_ms: now_ms() + arguments["ms"].as_u64().unwrap_or(0),
            asks: arguments["ask"].as_bool().unwrap_or(false),
            cancelled: false,
            output: None,
        };
        let id = format!("task-{}-{}", now_ms(), std::process::id());
        self.save(&id, &work)?;
        Ok(CreateTaskResult::new(task_handle(&id)))
    }

    /// The task's state. Makes the append, once, if it is due.
    pub fn poll(&self, id: &str, folder: &DemoFolder) -> Result<DetailedTask, ErrorData> {
        let mut work = self.load(id)?;
        let payload = if let Some(output) = &work.output {
            completed_payload(output)
        } else if work.cancelled {
            TaskPayload::Cancelled
        } else if work.asks {
            TaskPayload::InputRequired { input_requests: name_request() }
        } else if now_ms() < work.due_at_ms {
            TaskPayload::Working
        } else {
            let arguments = json!({ "path": work.path, "content": work.content });
            let output = folder.run_tool("append_file", &arguments).map_err(super::internal_error)?;
            work.output = Some(output.clone());
            self.save(id, &work).map_err(super::internal_error)?;
            completed_payload(&output)
        };
        Ok(DetailedTask::new(task_handle(id), payload))
    }

    /// Takes the reply to the task's question and lets the task continue.
    pub fn supply_input(&self, id: &str, replies: &InputResponses) -> Result<(), ErrorData> {
        let mut work = self.load(id)?;
        work.content = format!("{}{}\n", work.content, replied_name(replies)?);
        work.asks = false;
        self.save(id, &work).map_err(super::internal_error)
    }

    pub fn cancel(&self, id: &str) -> Result<(), ErrorData> {
        let mut work = self.load(id)?;
        work.cancelled = true;
        self.save(id, &work).map_err(super::internal_error)
    }

    fn load(&self, id: &str) -> Result<StoredTask, ErrorData> {
        let unknown = |_| ErrorData::invalid_params(format!("Unknown task: {id}"), None);
        let name = if id.contains('/') { "" } else { id };
        let text = std::fs::read_to_string(self.folder.join(name)).map_err(unknown)?;
        serde_json::from_str(&text).map_err(super::internal_error)
    }

    /// Writes the task to a temporary file and renames it, so that a reader never sees half a task.
    fn save(&self, id: &str, work: &StoredTask) -> io::Result<()> {
        let draft = self.folder.join(format!("{id}.new"));
        std::fs::write(&draft, serde_json::to_string(work)?)?;
        std::fs::rename(draft, self.folder.join(id))
    }
}

/// The handle of a task, as the protocol has it.
fn task_handle(id: &str) -> Task {
    let now = jiff::Timestamp::now().to_string();
    Task::new(id.to_owned(), TaskStatus::Working, now.clone(), now).with_poll_interval_ms(POLL_MS)
}

fn completed_payload(output: &Value) -> TaskPayload {
    let result = serde_json::to_value(CallToolResult::structured(output.clone()));
    let result = result.ok().and_then(|result| result.as_object().cloned());
    TaskPayload::Completed { result: result.unwrap_or_default() }
}

/// Unix time in milliseconds.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// An elicitation request with one field, `name`.
fn name_request() -> InputRequests {
    let schema = json!({
        "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"],
    });
    let request = json!({
        "method": "elicitation/create",
        "params": { "mode": "form", "message": "Who signs this?", "requestedSchema": schema },
    });
    let requests = serde_json::from_value(json!({ "author": request }));
    requests.expect("the request above is one of the protocol")
}

/// The name in the reply to that request; an error if it has none.
fn replied_name(replies: &InputResponses) -> Result<&str, ErrorData> {
    let name = replies.get("author").and_then(|reply| reply["content"]["name"].as_str());
    name.ok_or_else(|| ErrorData::invalid_params("the reply has no author's name", None))
}

/// `sign`: the first call returns a question (the inner `Err`); the second, with the reply and the request
/// state, appends the signature and returns the output.
pub fn sign(
    folder: &DemoFolder,
    arguments: &Value,
    replies: Option<&InputResponses>,
    state: Option<&str>,
) -> Result<Result<Value, InputRequiredResult>, ErrorData> {
    let Some(replies) = replies else {
        return Ok(Err(InputRequiredResult::new(Some(name_request()), Some(REQUEST_STATE.to_owned()))));
    };
    if state != Some(REQUEST_STATE) {
        return Err(ErrorData::invalid_params("the request state is not the one that was given", None));
    }
    let content = format!("signed by {}\n", replied_name(replies)?);
    let arguments = json!({ "path": arguments["path"], "content": content });
    folder.run_tool("append_file", &arguments).map(Ok).map_err(super::internal_error)
}
