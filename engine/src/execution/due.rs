//! What the runner is to do: the calls whose intent is durable, and when to look again.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use super::state::{Answered, Execution, ProbeState, Stored};
use crate::chain::Digest;
use crate::id::StepNo;
use crate::plan::{TOOL_TIMEOUT_MS, Undo, Work};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallKind {
    Run,
    Probe,
    Compensation,
}

/// Names one call of an execution for good: `no` counts attempts (also a probe's), or compensations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId {
    pub step: StepNo,
    pub kind: CallKind,
    pub no: u32,
}

#[derive(Clone, Debug)]
pub struct Call {
    pub id: CallId,
    pub tool: String,
    pub arguments: Option<Stored>,
    /// The same for all attempts until one definitely failed.
    pub key: String,
    pub timeout_ms: u64,
    /// The definition of the tool that may be called; none: it was never pinned.
    pub pin: Option<Digest>,
    /// A yes was given to that very definition: no other will do, not even one accepted since.
    pub approved: bool,
    /// The call may be asked to stop.
    pub cancel: bool,
    pub started_at_ms: i64,
    /// It was made, and its server goes on with it: it is asked after, not made again.
    pub task: Option<Arc<str>>,
    /// What the tool asked before, and the reply to it.
    pub answered: Option<Answered>,
}

#[derive(Clone, Debug, Default)]
pub struct Due {
    pub calls: Vec<Call>,
    pub look_again_at: Option<i64>,
}

pub fn due(execution: &Execution) -> Due {
    if execution.ended.is_some() {
        return Due::default();
    }
    let calls = execution.index.open_tools.iter().map(|id| call(execution, *id)).collect();
    Due { calls, look_again_at: look_again_at(execution) }
}

fn call(execution: &Execution, id: CallId) -> Call {
    let (spec, state) = (execution.plan.step(id.step), execution.step(id.step));
    let cancel = execution.stop == Some(super::state::Stop::Cancel);
    let attempt = |no: u32| &state.attempts[no as usize];
    let (tool, arguments, key, timeout_ms) = match id.kind {
        CallKind::Run => {
            let attempt = attempt(id.no);
            let tool = spec.tool().expect("only tool steps have calls");
            (tool, attempt.arguments, format!("run {}", attempt.key), spec.timeout_ms)
        }
        CallKind::Probe => {
            let probe = spec.probe.as_ref().expect("a probe is open only where the step has one");
            let arguments = match attempt(id.no).probe {
                ProbeState::Open { arguments } => Some(arguments),
                ProbeState::None | ProbeState::Done(_) => None,
            };
            (probe.tool.as_str(), arguments, format!("probe {}", id.no), probe.timeout_ms)
        }
        CallKind::Compensation => {
            let compensation = spec.compensation.as_ref().expect("only steps with one are compensated");
            let tool = match &compensation.work {
                Undo::Tool { tool, .. } => tool.as_str(),
                Undo::Action { .. } => unreachable!("an agent's compensation is no call"),
            };
            let one = &state.compensations[id.no as usize];
            (tool, one.arguments, format!("undo {} {}", one.attempt, one.key), compensation.timeout_ms)
        }
    };
    let key = outbound_key(execution, id.step, &key);
    let timeout_ms = execution.timeout_ms(tool, timeout_ms.unwrap_or(TOOL_TIMEOUT_MS));
    let yes = match id.kind {
        CallKind::Run => attempt(id.no).pin,
        CallKind::Compensation => state.compensations[id.no as usize].pin,
        CallKind::Probe => None,
    };
    let pin = yes.or_else(|| execution.pin(tool));
    let task = execution.task_of(id).cloned();
    let (started_at_ms, answered) = match id.kind {
        CallKind::Run => (attempt(id.no).started_at_ms, attempt(id.no).answered),
        CallKind::Probe => (execution.at_ms, None),
        CallKind::Compensation => (state.compensations[id.no as usize].started_at_ms, None),
    };
    let (tool, approved) = (tool.to_owned(), yes.is_some());
    Call { id, tool, arguments, key, timeout_ms, pin, approved, cancel, started_at_ms, task, answered }
}

fn outbound_key(execution: &Execution, step: StepNo, which: &str) -> String {
    let mut hasher = Sha256::new();
    for part in [execution.id.as_str(), execution.plan.step(step).id.as_str(), which] {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    URL_SAFE_NO_PAD.encode(&hasher.finalize()[..18])
}

/// Only times at which something will follow: a paused execution, or a retry that a question holds up,
/// would wake the runner for nothing.
fn look_again_at(execution: &Execution) -> Option<i64> {
    if execution.paused {
        return None;
    }
    let retries = execution.waiting_retries();
    let retries = retries.filter_map(|no| execution.step(*no).retry_at_ms);
    let agents = execution.index.open_agents.iter().filter_map(|call| agent_deadline(execution, *call));
    retries.chain(agents).min()
}

/// When an agent's step or compensation counts as lost.
pub(super) fn agent_deadline(execution: &Execution, call: CallId) -> Option<i64> {
    let (spec, state) = (execution.plan.step(call.step), execution.step(call.step));
    let (started, timeout_ms) = match call.kind {
        CallKind::Run | CallKind::Probe => {
            (state.attempts[call.no as usize].started_at_ms, agent_timeout(&spec.work, spec.timeout_ms))
        }
        CallKind::Compensation => (
            state.compensations[call.no as usize].started_at_ms,
            spec.compensation.as_ref().and_then(|compensation| compensation.timeout_ms),
        ),
    };
    Some(started + i64::try_from(timeout_ms?).unwrap_or(i64::MAX / 2))
}

fn agent_timeout(work: &Work, timeout_ms: Option<u64>) -> Option<u64> {
    match work {
        Work::Tool { .. } => None,
        Work::AgentTool { .. } | Work::Action { .. } => timeout_ms,
    }
}
