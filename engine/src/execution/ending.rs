//! How a call ended, in the words that the entries of attempts and of compensations have in common.

use super::due::{CallId, CallKind};
use super::state::Execution;
use crate::event::{AttemptEnded, CompensationEnded, Event, Kept};
use crate::policy::{Category, Outcome};

#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    pub outcome: Outcome,
    pub category: Option<Category>,
    pub result: Option<Kept>,
    pub unsent: bool,
    pub takeover: bool,
    pub retry_after_ms: Option<u64>,
    /// Of an attempt; a compensation's question is answered by compensating again.
    pub asks: bool,
}

impl Ending {
    /// Of a call that was sent and seen to end, with nothing said.
    pub fn new(outcome: Outcome, category: Option<Category>) -> Self {
        let (result, retry_after_ms) = (None, None);
        Self { outcome, category, result, unsent: false, takeover: false, retry_after_ms, asks: false }
    }

    pub fn of(self, execution: &Execution, call: CallId) -> Event {
        let Self { outcome, category, result, unsent, takeover, retry_after_ms, asks } = self;
        let (step, number) = (execution.step_id(call.step), call.no + 1);
        match call.kind {
            CallKind::Run | CallKind::Probe => {
                let attempt = number;
                AttemptEnded {
                    step,
                    attempt,
                    outcome,
                    category,
                    result,
                    unsent,
                    takeover,
                    retry_after_ms,
                    asks,
                }
                .into()
            }
            CallKind::Compensation => {
                let compensation = number;
                CompensationEnded {
                    step,
                    compensation,
                    outcome,
                    category,
                    result,
                    unsent,
                    takeover,
                    retry_after_ms,
                }
                .into()
            }
        }
    }
}
