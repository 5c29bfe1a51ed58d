//! Tasks: things to do that have an id elsewhere. A task is a stream of its own; plans, executions, notes
//! and other tasks name it by its id, whether or not it was put down here.

use serde::{Deserialize, Serialize};

use crate::chain::Digest;
use crate::event::{Kept, TaskSet};
use crate::execution::{Fresh, Refusal};
use crate::id::{PlanId, StepId};
use crate::note::fits;
use crate::policy::words;

pub const ID_BYTES_MAX: usize = 200;
pub const TITLE_BYTES_MAX: usize = 500;
pub const LABELS_MAX: usize = 20;
pub const LABEL_BYTES_MAX: usize = 60;
pub const FIELDS_BYTES_MAX: usize = 64 * 1024;

words!(
    /// How far a task is.
    Status {
        Open = "open",
        InProgress = "in_progress",
        Blocked = "blocked",
        Done = "done",
        Cancelled = "cancelled",
    }
);

/// What is to be said of a task; what is left out stays as it was.
#[derive(Clone, Debug, Default)]
pub struct Task {
    pub id: String,
    pub title: Option<String>,
    pub status: Option<Status>,
    pub priority: Option<i64>,
    pub estimate_ms: Option<u64>,
    pub parent: Option<String>,
    pub r#type: Option<String>,
    pub labels: Option<Vec<String>>,
    pub plan: Option<PlanId>,
    pub step: Option<StepId>,
    /// None: it is older than projects.
    pub project: Option<String>,
    /// A JSON object.
    pub fields: Option<Vec<u8>>,
}

pub fn check_id(id: &str) -> Result<(), Refusal> {
    fits("a task's id", id, ID_BYTES_MAX)
}

/// The entry that says it.
pub fn set(task: &Task, salt: &[u8]) -> Result<Fresh, Refusal> {
    check(task)?;
    let fields = task
        .fields
        .as_ref()
        .map(|fields| Kept { digest: Digest::salted(salt, fields), size: fields.len() as u64 });
    let event = TaskSet {
        id: task.id.clone(),
        title: task.title.clone(),
        status: task.status,
        priority: task.priority,
        estimate_ms: task.estimate_ms,
        parent: task.parent.clone(),
        r#type: task.r#type.clone(),
        labels: task.labels.clone(),
        plan: task.plan.clone(),
        step: task.step.clone(),
        fields,
        project: task.project.clone(),
    };
    Ok(Fresh { event: event.into(), payload: task.fields.clone() })
}

fn check(task: &Task) -> Result<(), Refusal> {
    check_id(&task.id)?;
    if let Some(title) = &task.title {
        fits("a title", title, TITLE_BYTES_MAX)?;
    }
    if let Some(parent) = &task.parent {
        check_id(parent)?;
        if *parent == task.id {
            return Err(Refusal::new("own_parent", "a task is not its own parent", "name another task"));
        }
    }
    if let Some(kind) = &task.r#type {
        fits("a type", kind, LABEL_BYTES_MAX)?;
    }
    let labels = task.labels.as_deref().unwrap_or_default();
    if labels.len() > LABELS_MAX {
        let message = format!("a task has {LABELS_MAX} labels at most");
        return Err(Refusal::new("too_many", message, "keep those that matter"));
    }
    labels.iter().try_for_each(|label| fits("a label", label, LABEL_BYTES_MAX))?;
    match task.fields.as_ref().is_some_and(|fields| fields.len() > FIELDS_BYTES_MAX) {
        true => {
            let message = format!("a task's fields have {FIELDS_BYTES_MAX} bytes at most");
            Err(Refusal::new("too_large", message, "keep what is long in a note"))
        }
        false => Ok(()),
    }
}
