//! `/tasks`: tasks that plans, executions and notes belong to.

use actbook_engine::plan::parse_age_ms;
use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, patch, post};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::change::{Change, changed, created};
use super::operation::Operation;
use super::page::{ListName, Page, page_limit};
use super::params::{self, Params};
use crate::caller::Right;
use crate::service::{TaskHistory, TaskSpec, TaskStatus, TaskView};
use crate::web::pages::markup::url_part;
use crate::web::{Problem, SignedIn, WebState};

pub fn operations() -> Vec<Operation> {
    let example = || json!({ "id": "T-12", "title": "Publish the notes", "priority": 2 });
    vec![
        Operation::new("GET", "/tasks", "list_tasks", get(list))
            .summary("List the tasks, open ones first, then by priority")
            .query::<TasksQuery>()
            .gives("TaskPage"),
        Operation::new("POST", "/tasks", "add_task", post(add))
            .summary("Add a task; a rule of the config may save and start a plan for it")
            .right(Right::Run)
            .body::<TaskBody>(example())
            .creates_resource("AddedTask"),
        Operation::new("GET", "/tasks/{id}", "get_task", get(show))
            .summary("A task and its history: plans, executions, decisions and notes in time")
            .gives("TaskHistory"),
        Operation::new("PATCH", "/tasks/{id}", "change_task", patch(change))
            .summary("Change the given properties of a task")
            .right(Right::Run)
            .body::<TaskChangeBody>(json!({ "status": "done" }))
            .gives("Task"),
    ]
}

/// The query of `GET /tasks`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TasksQuery {
    /// open, in_progress, blocked, done or cancelled
    #[schemars(extend("enum" = params::choices(TaskStatus::ALL, TaskStatus::as_str)))]
    status: Option<String>,
    /// 1 to 500; 50 unless given
    #[schemars(range(min = 1, max = 500))]
    limit: Option<u64>,
    cursor: Option<String>,
}

/// The body of `POST /tasks`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TaskBody {
    /// Its id elsewhere
    id: String,
    title: Option<String>,
    #[schemars(extend("enum" = params::choices(TaskStatus::ALL, TaskStatus::as_str)))]
    status: Option<String>,
    /// The higher, the more urgent
    #[serde(default, deserialize_with = "params::integer")]
    priority: Option<i64>,
    /// Such as 4h
    #[schemars(regex(pattern = params::DURATION_PATTERN))]
    estimate: Option<String>,
    parent: Option<String>,
    r#type: Option<String>,
    labels: Option<Vec<String>>,
    /// What else there is to say; inputs of its plan
    fields: Option<Map<String, Value>>,
}

/// The body of `PATCH /tasks/{id}`: the properties to change.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TaskChangeBody {
    title: Option<String>,
    /// open, in_progress, blocked, done or cancelled
    #[schemars(extend("enum" = params::choices(TaskStatus::ALL, TaskStatus::as_str)))]
    status: Option<String>,
    #[serde(default, deserialize_with = "params::integer")]
    priority: Option<i64>,
    #[schemars(regex(pattern = params::DURATION_PATTERN))]
    estimate: Option<String>,
    parent: Option<String>,
    r#type: Option<String>,
    labels: Option<Vec<String>>,
    fields: Option<Map<String, Value>>,
}

async fn list(
    state: WebState,
    _signed_in: SignedIn,
    Params(query): Params<TasksQuery>,
) -> Result<Json<Page<TaskView>>, Problem> {
    let wrong = |why: String| Problem::bad_parameter("status", why);
    let status = query.status.map(|text| parse_status(&text)).transpose().map_err(wrong)?;
    let limit = page_limit(query.limit)?;
    let name = ListName::new("tasks", &status);
    let after = name.text(query.cursor.as_deref())?;
    let (tasks, next) = state.service.tasks().list_page(status, after.as_deref(), limit as usize).await?;
    Ok(Page::continued(tasks, next.map(|next| name.text_cursor(&next)), 0))
}

async fn add(state: WebState, Change { caller, body, .. }: Change<TaskBody>) -> Result<Response, Problem> {
    let TaskBody { id, title, status, priority, estimate, parent, r#type, labels, fields } = body;
    let change = TaskChangeBody { title, status, priority, estimate, parent, r#type, labels, fields };
    let mut added = state.service.tasks().add(&caller, task_spec(id, change)?, true).await?;
    if let Some(progress) = added.drive.take() {
        state.service.background().drive_claimed(progress);
    }
    Ok(created(&caller, &format!("/tasks/{}", url_part(added.task.id.as_str())), &added))
}

async fn show(
    state: WebState,
    _signed_in: SignedIn,
    Path(id): Path<String>,
) -> Result<Json<TaskHistory>, Problem> {
    Ok(Json(state.service.tasks().history(&id).await?))
}

async fn change(
    state: WebState,
    Path(id): Path<String>,
    Change { caller, body, .. }: Change<TaskChangeBody>,
) -> Result<Response, Problem> {
    let task = state.service.tasks().change(&caller, task_spec(id, body)?).await?;
    Ok(changed(&caller, StatusCode::OK, &task))
}

/// What a body says of a task.
fn task_spec(id: String, body: TaskChangeBody) -> Result<TaskSpec, Problem> {
    let status = body.status.as_deref().map(parse_status).transpose();
    let estimate = body.estimate.as_deref().map(|text| {
        let ms = parse_age_ms(text).and_then(|ms| u64::try_from(ms).ok());
        ms.ok_or_else(|| Problem::bad_field("/estimate", format!("`{text}` is no duration such as 4h")))
    });
    Ok(TaskSpec {
        id,
        title: body.title,
        status: status.map_err(|why| Problem::bad_field("/status", why))?,
        priority: body.priority,
        estimate_ms: estimate.transpose()?,
        parent: body.parent,
        r#type: body.r#type,
        labels: body.labels,
        fields: body.fields.map(Value::Object),
    })
}

fn parse_status(text: &str) -> Result<TaskStatus, String> {
    text.parse()
}
