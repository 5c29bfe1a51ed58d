//! `/tasks`: the tasks, and the story of one: everything that happened in its name.

use askama::Template;
use axum::extract::{Path, Query};
use axum::http::HeaderMap;
use axum::response::Html;
use serde::Deserialize;

use super::frame::{Area, Frame};
use super::markup::{Markup, StatusMark, short_id, url_part};
use super::render;
use super::times::{PageTime, page_time};
use crate::service::{TaskStatus, TaskView};
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
    labels: Vec<String>,
}

/// The query of the list. An empty value does not filter.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct TasksPageQuery {
    status: String,
    search: String,
}

#[derive(Debug, Template)]
#[template(path = "tasks.html")]
struct TasksPage {
    frame: Frame,
    tasks: Vec<TaskListRow>,
    query: TasksPageQuery,
    /// Each with its path, and whether it is chosen; the first stands for all.
    statuses: Vec<(String, String, bool)>,
    is_filtered: bool,
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
    /// Leads to its entry in the journal.
    entry: String,
}

#[derive(Debug, Template)]
#[template(path = "task.html")]
struct TaskPage {
    frame: Frame,
    id: String,
    title: String,
    status: String,
    /// Type, estimate, labels and the like, each with its name.
    facts: Vec<(&'static str, Markup)>,
    /// Name, version and path of each.
    plans: Vec<(String, u64, String)>,
    /// Key, type and path of each.
    notes: Vec<(String, String, String)>,
    subtasks: Vec<TaskListRow>,
    /// Mark, plan, version, path and id of each.
    executions: Vec<(StatusMark, String, u32, String, String)>,
    story: Vec<StoryLine>,
}

/// `GET /tasks`.
pub async fn list(
    state: WebState,
    signed_in: SignedIn,
    headers: HeaderMap,
    Query(query): Query<TasksPageQuery>,
) -> Result<Html<String>, Problem> {
    let status = Some(query.status.as_str()).filter(|word| !word.is_empty());
    let status: Option<TaskStatus> =
        status.map(str::parse).transpose().map_err(|why: String| Problem::bad_parameter("status", why))?;
    let words: Vec<String> = query.search.to_lowercase().split_whitespace().map(str::to_owned).collect();
    let is_wanted = |row: &TaskListRow| {
        let text = format!("{} {} {}", row.id, row.title, row.labels.join(" ")).to_lowercase();
        words.iter().all(|word| text.contains(word))
    };
    let tasks = state.service.tasks().list(status).await?.into_iter().map(TaskListRow::of);
    let tasks = tasks.filter(is_wanted).collect();
    let link = |word: &str, status: &str| {
        let path = format!("/tasks?status={status}&search={}", url_part(&query.search));
        (word.to_owned(), path, query.status == status)
    };
    let statuses = std::iter::once(link("all", ""))
        .chain(TaskStatus::ALL.iter().map(|status| link(&status.as_str().replace('_', " "), status.as_str())))
        .collect();
    let frame = Frame::load(&state, &signed_in, &headers, Area::Tasks, "Tasks").await?;
    let is_filtered = status.is_some() || !words.is_empty();
    render(&TasksPage { frame: frame.at("/tasks"), tasks, statuses, query, is_filtered })
}

/// `GET /tasks/{id}`.
pub async fn show(
    state: WebState,
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
        entry: format!("/journal?at={0}#p-{0}", event.position),
    });
    let task = history.task;
    let frame = Frame::load(&state, &signed_in, &headers, Area::Tasks, id.as_str()).await?;
    render(&TaskPage {
        frame: frame.at(format!("/tasks/{}", url_part(&id))),
        title: task.as_ref().map_or_else(|| id.clone(), |task| task.title.clone()),
        facts: task.as_ref().map(facts).unwrap_or_default(),
        status: task.map_or("only named".to_owned(), |task| task.status.to_string().replace('_', " ")),
        plans: history
            .plans
            .into_iter()
            .map(|plan| {
                let path = format!("/plans/{}?version={}", url_part(&plan.id), plan.version);
                (plan.name, plan.version, path)
            })
            .collect(),
        notes: history
            .notes
            .into_iter()
            .map(|note| (note.key, note.r#type, format!("/journal?at={0}#p-{0}", note.position)))
            .collect(),
        subtasks: history.subtasks.into_iter().map(TaskListRow::of).collect(),
        executions: executions.collect(),
        story: story.collect(),
        id,
    })
}

/// What a task says of itself beside its title.
fn facts(task: &TaskView) -> Vec<(&'static str, Markup)> {
    let link = |path: String, text: &str| Markup::link(&path, text, "link");
    let facts = [
        ("Type", task.r#type.as_deref().map(Markup::text)),
        ("Part of", task.parent.as_deref().map(|id| link(format!("/tasks/{}", url_part(id)), id))),
        ("Estimate", task.estimate.as_deref().map(Markup::text)),
        ("Priority", (task.priority != 0).then(|| Markup::text(&task.priority.to_string()))),
        ("Labels", (!task.labels.is_empty()).then(|| Markup::text(&task.labels.join(", ")))),
        ("Step", task.step.as_deref().map(Markup::code)),
        ("Project", task.project.as_deref().map(Markup::text)),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

impl TaskListRow {
    fn of(task: TaskView) -> Self {
        Self {
            path: format!("/tasks/{}", url_part(&task.id)),
            title: task.title,
            status: task.status.to_string(),
            priority: task.priority,
            added: page_time(&task.added_at),
            labels: task.labels,
            id: task.id,
        }
    }
}
