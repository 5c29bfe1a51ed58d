//! The work that is due for the runner: calls whose intent is durable, and the time to wake up.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use super::state::{Execution, PayloadRef, ProbeState, QuestionReply};
use crate::chain::Digest;
use crate::id::StepNo;
use crate::plan::{CompensationWork, StepWork, TOOL_TIMEOUT_MS};

/// What a call is for: a step's attempt, its probe, or its compensation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallKind {
    Run,
    Probe,
    Compensation,
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
    let calls = execution.index.open_tool_calls.iter().map(|id| due_call(execution, *id)).collect();
    DueWork { calls, wake_at: wake_at(execution) }
}

/// The call with this id as it is to be sent.
fn due_call(execution: &Execution, id: CallId) -> DueCall {
    let (spec, state) = (execution.plan.step(id.step), execution.step(id.step));
    let cancel = execution.stop == Some(super::state::StopReason::Cancel);
    let attempt = |no: u32| &state.attempts[no as usize];
    let (tool, arguments, key, timeout_ms) = match id.kind {
        CallKind::Run => {
            let attempt = attempt(id.index);
            let tool = spec.tool().expect("only tool steps have calls");
            (tool, attempt.arguments, format!("run {}", attempt.key), spec.timeout_ms)
        }
        CallKind::Probe => {
            let probe = spec.probe.as_ref().expect("a probe is open only where the step has one");
            let arguments = match attempt(id.index).probe {
                ProbeState::Open { arguments } => Some(arguments),
                ProbeState::None | ProbeState::Done(_) => None,
            };
            (probe.tool.as_str(), arguments, format!("probe {}", id.index), probe.timeout_ms)
        }
        CallKind::Compensation => {
            let compensation = spec.compensation.as_ref().expect("only steps with one are compensated");
            let tool = match &compensation.work {
                CompensationWork::Tool { tool, .. } => tool.as_str(),
                CompensationWork::Action { .. } => unreachable!("an agent's compensation is no call"),
            };
            let undo = &state.compensations[id.index as usize];
            (tool, undo.arguments, format!("undo {} {}", undo.attempt, undo.key), compensation.timeout_ms)
        }
    };
    let key = outbound_idempotency_key(execution, id.step, &key);
    let timeout_ms = execution.call_timeout_ms(tool, timeout_ms.unwrap_or(TOOL_TIMEOUT_MS));
    let approved_pin = match id.kind {
        CallKind::Run => attempt(id.index).pin,
        CallKind::Compensation => state.compensations[id.index as usize].pin,
        CallKind::Probe => None,
    };
    let pin = approved_pin.or_else(|| execution.pin(tool));
    let task = execution.task_handle(id).cloned();
    let (started_at_ms, answered) = match id.kind {
        CallKind::Run => (attempt(id.index).started_at_ms, attempt(id.index).reply),
        CallKind::Probe => (execution.last_entry_at_ms, None),
        CallKind::Compensation => (state.compensations[id.index as usize].started_at_ms, None),
    };
    let (tool, approved) = (tool.to_owned(), approved_pin.is_some());
    DueCall {
        id,
        tool,
        arguments,
        idempotency_key: key,
        timeout_ms,
        pin,
        pin_approved: approved,
        cancel_requested: cancel,
        started_at_ms,
        task_handle: task,
        reply: answered,
    }
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
fn wake_at(execution: &Execution) -> Option<i64> {
    if execution.paused {
        return None;
    }
    let retries = execution.pending_retries();
    let retries = retries.filter_map(|no| execution.step(*no).retry_at_ms);
    let agents =
        execution.index.open_agent_calls.iter().filter_map(|call| agent_deadline_ms(execution, *call));
    retries.chain(agents).min()
}

/// When an agent's step or compensation becomes unknown, in Unix milliseconds; `None`: it has no timeout.
pub(super) fn agent_deadline_ms(execution: &Execution, call: CallId) -> Option<i64> {
    let (spec, state) = (execution.plan.step(call.step), execution.step(call.step));
    let (started, timeout_ms) = match call.kind {
        CallKind::Run | CallKind::Probe => {
            (state.attempts[call.index as usize].started_at_ms, agent_timeout_ms(&spec.work, spec.timeout_ms))
        }
        CallKind::Compensation => (
            state.compensations[call.index as usize].started_at_ms,
            spec.compensation.as_ref().and_then(|compensation| compensation.timeout_ms),
        ),
    };
    Some(started + i64::try_from(timeout_ms?).unwrap_or(i64::MAX / 2))
}

/// The timeout of an agent's step; `None` for a tool step, whose timeout `tools` enforces, or without one.
fn agent_timeout_ms(work: &StepWork, timeout_ms: Option<u64>) -> Option<u64> {
    match work {
        StepWork::Tool { .. } => None,
        StepWork::AgentTool { .. } | StepWork::Action { .. } => timeout_ms,
    }
}
