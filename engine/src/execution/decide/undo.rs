//! Requests to unwind: the unwinding starts, or waits for an approval that its caller may not give.

use super::super::NewEvent;
use super::super::evolve::Execution;
use super::super::follow::{LoadedPayloads, undo_calls};
use super::super::questions::allowed_answers;
use super::super::state::{Phase, UnwindProposal};
use super::answer::answer_not_allowed;
use super::{Rejection, find_step};
use crate::event::{UndoAsked, UndoCall, UnwindProposed, UnwindStarted};
use crate::policy::{OnFailure, StepAnswer};
use crate::refusal::Refusal;

/// Starts the unwinding, or proposes it where it needs an approval that the caller may not give.
pub(super) fn undo(
    execution: &Execution,
    reason: &Option<String>,
    approves: bool,
    values: &LoadedPayloads,
) -> Result<Vec<NewEvent>, Rejection> {
    check_can_undo(execution).map_err(Rejection::Refused)?;
    if approves {
        let calls = if execution.undo_needs_approval() { undo_calls(execution, values)? } else { Vec::new() };
        let under_approval = |call: &UndoCall| execution.tool_needs_approval(&call.tool);
        let calls = calls.into_iter().filter(under_approval).collect();
        return Ok(vec![UnwindStarted { reason: reason.clone(), calls }.into()]);
    }
    if !execution.undo_waits_for_approval() {
        return Ok(vec![UnwindStarted { reason: reason.clone(), calls: Vec::new() }.into()]);
    }
    let mut events: Vec<NewEvent> = Vec::new();
    if !execution.undo_requested {
        events.push(UndoAsked { reason: reason.clone() }.into());
    }
    // With calls in flight or probes due, `follow` proposes the unwinding once they have ended. It does not
    // where the execution has ended, is being stopped or is paused, so the proposal is made here.
    let is_idle = execution.index.open_tool_calls.is_empty() && execution.index.probes_due.is_empty();
    let is_halted = execution.ended.is_some() || execution.stop.is_some() || execution.paused;
    if (is_idle || is_halted) && !execution.awaits_undo_approval() {
        events.push(UnwindProposed { calls: undo_calls(execution, values)? }.into());
    }
    Ok(events)
}

/// Refuses an undo of an erased or already unwinding execution, and one with nothing to undo.
fn check_can_undo(execution: &Execution) -> Result<(), Refusal> {
    if execution.erased {
        return Err(Refusal::UndoOfErased);
    }
    if execution.phase == Phase::Unwind && execution.ended.is_none() {
        return Err(Refusal::AlreadyUndoing);
    }
    if !execution.can_undo() {
        return Err(Refusal::NothingToUndo { has_ended: execution.ended.is_some() });
    }
    Ok(())
}

impl Execution {
    /// Whether an unwinding requested by a caller who may not approve waits for an approval: its calls are
    /// under approval, the plan's `on_failure` is `propose`, or a proposal is open or was rejected before.
    fn undo_waits_for_approval(&self) -> bool {
        let proposes = self.plan.policy.on_failure == OnFailure::Propose;
        proposes
            || self.is_held_for_undo()
            || self.proposal == UnwindProposal::Rejected
            || self.undo_needs_approval()
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
    undo(execution, reason, approves, values)
}
