//! Requests to unwind: the unwinding starts, or waits for an approval that its caller may not give.

use super::super::NewEvent;
use super::super::evolve::Execution;
use super::super::follow::{LoadedPayloads, undo_calls};
use super::super::questions::allowed_answers;
use super::super::state::{Phase, UnwindProposal};
use super::answer::answer_not_allowed;
use super::{Rejection, find_step};
use crate::event::{UndoAsked, UndoCall, UnwindProposed, UnwindStarted};
use crate::id::StepId;
use crate::policy::{OnFailure, StepAnswer};
use crate::refusal::Refusal;

/// Starts the unwinding of these steps (`None`: of all), or proposes it where it needs an approval that the caller may
/// not give.
pub(super) fn undo(
    execution: &Execution,
    reason: &Option<String>,
    steps: Option<&[String]>,
    approves: bool,
    values: &LoadedPayloads,
) -> Result<Vec<NewEvent>, Rejection> {
    let steps = select_steps(execution, steps).map_err(Rejection::Refused)?;
    let selection = steps.as_deref();
    check_can_undo(execution, selection).map_err(Rejection::Refused)?;
    let needs_approval = execution.undo_needs_approval(selection);
    if approves {
        let calls = if needs_approval { undo_calls(execution, selection, values)? } else { Vec::new() };
        let under_approval = |call: &UndoCall| execution.tool_needs_approval(&call.tool);
        let calls = calls.into_iter().filter(under_approval).collect();
        return Ok(vec![UnwindStarted { reason: reason.clone(), calls, steps }.into()]);
    }
    if !needs_approval && !execution.undo_waits_for_answer() {
        return Ok(vec![UnwindStarted { reason: reason.clone(), calls: Vec::new(), steps }.into()]);
    }
    let mut events: Vec<NewEvent> = Vec::new();
    if !execution.undo_requested {
        events.push(UndoAsked { reason: reason.clone(), steps: steps.clone() }.into());
    }
    // With calls in flight or probes due, `follow` proposes the unwinding once they have ended. It does not
    // where the execution has ended, is being stopped or is paused, nor in a session, which has no driver then, so
    // the proposal is made here.
    let is_idle = execution.index.open_tool_calls.is_empty() && execution.index.probes_due.is_empty();
    let is_halted = execution.ended.is_some() || execution.stop.is_some() || execution.paused;
    let is_halted = is_halted || execution.session.is_some();
    if (is_idle || is_halted) && !execution.awaits_undo_approval() {
        events.push(UnwindProposed { calls: undo_calls(execution, selection, values)? }.into());
    }
    Ok(events)
}

/// The ids of the selected steps. Refused where a step does not exist, or the execution runs a plan, which is undone as
/// a whole.
fn select_steps(execution: &Execution, steps: Option<&[String]>) -> Result<Option<Vec<StepId>>, Refusal> {
    let Some(steps) = steps else { return Ok(None) };
    if execution.session.is_none() {
        return Err(Refusal::NotASession);
    }
    let ids = steps.iter().map(|step| find_step(execution, step).map(|no| execution.step_id(no)));
    ids.collect::<Result<_, _>>().map(Some)
}

/// Refuses an undo of an erased or already unwinding execution, and one with nothing to undo.
fn check_can_undo(execution: &Execution, selection: Option<&[StepId]>) -> Result<(), Refusal> {
    if execution.erased {
        return Err(Refusal::UndoOfErased);
    }
    if execution.phase == Phase::Unwind && execution.ended.is_none() {
        return Err(Refusal::AlreadyUndoing);
    }
    if execution.undoable_steps(selection).next().is_none() {
        return Err(Refusal::NothingToUndo { has_ended: execution.ended.is_some() });
    }
    Ok(())
}

impl Execution {
    /// Whether an unwinding requested by a caller who may not approve waits for an answer whatever calls it makes:
    /// the plan's `on_failure` is `propose`, or a proposal is open or was rejected before.
    fn undo_waits_for_answer(&self) -> bool {
        let proposes = self.plan.policy.on_failure == OnFailure::Propose;
        proposes || self.is_held_for_undo() || self.proposal == UnwindProposal::Rejected
    }
}

/// The answer `compensate` about one step: the same as `undo` of the whole execution.
pub(super) fn compensate(
    execution: &Execution,
    step: &str,
    reason: &Option<String>,
    approves: bool,
    values: &LoadedPayloads,
) -> Result<Vec<NewEvent>, Rejection> {
    let no = find_step(execution, step).map_err(Rejection::Refused)?;
    let allowed = allowed_answers(execution, no);
    if !allowed.contains(&StepAnswer::Compensate) {
        return Err(Rejection::Refused(answer_not_allowed(execution, no, StepAnswer::Compensate, &allowed)));
    }
    undo(execution, reason, None, approves, values)
}
