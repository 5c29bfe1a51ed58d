//! Applies the tool policies to an execution's timeouts, retries, pins and approvals.

use super::due::{CallId, CallKind};
use super::state::{ExecutionState, UndoApproval};
use crate::chain::Digest;
use crate::id::StepNo;
use crate::plan::{Compensation, RetryPolicy, Step};
use crate::tool_policy::ToolPolicy;

/// How often a step's call is repeated automatically after takeovers; after that a person is asked.
pub(super) const TAKEOVER_REPEATS_MAX: u32 = 3;

impl ExecutionState {
    /// The policy of a tool; `None` where the step calls no tool or the tool has no policy.
    fn tool_policy(&self, tool: Option<&str>) -> Option<&ToolPolicy> {
        tool.and_then(|tool| self.tool_policies.get(tool))
    }

    /// The digest of the definition that the tool is pinned to; `None`: it was never pinned.
    pub fn pin(&self, tool: &str) -> Option<Digest> {
        self.tool_policy(Some(tool)).and_then(|terms| terms.pin)
    }

    /// Whether the config demands an approval for every call of this tool.
    pub(super) fn tool_needs_approval(&self, tool: &str) -> bool {
        self.tool_policy(Some(tool)).is_some_and(|terms| terms.approval)
    }

    /// Whether the config demands an approval for the tool that undoes the step: when the step was added or, in a
    /// session, by the newest call that says something of the tool.
    pub(super) fn undo_demands_approval(&self, no: StepNo) -> bool {
        let tool = self.plan.step(no).compensation.as_ref().and_then(Compensation::tool);
        let demands_now = self.session.is_some() && tool.is_some_and(|tool| self.tool_needs_approval(tool));
        self.rules(no).undo_needs_approval || demands_now
    }

    /// Whether the compensation of the attempt with the index `attempt` needs an approval and has none for
    /// these bound arguments and the tool's current pin. `arguments`: `None` if they cannot be bound yet.
    pub(super) fn lacks_undo_approval(&self, no: StepNo, attempt: u32, arguments: Option<Digest>) -> bool {
        if !self.undo_demands_approval(no) {
            return false;
        }
        let tool = self.plan.step(no).compensation.as_ref().and_then(Compensation::tool);
        let required = UndoApproval { arguments, pin: tool.and_then(|tool| self.pin(tool)) };
        self.step(no).undo.approvals.get(&attempt) != Some(&required)
    }

    /// Whether a probe that may have been in flight when its process died is sent again: only where it is
    /// known to be read-only, and no more often than any call after a takeover.
    pub(super) fn may_probe_again(&self, call: CallId) -> bool {
        let lost = self.attempt(call).probes_lost;
        self.rules(call.step).probe_repeatable && lost < TAKEOVER_REPEATS_MAX
    }

    /// The timeout of a call to this tool: `own`, cut to the policy's limit.
    pub(super) fn call_timeout_ms(&self, tool: &str, own: u64) -> u64 {
        self.tool_policy(Some(tool)).map_or(own, |terms| terms.cap_timeout_ms(own))
    }

    /// A step's retries within the policy's limits.
    pub fn step_retry(&self, step: &Step) -> RetryPolicy {
        self.tool_policy(step.tool())
            .map_or_else(|| step.retry.clone(), |terms| terms.restrict_retry(&step.retry))
    }

    /// A compensation's retries within the policy's limits.
    pub fn compensation_retry(&self, compensation: &Compensation) -> RetryPolicy {
        let terms = self.tool_policy(compensation.tool());
        terms.map_or_else(|| compensation.retry.clone(), |terms| terms.restrict_retry(&compensation.retry))
    }

    /// Whether an attempt with unknown outcome may be sent again without asking.
    pub(super) fn is_repeatable(&self, call: CallId) -> bool {
        let compensation = self.plan.step(call.step).compensation.as_ref();
        match call.kind {
            CallKind::Run | CallKind::Probe => self.rules(call.step).repeatable,
            CallKind::Compensation => compensation.is_some_and(|undo| self.is_undo_repeatable(undo)),
        }
    }

    /// Whether a compensation with unknown outcome may be sent again without asking.
    pub(super) fn is_undo_repeatable(&self, compensation: &Compensation) -> bool {
        match self.tool_policy(compensation.tool()) {
            Some(terms) => terms.idempotent.unwrap_or(compensation.idempotent) || terms.hinted,
            None => compensation.idempotent,
        }
    }
}
