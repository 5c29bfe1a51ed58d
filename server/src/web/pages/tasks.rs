//! `/tasks`: the tasks, and the story of one: everything that happened in its name.

use askama::Template;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Html;

use super::frame::{Area, Frame};
use super::markup::{StatusMark, short_id, url_part};
use super::render;
use super::times::{PageTime, page_time};
use crate::service::TaskView;
use crate::web::WebState;
use crate::web::authentication::SignedIn;
use crate::web::problem::Problem;

/// One task of a list.
#[derive(Debug)]
struct TaskListRow {
    id: String,
    path: String,
    title: String,
    status: String,
    priority: i64,
    added: PageTime,
}

#[derive(Debug, Template)]
#[template(path = "tasks.html")]
struct TasksPage {
    frame: Frame,
    tasks: Vec<TaskListRow>,
}

/// One event of a task's story.
#[derive(Debug)]
struct StoryLine {
    at: PageTime,
    what: &'static str,
    author: String,
    text: String,
    /// The path of its execution.
    path: Option<String>,
}

#[derive(Debug, Template)]
#[template(path = "task.html")]
struct TaskPage {
    frame: Frame,
    id: String,
    title: String,
    status: String,
    subtasks: Vec<TaskListRow>,
    /// Mark, plan, version, path and id of each.
    executions: Vec<(StatusMark, String, u32, String, String)>,
    story: Vec<StoryLine>,
}

/// `GET /tasks`.
pub async fn list(
    State(state): State<WebState>,
    signed_in: SignedIn,
    headers: HeaderMap,
) -> Result<Html<String>, Problem> {
    let tasks = state.service.tasks().list(None).await?.into_iter().map(TaskListRow::of).collect();
    let frame = Frame::load(&state, &signed_in, &headers, Area::Tasks, "Tasks").await?;
    render(&TasksPage { frame: frame.at("/tasks"), tasks })
}

/// `GET /tasks/{id}`.
pub async fn show(
    State(state): State<WebState>,
    signed_in: SignedIn,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Html<String>, Problem> {
    let history = state.service.tasks().history(&id).await?;
    let executions = history.executions.iter().map(|one| {
        let path = format!("/executions/{}", one.id);
        (
            StatusMark::of_execution(one.status),
            one.plan.name.clone(),
            one.plan.version,
            path,
            short_id(&one.id).to_owned(),
        )
    });
    let story = history.story.into_iter().map(|event| StoryLine {
        at: page_time(&event.at),
        what: event.what,
        author: event.author,
        text: event.text,
        path: event.execution_id.map(|id| format!("/executions/{id}")),
    });
    let task = history.task;
    let frame = Frame::load(&state, &signed_in, &headers, Area::Tasks, id.as_str()).await?;
    render(&TaskPage {
        frame: frame.at(format!("/tasks/{}", url_part(&id))),
        title: task.as_ref().map_or_else(|| id.clone(), |task| task.title.clone()),
        status: task.map_or("only named".to_owned(), |task| task.status.to_string()),
        subtasks: history.subtasks.into_iter().map(TaskListRow::of).collect(),
        executions: executions.collect(),
        story: story.collect(),
        id,
    })
}

impl TaskListRow {
    fn of(task: TaskView) -> Self {
        Self {
            path: format!("/tasks/{}", url_part(&task.id)),
            title: task.title,
            status: task.status.to_string(),
            priority: task.priority,
            added: page_time(&task.added_at),
            id: task.id,
        }
    }
}
