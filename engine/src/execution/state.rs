//! The state of an execution: for each step its attempts and their outcomes, and of every payload its
//! position and digest, never its bytes. Only `evolve` writes here.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::index::Index;
use crate::chain::Digest;
use crate::event::{Kept, PlanRef, Probed};
use crate::id::{Epoch, ExecutionId, Position, SeatId, StepId, StepNo};
use crate::plan::{Plan, Step};
use crate::policy::{Category, End, Outcome, Status, StepStatus};

/// Where a payload is, and what proves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    pub position: Position,
    pub kept: Kept,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Forward,
    Unwind,
}

/// Why nothing more starts, for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    Cancel,
    Abandon,
}

/// The yes that a whole plan waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    Due,
    Asked,
    Open,
}

/// The unwinding that `on_failure: propose` prepares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proposal {
    None,
    Asked,
    Rejected,
}

#[derive(Debug)]
pub struct Execution {
    pub id: ExecutionId,
    pub plan: Arc<Plan>,
    pub plan_ref: PlanRef,
    pub inputs: Option<Stored>,
    pub place: Digest,
    pub task: Option<String>,
    pub steps: Vec<StepState>,
    pub epoch: Epoch,
    pub seat: Option<SeatId>,
    pub paused: bool,
    pub stop: Option<Stop>,
    pub phase: Phase,
    pub ended: Option<End>,
    pub gate: Gate,
    pub proposal: Proposal,
    /// Calls that count against the budget.
    pub calls: u32,
    /// A yes was given at the point of no return; it covers what lies behind it.
    pub past_no_return: bool,
    pub erased: bool,
    pub started_at_ms: i64,
    pub ended_at_ms: Option<i64>,
    /// Time spent neither paused nor blocked, up to `at_ms`.
    pub active_ms: u64,
    /// Of the last entry.
    pub at_ms: i64,
    pub position: Position,
    /// How many entries the stream has.
    pub version: u64,
    pub(super) salt: Arc<[u8]>,
    pub(super) index: Index,
}

#[derive(Debug, Default)]
pub struct StepState {
    pub(super) status: StepStatusCell,
    pub attempts: Vec<Attempt>,
    pub compensations: Vec<Compensation>,
    /// The failed step because of which this one was cancelled or skipped.
    pub cause: Option<StepNo>,
    /// An answer wants it run, though another failure stands.
    pub forced: bool,
    /// Numbers the outbound idempotency key; a definite failure or `did-not-happen` moves it on.
    pub key: u32,
    pub asked: Option<Stored>,
    pub approved: bool,
    /// Attempts since the last answer, those that cost nothing left out.
    pub tries: u32,
    pub retry_at_ms: Option<i64>,
    /// The failure policy has been applied to this failure.
    pub handled: bool,
    pub output: Option<Stored>,
    pub error: Option<Failure>,
    /// Attempts whose effect has been taken back.
    pub undone: BTreeSet<u32>,
    /// Attempts whose success arrived after their compensation had begun.
    pub undo_again: BTreeSet<u32>,
    /// An answer said to leave the effect where it is.
    pub left: bool,
    pub undo_retry: bool,
    pub agent_started: bool,
    pub started_at_ms: Option<i64>,
    pub ended_at_ms: Option<i64>,
    /// Needs that are not satisfied, and needs that never will be.
    pub(super) unmet: u32,
    pub(super) dead: u32,
}

/// A step's status changes only through `Execution::set_status`, which keeps the counts.
#[derive(Debug)]
pub(super) struct StepStatusCell(pub(super) StepStatus);

impl Default for StepStatusCell {
    fn default() -> Self {
        Self(StepStatus::Pending)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    pub category: Category,
    pub said: Option<Stored>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeState {
    None,
    Open { arguments: Stored },
    Done(Probed),
}

#[derive(Clone, Debug)]
pub struct Attempt {
    pub key: u32,
    pub by_agent: bool,
    pub forced: bool,
    pub arguments: Option<Stored>,
    pub outcome: Option<Outcome>,
    pub category: Option<Category>,
    pub result: Option<Stored>,
    /// What a probe, an answer or a late answer made of an unknown outcome: it happened, or not.
    pub settled: Option<bool>,
    pub late: Option<Outcome>,
    pub probe: ProbeState,
    pub unsent: bool,
    pub takeover: bool,
    pub started_at_ms: i64,
    pub ended_at_ms: Option<i64>,
}

#[derive(Clone, Debug)]
pub struct Compensation {
    /// The attempt whose effect it takes back.
    pub attempt: u32,
    pub by_agent: bool,
    pub arguments: Option<Stored>,
    pub outcome: Option<Outcome>,
    pub category: Option<Category>,
    pub result: Option<Stored>,
    pub late: Option<Outcome>,
    pub unsent: bool,
    pub takeover: bool,
    pub started_at_ms: i64,
}

impl Attempt {
    pub fn open(&self) -> bool {
        self.outcome.is_none()
    }

    /// The outcome as it counts: an unknown one may have been settled since.
    pub fn counts_as(&self) -> Option<Outcome> {
        match (self.outcome, self.settled) {
            (Some(Outcome::Unknown), Some(true)) => Some(Outcome::Succeeded),
            (Some(Outcome::Unknown), Some(false)) => Some(Outcome::Failed),
            (outcome, _) => outcome,
        }
    }

    pub fn succeeded(&self) -> bool {
        self.counts_as() == Some(Outcome::Succeeded) || self.late == Some(Outcome::Succeeded)
    }

    /// Its effect may stand in the world.
    pub fn may_have_run(&self) -> bool {
        self.late == Some(Outcome::Succeeded) || self.counts_as() != Some(Outcome::Failed)
    }

    /// Proven unsent by a takeover: as if it had never been tried.
    pub fn costs_nothing(&self) -> bool {
        self.unsent && self.takeover
    }
}

impl StepState {
    pub fn status(&self) -> StepStatus {
        self.status.0
    }

    pub fn last(&self) -> Option<&Attempt> {
        self.attempts.last()
    }

    pub fn last_compensation(&self) -> Option<&Compensation> {
        self.compensations.last()
    }

    pub fn compensation_open(&self) -> bool {
        self.last_compensation().is_some_and(|compensation| compensation.outcome.is_none())
    }

    /// The attempts whose effect may stand and has not been taken back, oldest first. Attempts of an
    /// idempotent step with one key count as one.
    pub fn to_undo(&self, step: &Step) -> Vec<u32> {
        if step.read_only {
            return Vec::new();
        }
        if !self.undo_again.is_empty() {
            return self.undo_again.iter().copied().collect();
        }
        let standing = self.numbered().filter(|(_, attempt)| attempt.may_have_run());
        if !step.idempotent {
            return standing.map(|(no, _)| no).filter(|no| !self.undone.contains(no)).collect();
        }
        let key_of = |no: &u32| self.attempts[*no as usize].key;
        let undone: BTreeSet<u32> = self.undone.iter().map(key_of).collect();
        let newest: std::collections::BTreeMap<u32, u32> =
            standing.map(|(no, attempt)| (attempt.key, no)).collect();
        newest.into_iter().filter(|(key, _)| !undone.contains(key)).map(|(_, no)| no).collect()
    }

    fn numbered(&self) -> impl Iterator<Item = (u32, &Attempt)> {
        self.attempts.iter().enumerate().map(|(no, attempt)| (no as u32, attempt))
    }
}

impl Execution {
    pub fn step(&self, no: StepNo) -> &StepState {
        &self.steps[no.index()]
    }

    pub fn step_id(&self, no: StepNo) -> StepId {
        self.plan.step(no).id.clone()
    }

    pub fn numbers(&self) -> impl Iterator<Item = StepNo> + use<> {
        (0..self.steps.len() as u32).map(StepNo)
    }

    pub fn stopping(&self) -> bool {
        self.stop.is_some() || self.phase == Phase::Unwind
    }

    /// Something that may have run, and has a way back, has not been taken back.
    pub fn can_undo(&self) -> bool {
        !self.index.to_undo.is_empty()
    }

    /// Derived, never kept: how it ended, first; else what it waits for.
    pub fn status(&self) -> Status {
        if let Some(end) = self.ended {
            return end.into();
        }
        if self.paused {
            return Status::Paused;
        }
        if self.blocked() {
            return Status::Blocked;
        }
        match self.phase {
            Phase::Forward => Status::Running,
            Phase::Unwind => Status::Compensating,
        }
    }

    fn blocked(&self) -> bool {
        let idle = self.index.open_tools.is_empty() && self.waiting_retries().next().is_none();
        idle && self.has_questions() && super::next::next(self, self.at_ms).is_none()
    }

    /// Steps that will be tried again by themselves. No compensation is while another one asks.
    pub(super) fn waiting_retries(&self) -> impl Iterator<Item = &StepNo> {
        let index = &self.index;
        let undo = Some(&index.undo_settling).filter(|_| index.undo_failed.is_empty());
        index.settling.iter().chain(undo.into_iter().flatten())
    }

    /// Makes the digest that an entry holds of its payload.
    pub(super) fn keep(&self, bytes: &[u8]) -> Kept {
        Kept { digest: Digest::salted(&self.salt, bytes), size: bytes.len() as u64 }
    }

    pub fn salt(&self) -> &[u8] {
        &self.salt
    }
}
