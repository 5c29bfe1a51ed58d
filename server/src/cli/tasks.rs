//! `task`: adds, lists, shows, splits and changes tasks.

use crate::error::{CommandLineCode, Error};
use crate::service::{AddedTask, TaskHistory, TaskSpec, TaskStatus, TaskView};
use serde_json::{Map, Value};

use super::args::{TaskDetailArgs, TaskSubcommand, parse_json_or_text};
use super::session::Session;
use super::status_style::{QUIET, painted, short_id};
use super::table::{Table, cell, styled_cell, truncate};
use super::{CommandResult, Exit, context, detach, times};

const TEXT_SHOWN: usize = 160;

/// Runs `actbook task …`.
pub async fn tasks(session: &Session, subcommand: TaskSubcommand) -> CommandResult {
    match subcommand {
        TaskSubcommand::Add { id, details } => add(session, task_changes(id, details)?).await,
        TaskSubcommand::Set { id, status, details } => {
            let changes = TaskSpec { status, ..task_changes(id, details)? };
            change_task(session, changes).await
        }
        TaskSubcommand::Done { id } => {
            change_task(session, TaskSpec { id, status: Some(TaskStatus::Done), ..TaskSpec::default() }).await
        }
        TaskSubcommand::Split { id, plan } => {
            let subtasks = session.service.tasks().split(&session.caller, &id, &plan).await?;
            print_tasks(session, &subtasks, "its plan has no steps")
        }
        TaskSubcommand::List { status } => {
            let tasks = session.service.tasks().list(status).await?;
            print_tasks(session, &tasks, "no task matches; `actbook task add ID` adds one")
        }
        TaskSubcommand::Show { id } => show(session, &id).await,
    }
}

/// The flags as the service takes them; `Err` if a `--field` is not `NAME=VALUE`.
fn task_changes(id: String, details: TaskDetailArgs) -> Result<TaskSpec, Error> {
    let mut fields = Map::new();
    for field in details.fields {
        let Some((name, value)) = field.split_once('=') else {
            let message = format!("`{field}` is not a field");
            let cure = "write it as in --field version=1.2";
            return Err(Error::command_line(CommandLineCode::InvalidField, message, cure));
        };
        let invalid = |why: String| {
            let message = format!("`{field}`: {why}");
            Error::command_line(CommandLineCode::InvalidField, message, "a value is JSON, or a text")
        };
        let value = parse_json_or_text(value).map_err(invalid)?;
        fields.insert(name.to_owned(), value);
    }
    Ok(TaskSpec {
        id,
        title: details.title,
        status: None,
        priority: details.priority,
        estimate_ms: details.estimate.and_then(|ms| u64::try_from(ms).ok()),
        parent: details.parent,
        r#type: details.r#type,
        labels: (!details.labels.is_empty()).then_some(details.labels),
        fields: (!fields.is_empty()).then_some(Value::Object(fields)),
    })
}

/// Adds a task. If a rule of the config started a plan for it, leaves a background process driving that.
async fn add(session: &Session, task: TaskSpec) -> CommandResult {
    let added: AddedTask = session.service.tasks().add(&session.caller, task, false).await?;
    let output = &session.output;
    if output.json {
        output.document(&added);
    } else {
        output.line(format_args!("added {}: {}", added.task.id, added.task.title));
        if let Some(plan) = &added.plan {
            output.line(format_args!("  plan {} was saved for it", short_id(plan)));
        }
    }
    match (&added.started, output.json) {
        (Some(execution), false) => detach::hand_over_and_report(session, execution).await,
        (Some(execution), true) => detach::spawn_driver(session, execution).await.map(|_| Exit::Done),
        (None, _) => Ok(Exit::Done),
    }
}

/// Changes a task and prints its new state.
async fn change_task(session: &Session, changes: TaskSpec) -> CommandResult {
    let task = session.service.tasks().change(&session.caller, changes).await?;
    if session.output.json {
        session.output.document(&task);
    } else {
        session.output.line(format_args!("{} is {}: {}", task.id, task.status, task.title));
    }
    Ok(Exit::Done)
}

/// Prints tasks as a table, or the text `if_none`.
fn print_tasks(session: &Session, tasks: &[TaskView], if_none: &str) -> CommandResult {
    let output = &session.output;
    if output.json {
        output.document(&tasks);
        return Ok(Exit::Done);
    }
    if tasks.is_empty() {
        output.line(if_none);
    } else {
        task_table(tasks).print(output);
    }
    Ok(Exit::Done)
}

fn task_table(tasks: &[TaskView]) -> Table {
    let mut table = Table::new(1, &["task", "title", "status", "priority", "estimate"]);
    for task in tasks {
        let estimate = task.estimate.clone().unwrap_or_default();
        let (status, priority) = (task.status.to_string(), task.priority.to_string());
        table.push_row(vec![
            cell(&task.id),
            cell(&task.title),
            cell(&status),
            cell(&priority),
            styled_cell(QUIET, &estimate),
        ]);
    }
    table
}

/// Prints a task with its subtasks, what happened in order of time, and its blockers.
async fn show(session: &Session, id: &str) -> CommandResult {
    let story: TaskHistory = session.service.tasks().history(id).await?;
    let output = &session.output;
    if output.json {
        output.document(&story);
        return Ok(Exit::Done);
    }
    if let Some(task) = &story.task {
        output.line(format_args!("{}: {} ({})", task.id, task.title, task.status));
    }
    if !story.subtasks.is_empty() {
        task_table(&story.subtasks).print(output);
    }
    for happening in &story.story {
        let from = format!(
            "{:>6}  {}  {}",
            happening.position,
            times::local_date_time(&happening.at),
            happening.author
        );
        let text: String = happening.text.split_whitespace().collect::<Vec<_>>().join(" ");
        output.line(format_args!("{}  {}", painted(QUIET, from), truncate(&text, TEXT_SHOWN)));
    }
    for note in story.notes.iter().filter(|note| note.r#type == "blockers") {
        output.line(format_args!(
            "blocker: {} — {}",
            note.key,
            truncate(&context::note_text(&note.value), TEXT_SHOWN)
        ));
    }
    Ok(Exit::Done)
}
