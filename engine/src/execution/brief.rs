//! The recovery brief: what is done, what is not, what can be undone, in which order, with which calls.

use super::follow::{Missing, Values, scope, undo_arguments};
use super::state::Execution;
use super::unwind::effect_remains;
use crate::id::{StepId, StepNo};
use crate::plan::{Undo, Work};
use crate::policy::{Cancellable, StepStatus};

use serde::Serialize;
use serde_json::Value;

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Brief {
    pub done: Vec<StepId>,
    pub not_done: Vec<StepId>,
    pub may_have_run: Vec<StepId>,
    /// In the order in which `undo` would go.
    pub undo: Vec<ToUndo>,
    pub cannot_undo: Vec<CannotUndo>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToUndo {
    pub step: StepId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// Why the call cannot be made as it stands: its arguments need something that nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CannotUndo {
    pub step: StepId,
    pub why: String,
}

pub fn brief(execution: &Execution, values: &Values) -> Result<Brief, Missing> {
    let mut brief = Brief::default();
    for no in execution.numbers() {
        let step = execution.step_id(no);
        match standing(execution, no) {
            Standing::Done => brief.done.push(step),
            Standing::NotDone => brief.not_done.push(step),
            Standing::MayHaveRun => brief.may_have_run.push(step),
            Standing::NotWanted => {}
        }
    }
    brief.undo = to_undo(execution, values)?;
    brief.cannot_undo = execution.numbers().filter_map(|no| cannot_undo(execution, no)).collect();
    Ok(brief)
}

enum Standing {
    Done,
    NotDone,
    MayHaveRun,
    /// Skipped by its `when` or by an answer: nothing of it is missing.
    NotWanted,
}

fn standing(execution: &Execution, no: StepNo) -> Standing {
    let step = execution.step(no);
    let stands = !step.to_undo(execution.rules(no)).is_empty();
    let skipped = step.status() == StepStatus::Skipped && step.cause.is_none();
    match (step.status() == StepStatus::Succeeded, stands) {
        (true, _) => Standing::Done,
        (false, true) => Standing::MayHaveRun,
        (false, false) if skipped => Standing::NotWanted,
        (false, false) => Standing::NotDone,
    }
}

fn to_undo(execution: &Execution, values: &Values) -> Result<Vec<ToUndo>, Missing> {
    let mut undo = Vec::new();
    let mut missing = Vec::new();
    for &(_, no) in execution.index.to_undo.iter().rev() {
        for target in execution.step(no).to_undo(execution.rules(no)).into_iter().rev() {
            match one(execution, no, target, values) {
                Ok(one) => undo.push(one),
                Err(Missing(more)) => missing.extend(more),
            }
        }
    }
    if missing.is_empty() { Ok(undo) } else { Err(Missing(missing)) }
}

fn one(execution: &Execution, no: StepNo, target: u32, values: &Values) -> Result<ToUndo, Missing> {
    let step = execution.step_id(no);
    let bound = undo_arguments(execution, no, target, values)?;
    let trouble = bound.as_ref().err().map(ToString::to_string);
    let work = execution.plan.step(no).compensation.as_ref().map(|compensation| &compensation.work);
    Ok(match work {
        Some(Undo::Action { .. }) => {
            let action = bound.ok().map(|text| text.as_str().map_or_else(|| text.to_string(), str::to_owned));
            ToUndo { step, tool: None, action: Some(action.unwrap_or_default()), arguments: None, trouble }
        }
        Some(Undo::Tool { tool, .. }) => {
            ToUndo { step, tool: Some(tool.clone()), action: None, arguments: bound.ok(), trouble }
        }
        None => ToUndo { step, tool: None, action: None, arguments: None, trouble },
    })
}

/// The arguments that a step which has not begun will be called with, where its inputs alone decide them.
/// None: they depend on other steps, cannot be bound, or it is no call.
pub fn planned_arguments(
    execution: &Execution,
    no: StepNo,
    values: &Values,
) -> Result<Option<Value>, Missing> {
    let arguments = match &execution.plan.step(no).work {
        Work::Tool { arguments, .. } | Work::AgentTool { arguments, .. } => arguments,
        Work::Action { .. } => return Ok(None),
    };
    let reads = arguments.reads();
    if !reads.outputs.is_empty() || !reads.statuses.is_empty() {
        return Ok(None);
    }
    Ok(arguments.bind(&scope(execution, reads, None, values)?).ok())
}

fn cannot_undo(execution: &Execution, no: StepNo) -> Option<CannotUndo> {
    let (spec, state) = (execution.plan.step(no), execution.step(no));
    if !effect_remains(execution, no) {
        return None;
    }
    let why = match execution.rules(no).cancellable {
        _ if state.left => "its effect was left in place by an answer",
        Cancellable::Irreversible => "it is irreversible",
        Cancellable::PartiallyReversible => "it is only partially reversible",
        Cancellable::Reversible if spec.compensation.is_none() => "it has no compensation",
        Cancellable::Reversible => return None,
    };
    Some(CannotUndo { step: spec.id.clone(), why: why.to_owned() })
}
