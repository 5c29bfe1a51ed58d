//! Sessions: open executions, whose plan starts empty and grows with each call of an agent. Nothing in them starts,
//! retries or ends by itself; only an unwinding has a driver. This module holds what a state has of its session
//! beside the steps: labels, counts, and the questions about calls with the answers that bind to them.

use std::collections::{BTreeMap, BTreeSet};

use super::due::{CallId, CallKind};
use super::next::NextAction;
use super::state::{ExecutionState, PayloadRef, Phase};
use super::unwind;
use crate::chain::Digest;
use crate::event::{ApprovalScope, CallBudget, CallNote, MatchedStep, SessionStart, StateMoment, StateRead};
use crate::id::{Position, StepId, StepNo};
use crate::policy::{EndStatus, StepStatus};

/// Most steps of one part of a session: every hook folds the whole stream. The next call starts a successor.
pub const SESSION_STEPS_MAX: usize = 500;

/// How long an unwinding waits for the calls that an agent's client has in flight, in milliseconds.
pub const HOOKED_CALL_WAIT_MS: i64 = 60_000;

/// What an open execution has beside its steps.
#[derive(Clone, Debug)]
pub struct SessionState {
    /// What the first entry says: client, folder, budget, and what earlier parts left.
    pub start: SessionStart,
    pub labels: BTreeSet<String>,
    /// Started calls by tool, those of earlier parts included.
    pub counts: BTreeMap<String, u32>,
    /// One record for each step, in step order.
    pub calls: Vec<CallRecord>,
    /// The questions about calls, by the step that asked. A question outlives the call that raised it.
    pub questions: BTreeMap<StepNo, CallQuestion>,
    /// The status with which the session had ended before the unwinding began.
    pub ended_before: Option<EndStatus>,
    /// The only steps that a requested undo covers; `None`: all.
    pub undo_selection: Option<Vec<StepId>>,
    /// Unix time in milliseconds of the running unwinding's start; `None`: none runs.
    pub unwinding_since_ms: Option<i64>,
    /// The calls of agents that were given up while unwinding, and whose outcome is not settled yet.
    pub unsettled: BTreeSet<StepNo>,
    /// The number of calls that have started in this part.
    pub(super) starts: u32,
}

/// What a session knows of one call beside its step.
#[derive(Clone, Debug)]
pub struct CallRecord {
    pub adds: BTreeSet<String>,
    /// The client's own id of the call.
    pub call: Option<String>,
    /// The subagent that made the call.
    pub agent: Option<String>,
    /// As in `SessionCall`.
    pub client_tool: Option<String>,
    /// As in `SessionCall`.
    pub folder: Option<String>,
    /// Salted digest that tells which secrets were struck out of the arguments; `None`: none were.
    pub secrets: Option<Digest>,
    /// The rule that asked about the call or refused it.
    pub rule: Option<String>,
    pub note: Option<CallNote>,
    pub matched: Option<MatchedStep>,
    /// The digests of the definitions of the servers that the call and its undo name.
    pub servers: BTreeMap<String, Digest>,
    /// When the question about the call expires, in Unix milliseconds.
    pub expires_at_ms: Option<i64>,
    pub before: Option<PayloadRef>,
    pub after: Option<PayloadRef>,
    /// How the undo reads the state once more.
    pub check: Option<StateRead>,
    /// The call's place in the order of starts; the largest number before the start.
    pub(super) start_rank: u32,
}

/// A question about a call, with everything that a yes binds to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallQuestion {
    pub asked_at: Position,
    pub tool: String,
    /// As in `CallRecord`.
    pub client_tool: Option<String>,
    /// As in `CallRecord`.
    pub folder: Option<String>,
    pub pin: Option<Digest>,
    /// Salted digest of the arguments.
    pub arguments: Digest,
    /// As in `CallRecord`.
    pub secrets: Option<Digest>,
    /// The labels that the question showed: the session's and those that the call adds.
    pub labels: BTreeSet<String>,
    pub expires_at_ms: Option<i64>,
    pub answer: CallAnswer,
}

/// The answer to a question about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallAnswer {
    Open,
    Yes(ApprovalScope),
    No,
    /// A yes for one call, and that call has started.
    Spent,
    /// A yes, and a label has joined the session since that the question did not show.
    Void,
}

/// What a call is to spend a yes for.
#[derive(Clone, Copy, Debug)]
pub struct YesRequest<'a> {
    pub tool: &'a str,
    pub client_tool: Option<&'a str>,
    pub folder: Option<&'a str>,
    pub pin: Option<Digest>,
    /// Salted digest of the arguments.
    pub arguments: Digest,
    pub secrets: Option<Digest>,
    pub adds: &'a BTreeSet<String>,
}

impl CallQuestion {
    /// Makes a yes void that did not show all of these labels, for good: also once a person takes the label off.
    pub(super) fn void_if_unshown(&mut self, labels: &BTreeSet<String>) {
        if matches!(self.answer, CallAnswer::Yes(_)) && !labels.is_subset(&self.labels) {
            self.answer = CallAnswer::Void;
        }
    }

    /// Whether the question has expired by `now_ms`.
    pub fn has_expired(&self, now_ms: i64) -> bool {
        self.expires_at_ms.is_some_and(|expires| expires <= now_ms)
    }

    /// What the call that asked spends its yes for; `adds`: the labels that it adds.
    pub(super) fn own_request<'a>(&'a self, adds: &'a BTreeSet<String>) -> YesRequest<'a> {
        YesRequest {
            tool: &self.tool,
            client_tool: self.client_tool.as_deref(),
            folder: self.folder.as_deref(),
            pin: self.pin,
            arguments: self.arguments,
            secrets: self.secrets,
            adds,
        }
    }

    /// Whether the call is the very one that the question showed: the same arguments, with the same secrets in them, made
    /// in the same folder.
    fn is_of_call(&self, request: YesRequest<'_>) -> bool {
        self.arguments == request.arguments
            && self.secrets == request.secrets
            && self.folder.as_deref() == request.folder
    }

    /// Whether the yes covers this call now: same tool, also by the client's name, and pin; for a single call also the
    /// same arguments and folder, and before its expiry; and no label has joined that the question did not show.
    fn covers(&self, request: YesRequest<'_>, labels: &BTreeSet<String>, now_ms: i64) -> bool {
        let binds = match self.answer {
            CallAnswer::Yes(ApprovalScope::Once) => self.is_of_call(request) && !self.has_expired(now_ms),
            CallAnswer::Yes(ApprovalScope::Session) => true,
            CallAnswer::Open | CallAnswer::No | CallAnswer::Spent | CallAnswer::Void => false,
        };
        let is_shown = |label: &String| self.labels.contains(label);
        binds
            && self.tool == request.tool
            && self.client_tool.as_deref() == request.client_tool
            && self.pin == request.pin
            && labels.iter().chain(request.adds).all(is_shown)
    }
}

impl SessionState {
    /// The state of a session that has just started.
    pub(super) fn new(start: SessionStart) -> Self {
        Self {
            labels: start.labels.clone(),
            counts: start.counts.clone(),
            start,
            calls: Vec::new(),
            questions: BTreeMap::new(),
            ended_before: None,
            undo_selection: None,
            unwinding_since_ms: None,
            unsettled: BTreeSet::new(),
            starts: 0,
        }
    }

    pub fn call(&self, no: StepNo) -> &CallRecord {
        &self.calls[no.index()]
    }

    /// The number of calls that have started in all parts of the session.
    pub fn calls_started(&self) -> u32 {
        self.counts.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The step whose yes covers this call, the oldest first; `None`: none does.
    pub fn find_yes(&self, request: YesRequest<'_>, now_ms: i64) -> Option<StepNo> {
        let covers = |question: &CallQuestion| question.covers(request, &self.labels, now_ms);
        self.questions.iter().find(|(_, question)| covers(question)).map(|(no, _)| *no)
    }

    /// The kept state of the step's call at this moment.
    pub fn kept_state(&self, no: StepNo, moment: StateMoment) -> Option<PayloadRef> {
        match moment {
            StateMoment::Before => self.call(no).before,
            StateMoment::After => self.call(no).after,
        }
    }
}

impl ExecutionState {
    /// Whether the execution is a session's that takes calls: open, not paused, and nothing is or waits to be undone.
    pub fn takes_calls(&self) -> bool {
        let is_idle = self.phase == Phase::Forward && !self.is_held_for_undo() && self.stop.is_none();
        self.session.is_some() && self.ended.is_none() && !self.paused && is_idle
    }

    /// Whether the next call starts another part of the session: this one has ended, or is full. One that is paused, or
    /// being undone, is not over: a successor would take the calls that it refuses.
    pub fn is_session_part_over(&self) -> bool {
        self.ended.is_some() || (self.is_session_part_full() && self.takes_calls())
    }

    /// Whether this part of the session holds as many steps as a part may.
    pub fn is_session_part_full(&self) -> bool {
        self.steps.len() >= SESSION_STEPS_MAX
    }

    /// What the session's next part starts with.
    pub fn successor_start(&self) -> Option<SessionStart> {
        let session = self.session.as_ref()?;
        Some(SessionStart {
            labels: session.labels.clone(),
            counts: session.counts.clone(),
            continues: Some(self.id.clone()),
            began_at_ms: Some(session.start.began_at_ms.unwrap_or(self.started_at_ms)),
            ..session.start.clone()
        })
    }

    /// Why the budget allows no further call of this tool, worded for the agent; `None`: it allows one.
    pub fn spent_budget(&self, tool: &str, now_ms: i64) -> Option<String> {
        let session = self.session.as_ref()?;
        let CallBudget { calls, per_tool, wall_ms } = session.start.budget.as_ref()?;
        let of_tool = session.counts.get(tool).copied().unwrap_or(0);
        let began_at_ms = session.start.began_at_ms.unwrap_or(self.started_at_ms);
        let passed_ms = u64::try_from(now_ms - began_at_ms).unwrap_or(0);
        if let Some(limit) = calls.filter(|limit| session.calls_started() >= *limit) {
            return Some(format!("the session's budget of {limit} calls is spent"));
        }
        if let Some(limit) = per_tool.get(tool).filter(|limit| of_tool >= **limit) {
            return Some(format!("the session's budget of {limit} calls of {tool} is spent"));
        }
        wall_ms.filter(|limit| passed_ms >= *limit).map(|_| "the session's time is spent".to_owned())
    }

    /// A call of the session that equals this one and whose outcome is unknown: sending it again could repeat its
    /// effect. `None` where the step is read-only or idempotent, or there is no such call.
    pub fn equal_unknown_call(&self, tool: &str, arguments: Digest) -> Option<StepNo> {
        self.session.as_ref()?;
        self.index.failed.iter().copied().find(|no| {
            let repeatable = self.rules(*no).read_only || self.rules(*no).idempotent;
            self.step(*no).status() == StepStatus::Unknown
                && !repeatable
                && self.plan.step(*no).tool() == Some(tool)
                && self.step(*no).literal_arguments.is_some_and(|own| own.digest.digest == arguments)
        })
    }

    /// The session's newest step with the client's id `call`.
    pub fn find_call(&self, call: &str) -> Option<StepNo> {
        let session = self.session.as_ref()?;
        let newest = session.calls.iter().rposition(|record| record.call.as_deref() == Some(call))?;
        Some(StepNo(newest as u32))
    }

    /// The newest step whose call was added at this position or before. `None`: there is none.
    pub fn newest_call_up_to(&self, position: Position) -> Option<StepNo> {
        let is_added =
            |no: &StepNo| self.step(*no).literal_arguments.is_some_and(|stored| stored.position <= position);
        let count = u32::try_from(self.steps.len()).unwrap_or(u32::MAX);
        (0..count).rev().map(StepNo).find(is_added)
    }

    /// The steps whose call started when `first`'s did or later; none outside a session, or if `first`'s never
    /// started.
    pub fn steps_started_from(&self, first: StepNo) -> Vec<StepId> {
        let Some(session) = self.session.as_ref() else { return Vec::new() };
        let from = session.call(first).start_rank;
        let started =
            self.step_numbers().filter(|no| (from..u32::MAX).contains(&session.call(*no).start_rank));
        started.map(|no| self.step_id(no)).collect()
    }

    /// The order of undo: in a session calls by their start, then files; else by the graph. Larger numbers are undone first.
    pub(super) fn undo_rank(&self, no: StepNo) -> u32 {
        match &self.session {
            // Files are restored once every call has been taken back.
            Some(session) if !self.restores_files(no) => {
                session.call(no).start_rank.saturating_add(SESSION_STEPS_MAX as u32)
            }
            Some(session) => session.call(no).start_rank,
            None => self.plan.topological_rank(no),
        }
    }

    /// Whether an undo is limited to steps that do not include this one.
    pub(super) fn is_outside_selection(&self, no: StepNo, selection: Option<&[StepId]>) -> bool {
        selection.is_some_and(|steps| !steps.contains(&self.plan.step(no).id))
    }

    /// The call that an agent's client has in flight for this step and that an unwinding no longer waits for.
    fn overdue_hooked_call(&self, now_ms: i64) -> Option<CallId> {
        let since_ms = self.session.as_ref()?.unwinding_since_ms?;
        let is_run = |call: &&CallId| call.kind == CallKind::Run;
        let first = self.index.open_agent_calls.iter().find(is_run);
        first.copied().filter(|_| since_ms.saturating_add(HOOKED_CALL_WAIT_MS) <= now_ms)
    }

    /// When an unwinding stops waiting for the calls that agents' clients have in flight, in Unix milliseconds.
    pub(super) fn hooked_calls_deadline_ms(&self) -> Option<i64> {
        let since_ms = self.session.as_ref()?.unwinding_since_ms?;
        let waits = self.index.open_agent_calls.iter().any(|call| call.kind == CallKind::Run);
        waits.then(|| since_ms.saturating_add(HOOKED_CALL_WAIT_MS))
    }
}

/// The next automatic action in a session: only an unwinding has any.
pub(super) fn next_session_action(execution: &ExecutionState, now_ms: i64) -> Option<NextAction> {
    if execution.phase == Phase::Forward {
        return None;
    }
    if let Some(call) = execution.overdue_hooked_call(now_ms) {
        return Some(NextAction::GiveUpAgentCall(call));
    }
    if execution.session.as_ref().is_some_and(|session| !session.unsettled.is_empty()) {
        return None;
    }
    unwind::next_unwind_action(execution, now_ms)
}
