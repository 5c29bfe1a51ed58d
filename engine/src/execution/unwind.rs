//! Unwinding: once no forward call is in flight, every step that may have run is undone, in reverse
//! dependency order.

use super::next::NextAction;
use super::state::ExecutionState;
use crate::id::StepNo;
use crate::policy::{EndStatus, Reversibility};

/// The next action of an unwinding; `None` while it waits for a call, an answer, an approval or a retry.
pub(super) fn next_unwind_action(execution: &ExecutionState, now_ms: i64) -> Option<NextAction> {
    if execution.has_open_forward_calls() || !execution.index.undo_failed.is_empty() {
        return None;
    }
    if execution.awaits_undo_approval() && !execution.index.to_undo.is_empty() {
        return None;
    }
    let retry = execution.index.undo_settling.iter().find_map(|no| retry_or_give_up(execution, *no, now_ms));
    retry.or_else(|| start_next_compensation(execution)).or_else(|| end_unwind(execution))
}

/// Retries or gives up a compensation that ended unsuccessfully; `None` while it waits.
fn retry_or_give_up(execution: &ExecutionState, no: StepNo, now_ms: i64) -> Option<NextAction> {
    let step = execution.step(no);
    if !may_retry_compensation(execution, no) {
        return Some(NextAction::GiveUpCompensation(no));
    }
    if step.is_undo_blocked() {
        return None;
    }
    match step.retry.at_ms {
        None => Some(NextAction::ScheduleRetry(no)),
        Some(at) if at <= now_ms => compensate_newest_attempt(execution, no),
        Some(_) => None,
    }
}

/// Whether the step's last compensation may be retried automatically, by its own `retry`.
pub(super) fn may_retry_compensation(execution: &ExecutionState, no: StepNo) -> bool {
    let step = execution.step(no);
    let (Some(spec), Some(last)) = (&execution.plan.step(no).compensation, step.last_compensation()) else {
        return false;
    };
    let repeatable = execution.is_undo_repeatable(spec);
    last.may_be_retried(&execution.compensation_retry(spec), repeatable, step.undo_tries())
}

/// Starts the compensation of the newest step that no other step to be undone depends on, if a slot is free.
/// A compensation between two tries keeps its slot, unless a dependent whose success arrived late goes first.
fn start_next_compensation(execution: &ExecutionState) -> Option<NextAction> {
    let index = &execution.index;
    let open = index.open_tool_calls.len() + index.open_agent_calls.len();
    let between_tries =
        index.undo_settling.iter().filter(|no| !execution.step(**no).is_undo_blocked()).count();
    if open + between_tries >= execution.plan.policy.concurrency as usize {
        return None;
    }
    let is_idle =
        |no: &StepNo| !execution.step(*no).is_compensation_open() && !index.undo_settling.contains(no);
    index
        .undo_ready
        .iter()
        .rev()
        .map(|(_, no)| *no)
        .find(is_idle)
        .and_then(|no| compensate_newest_attempt(execution, no))
}

/// Compensates the step's newest attempt that is to be undone.
fn compensate_newest_attempt(execution: &ExecutionState, no: StepNo) -> Option<NextAction> {
    let attempt = *execution.step(no).attempts_to_undo(execution.rules(no)).last()?;
    Some(NextAction::Compensate { step: no, attempt })
}

/// Ends the unwinding once nothing is to be undone or in flight: `failed` where an effect remains.
fn end_unwind(execution: &ExecutionState) -> Option<NextAction> {
    let index = &execution.index;
    if !index.to_undo.is_empty() || !index.open_tool_calls.is_empty() || !index.open_agent_calls.is_empty() {
        return None;
    }
    if !index.undo_settling.is_empty() {
        return None;
    }
    let remains = execution.step_numbers().any(|no| effect_remains(execution, no));
    let Some(session) = &execution.session else {
        return Some(NextAction::End(if remains { EndStatus::Failed } else { EndStatus::Compensated }));
    };
    // A session is afterwards as open, or as ended, as it was before.
    Some(match session.ended_before {
        None => NextAction::EndUnwind,
        Some(_) if !remains => NextAction::End(EndStatus::Compensated),
        // A success that arrived after everything was undone is an effect again.
        Some(EndStatus::Compensated) => NextAction::End(EndStatus::Succeeded),
        Some(before) => NextAction::End(before),
    })
}

/// Whether an effect of the step may remain: it cannot be undone, was left in place, or only partly undone.
pub(super) fn effect_remains(execution: &ExecutionState, no: StepNo) -> bool {
    let (rules, step) = (execution.rules(no), execution.step(no));
    let is_partly_undone = !step.undo.undone.is_empty() && rules.cancellable != Reversibility::Reversible;
    is_partly_undone || !step.attempts_to_undo(rules).is_empty()
}
