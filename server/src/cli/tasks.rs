//! Tasks: put down, listed, split into the steps of a plan, told, done.

use actbook::error::Error;
use actbook::service::{Story, TaskAdded, TaskGiven, TaskStatus, TaskView};
use serde_json::{Map, Value};

use super::args::{Task as Asked, TaskWords};
use super::session::Session;
use super::signs::{QUIET, painted, short};
use super::table::{Table, cell, coloured, cut};
use super::{Ended, Exit, context, detach, times};

const TEXT_SHOWN: usize = 160;

pub async fn tasks(session: &Session, asked: Asked) -> Ended {
    match asked {
        Asked::Add { id, words } => add(session, given(id, words)?).await,
        Asked::Set { id, status, words } => {
            let changed = TaskGiven { status, ..given(id, words)? };
            changed_to(session, changed).await
        }
        Asked::Done { id } => {
            changed_to(session, TaskGiven { id, status: Some(TaskStatus::Done), ..TaskGiven::default() })
                .await
        }
        Asked::Split { id, plan } => {
            let subtasks = session.service.split_task(&session.caller, &id, &plan).await?;
            listed(session, &subtasks, "its plan has no steps")
        }
        Asked::List { status } => {
            let tasks = session.service.tasks(status).await?;
            listed(session, &tasks, "no task fits; `actbook task add ID` puts one down")
        }
        Asked::Show { id } => show(session, &id).await,
    }
}

fn given(id: String, words: TaskWords) -> Result<TaskGiven, Error> {
    let mut fields = Map::new();
    for field in words.fields {
        let Some((name, value)) = field.split_once('=') else {
            let message = format!("`{field}` is no field");
            return Err(Error::new("invalid_field", message, "write it as in --field version=1.2"));
        };
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
        fields.insert(name.to_owned(), value);
    }
    Ok(TaskGiven {
        id,
        title: words.title,
        status: None,
        priority: words.priority,
        estimate_ms: words.estimate.and_then(|ms| u64::try_from(ms).ok()),
        parent: words.parent,
        r#type: words.r#type,
        labels: (!words.labels.is_empty()).then_some(words.labels),
        fields: (!fields.is_empty()).then_some(Value::Object(fields)),
    })
}

async fn add(session: &Session, given: TaskGiven) -> Ended {
    let added: TaskAdded = session.service.add_task(&session.caller, given, false).await?;
    let output = &session.output;
    match output.json {
        true => output.document(&added),
        false => {
            output.line(format_args!("added {}: {}", added.task.id, added.task.title));
            if let Some(plan) = &added.plan {
                output.line(format_args!("  plan {} was saved for it", short(plan)));
            }
        }
    }
    match (&added.started, output.json) {
        (Some(execution), false) => detach::hand_over(session, execution).await,
        (Some(execution), true) => detach::leave_behind(session, execution).await.map(|_| Exit::Done),
        (None, _) => Ok(Exit::Done),
    }
}

async fn changed_to(session: &Session, changed: TaskGiven) -> Ended {
    let task = session.service.change_task(&session.caller, changed).await?;
    match session.output.json {
        true => session.output.document(&task),
        false => session.output.line(format_args!("{} is {}: {}", task.id, task.status, task.title)),
    }
    Ok(Exit::Done)
}

fn listed(session: &Session, tasks: &[TaskView], none: &str) -> Ended {
    let output = &session.output;
    if output.json {
        output.document(&tasks);
        return Ok(Exit::Done);
    }
    match tasks.is_empty() {
        true => output.line(none),
        false => table(tasks).print(output),
    }
    Ok(Exit::Done)
}

fn table(tasks: &[TaskView]) -> Table {
    let mut table = Table::new(1, &["task", "title", "status", "priority", "estimate"]);
    for task in tasks {
        let estimate = task.estimate.clone().unwrap_or_default();
        let (status, priority) = (task.status.to_string(), task.priority.to_string());
        table.row(vec![
            cell(&task.id),
            cell(&task.title),
            cell(&status),
            cell(&priority),
            coloured(QUIET, &estimate),
        ]);
    }
    table
}

async fn show(session: &Session, id: &str) -> Ended {
    let story: Story = session.service.task_story(id).await?;
    let output = &session.output;
    if output.json {
        output.document(&story);
        return Ok(Exit::Done);
    }
    if let Some(task) = &story.task {
        output.line(format_args!("{}: {} ({})", task.id, task.title, task.status));
    }
    if !story.subtasks.is_empty() {
        table(&story.subtasks).print(output);
    }
    for happening in &story.story {
        let from = format!("{:>6}  {}  {}", happening.position, times::date(&happening.at), happening.author);
        let text: String = happening.text.split_whitespace().collect::<Vec<_>>().join(" ");
        output.line(format_args!("{}  {}", painted(QUIET, from), cut(&text, TEXT_SHOWN)));
    }
    for note in story.notes.iter().filter(|note| note.r#type == "blockers") {
        output.line(format_args!("blocker: {} — {}", note.key, cut(&context::text(&note.value), TEXT_SHOWN)));
    }
    Ok(Exit::Done)
}
