//! The next automatic action, derived from the state alone (level-triggered, not edge-triggered). `follow`
//! turns the action into events; `status` only asks whether there is one.

use super::due::{CallId, CallKind, agent_deadline_ms};
use super::index::Rank;
use super::state::{ApprovalGate, ExecutionState, Phase, UnwindProposal};
use super::{session, unwind};
use crate::id::StepNo;
use crate::policy::{EndStatus, ErrorCategory, FailureAction, OnFailure, Outcome, StepStatus};

/// An action that the driver takes without a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextAction {
    AskPlanApproval,
    /// Cancel all steps that have not started, because the execution stops.
    CancelUnstarted,
    /// End an agent's open call as unknown, because its deadline passed or the execution stops.
    GiveUpAgentCall(CallId),
    Probe(StepNo),
    /// Choose the time of the next attempt at a step or its compensation.
    ScheduleRetry(StepNo),
    Retry(StepNo),
    /// End a step with this outcome.
    Settle(StepNo, Outcome),
    /// Apply the failure policy of a failed step to the other steps.
    HandleFailure(StepNo),
    /// Cancel or skip this step, because a step that it depends on was cancelled, or skipped by a failure.
    CancelDependents(StepNo),
    Start(StepNo),
    /// Ask for an approval of the unwinding.
    ProposeUnwind,
    StartUnwind,
    /// Start a compensation of the attempt with this index.
    Compensate {
        step: StepNo,
        attempt: u32,
    },
    /// Stop retrying a compensation and wait for an answer.
    GiveUpCompensation(StepNo),
    End(EndStatus),
    /// End the unwinding of an open session.
    EndUnwind,
}

/// The next automatic action; `None` where the execution waits for a call, a person, an agent or a time.
pub(super) fn next_action(execution: &ExecutionState, now_ms: i64) -> Option<NextAction> {
    if execution.ended.is_some() || execution.paused {
        return None;
    }
    if execution.session.is_some() {
        return session::next_session_action(execution, now_ms);
    }
    if execution.gate == ApprovalGate::Due && !execution.is_stopping() {
        return Some(NextAction::AskPlanApproval);
    }
    cancel_or_give_up(execution, now_ms)
        .or_else(|| next_probe(execution))
        .or_else(|| execution.index.settling.iter().find_map(|no| settle_or_retry(execution, *no, now_ms)))
        .or_else(|| match (execution.stop, execution.phase) {
            (Some(end), _) => finish_stop(execution, end),
            (None, Phase::Unwind) => unwind::next_unwind_action(execution, now_ms),
            (None, Phase::Forward) if execution.is_held_for_undo() => propose_unwind(execution),
            (None, Phase::Forward) => next_forward_action(execution),
        })
}

/// The next probe. None starts while stopping, nor beyond the budget of calls, except in an unwinding.
fn next_probe(execution: &ExecutionState) -> Option<NextAction> {
    let is_unwinding = execution.phase == Phase::Unwind;
    if execution.stop.is_some() || !(is_unwinding || execution.has_calls_left()) {
        return None;
    }
    execution.index.probes_due.first().map(|no| NextAction::Probe(*no))
}

/// Proposes a requested unwinding once no call is in flight; starts it where nothing is left to undo.
fn propose_unwind(execution: &ExecutionState) -> Option<NextAction> {
    if execution.awaits_undo_approval() || !execution.index.open_tool_calls.is_empty() {
        return None;
    }
    Some(if execution.can_undo() { NextAction::ProposeUnwind } else { NextAction::StartUnwind })
}

/// While stopping, cancels unstarted steps and gives up agents' calls; at any time, gives up those past their
/// deadline.
fn cancel_or_give_up(execution: &ExecutionState, now_ms: i64) -> Option<NextAction> {
    let index = &execution.index;
    if execution.is_stopping() {
        if index.count(StepStatus::Pending) + index.count(StepStatus::AwaitingApproval) > 0 {
            return Some(NextAction::CancelUnstarted);
        }
        let is_given_up = |call: &&CallId| call.kind == CallKind::Run || execution.is_abandoned();
        if let Some(call) = index.open_agent_calls.iter().find(is_given_up) {
            return Some(NextAction::GiveUpAgentCall(*call));
        }
    }
    let is_overdue =
        |call: &&CallId| agent_deadline_ms(execution, **call).is_some_and(|deadline| deadline <= now_ms);
    index.open_agent_calls.iter().find(is_overdue).map(|call| NextAction::GiveUpAgentCall(*call))
}

/// Settles or retries a step whose attempt has ended; `None` while it waits for the time of its retry.
fn settle_or_retry(execution: &ExecutionState, no: StepNo, now_ms: i64) -> Option<NextAction> {
    let step = execution.step(no);
    let attempt = step.last_attempt()?;
    if step.attempts.iter().any(|attempt| attempt.has_succeeded()) {
        return Some(NextAction::Settle(no, Outcome::Succeeded));
    }
    let outcome = step.last_counted_attempt()?.effective_outcome()?;
    let is_halted = execution.index.blocks_new_steps() && !attempt.forced;
    if execution.is_stopping() || is_halted || !may_retry(execution, no) {
        return Some(NextAction::Settle(no, outcome));
    }
    if !attempt.forced && execution.reached_limit(attempt.by_agent, now_ms).is_some() {
        return Some(NextAction::Settle(no, outcome));
    }
    if execution.is_held_for_undo() {
        return None;
    }
    if attempt.is_due_for_repeat() {
        return Some(NextAction::Retry(no));
    }
    match step.retry.at_ms {
        None => Some(NextAction::ScheduleRetry(no)),
        Some(at) if at <= now_ms => Some(NextAction::Retry(no)),
        Some(_) => None,
    }
}

/// Whether the step is retried automatically: after a takeover, or by its own `retry`.
fn may_retry(execution: &ExecutionState, no: StepNo) -> bool {
    let (spec, step) = (execution.plan.step(no), execution.step(no));
    let Some(last) = step.last_attempt().filter(|last| !last.by_agent && !last.ended_with_question()) else {
        return false;
    };
    let repeatable = execution.rules(no).repeatable;
    last.is_due_for_repeat() || last.may_be_retried(&execution.step_retry(spec), repeatable, step.retry.tries)
}

/// Ends a cancelled or abandoned execution once no call is in flight.
fn finish_stop(execution: &ExecutionState, end: EndStatus) -> Option<NextAction> {
    if !execution.index.open_tool_calls.is_empty() {
        return None;
    }
    if execution.index.count(StepStatus::Compensating) > 0 {
        let is_compensating = |no: &StepNo| execution.step(*no).status() == StepStatus::Compensating;
        return execution.step_numbers().find(is_compensating).map(NextAction::GiveUpCompensation);
    }
    Some(NextAction::End(end))
}

/// The next action before any unwinding: handle failures, start steps, then conclude.
fn next_forward_action(execution: &ExecutionState) -> Option<NextAction> {
    if execution.gate != ApprovalGate::Open {
        return None;
    }
    let index = &execution.index;
    let failure = index.unhandled_failures.first().map(|no| NextAction::HandleFailure(*no));
    failure
        .or_else(|| index.unsatisfiable.first().map(|no| NextAction::CancelDependents(*no)))
        .or_else(|| next_startable_step(execution).map(NextAction::Start))
        .or_else(|| conclude_forward(execution))
}

/// The next step to start; `None` where none is ready or no slot is free.
pub(super) fn next_startable_step(execution: &ExecutionState) -> Option<StepNo> {
    let index = &execution.index;
    let occupied = index.occupied_slots();
    let is_full = match execution.plan.policy.concurrency {
        1 => occupied + index.count(StepStatus::AwaitingApproval) > 0,
        slots => occupied >= slots as usize,
    };
    if is_full || !index.exclusive_in_flight.is_empty() {
        return None;
    }
    let may_run = |rank: &&Rank| occupied == 0 || !execution.rules(rank.1).is_irreversible();
    if index.blocks_new_steps() {
        return index.ready_forced.iter().find(may_run).map(|rank| rank.1);
    }
    let exclusive = if occupied == 0 { index.ready_exclusive.first() } else { None };
    let first = match (index.ready.first(), exclusive) {
        (Some(shared), Some(exclusive)) => Some(shared.min(exclusive)),
        (shared, exclusive) => shared.or(exclusive),
    };
    first.map(|rank| rank.1)
}

/// What follows when no step can start: the end, or what `on_failure` says; `None` while something is open.
fn conclude_forward(execution: &ExecutionState) -> Option<NextAction> {
    let index = &execution.index;
    if !index.open_tool_calls.is_empty() || index.count(StepStatus::Running) > 0 {
        return None;
    }
    if index.failed.is_empty() {
        let done = index.count(StepStatus::Succeeded) + index.count(StepStatus::Skipped);
        return (done == execution.steps.len()).then_some(NextAction::End(EndStatus::Succeeded));
    }
    if index.failure_count(Some(FailureAction::ManualDecision)) > 0 {
        return None;
    }
    let halting = index.failure_count(None) + index.failure_count(Some(FailureAction::CancelAll));
    let unfinished = [StepStatus::Pending, StepStatus::AwaitingApproval, StepStatus::AwaitingAgent];
    let others_continue = unfinished.into_iter().any(|status| index.count(status) > 0);
    if halting == 0 && others_continue {
        return None;
    }
    if halting + index.failure_count(Some(FailureAction::CancelDependent)) == 0 {
        return Some(NextAction::End(EndStatus::Failed));
    }
    match execution.plan.policy.on_failure {
        OnFailure::Manual => None,
        OnFailure::Propose | OnFailure::Auto if execution.proposal == UnwindProposal::Rejected => None,
        OnFailure::Propose => execution.can_undo().then_some(NextAction::ProposeUnwind),
        OnFailure::Auto if execution.undo_needs_approval(None) => Some(NextAction::ProposeUnwind),
        OnFailure::Auto => Some(NextAction::StartUnwind),
    }
}

/// A limit of the execution that has been reached: its budget of calls, or its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReachedLimit {
    Calls,
    Time,
}

impl ReachedLimit {
    /// The category with which a step fails because of this limit.
    pub fn category(self) -> ErrorCategory {
        match self {
            Self::Calls => ErrorCategory::Policy,
            Self::Time => ErrorCategory::Timeout,
        }
    }

    /// The error text of a step that fails because of this limit.
    pub fn message(self) -> &'static str {
        match self {
            Self::Calls => "the execution's budget of calls is spent",
            Self::Time => "the execution's time is spent",
        }
    }
}

impl ExecutionState {
    /// Whether the budget has room for another call.
    fn has_calls_left(&self) -> bool {
        self.plan.policy.max_calls.is_none_or(|limit| self.calls_made < limit)
    }

    /// The limit that forbids another attempt; `None`: none does. An agent's work takes time, but no call.
    pub(super) fn reached_limit(&self, by_agent: bool, now_ms: i64) -> Option<ReachedLimit> {
        let policy = &self.plan.policy;
        if !by_agent && !self.has_calls_left() {
            return Some(ReachedLimit::Calls);
        }
        let since = u64::try_from(now_ms - self.last_entry_at_ms).unwrap_or(0);
        let active = self.active_ms + since;
        policy.timeout_ms.is_some_and(|limit| active >= limit).then_some(ReachedLimit::Time)
    }
}
