//! Unwinding: whatever may have run is taken back, in reverse dependency order, once nothing is out.

use super::next::Next;
use super::state::Execution;
use crate::id::StepNo;
use crate::policy::{Cancellable, End, Outcome};

pub(super) fn next(execution: &Execution, now_ms: i64) -> Option<Next> {
    if execution.forward_calls_open() || !execution.index.undo_failed.is_empty() {
        return None;
    }
    if execution.asks_for_undo() && !execution.index.to_undo.is_empty() {
        return None;
    }
    let retry = execution.index.undo_settling.iter().find_map(|no| retry(execution, *no, now_ms));
    retry.or_else(|| start(execution)).or_else(|| end(execution))
}

/// A compensation that ended badly, with tries of its own left or used up.
fn retry(execution: &Execution, no: StepNo, now_ms: i64) -> Option<Next> {
    let step = execution.step(no);
    if !may_retry(execution, no) {
        return Some(Next::GiveUpUndo(no));
    }
    if step.undo_blocked() {
        return None;
    }
    match step.retry_at_ms {
        None => Some(Next::ScheduleRetry(no)),
        Some(at) if at <= now_ms => undo(execution, no),
        Some(_) => None,
    }
}

pub(super) fn may_retry(execution: &Execution, no: StepNo) -> bool {
    let step = execution.step(no);
    let (Some(spec), Some(last)) = (&execution.plan.step(no).compensation, step.last_compensation()) else {
        return false;
    };
    let retry = execution.undo_retry(spec);
    let listed = last.category.is_some_and(|category| retry.on.contains(&category));
    let safe = match last.counts_as() {
        Some(Outcome::Failed) => true,
        Some(Outcome::Unknown) => execution.undo_repeatable(spec),
        Some(Outcome::Succeeded) | None => false,
    };
    safe && listed && !last.by_agent && step.undo_tries(last.attempt) < retry.max_attempts
}

/// The newest step that nothing still standing depends on. A compensation between two tries keeps its
/// slot, unless it waits for a dependant whose effect was heard of late.
fn start(execution: &Execution) -> Option<Next> {
    let index = &execution.index;
    let open = index.open_tools.len() + index.open_agents.len();
    let waiting = index.undo_settling.iter().filter(|no| !execution.step(**no).undo_blocked()).count();
    if open + waiting >= execution.plan.policy.concurrency as usize {
        return None;
    }
    let idle = |no: &StepNo| !execution.step(*no).compensation_open() && !index.undo_settling.contains(no);
    index.undo_ready.iter().rev().map(|(_, no)| *no).find(idle).and_then(|no| undo(execution, no))
}

fn undo(execution: &Execution, no: StepNo) -> Option<Next> {
    let attempt = *execution.step(no).to_undo(execution.rules(no)).last()?;
    Some(Next::Undo { step: no, attempt })
}

fn end(execution: &Execution) -> Option<Next> {
    let index = &execution.index;
    if !index.to_undo.is_empty() || !index.open_tools.is_empty() || !index.open_agents.is_empty() {
        return None;
    }
    if !index.undo_settling.is_empty() {
        return None;
    }
    let remains = execution.numbers().any(|no| effect_remains(execution, no));
    Some(Next::End(if remains { End::Failed } else { End::Compensated }))
}

/// Something of the step may still stand: no way back, left on purpose, or only partly reversible.
pub(super) fn effect_remains(execution: &Execution, no: StepNo) -> bool {
    let (rules, step) = (execution.rules(no), execution.step(no));
    let partly = !step.undone.is_empty() && rules.cancellable != Cancellable::Reversible;
    partly || !step.to_undo(rules).is_empty()
}
