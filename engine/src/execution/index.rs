//! Sets that are kept along with the state, so that deciding costs what has changed and not the whole
//! plan. Everything here can be derived from the steps; `refresh` is the one place that does.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::due::{CallId, CallKind};
use super::state::{Compensation, Execution, Phase, ProbeState, StepState, Stop};
use crate::id::StepNo;
use crate::plan::{Need, Step};
use crate::policy::{FailureAction, Outcome, StepStatus};
use crate::terms::Rules;

/// Where a ready step stands in the line.
pub(super) type Rank = (i64, StepNo);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    /// Pending with every need satisfied; those that must run alone are kept apart.
    pub ready: BTreeSet<Rank>,
    pub ready_alone: BTreeSet<Rank>,
    /// Ready because an answer says so, though a failure stands.
    pub ready_forced: BTreeSet<Rank>,
    /// Not started, and a need was cancelled or skipped by a failure.
    pub doomed: BTreeSet<StepNo>,
    /// Running with no call out: to be settled or tried again.
    pub settling: BTreeSet<StepNo>,
    pub undo_settling: BTreeSet<StepNo>,
    pub probes_due: BTreeSet<StepNo>,
    pub failed: BTreeSet<StepNo>,
    /// Those of them whose tool wants to know something.
    pub asking: BTreeSet<StepNo>,
    pub unhandled: BTreeSet<StepNo>,
    /// Steps with an effect that may stand and a way back, by their order in the graph.
    pub to_undo: BTreeSet<(u32, StepNo)>,
    /// While unwinding: those of them that no step still to be undone depends on.
    pub undo_ready: BTreeSet<(u32, StepNo)>,
    /// Steps that an answer said to leave as they are; a later `undo` takes them up again.
    pub left: BTreeSet<StepNo>,
    /// Compensations that wait for an answer.
    pub undo_failed: BTreeSet<StepNo>,
    pub open_tools: BTreeSet<CallId>,
    pub open_agents: BTreeSet<CallId>,
    /// Irreversible steps in flight.
    pub alone: BTreeSet<StepNo>,
    counts: [u32; StepStatus::ALL.len()],
    failures: [u32; FailureAction::ALL.len() + 1],
}

fn slot(action: Option<FailureAction>) -> usize {
    action.map_or(FailureAction::ALL.len(), |action| action as usize)
}

fn manual() -> usize {
    slot(Some(FailureAction::ManualDecision))
}

fn put<T: Ord>(set: &mut BTreeSet<T>, item: T, member: bool) -> bool {
    if member { set.insert(item) } else { set.remove(&item) }
}

impl Index {
    pub fn count(&self, status: StepStatus) -> usize {
        self.counts[status as usize] as usize
    }

    pub fn failures(&self, action: Option<FailureAction>) -> u32 {
        self.failures[slot(action)]
    }

    /// Failures that let nothing further start.
    pub fn halting(&self) -> bool {
        let halts = [None, Some(FailureAction::ManualDecision), Some(FailureAction::CancelAll)];
        halts.into_iter().any(|action| self.failures(action) > 0)
    }

    /// Steps that hold a slot: a call out, an agent at work, or a retry to come.
    pub fn occupied(&self) -> usize {
        self.open_tools.len() + self.open_agents.len() + self.settling.len()
    }

    /// Puts a step into the sets in which its state says it stands, and takes it out of the others.
    fn place(&mut self, (spec, rules): (&Step, Rules), step: &StepState, rank: Rank, ordered: (u32, StepNo)) {
        use StepStatus as S;
        let no = ordered.1;
        let status = step.status();
        let unstarted = matches!(status, S::Pending | S::AwaitingApproval);
        let ready = status == S::Pending && step.unmet == 0 && step.dead == 0;
        let failed = matches!(status, S::Failed | S::Unknown);
        let call_open = step.last().is_some_and(|attempt| attempt.open() || probe_open(attempt.probe));
        let settled_down = step.last().is_some() && !call_open;
        let unsettled = matches!(status, S::Running | S::Unknown | S::Skipped) && !step.compensation_open();
        let unknown = step.last().is_some_and(|attempt| {
            let unsettled = attempt.counts_as() == Some(Outcome::Unknown) && !attempt.asks;
            unsettled && attempt.probe == ProbeState::None
        });
        let stands = spec.compensation.is_some() && !step.to_undo(rules).is_empty();
        let undo_retries = status == S::Compensating && undo_ended_badly(step) && !step.undo_retry;
        put(&mut self.ready, rank, ready && !rules.irreversible());
        put(&mut self.ready_alone, rank, ready && rules.irreversible());
        put(&mut self.ready_forced, rank, ready && step.forced);
        put(&mut self.doomed, no, unstarted && step.dead > 0);
        put(&mut self.settling, no, status == S::Running && settled_down);
        put(&mut self.undo_settling, no, undo_retries);
        let may_probe = spec.probe.is_some() && rules.may_probe;
        put(&mut self.probes_due, no, may_probe && unknown && settled_down && unsettled);
        put(&mut self.unhandled, no, failed && !step.handled);
        put(&mut self.to_undo, ordered, stands && !step.left);
        put(&mut self.left, no, stands && step.left);
        put(&mut self.undo_failed, no, status == S::CompensationFailed && !step.left && !step.undo_retry);
        put(&mut self.alone, no, rules.irreversible() && matches!(status, S::Running | S::AwaitingAgent));
        let asks = put(&mut self.asking, no, step.question().is_some());
        self.count_failure(no, failed, asks, slot(spec.failure));
    }

    /// A step that asks counts as one for a manual decision, whatever its own policy says.
    fn count_failure(&mut self, no: StepNo, failed: bool, changed: bool, own: usize) {
        let asks = self.asking.contains(&no);
        let was = self.failed.contains(&no).then_some(if asks != changed { manual() } else { own });
        let is = failed.then_some(if asks { manual() } else { own });
        put(&mut self.failed, no, failed);
        if was != is {
            was.into_iter().for_each(|slot| self.failures[slot] -= 1);
            is.into_iter().for_each(|slot| self.failures[slot] += 1);
        }
    }
}

/// What a step's state means to one that needs it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Waiting,
    Satisfied,
    Dead,
}

impl Execution {
    pub(super) fn build_index(&mut self) {
        self.index.counts[StepStatus::Pending as usize] = self.steps.len() as u32;
        for no in self.numbers() {
            self.steps[no.index()].unmet = self.plan.step(no).needs.len() as u32;
            self.refresh(no);
        }
    }

    /// The only way a step's status changes: the counts and those that need the step change with it.
    pub(super) fn set_status(&mut self, no: StepNo, status: StepStatus, cause: Option<StepNo>) {
        let before = (self.standing(no, false), self.standing(no, true));
        let step = &mut self.steps[no.index()];
        self.index.counts[step.status.0 as usize] -= 1;
        self.index.counts[status as usize] += 1;
        step.status.0 = status;
        step.cause = cause;
        let after = (self.standing(no, false), self.standing(no, true));
        if before != after {
            self.tell_dependants(no, before, after);
        }
        self.refresh(no);
    }

    fn tell_dependants(&mut self, no: StepNo, before: (Standing, Standing), after: (Standing, Standing)) {
        let plan = self.plan.clone();
        for &other in &plan.step(no).needed_by {
            let status_read = need(&plan.step(other).needs, no);
            let (old, new) = if status_read { (before.1, after.1) } else { (before.0, after.0) };
            if old == new {
                continue;
            }
            let step = &mut self.steps[other.index()];
            step.unmet =
                step.unmet + u32::from(old == Standing::Satisfied) - u32::from(new == Standing::Satisfied);
            step.dead = step.dead + u32::from(new == Standing::Dead) - u32::from(old == Standing::Dead);
            self.refresh(other);
        }
    }

    fn standing(&self, no: StepNo, status_read: bool) -> Standing {
        use StepStatus as S;
        let step = self.step(no);
        match step.status() {
            S::Succeeded => Standing::Satisfied,
            S::Skipped if step.cause.is_none() || status_read => Standing::Satisfied,
            S::Failed | S::Unknown | S::Cancelled if status_read => Standing::Satisfied,
            S::Skipped | S::Cancelled => Standing::Dead,
            S::Failed | S::Unknown | S::Pending | S::Running | S::AwaitingApproval | S::AwaitingAgent => {
                Standing::Waiting
            }
            // What has been undone was satisfied before, and nothing starts any more.
            S::Compensating | S::Compensated | S::CompensationFailed => Standing::Satisfied,
        }
    }

    pub(super) fn rank(&self, no: StepNo) -> Rank {
        match self.plan.policy.concurrency {
            1 => (0, no),
            _ => (-self.plan.step(no).priority, no),
        }
    }

    /// Recomputes in which sets a step stands. Called after every change to it.
    pub(super) fn refresh(&mut self, no: StepNo) {
        let (plan, rank) = (self.plan.clone(), self.rank(no));
        let spec = (plan.step(no), self.rules(no));
        self.index.place(spec, &self.steps[no.index()], rank, (plan.order(no), no));
        if self.phase == Phase::Unwind {
            self.tell_needs(no);
        }
    }

    /// From here on what is undone goes before what it needs. Forward, nobody asks for that order.
    pub(super) fn order_undo(&mut self) {
        self.index.undo_ready.clear();
        for step in &mut self.steps {
            (step.undo_blockers, step.standing) = (0, false);
        }
        for no in self.numbers() {
            self.refresh(no);
        }
    }

    /// A step stands in the way of what it needs while it, or anything that depends on it, is to be undone.
    fn tell_needs(&mut self, no: StepNo) {
        let plan = self.plan.clone();
        let mut changed = vec![no];
        while let Some(no) = changed.pop() {
            let ordered = (plan.order(no), no);
            let to_undo = self.index.to_undo.contains(&ordered);
            let step = &mut self.steps[no.index()];
            let standing = to_undo || step.undo_blocked();
            put(&mut self.index.undo_ready, ordered, to_undo && !step.undo_blocked());
            if standing == step.standing {
                continue;
            }
            step.standing = standing;
            for need in &plan.step(no).needs {
                let blockers = &mut self.steps[need.step.index()].undo_blockers;
                *blockers = if standing { *blockers + 1 } else { *blockers - 1 };
                changed.push(need.step);
            }
        }
    }

    pub(super) fn open_call(&mut self, call: CallId, by_agent: bool) {
        let set = if by_agent { &mut self.index.open_agents } else { &mut self.index.open_tools };
        set.insert(call);
    }

    pub(super) fn close_call(&mut self, call: CallId) {
        self.index.open_tools.remove(&call);
        self.index.open_agents.remove(&call);
    }

    pub(super) fn open_agent(&self, no: StepNo) -> Option<CallId> {
        self.index.open_agents.iter().copied().find(|call| call.step == no)
    }

    /// What becomes of other steps: a step that asks lets nothing be decided by itself.
    pub(super) fn failure_action(&self, no: StepNo) -> Option<FailureAction> {
        match self.index.asking.contains(&no) {
            true => Some(FailureAction::ManualDecision),
            false => self.plan.step(no).failure,
        }
    }

    /// The handle of a call that its server goes on with by itself.
    pub(super) fn task_of(&self, call: CallId) -> Option<&Arc<str>> {
        let step = self.step(call.step);
        match call.kind {
            CallKind::Run => step.attempts[call.no as usize].task.as_ref(),
            CallKind::Compensation => step.compensations[call.no as usize].task.as_ref(),
            CallKind::Probe => None,
        }
    }

    pub(super) fn abandoned(&self) -> bool {
        self.stop == Some(Stop::Abandon)
    }

    /// Calls out that are not compensations.
    pub(super) fn forward_calls_open(&self) -> bool {
        let mut open = self.index.open_tools.iter().chain(&self.index.open_agents);
        open.any(|call| call.kind != CallKind::Compensation)
    }
}

/// What is kept along must be what the steps give. For tests: it looks at every step.
impl Execution {
    #[doc(hidden)]
    pub fn check_index(&self) {
        let mut index = Index::default();
        for no in self.numbers() {
            let (spec, step) = (self.plan.step(no), self.step(no));
            index.counts[step.status() as usize] += 1;
            index.place((spec, self.rules(no)), step, self.rank(no), (self.plan.order(no), no));
            let standings = || spec.needs.iter().map(|need| self.standing(need.step, need.status_read));
            let unmet = standings().filter(|standing| *standing != Standing::Satisfied).count();
            let dead = standings().filter(|standing| *standing == Standing::Dead).count();
            assert_eq!((step.unmet as usize, step.dead as usize), (unmet, dead), "needs of `{}`", spec.id);
            index.add_calls(no, step);
        }
        if self.phase == Phase::Unwind {
            self.check_undo_order(&mut index);
        }
        assert_eq!(self.index, index, "kept (left) and derived (right)");
    }

    fn check_undo_order(&self, index: &mut Index) {
        let mut from_last: Vec<StepNo> = self.numbers().collect();
        from_last.sort_by_key(|no| std::cmp::Reverse(self.plan.order(*no)));
        let mut standing = vec![false; self.steps.len()];
        for no in from_last {
            let ordered = (self.plan.order(no), no);
            let blockers =
                self.plan.step(no).needed_by.iter().filter(|other| standing[other.index()]).count();
            standing[no.index()] = blockers > 0 || index.to_undo.contains(&ordered);
            put(&mut index.undo_ready, ordered, blockers == 0 && index.to_undo.contains(&ordered));
            let kept = (self.step(no).undo_blockers as usize, self.step(no).standing);
            assert_eq!(kept, (blockers, standing[no.index()]), "undo order of `{}`", self.step_id(no));
        }
    }
}

impl Index {
    fn add_calls(&mut self, step: StepNo, state: &StepState) {
        let mut add = |kind: CallKind, no: usize, by_agent: bool| {
            let set = if by_agent { &mut self.open_agents } else { &mut self.open_tools };
            set.insert(CallId { step, kind, no: no as u32 });
        };
        for (no, attempt) in state.attempts.iter().enumerate() {
            if attempt.open() {
                add(CallKind::Run, no, attempt.by_agent);
            }
            if probe_open(attempt.probe) {
                add(CallKind::Probe, no, false);
            }
        }
        for (no, one) in state.compensations.iter().enumerate().filter(|(_, one)| one.outcome.is_none()) {
            add(CallKind::Compensation, no, one.by_agent);
        }
    }
}

fn probe_open(probe: ProbeState) -> bool {
    matches!(probe, ProbeState::Open { .. })
}

fn undo_ended_badly(step: &StepState) -> bool {
    let outcome = step.last_compensation().and_then(Compensation::counts_as);
    matches!(outcome, Some(Outcome::Failed | Outcome::Unknown))
}

fn need(needs: &[Need], step: StepNo) -> bool {
    match needs.binary_search_by_key(&step, |need| need.step) {
        Ok(at) => needs[at].status_read,
        Err(_) => false,
    }
}
