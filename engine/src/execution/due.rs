//! The work that is due for the runner: calls whose intent is durable, and the time to wake up.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use super::attempt::{ProbeState, QuestionReply};
use super::evolve::Execution;
use super::state::{ExecutionState, PayloadRef};
use crate::chain::{Digest, with_sorted_keys};
use crate::event::StateRead;
use crate::id::{NodeId, StepNo};
use crate::plan::{StepWork, TOOL_TIMEOUT_MS};
use crate::policy::EndStatus;

/// What a call is for: a step's attempt, its probe, or its compensation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallKind {
    Run,
    Probe,
    Compensation,
}

impl CallKind {
    /// The noun for the call, such as `attempt`, for the error about a journal entry that does not fit the
    /// state.
    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Run => "attempt",
            Self::Probe => "probe",
            Self::Compensation => "compensation",
        }
    }
}

/// The permanent id of one call within its execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId {
    pub step: StepNo,
    pub kind: CallKind,
    /// The index of the attempt (also for its probe) or of the compensation, from 0.
    pub index: u32,
}

/// A tool call that is due: its intent is durable and its outcome is not.
#[derive(Clone, Debug)]
pub struct DueCall {
    pub id: CallId,
    pub tool: String,
    pub arguments: Option<PayloadRef>,
    /// Sent to the server; the same for all attempts until one definitely failed.
    pub idempotency_key: String,
    pub timeout_ms: u64,
    /// Digest of the only tool definition that may be called; `None`: the tool was never pinned.
    pub pin: Option<Digest>,
    /// A person approved exactly this definition: no other may be called, not even one accepted since.
    pub pin_approved: bool,
    /// The execution was cancelled, so the server may be asked to stop the call.
    pub cancel_requested: bool,
    pub started_at_ms: i64,
    /// The server runs the call as a task with this handle: poll the task, do not call again.
    pub task_handle: Option<Arc<str>>,
    /// The question of the attempt before and the reply to it, to be sent along.
    pub reply: Option<QuestionReply>,
    /// Of the undo of a session's call: the state is read once more before it is sent.
    pub check: Option<StateCheck>,
}

/// A state that is read before an undo, and what it must be for the undo to be made without asking.
#[derive(Clone, Debug)]
pub struct StateCheck {
    pub read: StateRead,
    /// The state after the call. `None`: it was not seen.
    expected: Option<Digest>,
    salt: Arc<[u8]>,
}

impl StateCheck {
    /// Whether the state is still what the call left.
    pub fn is_unchanged(&self, state: &serde_json::Value) -> bool {
        let bytes = super::decide::to_json_bytes(&with_sorted_keys(state));
        self.expected == Some(Digest::salted(&self.salt, &bytes))
    }
}

/// What the runner is to do now, and when to look again.
#[derive(Clone, Debug, Default)]
pub struct DueWork {
    pub calls: Vec<DueCall>,
    /// Unix time in milliseconds of the next retry or deadline; `None`: nothing will happen by time alone.
    pub wake_at: Option<i64>,
}

/// The calls in flight or still to be sent, and when to wake up; empty for an ended execution.
pub fn due(execution: &Execution) -> DueWork {
    if execution.ended.is_some() {
        return DueWork::default();
    }
    // A session's calls are sent by the processes that started them; its driver only undoes.
    let is_driven = |id: &&CallId| execution.session.is_none() || id.kind == CallKind::Compensation;
    let open = execution.index.open_tool_calls.iter();
    let calls = open.filter(is_driven).map(|id| due_call(execution, *id)).collect();
    DueWork { calls, wake_at: wake_at(execution) }
}

/// The call of a session's step as its own process sends it. `None`: the step has no open tool call.
pub fn session_call(execution: &Execution, step: StepNo) -> Option<DueCall> {
    let is_call = |call: &&CallId| call.step == step && call.kind == CallKind::Run;
    execution.index.open_tool_calls.iter().find(is_call).map(|id| due_call(execution, *id))
}

/// The calls of a session that processes have in flight, each with the process that sends it.
pub fn open_session_calls(execution: &Execution) -> impl Iterator<Item = (CallId, Option<&NodeId>)> {
    let is_run = |call: &&CallId| execution.session.is_some() && call.kind == CallKind::Run;
    let open = execution.index.open_tool_calls.iter().filter(is_run);
    open.map(|call| (*call, execution.attempt(*call).node.as_ref()))
}

/// The call with this id as it is to be sent.
fn due_call(execution: &Execution, id: CallId) -> DueCall {
    let (spec, attempt) = (execution.plan.step(id.step), execution.attempt(id));
    let (tool, key, timeout_ms) = match id.kind {
        CallKind::Run => {
            let tool = spec.tool().expect("only tool steps have calls");
            (tool, format!("run {}", attempt.key), spec.timeout_ms)
        }
        CallKind::Probe => {
            let probe = spec.probe.as_ref().expect("a probe is open only where the step has one");
            (probe.tool.as_str(), format!("probe {}", id.index), probe.timeout_ms)
        }
        CallKind::Compensation => {
            let undo = spec.compensation.as_ref().expect("only steps with one are compensated");
            let tool = undo.tool().expect("an agent's compensation is no call");
            let undoes = attempt.undoes.expect("a compensation undoes an attempt");
            (tool, format!("undo {undoes} {}", attempt.key), undo.timeout_ms)
        }
    };
    // A probe is a call of its own beside the attempt that it is about.
    let sent = (id.kind != CallKind::Probe).then_some(attempt);
    let probe_arguments = match attempt.probe {
        ProbeState::Open { arguments } => Some(arguments),
        ProbeState::None | ProbeState::Done(_) => None,
    };
    let approved_pin = sent.and_then(|sent| sent.pin);
    DueCall {
        id,
        arguments: sent.map_or(probe_arguments, |sent| sent.arguments),
        idempotency_key: outbound_idempotency_key(execution, id.step, &key),
        timeout_ms: execution.call_timeout_ms(tool, timeout_ms.unwrap_or(TOOL_TIMEOUT_MS)),
        pin: approved_pin.or_else(|| execution.pin(tool)),
        pin_approved: approved_pin.is_some(),
        cancel_requested: execution.stop == Some(EndStatus::Cancelled),
        started_at_ms: sent.map_or(execution.last_entry_at_ms, |sent| sent.started_at_ms),
        task_handle: sent.and_then(|sent| sent.task_handle.clone()),
        reply: sent.and_then(|sent| sent.reply),
        check: if id.kind == CallKind::Compensation { state_check(execution, id.step) } else { None },
        tool: tool.to_owned(),
    }
}

/// How the undo of a session's call is checked first; not where a person agreed to it whatever is there now.
fn state_check(execution: &Execution, no: StepNo) -> Option<StateCheck> {
    let call = execution.session.as_deref()?.call(no);
    let read = call.check.clone().filter(|_| execution.step(no).undo.consent.is_none())?;
    Some(StateCheck {
        read,
        expected: call.after.map(|after| after.digest.digest),
        salt: execution.salt().into(),
    })
}

/// The idempotency key that the server sees: a hash of execution, step and `which` call of the step.
fn outbound_idempotency_key(execution: &Execution, step: StepNo, which: &str) -> String {
    let mut hasher = Sha256::new();
    for part in [execution.id.as_str(), execution.plan.step(step).id.as_str(), which] {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    URL_SAFE_NO_PAD.encode(&hasher.finalize()[..18])
}

/// The next time at which something will happen by itself; `None` where nothing will. Leaves out a paused
/// execution and retries that a question holds up: they would wake the runner for nothing.
fn wake_at(execution: &ExecutionState) -> Option<i64> {
    if execution.paused {
        return None;
    }
    let retries = execution.pending_retries();
    let retries = retries.filter_map(|no| execution.step(*no).retry.at_ms);
    let agents =
        execution.index.open_agent_calls.iter().filter_map(|call| agent_deadline_ms(execution, *call));
    retries.chain(agents).chain(execution.hooked_calls_deadline_ms()).min()
}

/// When an agent's step or compensation becomes unknown, in Unix milliseconds; `None`: it has no timeout.
pub(super) fn agent_deadline_ms(execution: &ExecutionState, call: CallId) -> Option<i64> {
    let spec = execution.plan.step(call.step);
    let timeout_ms = match call.kind {
        CallKind::Run | CallKind::Probe => agent_timeout_ms(&spec.work, spec.timeout_ms),
        CallKind::Compensation => spec.compensation.as_ref().and_then(|undo| undo.timeout_ms),
    };
    let started_at_ms = execution.attempt(call).started_at_ms;
    Some(started_at_ms + i64::try_from(timeout_ms?).unwrap_or(i64::MAX / 2))
}

/// The timeout of an agent's step; `None` for a tool step, whose timeout `tools` enforces, or without one.
fn agent_timeout_ms(work: &StepWork, timeout_ms: Option<u64>) -> Option<u64> {
    match work {
        StepWork::Tool { .. } => None,
        StepWork::AgentTool { .. } | StepWork::Action { .. } => timeout_ms,
    }
}
