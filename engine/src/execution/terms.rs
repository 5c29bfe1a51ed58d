//! What the terms make of a plan's timeouts, retries and pins while an execution runs.

use super::state::Execution;
use crate::chain::Digest;
use crate::plan::{Compensation, Retry, Step, Undo};
use crate::terms::ToolTerms;

impl Execution {
    fn of_tool(&self, tool: Option<&str>) -> Option<&ToolTerms> {
        tool.and_then(|tool| self.terms.get(tool))
    }

    pub fn pin(&self, tool: &str) -> Option<Digest> {
        self.of_tool(Some(tool)).and_then(|terms| terms.pin)
    }

    pub(super) fn timeout_ms(&self, tool: &str, own: u64) -> u64 {
        self.of_tool(Some(tool)).map_or(own, |terms| terms.timeout_ms(own))
    }

    pub(super) fn retry(&self, step: &Step) -> Retry {
        self.of_tool(step.tool()).map_or_else(|| step.retry.clone(), |terms| terms.retry(&step.retry))
    }

    pub(super) fn undo_retry(&self, compensation: &Compensation) -> Retry {
        let terms = self.of_tool(undo_tool(compensation));
        terms.map_or_else(|| compensation.retry.clone(), |terms| terms.retry(&compensation.retry))
    }

    /// A compensation of unknown outcome may be sent again by itself.
    pub(super) fn undo_repeatable(&self, compensation: &Compensation) -> bool {
        match self.of_tool(undo_tool(compensation)) {
            Some(terms) => terms.idempotent.unwrap_or(compensation.idempotent) || terms.hinted,
            None => compensation.idempotent,
        }
    }
}

fn undo_tool(compensation: &Compensation) -> Option<&str> {
    match &compensation.work {
        Undo::Tool { tool, .. } => Some(tool),
        Undo::Action { .. } => None,
    }
}
