//! What follows by itself, derived from the state alone: level, not edge. `follow` turns the answer
//! into events; `status` asks only whether there is one.

use super::due::{CallId, CallKind, agent_deadline};
use super::index::Rank;
use super::state::{Execution, Gate, Phase, Proposal, Stop};
use super::unwind;
use crate::id::StepNo;
use crate::policy::{Category, End, FailureAction, OnFailure, Outcome, StepStatus};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    AskForPlan,
    CancelUnstarted,
    /// An agent's work is no longer waited for; what became of it is unknown.
    TakeBack(CallId),
    Probe(StepNo),
    ScheduleRetry(StepNo),
    Retry(StepNo),
    Settle(StepNo, Outcome),
    HandleFailure(StepNo),
    Doom(StepNo),
    Start(StepNo),
    Propose,
    Unwind,
    Undo {
        step: StepNo,
        attempt: u32,
    },
    GiveUpUndo(StepNo),
    End(End),
}

pub(super) fn next(execution: &Execution, now_ms: i64) -> Option<Next> {
    if execution.ended.is_some() || execution.paused {
        return None;
    }
    if execution.gate == Gate::Due && !execution.stopping() {
        return Some(Next::AskForPlan);
    }
    take_back(execution, now_ms)
        .or_else(|| probe(execution))
        .or_else(|| execution.index.settling.iter().find_map(|no| settle(execution, *no, now_ms)))
        .or_else(|| match (execution.stop, execution.phase) {
            (Some(stop), _) => finish(execution, stop),
            (None, Phase::Unwind) => unwind::next(execution, now_ms),
            (None, Phase::Forward) if execution.holds_for_undo() => propose(execution),
            (None, Phase::Forward) => forward(execution),
        })
}

/// A probe is a call: none while stopping, and none beyond the budget, which never stops an unwinding.
fn probe(execution: &Execution) -> Option<Next> {
    let unwinding = execution.phase == Phase::Unwind;
    if execution.stop.is_some() || !(unwinding || execution.calls_left()) {
        return None;
    }
    execution.index.probes_due.first().map(|no| Next::Probe(*no))
}

/// The unwinding that was asked for is put to a person once nothing is in flight.
fn propose(execution: &Execution) -> Option<Next> {
    if execution.asks_for_undo() || !execution.index.open_tools.is_empty() {
        return None;
    }
    Some(if execution.can_undo() { Next::Propose } else { Next::Unwind })
}

/// A stop cancels what has not started and lets go of agents; so does an agent's own deadline.
fn take_back(execution: &Execution, now_ms: i64) -> Option<Next> {
    let index = &execution.index;
    if execution.stopping() {
        if index.count(StepStatus::Pending) + index.count(StepStatus::AwaitingApproval) > 0 {
            return Some(Next::CancelUnstarted);
        }
        let gone = |call: &&CallId| call.kind == CallKind::Run || execution.abandoned();
        if let Some(call) = index.open_agents.iter().find(gone) {
            return Some(Next::TakeBack(*call));
        }
    }
    let late = |call: &&CallId| agent_deadline(execution, **call).is_some_and(|deadline| deadline <= now_ms);
    index.open_agents.iter().find(late).map(|call| Next::TakeBack(*call))
}

/// A step whose attempt has ended: succeed, try again, wait, or keep the outcome.
fn settle(execution: &Execution, no: StepNo, now_ms: i64) -> Option<Next> {
    let step = execution.step(no);
    let attempt = step.last()?;
    if step.attempts.iter().any(|attempt| attempt.succeeded()) {
        return Some(Next::Settle(no, Outcome::Succeeded));
    }
    let outcome = step.last_that_counts()?.counts_as()?;
    let halted = execution.index.halting() && !attempt.forced;
    if execution.stopping() || halted || !may_retry(execution, no) {
        return Some(Next::Settle(no, outcome));
    }
    if !attempt.forced && execution.spent(attempt.by_agent, now_ms).is_some() {
        return Some(Next::Settle(no, outcome));
    }
    if execution.holds_for_undo() {
        return None;
    }
    if attempt.costs_nothing() || attempt.is_repeated() {
        return Some(Next::Retry(no));
    }
    match step.retry_at_ms {
        None => Some(Next::ScheduleRetry(no)),
        Some(at) if at <= now_ms => Some(Next::Retry(no)),
        Some(_) => None,
    }
}

/// Automatic attempts: a definite failure in a listed category; an unknown one only where sending
/// twice does no harm.
fn may_retry(execution: &Execution, no: StepNo) -> bool {
    let (spec, step) = (execution.plan.step(no), execution.step(no));
    let Some(attempt) = step.last() else { return false };
    if attempt.by_agent || attempt.asks {
        return false;
    }
    if attempt.costs_nothing() || attempt.is_repeated() {
        return true;
    }
    let retry = execution.retry(spec);
    let listed = attempt.category.is_some_and(|category| retry.on.contains(&category));
    let safe = match attempt.counts_as() {
        Some(Outcome::Failed) => true,
        Some(Outcome::Unknown) => execution.rules(no).repeatable,
        Some(Outcome::Succeeded) | None => false,
    };
    safe && listed && step.tries < retry.max_attempts
}

/// Cancelled or abandoned: when nothing is out any more, it ends.
fn finish(execution: &Execution, stop: Stop) -> Option<Next> {
    if !execution.index.open_tools.is_empty() {
        return None;
    }
    if execution.index.count(StepStatus::Compensating) > 0 {
        let half_done = |no: &StepNo| execution.step(*no).status() == StepStatus::Compensating;
        return execution.numbers().find(half_done).map(Next::GiveUpUndo);
    }
    Some(Next::End(match stop {
        Stop::Cancel => End::Cancelled,
        Stop::Abandon => End::Failed,
    }))
}

fn forward(execution: &Execution) -> Option<Next> {
    if execution.gate != Gate::Open {
        return None;
    }
    let index = &execution.index;
    let failure = index.unhandled.first().map(|no| Next::HandleFailure(*no));
    failure
        .or_else(|| index.doomed.first().map(|no| Next::Doom(*no)))
        .or_else(|| startable(execution).map(Next::Start))
        .or_else(|| conclude(execution))
}

/// The next step to start, if there is a slot for it.
pub(super) fn startable(execution: &Execution) -> Option<StepNo> {
    let index = &execution.index;
    let occupied = index.occupied();
    let full = match execution.plan.policy.concurrency {
        1 => occupied + index.count(StepStatus::AwaitingApproval) > 0,
        slots => occupied >= slots as usize,
    };
    if full || !index.alone.is_empty() {
        return None;
    }
    let alone_fits = |rank: &&Rank| occupied == 0 || !execution.rules(rank.1).irreversible();
    if index.halting() {
        return index.ready_forced.iter().find(alone_fits).map(|rank| rank.1);
    }
    let alone = if occupied == 0 { index.ready_alone.first() } else { None };
    let first = match (index.ready.first(), alone) {
        (Some(shared), Some(alone)) => Some(shared.min(alone)),
        (shared, alone) => shared.or(alone),
    };
    first.map(|rank| rank.1)
}

/// Nothing can start: has it ended, or is it `on_failure`'s turn?
fn conclude(execution: &Execution) -> Option<Next> {
    let index = &execution.index;
    if !index.open_tools.is_empty() || index.count(StepStatus::Running) > 0 {
        return None;
    }
    if index.failed.is_empty() {
        let done = index.count(StepStatus::Succeeded) + index.count(StepStatus::Skipped);
        return (done == execution.steps.len()).then_some(Next::End(End::Succeeded));
    }
    if index.failures(Some(FailureAction::ManualDecision)) > 0 {
        return None;
    }
    let hard = index.failures(None) + index.failures(Some(FailureAction::CancelAll));
    let unfinished = [StepStatus::Pending, StepStatus::AwaitingApproval, StepStatus::AwaitingAgent];
    let others_go_on = unfinished.into_iter().any(|status| index.count(status) > 0);
    if hard == 0 && others_go_on {
        return None;
    }
    if hard + index.failures(Some(FailureAction::CancelDependent)) == 0 {
        return Some(Next::End(End::Failed));
    }
    match execution.plan.policy.on_failure {
        OnFailure::Manual => None,
        OnFailure::Propose | OnFailure::Auto if execution.proposal == Proposal::Rejected => None,
        OnFailure::Propose => execution.can_undo().then_some(Next::Propose),
        OnFailure::Auto if execution.undo_needs_yes() => Some(Next::Propose),
        OnFailure::Auto => Some(Next::Unwind),
    }
}

/// A limit that has been reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spent {
    Calls,
    Time,
}

impl Spent {
    /// The category of what fails by it.
    pub fn category(self) -> Category {
        match self {
            Self::Calls => Category::Policy,
            Self::Time => Category::Timeout,
        }
    }

    pub fn message(self) -> &'static str {
        match self {
            Self::Calls => "the execution's budget of calls is spent",
            Self::Time => "the execution's time is spent",
        }
    }
}

impl Execution {
    /// The budget has room for another call.
    fn calls_left(&self) -> bool {
        self.plan.policy.max_calls.is_none_or(|limit| self.calls < limit)
    }

    /// An agent's work is no call, but takes time like any other.
    pub(super) fn spent(&self, by_agent: bool, now_ms: i64) -> Option<Spent> {
        let policy = &self.plan.policy;
        if !by_agent && !self.calls_left() {
            return Some(Spent::Calls);
        }
        let since = u64::try_from(now_ms - self.at_ms).unwrap_or(0);
        let active = self.active_ms + since;
        policy.timeout_ms.is_some_and(|limit| active >= limit).then_some(Spent::Time)
    }
}
