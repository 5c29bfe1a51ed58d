//! The scope of a note, as note events store it.

use serde::{Deserialize, Serialize};

use crate::id::{ExecutionId, PlanId};

/// What a note belongs to; by default to nothing in particular, so that everybody sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteScope {
    #[default]
    Everybody,
    Task(String),
    Plan(PlanId),
    Execution(ExecutionId),
}

impl NoteScope {
    /// The scope's kind, as database rows store it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Everybody => "everybody",
            Self::Task(_) => "task",
            Self::Plan(_) => "plan",
            Self::Execution(_) => "execution",
        }
    }

    /// The id of the task, plan or execution; empty for `Everybody`.
    pub fn owner_id(&self) -> &str {
        match self {
            Self::Everybody => "",
            Self::Task(task) => task,
            Self::Plan(plan) => plan.as_str(),
            Self::Execution(execution) => execution.as_str(),
        }
    }
}
