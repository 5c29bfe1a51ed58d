//! The state of an execution: for each step its attempts and their outcomes, and of every payload its
//! position and digest, never its bytes. Only `evolve` writes here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::claim::Claim;
use super::index::Index;
use crate::chain::Digest;
use crate::event::{Kept, PlanRef, Probed, Reported, UndoCall};
use crate::id::{Epoch, ExecutionId, Position, SeatId, StepId, StepNo};
use crate::plan::Plan;
use crate::policy::{Category, End, Outcome, Status, StepStatus};
use crate::terms::{Rules, Terms};

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

/// An unwinding, or calls of one under way, that wait for a yes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proposal {
    None,
    /// The entry that asks, and the calls that a yes covers.
    Asked {
        position: Position,
        calls: Vec<UndoCall>,
    },
    Rejected,
}

/// The yes that one compensation has: to these arguments, and to the tool as this pin has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndoYes {
    pub arguments: Option<Digest>,
    pub pin: Option<Digest>,
}

#[derive(Clone, Debug)]
pub struct Execution {
    pub id: ExecutionId,
    pub plan: Arc<Plan>,
    pub plan_ref: PlanRef,
    pub inputs: Option<Stored>,
    pub place: Digest,
    pub terms: Terms,
    pub task: Option<String>,
    /// None: started before there were projects.
    pub project: Option<String>,
    pub agents_may_approve: bool,
    pub steps: Vec<StepState>,
    pub epoch: Epoch,
    pub seat: Option<SeatId>,
    pub paused: bool,
    pub stop: Option<Stop>,
    pub phase: Phase,
    pub ended: Option<End>,
    pub gate: Gate,
    pub proposal: Proposal,
    /// A caller who may not approve wants it unwound. Nothing starts until that is answered.
    pub undo_asked: bool,
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
    /// The newest acts outside the plan, remarks and decisions, oldest first.
    pub notes: VecDeque<Note>,
    /// By step: what the plan and the terms give together.
    pub(super) rules: Vec<Rules>,
    pub(super) salt: Arc<[u8]>,
    pub(super) index: Index,
}

/// How many notes a state has at hand; the journal has them all.
pub const NOTES_KEPT: usize = 20;

/// Something that an agent or a person put on record, of which nothing follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub position: Position,
    pub at_ms: i64,
    pub step: Option<StepNo>,
    pub what: Noted,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Noted {
    Action { status: Option<Reported>, facts: Stored },
    Decision { decision: String, reason: Option<String>, details: Option<Stored> },
}

/// A tool's question and what was answered: the next attempt sends both back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    pub question: Stored,
    pub answer: Stored,
}

#[derive(Clone, Debug, Default)]
pub struct StepState {
    pub(super) status: StepStatusCell,
    pub attempts: Vec<Attempt>,
    pub compensations: Vec<Compensation>,
    /// The failed step because of which this one was cancelled or skipped.
    pub cause: Option<StepNo>,
    /// An answer wants it run, though another failure stands.
    pub forced: bool,
    pub asked: Option<Stored>,
    /// The definition of its tool that the question was about.
    pub asked_pin: Option<Digest>,
    pub approved: bool,
    /// Why somebody said no.
    pub rejected: Option<String>,
    /// Attempts since the last answer, those that cost nothing left out.
    pub tries: u32,
    pub retry_at_ms: Option<i64>,
    /// The server that was called last wants to be left alone until then.
    pub not_before_ms: Option<i64>,
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
    /// By attempt: the yes that its compensation has. Only tools under approval need one.
    pub undo_yes: BTreeMap<u32, UndoYes>,
    /// What an answer says to send instead of what the plan binds.
    pub corrected: Option<Stored>,
    /// The next attempt gets a key of its own: its arguments are other ones.
    pub(super) new_key: bool,
    /// How often an attempt or a compensation was made again because its process was lost.
    pub(super) takeover_repeats: u32,
    /// Who has started it, where an agent does it.
    pub claim: Option<Claim>,
    /// Those from whom it was taken over.
    pub(super) former_holders: BTreeSet<String>,
    /// When its agent said that it had begun.
    pub agent_began_ms: Option<i64>,
    /// Its last attempt ended with a question that no answer has settled.
    pub(super) asks: bool,
    /// What its tool asked has been answered; the next attempt takes it along.
    pub answering: Option<Answered>,
    /// What an agent last told of it.
    pub facts: Option<Stored>,
    pub started_at_ms: Option<i64>,
    pub ended_at_ms: Option<i64>,
    /// Needs that are not satisfied, and needs that never will be.
    pub(super) unmet: u32,
    pub(super) dead: u32,
    /// While unwinding: dependants that stand, or have dependants that do; and whether this is one.
    pub(super) undo_blockers: u32,
    pub(super) standing: bool,
}

/// A step's status changes only through `Execution::set_status`, which keeps the counts.
#[derive(Clone, Debug)]
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
    /// The definition of its tool that was approved, and no other.
    pub pin: Option<Digest>,
    pub outcome: Option<Outcome>,
    pub category: Option<Category>,
    pub result: Option<Stored>,
    /// What a probe, an answer or a late answer made of an unknown outcome: it happened, or not.
    pub settled: Option<bool>,
    pub late: Option<Outcome>,
    pub probe: ProbeState,
    /// How often its probe's process was lost while the probe may have been out.
    pub probes_lost: u32,
    pub unsent: bool,
    pub takeover: bool,
    /// Its process was lost, and sending it twice does no harm: it is made again by itself.
    pub repeats: bool,
    /// It ended with a question, which is its result.
    pub asks: bool,
    /// What it sends along: the answer to the question of the attempt before.
    pub answered: Option<Answered>,
    /// The server's handle for a call that it goes on with by itself.
    pub task: Option<Arc<str>>,
    pub started_at_ms: i64,
    pub ended_at_ms: Option<i64>,
}

#[derive(Clone, Debug)]
pub struct Compensation {
    /// The attempt whose effect it takes back.
    pub attempt: u32,
    /// Numbers the outbound idempotency key among the compensations of that attempt.
    pub key: u32,
    pub by_agent: bool,
    pub arguments: Option<Stored>,
    /// The definition of its tool that was approved, and no other.
    pub pin: Option<Digest>,
    pub outcome: Option<Outcome>,
    pub category: Option<Category>,
    pub result: Option<Stored>,
    pub late: Option<Outcome>,
    /// What an answer or a late answer made of it: it happened, or not.
    pub settled: Option<bool>,
    pub unsent: bool,
    pub takeover: bool,
    /// As an attempt's.
    pub repeats: bool,
    pub task: Option<Arc<str>>,
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

    /// Made again by itself, as long as nothing has settled it.
    pub(super) fn is_repeated(&self) -> bool {
        self.repeats && self.counts_as() == Some(Outcome::Unknown)
    }
}

impl Compensation {
    /// One that has begun.
    pub fn begun(
        attempt: u32,
        key: u32,
        by_agent: bool,
        arguments: Option<Stored>,
        pin: Option<Digest>,
        started_at_ms: i64,
    ) -> Self {
        Self {
            attempt,
            key,
            by_agent,
            arguments,
            pin,
            outcome: None,
            category: None,
            result: None,
            late: None,
            settled: None,
            unsent: false,
            takeover: false,
            repeats: false,
            task: None,
            started_at_ms,
        }
    }

    /// The outcome as it counts.
    pub fn counts_as(&self) -> Option<Outcome> {
        match (self.outcome, self.settled) {
            (Some(_), Some(true)) => Some(Outcome::Succeeded),
            (Some(_), Some(false)) => Some(Outcome::Failed),
            (outcome, _) => outcome,
        }
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

    /// The number of the newest attempt that was not proven unsent; where all were, of the newest.
    pub fn counting(&self) -> Option<u32> {
        let sent = self.attempts.iter().rposition(|attempt| !attempt.costs_nothing());
        sent.or(self.attempts.len().checked_sub(1)).map(|no| no as u32)
    }

    pub fn last_that_counts(&self) -> Option<&Attempt> {
        self.counting().map(|no| &self.attempts[no as usize])
    }

    /// Attempts of an idempotent step with one key have one effect.
    pub(super) fn same_effect(&self, rules: Rules, one: u32, other: u32) -> bool {
        let key_of = |no: u32| self.attempts.get(no as usize).map(|attempt| attempt.key);
        one == other || (rules.idempotent && key_of(one) == key_of(other))
    }

    /// Numbers the outbound idempotency key of the next attempt: a definite failure or a
    /// `did-not-happen` moves it on, an attempt that was never sent, or that only asked, does not.
    pub(super) fn next_key(&self) -> u32 {
        self.key_after_last() + u32::from(self.new_key)
    }

    fn key_after_last(&self) -> u32 {
        let sent = self.attempts.iter().rev().find(|attempt| !attempt.unsent);
        let Some(attempt) = sent else { return self.attempts.last().map_or(0, |attempt| attempt.key) };
        let failed = attempt.counts_as() == Some(Outcome::Failed);
        let only_asked = attempt.asks && attempt.outcome == Some(Outcome::Failed);
        attempt.key + u32::from(failed && !only_asked)
    }

    /// The tool's question, while nobody has answered it.
    pub fn question(&self) -> Option<Stored> {
        let asks = self.asks && matches!(self.status(), StepStatus::Failed | StepStatus::Unknown);
        let last = self.last().filter(|last| asks && last.late.is_none() && last.settled.is_none());
        last.and_then(|last| last.result)
    }

    pub fn last_compensation(&self) -> Option<&Compensation> {
        self.compensations.last()
    }

    /// Like an attempt's, a compensation's key moves on once the one before is settled. It must not stay
    /// where a success was heard of after that one began: a tool that knows the key would do nothing.
    pub(super) fn next_undo_key(&self, attempt: u32) -> u32 {
        let of_it = || self.compensations.iter().rev().filter(|one| one.attempt == attempt);
        let Some(last) = of_it().find(|one| !one.unsent).or_else(|| of_it().next()) else { return 0 };
        let same = last.unsent || last.counts_as() == Some(Outcome::Unknown);
        last.key + u32::from(!same || self.undo_again.contains(&attempt))
    }

    /// A step that depends on this one is to be undone first.
    pub(super) fn undo_blocked(&self) -> bool {
        self.undo_blockers > 0
    }

    /// How often the compensation of that attempt has been tried.
    pub fn undo_tries(&self, attempt: u32) -> u32 {
        let free = |one: &Compensation| one.costs_nothing() || one.repeats;
        let tries = self.compensations.iter().filter(|one| one.attempt == attempt && !free(one));
        tries.count() as u32
    }

    pub fn compensation_open(&self) -> bool {
        self.last_compensation().is_some_and(|compensation| compensation.outcome.is_none())
    }

    /// The attempts whose effect may stand and has not been taken back, oldest first. Attempts of an
    /// idempotent step with one key count as one.
    pub fn to_undo(&self, rules: Rules) -> Vec<u32> {
        if rules.read_only {
            return Vec::new();
        }
        if !self.undo_again.is_empty() {
            return self.undo_again.iter().copied().collect();
        }
        let standing = self.numbered().filter(|(_, attempt)| attempt.may_have_run());
        if !rules.idempotent {
            return standing.map(|(no, _)| no).filter(|no| !self.undone.contains(no)).collect();
        }
        let key_of = |no: &u32| self.attempts[*no as usize].key;
        let undone: BTreeSet<u32> = self.undone.iter().map(key_of).collect();
        // The one that is known to have succeeded has the output that undoing it may need.
        let mut by_key = std::collections::BTreeMap::<u32, u32>::new();
        for (no, attempt) in standing.filter(|(_, attempt)| !undone.contains(&attempt.key)) {
            let known =
                by_key.get(&attempt.key).is_some_and(|other| self.attempts[*other as usize].succeeded());
            if attempt.succeeded() || !known {
                by_key.insert(attempt.key, no);
            }
        }
        by_key.into_values().collect()
    }

    fn numbered(&self) -> impl Iterator<Item = (u32, &Attempt)> {
        self.attempts.iter().enumerate().map(|(no, attempt)| (no as u32, attempt))
    }
}

impl Execution {
    pub fn step(&self, no: StepNo) -> &StepState {
        &self.steps[no.index()]
    }

    /// What counts for a step: its plan's word, and the operator's.
    pub fn rules(&self, no: StepNo) -> Rules {
        self.rules[no.index()]
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

    /// An unwinding waits for its yes, or will once what is in flight has ended: nothing starts.
    pub fn holds_for_undo(&self) -> bool {
        self.undo_asked || self.asks_for_undo()
    }

    /// An unwinding, or calls of one under way, wait for a yes.
    pub fn asks_for_undo(&self) -> bool {
        matches!(self.proposal, Proposal::Asked { .. })
    }

    /// Some of what would be undone is a call that the config asks for a yes to.
    pub(super) fn undo_needs_yes(&self) -> bool {
        let index = &self.index;
        let steps = index.to_undo.iter().map(|(_, no)| no).chain(&index.left);
        steps.into_iter().any(|no| self.rules(*no).undo_approval)
    }

    /// Something that may have run, and has a way back, has not been taken back.
    pub fn can_undo(&self) -> bool {
        !self.index.to_undo.is_empty() || !self.index.left.is_empty()
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

    /// Something would follow by itself, if its driver looked.
    pub fn goes_on(&self, now_ms: i64) -> bool {
        super::next::next(self, now_ms).is_some()
    }

    fn blocked(&self) -> bool {
        let idle = self.index.open_tools.is_empty() && self.waiting_retries().next().is_none();
        idle && self.has_questions() && super::next::next(self, self.at_ms).is_none()
    }

    /// Steps that will be tried again by themselves. No compensation is while another one asks.
    /// Nor does anything while an unwinding waits for its yes.
    pub(super) fn waiting_retries(&self) -> impl Iterator<Item = &StepNo> {
        let index = &self.index;
        let undo = index.undo_settling.iter().filter(|no| !self.step(**no).undo_blocked());
        let undo = undo.filter(|_| index.undo_failed.is_empty());
        index.settling.iter().chain(undo).filter(|_| !self.holds_for_undo())
    }

    /// Makes the digest that an entry holds of its payload.
    pub(super) fn keep(&self, bytes: &[u8]) -> Kept {
        Kept { digest: Digest::salted(&self.salt, bytes), size: bytes.len() as u64 }
    }

    pub fn salt(&self) -> &[u8] {
        &self.salt
    }
}
