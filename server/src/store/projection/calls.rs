//! Converts an execution's entries to rows of calls, each from its start entry to its end entry.

use std::collections::{BTreeMap, BTreeSet};

use actbook_engine::any_event;
use actbook_engine::event::{Event, PayloadDigest, ProbeFinding};
use actbook_engine::execution::RecordedEvent;
use actbook_engine::id::{StepId, StreamId};
use actbook_engine::plan::{CompensationWork, Plan, Step, StepWork};
use actbook_engine::policy::{ErrorCategory, Outcome};

use crate::store::calls::CallRow;

/// Kinds of calls, as the rows name them.
pub(super) const RUN: &str = "run";
const PROBE: &str = "probe";
const COMPENSATION: &str = "compensation";

/// Step, kind and number of a call.
type CallKey = (String, &'static str, u64);

/// The calls of one execution.
#[derive(Debug, Default)]
pub struct CallHistory {
    /// Without those that a takeover proved unsent.
    pub calls: Vec<CallRow>,
    /// Every tool of which a call has started, those calls included.
    pub tools: BTreeSet<String>,
}

/// Collects the calls of one execution.
pub fn call_history<'a>(
    stream: StreamId,
    plan: &Plan,
    entries: impl Iterator<Item = &'a RecordedEvent>,
) -> CallHistory {
    let mut tracker = CallTracker { stream, plan, calls: BTreeMap::new(), tools: BTreeSet::new() };
    for recorded in entries {
        tracker.apply(recorded);
    }
    CallHistory { calls: tracker.calls.into_values().collect(), tools: tracker.tools }
}

/// Collects the calls while an execution's entries are read in order.
struct CallTracker<'a> {
    stream: StreamId,
    plan: &'a Plan,
    calls: BTreeMap<CallKey, CallRow>,
    tools: BTreeSet<String>,
}

/// How a call ended.
struct CallEnd {
    outcome: Outcome,
    category: Option<ErrorCategory>,
    /// The recorded result, which is the error text if the call did not succeed.
    result: Option<PayloadDigest>,
    /// The call is known not to have left the process.
    unsent: bool,
    /// The node that took the execution over concluded this end; the real time of the end is unknown.
    takeover: bool,
}

impl CallTracker<'_> {
    /// Applies one entry.
    fn apply(&mut self, recorded: &RecordedEvent) {
        match &recorded.event {
            Event::AttemptStarted(event) => {
                let tool_and_agent = |step: &Step| match &step.work {
                    StepWork::Tool { tool, .. } => (Some(tool.clone()), false),
                    StepWork::AgentTool { tool, .. } => (Some(tool.clone()), true),
                    StepWork::Action { .. } => (None, true),
                };
                self.start_call(recorded, &event.step, RUN, event.attempt, tool_and_agent);
            }
            Event::ProbeStarted(event) => {
                let tool_and_agent =
                    |step: &Step| (step.probe.as_ref().map(|probe| probe.tool.clone()), false);
                self.start_call(recorded, &event.step, PROBE, event.attempt, tool_and_agent);
            }
            Event::CompensationStarted(event) => {
                let tool_and_agent = |step: &Step| match step.compensation.as_ref().map(|undo| &undo.work) {
                    Some(CompensationWork::Tool { tool, .. }) => (Some(tool.clone()), false),
                    Some(CompensationWork::Action { .. }) | None => (None, true),
                };
                self.start_call(recorded, &event.step, COMPENSATION, event.compensation, tool_and_agent);
            }
            Event::AttemptEnded(event) => {
                let (outcome, category, result) = (event.outcome, event.category, event.result);
                let end =
                    CallEnd { outcome, category, result, unsent: event.unsent, takeover: event.takeover };
                self.end_call(recorded, &event.step, RUN, event.attempt, &end);
            }
            Event::ProbeEnded(event) => {
                self.end_call(
                    recorded,
                    &event.step,
                    PROBE,
                    event.attempt,
                    &probe_end(event.found, event.result),
                );
            }
            Event::CompensationEnded(event) => {
                let (outcome, category, result) = (event.outcome, event.category, event.result);
                let end =
                    CallEnd { outcome, category, result, unsent: event.unsent, takeover: event.takeover };
                self.end_call(recorded, &event.step, COMPENSATION, event.compensation, &end);
            }
            any_event! {
                PlanSaved | PlanDeleted | ToolAccepted | ServerListed | ExecutionStarted | DriverChanged | PlaceAdopted
                | PinMoved | PlanApprovalAsked | PlanApproved | PlanRejected | ApprovalAsked
                | StepApproved | StepRejected | TaskAccepted | AgentStarted | LateAnswer
                | RetryScheduled | StepFailed | StepUnknown | StepSucceeded | StepSkipped
                | CompensationGivenUp | FailureHandled | StepsCancelled | Paused | Resumed | CancelAsked
                | Decided | UndoAsked | UnwindProposed | UnwindApproved | UnwindRejected | UnwindStarted
                | LateCompensation | CompensationRecorded | ActionRecorded | DecisionRecorded | NoteSet
                | NoteDeleted | TaskSet | ExecutionEnded | PayloadsErased | UnwindEnded | StepAdded | YesSpent | StateKept | LabelsChanged | Closed
            } => {}
        }
    }

    /// Adds a call that has started. `tool_and_agent` gives its tool, and whether an agent makes the call.
    fn start_call(
        &mut self,
        recorded: &RecordedEvent,
        id: &StepId,
        kind: &'static str,
        number: u32,
        tool_and_agent: impl Fn(&Step) -> (Option<String>, bool),
    ) {
        let Some(no) = self.plan.find_step(id.as_str()) else { return };
        let (tool, agent) = tool_and_agent(self.plan.step(no));
        self.tools.extend(tool.clone());
        let call = CallRow {
            stream: self.stream,
            step: id.to_string(),
            kind,
            number: u64::from(number),
            tool,
            agent,
            started_at: recorded.at_ms,
            took_ms: None,
            outcome: None,
            category: None,
            sent: true,
            end_position: None,
            has_error_text: false,
        };
        self.calls.insert((id.to_string(), kind, u64::from(number)), call);
    }

    /// Records the end of a call; removes a call that a takeover proved unsent.
    fn end_call(
        &mut self,
        recorded: &RecordedEvent,
        id: &StepId,
        kind: &'static str,
        number: u32,
        end: &CallEnd,
    ) {
        let key = (id.to_string(), kind, u64::from(number));
        if end.unsent && end.takeover {
            self.calls.remove(&key);
            return;
        }
        let Some(call) = self.calls.get_mut(&key) else { return };
        call.took_ms = (!end.takeover).then(|| recorded.at_ms - call.started_at);
        call.outcome = Some(end.outcome);
        call.category = end.category;
        call.sent = !end.unsent;
        call.end_position = Some(recorded.position.0);
        call.has_error_text = end.result.is_some() && end.outcome != Outcome::Succeeded;
    }
}

/// How a probe ended. A probe with a definite answer has succeeded, whatever the answer. The journal gives
/// errors of probes no category.
fn probe_end(found: ProbeFinding, result: Option<PayloadDigest>) -> CallEnd {
    let (outcome, takeover) = match found {
        ProbeFinding::Happened | ProbeFinding::DidNotHappen => (Outcome::Succeeded, false),
        ProbeFinding::Error => (Outcome::Failed, false),
        ProbeFinding::Lost => (Outcome::Unknown, true),
    };
    CallEnd { outcome, category: None, result, unsent: false, takeover }
}
