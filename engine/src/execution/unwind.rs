//! Unwinding: whatever may have run is taken back, in reverse dependency order, once nothing is out.

use super::due::CallKind;
use super::next::Next;
use super::state::Execution;
use crate::id::StepNo;
use crate::policy::{Cancellable, End, Outcome};

pub(super) fn next(execution: &Execution, now_ms: i64) -> Option<Next> {
    if execution.forward_calls_open() || !execution.index.undo_failed.is_empty() {
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
    let listed = last.category.is_some_and(|category| spec.retry.on.contains(&category));
    let safe = match last.outcome {
        Some(Outcome::Failed) => true,
        Some(Outcome::Unknown) => spec.idempotent,
        Some(Outcome::Succeeded) | None => false,
    };
    safe && listed && !last.by_agent && step.undo_tries(last.attempt) < spec.retry.max_attempts
}

fn start(execution: &Execution) -> Option<Next> {
    let index = &execution.index;
    let open =
        index.open_tools.iter().chain(&index.open_agents).filter(|call| call.kind == CallKind::Compensation);
    let mut ahead: Vec<StepNo> =
        open.map(|call| call.step).chain(index.undo_settling.iter().copied()).collect();
    let busy = ahead.len();
    for &(_, no) in index.to_undo.iter().rev() {
        if busy >= execution.plan.policy.concurrency as usize {
            return None;
        }
        if ahead.contains(&no) {
            continue;
        }
        if !ahead.iter().any(|later| depends(execution, *later, no)) {
            return undo(execution, no);
        }
        ahead.push(no);
    }
    None
}

fn undo(execution: &Execution, no: StepNo) -> Option<Next> {
    let attempt = *execution.step(no).to_undo(execution.plan.step(no)).last()?;
    Some(Next::Undo { step: no, attempt })
}

/// Does `later` need `earlier`, directly or through others?
fn depends(execution: &Execution, later: StepNo, earlier: StepNo) -> bool {
    let plan = &execution.plan;
    let floor = plan.order(earlier);
    let mut seen = std::collections::BTreeSet::new();
    let mut open = vec![later];
    while let Some(step) = open.pop() {
        if step == earlier {
            return true;
        }
        let needs = plan.step(step).needs.iter().map(|need| need.step);
        open.extend(needs.filter(|need| plan.order(*need) >= floor && seen.insert(*need)));
    }
    false
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
    let (spec, step) = (execution.plan.step(no), execution.step(no));
    let partly = !step.undone.is_empty() && spec.cancellable != Cancellable::Reversible;
    partly || !step.to_undo(spec).is_empty()
}
