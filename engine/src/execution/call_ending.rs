//! How a call ended: the fields that the end events of attempts and of compensations share.

use super::due::{CallId, CallKind};
use super::evolve::Execution;
use crate::event::{AttemptEnded, CompensationEnded, Event, LateAnswer, LateCompensation, PayloadDigest};
use crate::id::StepId;
use crate::policy::{ErrorCategory, Outcome};

/// The fields of an `AttemptEnded` or `CompensationEnded` event.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallEnding {
    pub outcome: Outcome,
    pub category: Option<ErrorCategory>,
    pub result: Option<PayloadDigest>,
    /// The call was certainly not sent.
    pub unsent: bool,
    /// The process that took over concluded the outcome without observing it.
    pub takeover: bool,
    pub retry_after_ms: Option<u64>,
    /// The tool asks for input. Written for attempts only: a compensation is run again instead.
    pub asks: bool,
}

impl CallEnding {
    /// The end of a call that was sent and observed to end, without a result.
    pub fn new(outcome: Outcome, category: Option<ErrorCategory>) -> Self {
        let (result, retry_after_ms) = (None, None);
        Self { outcome, category, result, unsent: false, takeover: false, retry_after_ms, asks: false }
    }

    /// The end event of this call.
    pub fn into_event(self, execution: &Execution, call: CallId) -> Event {
        let (step, number) = (execution.step_id(call.step), call.index + 1);
        match call.kind {
            CallKind::Run | CallKind::Probe => self.attempt_ended(step, number).into(),
            CallKind::Compensation => self.compensation_ended(step, number).into(),
        }
    }

    fn attempt_ended(self, step: StepId, attempt: u32) -> AttemptEnded {
        let Self { outcome, category, result, unsent, takeover, retry_after_ms, asks } = self;
        AttemptEnded { step, attempt, outcome, category, result, unsent, takeover, retry_after_ms, asks }
    }

    fn compensation_ended(self, step: StepId, compensation: u32) -> CompensationEnded {
        let Self { outcome, category, result, unsent, takeover, retry_after_ms, .. } = self;
        CompensationEnded { step, compensation, outcome, category, result, unsent, takeover, retry_after_ms }
    }

    /// The event of an outcome that arrives after the call has ended.
    pub fn into_late_event(self, execution: &Execution, call: CallId) -> Event {
        let (step, number) = (execution.step_id(call.step), call.index + 1);
        let Self { outcome, category, result, .. } = self;
        match call.kind {
            CallKind::Run | CallKind::Probe => {
                LateAnswer { step, attempt: number, outcome, category, result }.into()
            }
            CallKind::Compensation => LateCompensation { step, compensation: number, outcome, result }.into(),
        }
    }
}

impl From<&AttemptEnded> for CallEnding {
    fn from(event: &AttemptEnded) -> Self {
        let &AttemptEnded { outcome, category, result, unsent, takeover, retry_after_ms, asks, .. } = event;
        Self { outcome, category, result, unsent, takeover, retry_after_ms, asks }
    }
}

impl From<&CompensationEnded> for CallEnding {
    fn from(event: &CompensationEnded) -> Self {
        let &CompensationEnded { outcome, category, result, unsent, takeover, retry_after_ms, .. } = event;
        Self { outcome, category, result, unsent, takeover, retry_after_ms, asks: false }
    }
}
