//! The recovery brief: which steps are done, which are not, and what can be undone, in which order, by which
//! calls.

use super::evolve::Execution;
use super::follow::{LoadedPayloads, MissingPayloads, bind_undo_arguments, load_scope};
use super::unwind::effect_remains;
use crate::id::{StepId, StepNo};
use crate::plan::{CompensationWork, StepWork};
use crate::policy::{Reversibility, StepStatus};

use serde::Serialize;
use serde_json::Value;

/// A summary for recovery: where each step stands and what `undo` would do.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Brief {
    /// Certainly ran, and not undone yet.
    pub done: Vec<StepId>,
    pub not_done: Vec<StepId>,
    /// Steps that are not known to have succeeded, but may have left an effect.
    pub may_have_run: Vec<StepId>,
    /// The compensations, in the order in which `undo` would run them.
    pub undo: Vec<UndoItem>,
    /// Steps whose effect remains after an undo.
    pub cannot_undo: Vec<NotUndoable>,
}

/// One compensation that `undo` would run: a call (`tool`), or work for an agent or a person (`action`).
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UndoItem {
    pub step: StepId,
    pub tool: Option<String>,
    pub action: Option<String>,
    pub arguments: Option<Value>,
    /// Why the arguments cannot be bound: they read a value that is unknown.
    pub trouble: Option<String>,
}

/// A step whose effect cannot be undone, or not fully.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NotUndoable {
    pub step: StepId,
    pub why: String,
}

/// Builds the brief; `Err` lists the payloads to load first.
pub fn brief(execution: &Execution, values: &LoadedPayloads) -> Result<Brief, MissingPayloads> {
    brief_of(execution, None, values)
}

/// Builds the brief with the undo of these steps alone (`None`: of all); `Err` lists the payloads to load first.
pub fn brief_of(
    execution: &Execution,
    selection: Option<&[StepId]>,
    values: &LoadedPayloads,
) -> Result<Brief, MissingPayloads> {
    let mut brief = Brief::default();
    for no in execution.step_numbers() {
        let step = execution.step_id(no);
        match brief_section(execution, no) {
            BriefSection::Done => brief.done.push(step),
            BriefSection::NotDone => brief.not_done.push(step),
            BriefSection::MayHaveRun => brief.may_have_run.push(step),
            BriefSection::NotNeeded => {}
        }
    }
    brief.undo = undo_items(execution, selection, values)?;
    brief.cannot_undo = execution.step_numbers().filter_map(|no| not_undoable(execution, no)).collect();
    Ok(brief)
}

/// The list of the brief that a step belongs into.
enum BriefSection {
    Done,
    NotDone,
    MayHaveRun,
    /// In no list: the step was skipped by its `when` or by an answer.
    NotNeeded,
}

/// Sorts a step into a list of the brief.
fn brief_section(execution: &Execution, no: StepNo) -> BriefSection {
    let step = execution.step(no);
    let to_undo = step.attempts_to_undo(execution.rules(no));
    let may_have_effect = !to_undo.is_empty();
    let skipped = step.status() == StepStatus::Skipped && step.cause.is_none();
    let has_succeeded = |index: &u32| step.attempts[*index as usize].has_succeeded();
    let succeeded = match step.status() {
        StepStatus::Succeeded => true,
        // It surely ran; only whether its undo works is open.
        StepStatus::Compensating | StepStatus::CompensationFailed => to_undo.iter().any(has_succeeded),
        StepStatus::Pending
        | StepStatus::AwaitingApproval
        | StepStatus::AwaitingAgent
        | StepStatus::Running
        | StepStatus::Failed
        | StepStatus::Unknown
        | StepStatus::Skipped
        | StepStatus::Cancelled
        | StepStatus::Compensated => false,
    };
    match (succeeded, may_have_effect) {
        (true, _) => BriefSection::Done,
        (false, true) => BriefSection::MayHaveRun,
        (false, false) if skipped => BriefSection::NotNeeded,
        (false, false) => BriefSection::NotDone,
    }
}

/// The compensations that an undo would run, in its order.
fn undo_items(
    execution: &Execution,
    selection: Option<&[StepId]>,
    values: &LoadedPayloads,
) -> Result<Vec<UndoItem>, MissingPayloads> {
    let is_selected = |no: &StepNo| !execution.is_outside_selection(*no, selection);
    let steps = execution.index.to_undo.iter().rev().map(|(_, no)| *no).filter(is_selected);
    undo_items_of(execution, steps, selection, values)
}

/// The compensations that an undo would run for one step; `Err` lists the payloads to load first.
pub fn undo_of_step(
    execution: &Execution,
    no: StepNo,
    values: &LoadedPayloads,
) -> Result<Vec<UndoItem>, MissingPayloads> {
    let is_undone = execution.index.to_undo.iter().any(|(_, undone)| *undone == no);
    undo_items_of(execution, is_undone.then_some(no), None, values)
}

/// The compensations of these steps, in this order.
fn undo_items_of(
    execution: &Execution,
    steps: impl IntoIterator<Item = StepNo>,
    selection: Option<&[StepId]>,
    values: &LoadedPayloads,
) -> Result<Vec<UndoItem>, MissingPayloads> {
    let mut undo = Vec::new();
    let mut missing = Vec::new();
    for no in steps {
        for target in execution.step(no).attempts_to_undo(execution.rules(no)).into_iter().rev() {
            match undo_item(execution, no, target, selection, values) {
                Ok(item) => undo.push(item),
                Err(MissingPayloads(more)) => missing.extend(more),
            }
        }
    }
    if missing.is_empty() { Ok(undo) } else { Err(MissingPayloads(missing)) }
}

/// The compensation of one attempt; `target` is the attempt's index.
fn undo_item(
    execution: &Execution,
    no: StepNo,
    target: u32,
    selection: Option<&[StepId]>,
    values: &LoadedPayloads,
) -> Result<UndoItem, MissingPayloads> {
    let step = execution.step_id(no);
    let bound = bind_undo_arguments(execution, no, target, selection, values)?;
    let trouble = bound.as_ref().err().map(ToString::to_string);
    let work = execution.plan.step(no).compensation.as_ref().map(|compensation| &compensation.work);
    Ok(match work {
        Some(CompensationWork::Action { .. }) => {
            let action = bound.ok().map(|text| text.as_str().map_or_else(|| text.to_string(), str::to_owned));
            UndoItem { step, tool: None, action: Some(action.unwrap_or_default()), arguments: None, trouble }
        }
        Some(CompensationWork::Tool { tool, .. }) => {
            UndoItem { step, tool: Some(tool.clone()), action: None, arguments: bound.ok(), trouble }
        }
        None => UndoItem { step, tool: None, action: None, arguments: None, trouble },
    })
}

/// The arguments of a step that has not started, where they depend on the execution's inputs alone. `None`:
/// they read other steps, cannot be bound, or the step is an action without arguments.
pub fn planned_arguments(
    execution: &Execution,
    no: StepNo,
    values: &LoadedPayloads,
) -> Result<Option<Value>, MissingPayloads> {
    if execution.session.is_some() {
        return Ok(None);
    }
    let arguments = match &execution.plan.step(no).work {
        StepWork::Tool { arguments, .. } | StepWork::AgentTool { arguments, .. } => arguments,
        StepWork::Action { .. } => return Ok(None),
    };
    let reads = arguments.reads();
    if !reads.outputs.is_empty() || !reads.statuses.is_empty() {
        return Ok(None);
    }
    Ok(arguments.bind(&load_scope(execution, reads, None, values)?).ok())
}

/// Why the step's effect remains after an undo; `None` where it does not, or nothing ran.
fn not_undoable(execution: &Execution, no: StepNo) -> Option<NotUndoable> {
    let (spec, state) = (execution.plan.step(no), execution.step(no));
    if !effect_remains(execution, no) {
        return None;
    }
    let why = match execution.rules(no).cancellable {
        _ if state.undo.left_in_place => "its effect was left in place by an answer",
        Reversibility::Irreversible => "it is irreversible",
        Reversibility::PartiallyReversible => "it is only partially reversible",
        Reversibility::Reversible if spec.compensation.is_none() => "it has no compensation",
        Reversibility::Reversible => return None,
    };
    Some(NotUndoable { step: spec.id.clone(), why: why.to_owned() })
}
