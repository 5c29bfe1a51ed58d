//! Tools that answer later or ask back, for trying out what a plan does then: an append as a task that
//! survives the server, and a note that wants to know its author. Tasks are files in the folder.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rmcp::model::{
    CallToolResult, CreateTaskResult, DetailedTask, ErrorData, InputRequests, InputRequiredResult,
    InputResponses, Task, TaskPayload, TaskStatus,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::folder::Folder;

/// How often a client should ask after a task.
const POLL_MS: u64 = 50;
/// What the asking tool wants back with the answer.
const STATE: &str = "first-round";

#[derive(Debug, Serialize, Deserialize)]
struct Work {
    path: String,
    content: String,
    due_at_ms: u64,
    /// It wants to know a name before it goes on.
    asks: bool,
    cancelled: bool,
    output: Option<Value>,
}

pub struct Tasks {
    folder: PathBuf,
}

impl Tasks {
    pub fn open(folder: PathBuf) -> io::Result<Self> {
        std::fs::create_dir_all(&folder)?;
        Ok(Self { folder })
    }

    /// The task is on disk before its handle goes out.
    pub fn accept(&self, arguments: &Value) -> io::Result<CreateTaskResult> {
        let text = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
        let work = Work {
            path: text("path"),
            content: text("content"),
            due_at_ms: now_ms() + arguments["ms"].as_u64().unwrap_or(0),
            asks: arguments["ask"].as_bool().unwrap_or(false),
            cancelled: false,
            output: None,
        };
        let id = format!("task-{}-{}", now_ms(), std::process::id());
        self.put(&id, &work)?;
        Ok(CreateTaskResult::new(described(&id)))
    }

    pub fn look(&self, id: &str, folder: &Folder) -> Result<DetailedTask, ErrorData> {
        let mut work = self.get(id)?;
        let payload = if let Some(output) = &work.output {
            completed(output)
        } else if work.cancelled {
            TaskPayload::Cancelled
        } else if work.asks {
            TaskPayload::InputRequired { input_requests: asks_for_a_name() }
        } else if now_ms() < work.due_at_ms {
            TaskPayload::Working
        } else {
            let arguments = json!({ "path": work.path, "content": work.content });
            let output = folder.act("append_file", &arguments).map_err(super::internal)?;
            work.output = Some(output.clone());
            self.put(id, &work).map_err(super::internal)?;
            completed(&output)
        };
        Ok(DetailedTask::new(described(id), payload))
    }

    pub fn update(&self, id: &str, replies: &InputResponses) -> Result<(), ErrorData> {
        let mut work = self.get(id)?;
        work.content = format!("{}{}\n", work.content, name_in(replies)?);
        work.asks = false;
        self.put(id, &work).map_err(super::internal)
    }

    pub fn cancel(&self, id: &str) -> Result<(), ErrorData> {
        let mut work = self.get(id)?;
        work.cancelled = true;
        self.put(id, &work).map_err(super::internal)
    }

    fn get(&self, id: &str) -> Result<Work, ErrorData> {
        let unknown = |_| ErrorData::invalid_params(format!("Unknown task: {id}"), None);
        let name = if id.contains('/') { "" } else { id };
        let text = std::fs::read_to_string(self.folder.join(name)).map_err(unknown)?;
        serde_json::from_str(&text).map_err(super::internal)
    }

    fn put(&self, id: &str, work: &Work) -> io::Result<()> {
        let draft = self.folder.join(format!("{id}.new"));
        std::fs::write(&draft, serde_json::to_string(work)?)?;
        std::fs::rename(draft, self.folder.join(id))
    }
}

fn described(id: &str) -> Task {
    let now = jiff::Timestamp::now().to_string();
    Task::new(id.to_owned(), TaskStatus::Working, now.clone(), now).with_poll_interval_ms(POLL_MS)
}

fn completed(output: &Value) -> TaskPayload {
    let result = serde_json::to_value(CallToolResult::structured(output.clone()));
    let result = result.ok().and_then(|result| result.as_object().cloned());
    TaskPayload::Completed { result: result.unwrap_or_default() }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn asks_for_a_name() -> InputRequests {
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

fn name_in(replies: &InputResponses) -> Result<&str, ErrorData> {
    let name = replies.get("author").and_then(|reply| reply["content"]["name"].as_str());
    name.ok_or_else(|| ErrorData::invalid_params("the reply has no author's name", None))
}

/// The first call asks; the second, with what the first one gave, writes.
pub fn sign(
    folder: &Folder,
    arguments: &Value,
    replies: Option<&InputResponses>,
    state: Option<&str>,
) -> Result<Result<Value, InputRequiredResult>, ErrorData> {
    let Some(replies) = replies else {
        return Ok(Err(InputRequiredResult::new(Some(asks_for_a_name()), Some(STATE.to_owned()))));
    };
    if state != Some(STATE) {
        return Err(ErrorData::invalid_params("the request state is not the one that was given", None));
    }
    let content = format!("signed by {}\n", name_in(replies)?);
    let arguments = json!({ "path": arguments["path"], "content": content });
    folder.act("append_file", &arguments).map(Ok).map_err(super::internal)
}
