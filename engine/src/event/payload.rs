//! What the journal reads from an event whatever its kind: the project of its stream, and the payload that its
//! entry owns.

use super::{Event, PayloadDigest};
use crate::any_event;

impl Event {
    /// The project that a stream's first entry assigns the stream to. `None` where the entry was written
    /// before projects existed, and for events that start no stream.
    pub fn project(&self) -> Option<&str> {
        let project = if let Self::ExecutionStarted(event) = self {
            &event.project
        } else if let Self::NoteSet(event) = self {
            &event.project
        } else if let Self::TaskSet(event) = self {
            &event.project
        } else if let Self::ActionRecorded(event) = self {
            &event.project
        } else {
            return None;
        };
        project.as_deref()
    }

    /// The digest of the payload that the entry owns; `None` where it has no payload.
    pub fn payload_digest(&self) -> Option<PayloadDigest> {
        match self {
            Self::PlanSaved(event) => Some(PayloadDigest { digest: event.digest, size: event.size }),
            Self::ExecutionStarted(event) => event.inputs,
            Self::ApprovalAsked(event) => event.arguments,
            Self::AttemptStarted(event) => event.arguments,
            Self::AttemptEnded(event) => event.result,
            Self::LateAnswer(event) => event.result,
            Self::ProbeStarted(event) => Some(event.arguments),
            Self::ProbeEnded(event) => event.result,
            Self::StepFailed(event) => event.result,
            Self::Decided(event) => event.output.or(event.arguments),
            Self::StepAdded(event) => Some(event.arguments),
            Self::StateKept(event) => Some(event.state),
            Self::CompensationStarted(event) => event.arguments,
            Self::CompensationEnded(event) => event.result,
            Self::LateCompensation(event) => event.result,
            Self::ActionRecorded(event) => Some(event.facts),
            Self::DecisionRecorded(event) => event.details,
            Self::NoteSet(event) => Some(event.note),
            Self::TaskSet(event) => event.fields,
            any_event! {
                PlanDeleted | ToolAccepted | ServerListed | DriverChanged | PlaceAdopted | PinMoved | PlanApprovalAsked
                | PlanApproved | PlanRejected | StepApproved | StepRejected | TaskAccepted
                | AgentStarted | RetryScheduled | StepUnknown | StepSucceeded | StepSkipped
                | CompensationGivenUp | FailureHandled | StepsCancelled | Paused | Resumed | CancelAsked
                | UndoAsked | UnwindProposed | UnwindApproved | UnwindRejected | UnwindStarted
                | UnwindEnded | YesSpent | LabelsChanged | Closed | CompensationRecorded | NoteDeleted
                | ExecutionEnded | PayloadsErased
            } => None,
        }
    }
}
