//! The state of an execution: each step's attempts and their outcomes, and the position and digest of every
//! payload, never its bytes. Only `evolve` changes it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::attempt::{Attempt, QuestionReply, ToolQuestion, key_after};
use super::claim::Claim;
use super::due::{CallId, CallKind};
use super::index::StepIndex;
use super::session::SessionState;
use crate::chain::Digest;
use crate::event::{PayloadDigest, PlanRef, ReportedStatus, UndoCall};
use crate::id::{Epoch, ExecutionId, NodeId, Position, StepId, StepNo};
use crate::plan::Plan;
use crate::policy::{EndStatus, ErrorCategory, ExecutionStatus, StepStatus};
use crate::tool_policy::{StepRules, ToolPolicies};

/// A reference to a payload: the position of the entry that owns it, and its digest and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadRef {
    pub position: Position,
    pub digest: PayloadDigest,
}

/// Whether the execution runs its steps or undoes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Forward,
    Unwind,
}

/// The approval of the whole plan: `Due` is to be asked for, `Asked` waits, `Open` is given or not needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalGate {
    Due,
    /// `position`: the entry that asks.
    Asked {
        position: Position,
    },
    Open,
}

/// The proposal of an unwinding, or of further calls of a running one, to the person who may approve it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnwindProposal {
    None,
    /// Waits for an approval. `position`: the entry that asks; `calls`: what an approval covers.
    Asked {
        position: Position,
        calls: Vec<UndoCall>,
    },
    /// Rejected; counts until another failure.
    Rejected,
}

/// The approval of one compensation: of these arguments, and of the tool definition in `pin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndoApproval {
    pub arguments: Option<Digest>,
    pub pin: Option<Digest>,
}

/// The folded state of one execution; an `Execution` lets others read it.
#[derive(Clone, Debug)]
pub struct ExecutionState {
    pub id: ExecutionId,
    pub plan: Arc<Plan>,
    pub plan_ref: PlanRef,
    pub inputs: Option<PayloadRef>,
    /// Digest of the definitions of the servers that the plan names.
    pub toolset: Digest,
    pub tool_policies: ToolPolicies,
    /// The outside task that the plan belongs to.
    pub task: Option<String>,
    /// `None`: started before projects existed.
    pub project: Option<String>,
    pub agents_may_approve: bool,
    pub steps: Vec<StepState>,
    /// Only commands with this epoch start attempts.
    pub epoch: Epoch,
    /// The node that drives; `None` before the first claim.
    pub node: Option<NodeId>,
    pub paused: bool,
    /// Cancelled or abandoned: nothing more starts, and this is the status once no call is in flight.
    pub stop: Option<EndStatus>,
    pub phase: Phase,
    pub ended: Option<EndStatus>,
    pub gate: ApprovalGate,
    pub proposal: UnwindProposal,
    /// The entry that rejected the newest proposal; `None` once an unwinding was approved.
    pub undo_rejected_at: Option<Position>,
    /// A caller who may not approve asked for an unwinding. Nothing starts until that is answered.
    pub undo_requested: bool,
    /// Number of calls that count against the budget.
    pub calls_made: u32,
    /// A step at the point of no return was approved; the approval covers all later steps.
    pub past_point_of_no_return: bool,
    /// Payloads and salt were erased.
    pub erased: bool,
    pub started_at_ms: i64,
    pub ended_at_ms: Option<i64>,
    /// Time neither paused nor blocked, up to `last_entry_at_ms`; counted only if the plan has a time limit.
    pub active_ms: u64,
    /// Unix time of the last entry.
    pub last_entry_at_ms: i64,
    /// Position of the last entry.
    pub position: Position,
    /// Number of entries in the stream.
    pub version: u64,
    /// What an open execution has beside its steps; `None`: the execution runs a plan.
    pub session: Option<Box<SessionState>>,
    /// The newest recorded decisions and actions outside the plan, oldest first.
    pub annotations: VecDeque<Annotation>,
    /// By step: its plan's fields combined with the tool policies.
    pub(super) rules: Vec<StepRules>,
    pub(super) salt: Arc<[u8]>,
    pub(super) index: StepIndex,
}

/// Most annotations that a state holds; the journal has them all.
pub const ANNOTATIONS_MAX: usize = 20;

/// An action or a decision that was recorded beside the plan and changes no step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation {
    pub position: Position,
    pub at_ms: i64,
    pub step: Option<StepNo>,
    pub kind: AnnotationKind,
}

/// The content of an annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnnotationKind {
    Action { status: Option<ReportedStatus>, facts: PayloadRef },
    Decision { decision: String, reason: Option<String>, details: Option<PayloadRef> },
}

/// The folded state of one step.
#[derive(Clone, Debug, Default)]
pub struct StepState {
    /// Only `ExecutionState::set_status` changes it, which maintains the index.
    pub(super) status: StepStatus,
    /// The entry that set the status: of a step that waits for an answer, the one that asks.
    pub(super) status_set_at: Position,
    pub attempts: Vec<Attempt>,
    /// The attempts at undoing the step.
    pub compensations: Vec<Attempt>,
    /// The failed step because of which this one was cancelled or skipped.
    pub cause: Option<StepNo>,
    /// An answer demands another attempt, in spite of other failures and of limits.
    pub forced: bool,
    pub approval: ApprovalState,
    pub retry: RetryState,
    /// The failure policy has been applied to this failure.
    pub failure_handled: bool,
    pub output: Option<PayloadRef>,
    pub error: Option<StepFailure>,
    pub undo: UndoProgress,
    /// Arguments from an answer that replace those that the plan binds.
    pub corrected_arguments: Option<PayloadRef>,
    /// The arguments of a session's call, which has no template to bind.
    pub literal_arguments: Option<PayloadRef>,
    /// The next attempt needs a new idempotency key, because its arguments changed.
    pub(super) needs_new_key: bool,
    /// Which agent holds the step, and until when; `None` for tool steps and before a start.
    pub claim: Option<Claim>,
    /// The agents from which the step was taken over.
    pub(super) former_holders: BTreeSet<String>,
    /// When an agent first reported the start of the current attempt.
    pub agent_started_at_ms: Option<i64>,
    /// The facts that an agent recorded last about the step.
    pub facts: Option<PayloadRef>,
    pub started_at_ms: Option<i64>,
    pub ended_at_ms: Option<i64>,
    pub(super) dependencies: DependencyCounts,
}

/// The approval of a step's call.
#[derive(Clone, Debug, Default)]
pub struct ApprovalState {
    /// The arguments for which an approval was last asked.
    pub arguments: Option<PayloadRef>,
    /// The tool definition for which an approval was last asked.
    pub pin: Option<Digest>,
    pub answer: ApprovalAnswer,
}

/// The answer to the question for an approval; a retry makes it void.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ApprovalAnswer {
    #[default]
    None,
    Approved,
    Rejected {
        reason: Option<String>,
    },
}

/// What automatic retries of a step or of its compensation depend on.
#[derive(Clone, Copy, Debug, Default)]
pub struct RetryState {
    /// Attempts since the last answer, without those that were proven unsent or repeated after a takeover.
    pub tries: u32,
    /// How often an attempt or a compensation was repeated because its process died.
    pub takeover_repeats: u32,
    /// When the scheduled retry is due, in Unix milliseconds.
    pub at_ms: Option<i64>,
    /// The last server that was called asked for no retry before this time.
    pub not_before_ms: Option<i64>,
}

/// How far the undo of a step has come.
#[derive(Clone, Debug, Default)]
pub struct UndoProgress {
    /// Indexes of the attempts whose effect was undone.
    pub undone: BTreeSet<u32>,
    /// Indexes of the attempts whose success arrived after their compensation had started.
    pub again: BTreeSet<u32>,
    /// An answer said to leave the effect in place.
    pub left_in_place: bool,
    /// The compensation is to be run again: by an answer, a takeover, a new `undo` or a late success.
    pub retry: bool,
    /// The running unwinding covers other steps only.
    pub outside_selection: bool,
    /// The result of a try that found something changed, which a person agreed to undo all the same.
    pub consent: Option<PayloadRef>,
    /// By attempt index: the approval of its compensation. Only tools under approval need one.
    pub approvals: BTreeMap<u32, UndoApproval>,
    /// While unwinding: number of direct dependents with `blocks`.
    pub(super) blockers: u32,
    /// While unwinding: this step, or one that depends on it, is to be undone.
    pub(super) blocks: bool,
}

/// How many of a step's dependencies are not satisfied yet (`unmet`), and how many never will be.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DependencyCounts {
    pub unmet: u32,
    pub unsatisfiable: u32,
}

/// Why a step or its compensation failed, or is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepFailure {
    pub category: ErrorCategory,
    /// The error that the tool returned, or that Actbook raised.
    pub detail: Option<PayloadRef>,
}

impl StepState {
    pub fn status(&self) -> StepStatus {
        self.status
    }

    pub fn last_attempt(&self) -> Option<&Attempt> {
        self.attempts.last()
    }

    /// The index of the newest attempt that was not proven unsent; where all were, of the newest.
    pub fn last_counted_index(&self) -> Option<u32> {
        let sent = self.attempts.iter().rposition(|attempt| !attempt.is_proven_unsent());
        sent.or(self.attempts.len().checked_sub(1)).map(|no| no as u32)
    }

    /// The newest attempt that was not proven unsent; where all were, the newest.
    pub fn last_counted_attempt(&self) -> Option<&Attempt> {
        self.last_counted_index().map(|no| &self.attempts[no as usize])
    }

    /// Whether two attempts, by index, have one effect: attempts of an idempotent step with the same key do.
    pub(super) fn have_same_effect(&self, rules: StepRules, one: u32, other: u32) -> bool {
        let key_of = |no: u32| self.attempts.get(no as usize).map(|attempt| attempt.key);
        one == other || (rules.idempotent && key_of(one) == key_of(other))
    }

    /// The attempts at the step, or at its compensation; a probe belongs to an attempt at the step.
    pub fn attempts_of(&self, kind: CallKind) -> &[Attempt] {
        match kind {
            CallKind::Run | CallKind::Probe => &self.attempts,
            CallKind::Compensation => &self.compensations,
        }
    }

    /// Like `attempts_of`, for a change.
    pub(super) fn attempts_of_mut(&mut self, kind: CallKind) -> &mut Vec<Attempt> {
        match kind {
            CallKind::Run | CallKind::Probe => &mut self.attempts,
            CallKind::Compensation => &mut self.compensations,
        }
    }

    /// The number of the next attempt's idempotency key; corrected arguments advance it too.
    pub(super) fn next_key(&self) -> u32 {
        key_after(self.attempts.iter(), false) + u32::from(self.needs_new_key)
    }

    /// The tool's question that nobody has answered yet.
    pub fn open_question(&self) -> Option<PayloadRef> {
        let may_answer = matches!(self.status, StepStatus::Failed | StepStatus::Unknown);
        let asking = self.last_attempt().filter(|last| last.question == ToolQuestion::Open && may_answer);
        asking.filter(|last| last.late_outcome.is_none() && last.settled.is_none())?.result
    }

    /// The reply to the last attempt's question, which the next attempt sends.
    pub(super) fn next_reply(&self) -> Option<QuestionReply> {
        match self.last_attempt()?.question {
            ToolQuestion::Closed(reply) => reply,
            ToolQuestion::None | ToolQuestion::Open => None,
        }
    }

    pub fn is_approved(&self) -> bool {
        self.approval.answer == ApprovalAnswer::Approved
    }

    pub fn last_compensation(&self) -> Option<&Attempt> {
        self.compensations.last()
    }

    /// The number of the idempotency key for the next compensation of an attempt. It also advances where the
    /// attempt's success arrived after a compensation had started: a tool that knows the key would do nothing.
    pub(super) fn next_undo_key(&self, attempt: u32) -> u32 {
        let earlier = self.compensations.iter().filter(|undo| undo.undoes == Some(attempt));
        key_after(earlier, self.undo.again.contains(&attempt))
    }

    /// Whether a step that depends on this one is to be undone first.
    pub(super) fn is_undo_blocked(&self) -> bool {
        self.undo.blockers > 0
    }

    /// How often the undo that the newest compensation tried was tried, without free repeats.
    pub fn undo_tries(&self) -> u32 {
        let target = self.last_compensation().and_then(|last| last.undoes);
        let tries = self.compensations.iter().filter(|undo| undo.undoes == target && !undo.is_free());
        tries.count() as u32
    }

    /// Whether the newest compensation has not ended.
    pub fn is_compensation_open(&self) -> bool {
        self.last_compensation().is_some_and(Attempt::is_open)
    }

    /// Indexes of the attempts that may have had an effect and are not undone, oldest first. Attempts of an
    /// idempotent step with the same key count as one.
    pub fn attempts_to_undo(&self, rules: StepRules) -> Vec<u32> {
        if rules.read_only {
            return Vec::new();
        }
        if !self.undo.again.is_empty() {
            return self.undo.again.iter().copied().collect();
        }
        let may_have_run = |attempt: &Attempt| {
            attempt.may_have_run() || (rules.failure_leaves_effect && attempt.has_failed_after_sending())
        };
        let effective = self.indexed_attempts().filter(|(_, attempt)| may_have_run(attempt));
        if !rules.idempotent {
            return effective.map(|(no, _)| no).filter(|no| !self.undo.undone.contains(no)).collect();
        }
        let key_of = |no: &u32| self.attempts[*no as usize].key;
        let undone: BTreeSet<u32> = self.undo.undone.iter().map(key_of).collect();
        // Of several attempts with one key take one that succeeded: its output may be needed to undo it.
        let mut by_key = std::collections::BTreeMap::<u32, u32>::new();
        for (no, attempt) in effective.filter(|(_, attempt)| !undone.contains(&attempt.key)) {
            let has_success =
                by_key.get(&attempt.key).is_some_and(|other| self.attempts[*other as usize].has_succeeded());
            if attempt.has_succeeded() || !has_success {
                by_key.insert(attempt.key, no);
            }
        }
        by_key.into_values().collect()
    }

    fn indexed_attempts(&self) -> impl Iterator<Item = (u32, &Attempt)> {
        self.attempts.iter().enumerate().map(|(no, attempt)| (no as u32, attempt))
    }
}

impl ExecutionState {
    pub fn step(&self, no: StepNo) -> &StepState {
        &self.steps[no.index()]
    }

    /// The attempt that a call makes, or that a probe is about.
    pub(super) fn attempt(&self, call: CallId) -> &Attempt {
        &self.step(call.step).attempts_of(call.kind)[call.index as usize]
    }

    /// The rules for a step: its plan's fields combined with the tool policies.
    pub fn rules(&self, no: StepNo) -> StepRules {
        self.rules[no.index()]
    }

    pub fn step_id(&self, no: StepNo) -> StepId {
        self.plan.step(no).id.clone()
    }

    /// The numbers of all steps, in list order.
    pub fn step_numbers(&self) -> impl Iterator<Item = StepNo> + use<> {
        (0..self.steps.len() as u32).map(StepNo)
    }

    /// Whether the execution is cancelled, abandoned or unwinding: no further step starts.
    pub fn is_stopping(&self) -> bool {
        self.stop.is_some() || self.phase == Phase::Unwind
    }

    /// Whether nothing starts because an unwinding waits for its approval, or will once no call is in flight.
    pub fn is_held_for_undo(&self) -> bool {
        self.undo_requested || self.awaits_undo_approval()
    }

    /// Whether an unwinding, or further calls of a running one, wait for an approval.
    pub fn awaits_undo_approval(&self) -> bool {
        matches!(self.proposal, UnwindProposal::Asked { .. })
    }

    /// Whether an undo of these steps (`None`: of all) would make a call for which the config demands an approval.
    pub(super) fn undo_needs_approval(&self, selection: Option<&[StepId]>) -> bool {
        self.undoable_steps(selection).any(|no| self.undo_demands_approval(no))
    }

    /// The steps that an undo of these steps (`None`: of all) would undo.
    pub(super) fn undoable_steps(&self, selection: Option<&[StepId]>) -> impl Iterator<Item = StepNo> {
        let index = &self.index;
        let steps = index.to_undo.iter().map(|(_, no)| *no).chain(index.left_in_place.iter().copied());
        steps.filter(move |no| !self.is_outside_selection(*no, selection))
    }

    /// Whether a step that may have run has a compensation and is not undone.
    pub fn can_undo(&self) -> bool {
        !self.index.to_undo.is_empty() || !self.index.left_in_place.is_empty()
    }

    /// The status, always derived: the end status, else paused, blocked, running or compensating.
    pub fn status(&self) -> ExecutionStatus {
        if let Some(end) = self.ended {
            return end.into();
        }
        if self.paused {
            return ExecutionStatus::Paused;
        }
        let is_open = self.session.is_some() && self.phase == Phase::Forward;
        if !is_open && self.is_blocked() {
            return ExecutionStatus::Blocked;
        }
        match self.phase {
            Phase::Forward => ExecutionStatus::Running,
            Phase::Unwind => ExecutionStatus::Compensating,
        }
    }

    /// Whether an automatic action is due for the driver.
    pub fn has_next_action(&self, now_ms: i64) -> bool {
        super::next::next_action(self, now_ms).is_some()
    }

    /// Whether the execution waits for a person or an agent, and nothing is in flight, scheduled or due.
    fn is_blocked(&self) -> bool {
        let is_idle = self.index.open_tool_calls.is_empty() && self.pending_retries().next().is_none();
        is_idle && self.has_questions() && super::next::next_action(self, self.last_entry_at_ms).is_none()
    }

    /// The steps whose attempt or compensation is retried automatically. No compensation is while another one
    /// waits for an answer, and nothing is while an unwinding waits for its approval.
    pub(super) fn pending_retries(&self) -> impl Iterator<Item = &StepNo> {
        let index = &self.index;
        let undo = index.undo_settling.iter().filter(|no| !self.step(**no).is_undo_blocked());
        let undo = undo.filter(|_| index.undo_failed.is_empty());
        index.settling.iter().chain(undo).filter(|_| !self.is_held_for_undo())
    }

    /// The salted digest and the size of a payload, for its entry.
    pub(super) fn digest_payload(&self, bytes: &[u8]) -> PayloadDigest {
        PayloadDigest { digest: Digest::salted(&self.salt, bytes), size: bytes.len() as u64 }
    }

    /// The number of steps that have succeeded or were skipped.
    pub fn steps_done(&self) -> usize {
        self.index.count(StepStatus::Succeeded) + self.index.count(StepStatus::Skipped)
    }

    /// The first step in the plan's order that failed or is unknown. `None`: there is none.
    pub fn first_failed_step(&self) -> Option<&StepState> {
        self.index.failed.first().map(|no| self.step(*no))
    }

    /// The execution's salt for payload digests; erased with the payloads.
    pub fn salt(&self) -> &[u8] {
        &self.salt
    }
}
