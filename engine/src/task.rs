//! Tasks: things to do that have an id in an outside system. Each task has a journal stream of its own;
//! plans, executions, notes and other tasks refer to it by its id, whether or not it was recorded here.

use crate::chain::Digest;
use crate::event::{PayloadDigest, TaskSet};
use crate::execution::NewEvent;
use crate::id::{PlanId, StepId};
pub use crate::policy::TaskStatus;
use crate::refusal::{NamedField, Refusal};

/// Longest task id, in bytes.
pub const ID_BYTES_MAX: usize = 200;
/// Longest title, in bytes.
pub const TITLE_BYTES_MAX: usize = 500;
/// Most labels of one task.
pub const LABELS_MAX: usize = 20;
/// Longest label or type, in bytes.
pub const LABEL_BYTES_MAX: usize = 60;
/// Largest JSON object of further fields, in bytes.
pub const FIELDS_BYTES_MAX: usize = 64 * 1024;

/// A new task, or changes to one: a field that is `None` stays as it was.
#[derive(Clone, Debug, Default)]
pub struct Task {
    pub id: String,
    pub title: Option<String>,
    pub status: Option<TaskStatus>,
    pub priority: Option<i64>,
    pub estimate_ms: Option<u64>,
    pub parent: Option<String>,
    pub r#type: Option<String>,
    pub labels: Option<Vec<String>>,
    /// The plan and the step that the task stands for.
    pub plan: Option<PlanId>,
    pub step: Option<StepId>,
    /// `None`: the task was written before projects existed.
    pub project: Option<String>,
    /// Further fields, as the bytes of a JSON object.
    pub fields: Option<Vec<u8>>,
}

/// Refuses a task id that is blank, too long or holds control characters.
pub fn check_id(id: &str) -> Result<(), Refusal> {
    check_name(NamedField::TaskId, id, ID_BYTES_MAX)
}

/// Builds the event that creates or changes a task; refused where a field exceeds its limit.
pub fn build_task_event(task: &Task, salt: &[u8]) -> Result<NewEvent, Refusal> {
    check_task(task)?;
    let fields = task
        .fields
        .as_ref()
        .map(|fields| PayloadDigest { digest: Digest::salted(salt, fields), size: fields.len() as u64 });
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
    Ok(NewEvent { event: event.into(), payload: task.fields.clone() })
}

/// Refuses fields that exceed their limits, and a task that names itself as parent.
fn check_task(task: &Task) -> Result<(), Refusal> {
    check_id(&task.id)?;
    if let Some(title) = &task.title {
        check_name(NamedField::Title, title, TITLE_BYTES_MAX)?;
    }
    if let Some(parent) = &task.parent {
        check_id(parent)?;
        if *parent == task.id {
            return Err(Refusal::OwnParent);
        }
    }
    if let Some(kind) = &task.r#type {
        check_name(NamedField::Type, kind, LABEL_BYTES_MAX)?;
    }
    let labels = task.labels.as_deref().unwrap_or_default();
    if labels.len() > LABELS_MAX {
        return Err(Refusal::TooManyLabels { labels_max: LABELS_MAX });
    }
    labels.iter().try_for_each(|label| check_name(NamedField::Label, label, LABEL_BYTES_MAX))?;
    if task.fields.as_ref().is_some_and(|fields| fields.len() > FIELDS_BYTES_MAX) {
        return Err(Refusal::TaskFieldsTooLarge { bytes_max: FIELDS_BYTES_MAX });
    }
    Ok(())
}

/// Refuses a text that is blank, longer than `bytes_max` or holds control characters.
pub(crate) fn check_name(field: NamedField, text: &str, bytes_max: usize) -> Result<(), Refusal> {
    if text.trim().is_empty() || text.len() > bytes_max || text.chars().any(char::is_control) {
        return Err(Refusal::InvalidName { field, bytes_max });
    }
    Ok(())
}
