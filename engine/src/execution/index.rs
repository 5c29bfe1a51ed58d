//! Sets of steps and calls, maintained along with the state so that a decision costs what changed and not the
//! whole plan. All of them can be derived from the steps; only `refresh` does so.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::attempt::{Attempt, ProbeState};
use super::due::{CallId, CallKind};
use super::state::{ExecutionState, Phase, StepState};
use crate::id::StepNo;
use crate::plan::{Dependency, Step};
use crate::policy::{EndStatus, FailureAction, Outcome, StepStatus};
use crate::tool_policy::StepRules;

/// The start order of a ready step: negated priority (0 at concurrency 1), then list order.
pub(super) type Rank = (i64, StepNo);

/// The steps and calls of an execution by what may happen to them next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StepIndex {
    /// Pending, with every dependency satisfied.
    pub ready: BTreeSet<Rank>,
    /// Like `ready`, for irreversible steps, which run alone.
    pub ready_exclusive: BTreeSet<Rank>,
    /// Ready, and an answer demands the start in spite of another failure.
    pub ready_forced: BTreeSet<Rank>,
    /// Not started, and a dependency can never be satisfied: it was cancelled, or skipped by a failure.
    pub unsatisfiable: BTreeSet<StepNo>,
    /// Running with no call in flight: to be settled or retried.
    pub settling: BTreeSet<StepNo>,
    /// Compensating with an unsuccessful compensation: to be retried or given up.
    pub undo_settling: BTreeSet<StepNo>,
    /// The last attempt is unknown and has not been probed.
    pub probes_due: BTreeSet<StepNo>,
    /// Failed or unknown.
    pub failed: BTreeSet<StepNo>,
    /// The steps of `failed` whose tool asks for input.
    pub with_question: BTreeSet<StepNo>,
    /// The steps of `failed` whose failure policy is still to be applied.
    pub unhandled_failures: BTreeSet<StepNo>,
    /// Steps that may have an effect and have a compensation, by their order in the graph.
    pub to_undo: BTreeSet<(u32, StepNo)>,
    /// While unwinding: the steps of `to_undo` that no other step to be undone depends on.
    pub undo_ready: BTreeSet<(u32, StepNo)>,
    /// Steps whose effect an answer left in place; a later `undo` includes them again.
    pub left_in_place: BTreeSet<StepNo>,
    /// Compensations that wait for an answer.
    pub undo_failed: BTreeSet<StepNo>,
    /// Tool calls whose outcome is open: attempts, probes and compensations.
    pub open_tool_calls: BTreeSet<CallId>,
    /// Steps and compensations that wait for an agent's report.
    pub open_agent_calls: BTreeSet<CallId>,
    /// Irreversible steps in flight: nothing else starts.
    pub exclusive_in_flight: BTreeSet<StepNo>,
    /// Number of steps by status.
    counts: [u32; StepStatus::ALL.len()],
    /// Number of failed and unknown steps by failure policy; see `failure_slot`.
    failures: [u32; FailureAction::ALL.len() + 1],
}

/// The index in `failures` of a failure policy; the last one is for steps without a policy.
fn failure_slot(action: Option<FailureAction>) -> usize {
    action.map_or(FailureAction::ALL.len(), |action| action as usize)
}

/// The index in `failures` of steps with the policy `manual_decision`.
fn manual_slot() -> usize {
    failure_slot(Some(FailureAction::ManualDecision))
}

/// Inserts or removes an item; returns whether the set changed.
fn set_membership<T: Ord>(set: &mut BTreeSet<T>, item: T, member: bool) -> bool {
    if member { set.insert(item) } else { set.remove(&item) }
}

impl StepIndex {
    /// The number of steps with this status.
    pub fn count(&self, status: StepStatus) -> usize {
        self.counts[status as usize] as usize
    }

    /// The number of failed and unknown steps with this failure policy.
    pub fn failure_count(&self, action: Option<FailureAction>) -> u32 {
        self.failures[failure_slot(action)]
    }

    /// Counts a step that was added, which is pending.
    pub fn add_pending_step(&mut self) {
        self.counts[StepStatus::Pending as usize] += 1;
    }

    /// Whether a failure keeps further steps from starting.
    pub fn blocks_new_steps(&self) -> bool {
        let halting = [None, Some(FailureAction::ManualDecision), Some(FailureAction::CancelAll)];
        halting.into_iter().any(|action| self.failure_count(action) > 0)
    }

    /// The number of occupied concurrency slots: calls in flight, agents at work and steps between attempts.
    pub fn occupied_slots(&self) -> usize {
        self.open_tool_calls.len() + self.open_agent_calls.len() + self.settling.len()
    }

    /// Inserts a step into the sets that its state belongs to, and removes it from all others.
    fn update_sets(
        &mut self,
        (spec, rules): (&Step, StepRules),
        step: &StepState,
        rank: Rank,
        ordered: (u32, StepNo),
    ) {
        use StepStatus as S;
        let no = ordered.1;
        let status = step.status();
        let unstarted = matches!(status, S::Pending | S::AwaitingApproval);
        let ready =
            status == S::Pending && step.dependencies.unmet == 0 && step.dependencies.unsatisfiable == 0;
        let failed = matches!(status, S::Failed | S::Unknown);
        let is_call_open =
            step.last_attempt().is_some_and(|attempt| attempt.is_open() || attempt.is_probing());
        let is_between_calls = step.last_attempt().is_some() && !is_call_open;
        let may_settle =
            matches!(status, S::Running | S::Unknown | S::Skipped) && !step.is_compensation_open();
        let is_unprobed = step.last_attempt().is_some_and(|attempt| {
            attempt.is_unknown() && !attempt.ended_with_question() && attempt.probe == ProbeState::None
        });
        let is_undoable = spec.compensation.is_some() && !step.attempts_to_undo(rules).is_empty();
        let undo_retries = status == S::Compensating && last_undo_unsuccessful(step) && !step.undo.retry;
        set_membership(&mut self.ready, rank, ready && !rules.is_irreversible());
        set_membership(&mut self.ready_exclusive, rank, ready && rules.is_irreversible());
        set_membership(&mut self.ready_forced, rank, ready && step.forced);
        set_membership(&mut self.unsatisfiable, no, unstarted && step.dependencies.unsatisfiable > 0);
        set_membership(&mut self.settling, no, status == S::Running && is_between_calls);
        set_membership(&mut self.undo_settling, no, undo_retries);
        let may_probe = spec.probe.is_some() && rules.may_probe;
        set_membership(&mut self.probes_due, no, may_probe && is_unprobed && is_between_calls && may_settle);
        set_membership(&mut self.unhandled_failures, no, failed && !step.failure_handled);
        let is_covered = !step.undo.outside_selection;
        set_membership(&mut self.to_undo, ordered, is_undoable && is_covered && !step.undo.left_in_place);
        set_membership(&mut self.left_in_place, no, is_undoable && is_covered && step.undo.left_in_place);
        set_membership(
            &mut self.undo_failed,
            no,
            status == S::CompensationFailed && !step.undo.left_in_place && !step.undo.retry,
        );
        set_membership(
            &mut self.exclusive_in_flight,
            no,
            rules.is_irreversible() && matches!(status, S::Running | S::AwaitingAgent),
        );
        let question_changed = set_membership(&mut self.with_question, no, step.open_question().is_some());
        self.count_failure(no, failed, question_changed, failure_slot(spec.failure_action));
    }

    /// Updates `failed` and `failures`. A step whose tool asks for input counts under manual decision,
    /// whatever its own policy (`own`) says; `question_changed`: it has just entered or left `with_question`.
    fn count_failure(&mut self, no: StepNo, failed: bool, question_changed: bool, own: usize) {
        let asks = self.with_question.contains(&no);
        let was =
            self.failed.contains(&no).then_some(if asks != question_changed { manual_slot() } else { own });
        let is = failed.then_some(if asks { manual_slot() } else { own });
        set_membership(&mut self.failed, no, failed);
        if was != is {
            was.into_iter().for_each(|slot| self.failures[slot] -= 1);
            is.into_iter().for_each(|slot| self.failures[slot] += 1);
        }
    }
}

/// What a step's state means to a step that depends on it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DependencyState {
    Waiting,
    Satisfied,
    Unsatisfiable,
}

impl ExecutionState {
    /// Fills the index of an execution whose steps are all pending.
    pub(super) fn build_index(&mut self) {
        self.index.counts[StepStatus::Pending as usize] = self.steps.len() as u32;
        for no in self.step_numbers() {
            self.steps[no.index()].dependencies.unmet = self.plan.step(no).dependencies.len() as u32;
            self.refresh(no);
        }
    }

    /// The only way to change a step's status: it also updates the counts and the step's dependents.
    pub(super) fn set_status(&mut self, no: StepNo, status: StepStatus, cause: Option<StepNo>) {
        let before = (self.dependency_state(no, false), self.dependency_state(no, true));
        let step = &mut self.steps[no.index()];
        self.index.counts[step.status as usize] -= 1;
        self.index.counts[status as usize] += 1;
        step.status = status;
        step.status_set_at = self.position;
        step.cause = cause;
        let after = (self.dependency_state(no, false), self.dependency_state(no, true));
        if before != after {
            self.update_dependents(no, before, after);
        }
        self.refresh(no);
    }

    /// Updates the counts of unmet and unsatisfiable dependencies in the step's dependents. `before` and
    /// `after` hold the state for ordinary dependents and for those that read the status.
    fn update_dependents(
        &mut self,
        no: StepNo,
        before: (DependencyState, DependencyState),
        after: (DependencyState, DependencyState),
    ) {
        let plan = self.plan.clone();
        for &other in &plan.step(no).dependents {
            let status_read = reads_status(&plan.step(other).dependencies, no);
            let (old, new) = if status_read { (before.1, after.1) } else { (before.0, after.0) };
            if old == new {
                continue;
            }
            let step = &mut self.steps[other.index()];
            step.dependencies.unmet = step.dependencies.unmet + u32::from(old == DependencyState::Satisfied)
                - u32::from(new == DependencyState::Satisfied);
            step.dependencies.unsatisfiable = step.dependencies.unsatisfiable
                + u32::from(new == DependencyState::Unsatisfiable)
                - u32::from(old == DependencyState::Unsatisfiable);
            self.refresh(other);
        }
    }

    /// What a step's status means to a dependent; `status_read`: the dependent's `when` reads the status.
    fn dependency_state(&self, no: StepNo, status_read: bool) -> DependencyState {
        use StepStatus as S;
        let step = self.step(no);
        match step.status() {
            S::Succeeded => DependencyState::Satisfied,
            S::Skipped if step.cause.is_none() || status_read => DependencyState::Satisfied,
            S::Failed | S::Unknown | S::Cancelled if status_read => DependencyState::Satisfied,
            S::Skipped | S::Cancelled => DependencyState::Unsatisfiable,
            S::Failed | S::Unknown | S::Pending | S::Running | S::AwaitingApproval | S::AwaitingAgent => {
                DependencyState::Waiting
            }
            // A step that is undone was satisfied before; while unwinding nothing starts anyway.
            S::Compensating | S::Compensated | S::CompensationFailed => DependencyState::Satisfied,
        }
    }

    /// The step's start order among the ready steps.
    pub(super) fn rank(&self, no: StepNo) -> Rank {
        match self.plan.policy.concurrency {
            1 => (0, no),
            _ => (-self.plan.step(no).priority, no),
        }
    }

    /// Recomputes the sets that a step belongs to. Called after every change to the step.
    pub(super) fn refresh(&mut self, no: StepNo) {
        let (plan, rank) = (self.plan.clone(), self.rank(no));
        let spec = (plan.step(no), self.rules(no));
        self.index.update_sets(spec, &self.steps[no.index()], rank, (self.undo_rank(no), no));
        if self.phase == Phase::Unwind {
            self.update_undo_order(no);
        }
    }

    /// Builds the order of undo, dependents before their dependencies. Only an unwinding uses it.
    pub(super) fn build_undo_order(&mut self) {
        self.index.undo_ready.clear();
        for step in &mut self.steps {
            (step.undo.blockers, step.undo.blocks) = (0, false);
        }
        for no in self.step_numbers() {
            self.refresh(no);
        }
    }

    /// Updates the undo order after a change to a step: a step blocks the undo of its dependencies while it,
    /// or a step that depends on it, is to be undone.
    fn update_undo_order(&mut self, no: StepNo) {
        let plan = self.plan.clone();
        let mut changed = vec![no];
        while let Some(no) = changed.pop() {
            let ordered = (self.undo_rank(no), no);
            let to_undo = self.index.to_undo.contains(&ordered);
            let step = &mut self.steps[no.index()];
            let blocks = to_undo || step.is_undo_blocked();
            set_membership(&mut self.index.undo_ready, ordered, to_undo && !step.is_undo_blocked());
            if blocks == step.undo.blocks {
                continue;
            }
            step.undo.blocks = blocks;
            for need in &plan.step(no).dependencies {
                let blockers = &mut self.steps[need.step.index()].undo.blockers;
                *blockers = if blocks { *blockers + 1 } else { *blockers - 1 };
                changed.push(need.step);
            }
        }
    }

    /// Records that a call was started.
    pub(super) fn open_call(&mut self, call: CallId, by_agent: bool) {
        let set = if by_agent { &mut self.index.open_agent_calls } else { &mut self.index.open_tool_calls };
        set.insert(call);
    }

    /// Records that a call ended.
    pub(super) fn close_call(&mut self, call: CallId) {
        self.index.open_tool_calls.remove(&call);
        self.index.open_agent_calls.remove(&call);
    }

    /// The step's call that waits for an agent's report.
    pub(super) fn open_agent_call(&self, no: StepNo) -> Option<CallId> {
        self.index.open_agent_calls.iter().copied().find(|call| call.step == no)
    }

    /// What a failure of this step does to the others; a tool's open question always needs a manual decision.
    pub(super) fn failure_action(&self, no: StepNo) -> Option<FailureAction> {
        if self.index.with_question.contains(&no) {
            Some(FailureAction::ManualDecision)
        } else {
            self.plan.step(no).failure_action
        }
    }

    /// The handle of a call that its server runs as a task of its own; `None` for any other.
    pub(super) fn task_handle(&self, call: CallId) -> Option<&Arc<str>> {
        let is_probe = call.kind == CallKind::Probe;
        self.attempt(call).task_handle.as_ref().filter(|_| !is_probe)
    }

    /// Whether the execution was abandoned by an answer.
    pub(super) fn is_abandoned(&self) -> bool {
        self.stop == Some(EndStatus::Failed)
    }

    /// Whether a call that is not a compensation is in flight.
    pub(super) fn has_open_forward_calls(&self) -> bool {
        let mut open = self.index.open_tool_calls.iter().chain(&self.index.open_agent_calls);
        open.any(|call| call.kind != CallKind::Compensation)
    }
}

impl ExecutionState {
    /// Asserts that the index equals the one derived from all steps. For tests.
    #[doc(hidden)]
    pub fn check_index(&self) {
        let mut index = StepIndex::default();
        for no in self.step_numbers() {
            let (spec, step) = (self.plan.step(no), self.step(no));
            index.counts[step.status() as usize] += 1;
            index.update_sets((spec, self.rules(no)), step, self.rank(no), (self.undo_rank(no), no));
            let dependency_states =
                || spec.dependencies.iter().map(|need| self.dependency_state(need.step, need.status_read));
            let unmet = dependency_states().filter(|state| *state != DependencyState::Satisfied).count();
            let unsatisfiable =
                dependency_states().filter(|state| *state == DependencyState::Unsatisfiable).count();
            let kept = (step.dependencies.unmet as usize, step.dependencies.unsatisfiable as usize);
            assert_eq!(kept, (unmet, unsatisfiable), "needs of `{}`", spec.id);
            index.add_open_calls(no, step);
        }
        if self.phase == Phase::Unwind {
            self.check_undo_order(&mut index);
        }
        assert_eq!(self.index, index, "kept (left) and derived (right)");
    }

    /// Asserts the undo order that each step holds, and derives `undo_ready` into `index`.
    fn check_undo_order(&self, index: &mut StepIndex) {
        let mut from_last: Vec<StepNo> = self.step_numbers().collect();
        from_last.sort_by_key(|no| std::cmp::Reverse(self.undo_rank(*no)));
        let mut blocks = vec![false; self.steps.len()];
        for no in from_last {
            let ordered = (self.undo_rank(no), no);
            let blockers = self.plan.step(no).dependents.iter().filter(|other| blocks[other.index()]).count();
            blocks[no.index()] = blockers > 0 || index.to_undo.contains(&ordered);
            set_membership(&mut index.undo_ready, ordered, blockers == 0 && index.to_undo.contains(&ordered));
            let kept = (self.step(no).undo.blockers as usize, self.step(no).undo.blocks);
            assert_eq!(kept, (blockers, blocks[no.index()]), "undo order of `{}`", self.step_id(no));
        }
    }
}

impl StepIndex {
    /// Adds a step's open calls.
    fn add_open_calls(&mut self, step: StepNo, state: &StepState) {
        let mut add = |kind: CallKind, no: usize, by_agent: bool| {
            let set = if by_agent { &mut self.open_agent_calls } else { &mut self.open_tool_calls };
            set.insert(CallId { step, kind, index: no as u32 });
        };
        for kind in [CallKind::Run, CallKind::Compensation] {
            for (no, attempt) in state.attempts_of(kind).iter().enumerate() {
                if attempt.is_open() {
                    add(kind, no, attempt.by_agent);
                }
                if attempt.is_probing() {
                    add(CallKind::Probe, no, false);
                }
            }
        }
    }
}

/// Whether the last compensation failed or is unknown; false if there is none or its outcome is open.
fn last_undo_unsuccessful(step: &StepState) -> bool {
    let outcome = step.last_compensation().and_then(Attempt::effective_outcome);
    matches!(outcome, Some(Outcome::Failed | Outcome::Unknown))
}

/// Whether a step with these dependencies reads the status of `step`, so that a failure satisfies it too.
fn reads_status(needs: &[Dependency], step: StepNo) -> bool {
    match needs.binary_search_by_key(&step, |need| need.step) {
        Ok(at) => needs[at].status_read,
        Err(_) => false,
    }
}
