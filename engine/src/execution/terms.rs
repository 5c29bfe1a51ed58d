//! What the terms make of a plan's timeouts, retries and pins while an execution runs.

use super::due::CallId;
use super::state::{Execution, UndoYes};
use crate::chain::Digest;
use crate::id::StepNo;
use crate::plan::{Compensation, Retry, Step};
use crate::terms::ToolTerms;

/// How often a step's call is made again by itself after takeovers; a person is asked then.
pub(super) const TAKEOVER_REPEATS_MAX: u32 = 3;

impl Execution {
    fn of_tool(&self, tool: Option<&str>) -> Option<&ToolTerms> {
        tool.and_then(|tool| self.terms.get(tool))
    }

    pub fn pin(&self, tool: &str) -> Option<Digest> {
        self.of_tool(Some(tool)).and_then(|terms| terms.pin)
    }

    /// The config asks for a yes to every call of this tool.
    pub(super) fn asks_for_yes_to(&self, tool: &str) -> bool {
        self.of_tool(Some(tool)).is_some_and(|terms| terms.approval)
    }

    /// The compensation of this attempt is a call under approval, and no yes covers it with these
    /// arguments and the tool as it is pinned now.
    pub(super) fn lacks_yes(&self, no: StepNo, attempt: u32, arguments: Option<Digest>) -> bool {
        if !self.rules(no).undo_approval {
            return false;
        }
        let tool = self.plan.step(no).compensation.as_ref().and_then(Compensation::tool);
        let wanted = UndoYes { arguments, pin: tool.and_then(|tool| self.pin(tool)) };
        self.step(no).undo_yes.get(&attempt) != Some(&wanted)
    }

    /// A probe that may have been out when its process was lost is sent again where it is known to read
    /// only, and no more often than any call after a takeover.
    pub(super) fn may_probe_again(&self, call: CallId) -> bool {
        let lost = self.step(call.step).attempts[call.no as usize].probes_lost;
        self.rules(call.step).probe_repeatable && lost < TAKEOVER_REPEATS_MAX
    }

    pub(super) fn timeout_ms(&self, tool: &str, own: u64) -> u64 {
        self.of_tool(Some(tool)).map_or(own, |terms| terms.timeout_ms(own))
    }

    pub(super) fn retry(&self, step: &Step) -> Retry {
        self.of_tool(step.tool()).map_or_else(|| step.retry.clone(), |terms| terms.retry(&step.retry))
    }

    pub(super) fn undo_retry(&self, compensation: &Compensation) -> Retry {
        let terms = self.of_tool(compensation.tool());
        terms.map_or_else(|| compensation.retry.clone(), |terms| terms.retry(&compensation.retry))
    }

    /// A compensation of unknown outcome may be sent again by itself.
    pub(super) fn undo_repeatable(&self, compensation: &Compensation) -> bool {
        match self.of_tool(compensation.tool()) {
            Some(terms) => terms.idempotent.unwrap_or(compensation.idempotent) || terms.hinted,
            None => compensation.idempotent,
        }
    }
}
