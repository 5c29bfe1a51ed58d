//! Asking for an unwinding: it starts, or waits for the yes that its caller cannot give.

use super::super::Fresh;
use super::super::asks::answers;
use super::super::command::Refusal;
use super::super::follow::{Values, undo_calls};
use super::super::state::{Execution, Phase, Proposal};
use super::answer::does_not_fit;
use super::{No, find};
use crate::event::{UndoAsked, UndoCall, UnwindProposed, UnwindStarted};
use crate::policy::{Answer, OnFailure};

/// Starts the unwinding, or asks for the yes that it needs and the caller cannot give.
pub(super) fn undo(
    execution: &Execution,
    reason: &Option<String>,
    approves: bool,
    values: &Values,
) -> Result<Vec<Fresh>, No> {
    may_undo(execution).map_err(No::Refused)?;
    if approves {
        let calls = if execution.undo_needs_yes() { undo_calls(execution, values)? } else { Vec::new() };
        let under_approval = |call: &UndoCall| execution.asks_for_yes_to(&call.tool);
        let calls = calls.into_iter().filter(under_approval).collect();
        return Ok(vec![UnwindStarted { reason: reason.clone(), calls }.into()]);
    }
    if !execution.undo_waits_for_yes() {
        return Ok(vec![UnwindStarted { reason: reason.clone(), calls: Vec::new() }.into()]);
    }
    let mut events: Vec<Fresh> = Vec::new();
    if !execution.undo_asked {
        events.push(UndoAsked { reason: reason.clone() }.into());
    }
    // With calls out or probes due it is asked once they have ended; but nothing follows by itself where the
    // execution has ended, is being stopped or is paused.
    let quiet = execution.index.open_tools.is_empty() && execution.index.probes_due.is_empty();
    let halted = execution.ended.is_some() || execution.stop.is_some() || execution.paused;
    if (quiet || halted) && !execution.asks_for_undo() {
        events.push(UnwindProposed { calls: undo_calls(execution, values)? }.into());
    }
    Ok(events)
}

fn may_undo(execution: &Execution) -> Result<(), Refusal> {
    if execution.erased {
        let message = "its arguments and outputs were erased by `cleanup`, so nothing can be undone";
        return Err(Refusal::new("erased", message, "undo by hand what `journal` shows"));
    }
    if execution.phase == Phase::Unwind && execution.ended.is_none() {
        return Err(Refusal::new(
            "already_undoing",
            "it is being undone already",
            "`watch` it, or answer what it asks",
        ));
    }
    if !execution.can_undo() {
        let message = "nothing that ran is left to undo";
        let cure = match execution.ended {
            Some(_) => "`show` it: the brief names what cannot be undone",
            None => "`cancel` it to stop it",
        };
        return Err(Refusal::new("nothing_to_undo", message, cure));
    }
    Ok(())
}

impl Execution {
    /// An unwinding that a caller who may not approve asks for waits for somebody who may: its calls are
    /// under approval, the plan proposes before it undoes, or a person has said no before.
    fn undo_waits_for_yes(&self) -> bool {
        let proposes = self.plan.policy.on_failure == OnFailure::Propose;
        proposes || self.holds_for_undo() || self.proposal == Proposal::Rejected || self.undo_needs_yes()
    }
}

/// `compensate` as the answer to one step's failure: the same as `undo`.
pub(super) fn compensate(
    execution: &Execution,
    step: &str,
    reason: &Option<String>,
    approves: bool,
    values: &Values,
) -> Result<Vec<Fresh>, No> {
    let no = find(execution, step).map_err(No::Refused)?;
    let fitting = answers(execution, no);
    if !fitting.contains(&Answer::Compensate) {
        return Err(No::Refused(does_not_fit(execution, no, Answer::Compensate, &fitting)));
    }
    undo(execution, reason, approves, values)
}
