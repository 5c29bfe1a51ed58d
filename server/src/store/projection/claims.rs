//! Converts an execution's entries to rows of agents' claims about steps, with the outcome of each step; and
//! to rows of steps that ended failed or unknown.

use std::collections::{BTreeMap, BTreeSet};

use actbook_engine::any_event;
use actbook_engine::event::{Event, ProbeFinding};
use actbook_engine::execution::RecordedEvent;
use actbook_engine::id::{StepId, StreamId};
use actbook_engine::policy::{ErrorCategory, Outcome, StepAnswer};

use crate::store::stream_rows::{ClaimRow, TroubleRow};

/// The steps that ended failed or unknown. A rejected step counts as failed, with the category `policy`.
pub fn trouble_rows<'a>(
    stream: StreamId,
    entries: impl Iterator<Item = &'a RecordedEvent>,
) -> Vec<TroubleRow> {
    let trouble = |recorded: &RecordedEvent| {
        let (step, outcome, category) = match &recorded.event {
            Event::StepFailed(event) => (&event.step, Outcome::Failed, event.category),
            Event::StepUnknown(event) => (&event.step, Outcome::Unknown, event.category),
            Event::StepRejected(event) => (&event.step, Outcome::Failed, ErrorCategory::Policy),
            any_event! {
                PlanSaved | PlanDeleted | ToolAccepted | ServerListed | ExecutionStarted | DriverChanged | PlaceAdopted
                | PinMoved | PlanApprovalAsked | PlanApproved | PlanRejected | ApprovalAsked
                | StepApproved | AttemptStarted | TaskAccepted | AgentStarted | AttemptEnded
                | LateAnswer | RetryScheduled | ProbeStarted | ProbeEnded | StepSucceeded | StepSkipped
                | CompensationGivenUp | FailureHandled | StepsCancelled | Paused | Resumed | CancelAsked
                | Decided | UndoAsked | UnwindProposed | UnwindApproved | UnwindRejected | UnwindStarted
                | CompensationStarted | CompensationEnded | LateCompensation | CompensationRecorded
                | ActionRecorded | DecisionRecorded | NoteSet | NoteDeleted | TaskSet | ExecutionEnded
                | PayloadsErased | UnwindEnded | StepAdded | YesSpent | StateKept | LabelsChanged | Closed
            } => return None,
        };
        Some(TroubleRow {
            stream,
            position: recorded.position.0,
            step: step.to_string(),
            outcome,
            category,
            at: recorded.at_ms,
        })
    };
    entries.filter_map(trouble).collect()
}

/// The claims that agents made about steps. `confidences`: in millionths, by the position of the claim. A
/// claim gets the outcome of the step's next attempt to end; a claim after the last attempt gets that
/// attempt's outcome.
pub fn claim_rows<'a>(
    stream: StreamId,
    entries: impl Iterator<Item = &'a RecordedEvent>,
    confidences: &BTreeMap<u64, i64>,
) -> Vec<ClaimRow> {
    let mut tracker = ClaimTracker {
        stream,
        confidences,
        claims: Vec::new(),
        awaiting_end: BTreeMap::new(),
        awaiting_settlement: BTreeMap::new(),
        running: BTreeSet::new(),
        last_outcome: BTreeMap::new(),
    };
    for recorded in entries {
        tracker.apply(recorded);
    }
    tracker.finish()
}

/// Matches claims with outcomes while an execution's entries are read in order.
struct ClaimTracker<'a> {
    stream: StreamId,
    confidences: &'a BTreeMap<u64, i64>,
    claims: Vec<ClaimRow>,
    /// Indices in `claims` of those that wait for the end of an attempt.
    awaiting_end: BTreeMap<StepId, Vec<usize>>,
    /// Indices in `claims` of those whose attempt ended unknown, until its outcome becomes known.
    awaiting_settlement: BTreeMap<StepId, Vec<usize>>,
    running: BTreeSet<StepId>,
    /// Outcome of each step's last attempt.
    last_outcome: BTreeMap<StepId, Outcome>,
}

impl ClaimTracker<'_> {
    /// Applies one entry.
    fn apply(&mut self, recorded: &RecordedEvent) {
        match &recorded.event {
            Event::ActionRecorded(event) => {
                if let Some(step) = &event.step {
                    self.add_claim(recorded, step);
                }
            }
            Event::AttemptStarted(event) => {
                self.running.insert(event.step.clone());
            }
            Event::AttemptEnded(event) => self.end_attempt(&event.step, event.outcome),
            Event::LateAnswer(event) => self.settle_unknown(&event.step, event.outcome),
            Event::ProbeEnded(event) => match event.found {
                ProbeFinding::Happened => self.settle_unknown(&event.step, Outcome::Succeeded),
                ProbeFinding::DidNotHappen => self.settle_unknown(&event.step, Outcome::Failed),
                ProbeFinding::Error | ProbeFinding::Lost => {}
            },
            Event::Decided(event) => match (&event.step, event.answer) {
                (Some(step), StepAnswer::Happened) => self.settle_unknown(step, Outcome::Succeeded),
                (Some(step), StepAnswer::DidNotHappen) => self.settle_unknown(step, Outcome::Failed),
                (
                    Some(_),
                    StepAnswer::Retry | StepAnswer::Skip | StepAnswer::Compensate | StepAnswer::Abandon,
                )
                | (None, _) => {}
            },
            any_event! {
                PlanSaved | PlanDeleted | ToolAccepted | ServerListed | ExecutionStarted | DriverChanged | PlaceAdopted
                | PinMoved | PlanApprovalAsked | PlanApproved | PlanRejected | ApprovalAsked
                | StepApproved | StepRejected | TaskAccepted | AgentStarted | RetryScheduled
                | ProbeStarted | StepFailed | StepUnknown | StepSucceeded | StepSkipped
                | CompensationGivenUp | FailureHandled | StepsCancelled | Paused | Resumed | CancelAsked
                | UndoAsked | UnwindProposed | UnwindApproved | UnwindRejected | UnwindStarted
                | CompensationStarted | CompensationEnded | LateCompensation | CompensationRecorded
                | DecisionRecorded | NoteSet | NoteDeleted | TaskSet | ExecutionEnded | PayloadsErased | UnwindEnded | StepAdded | YesSpent | StateKept | LabelsChanged | Closed
            } => {}
        }
    }

    /// Adds a claim about a step. Records without a confidence are not claims.
    fn add_claim(&mut self, recorded: &RecordedEvent, step: &StepId) {
        let position = recorded.position.0;
        let Some(confidence) = self.confidences.get(&position) else { return };
        self.awaiting_end.entry(step.clone()).or_default().push(self.claims.len());
        self.claims.push(ClaimRow {
            stream: self.stream,
            position,
            step: step.to_string(),
            confidence: *confidence,
            outcome: None,
            at: recorded.at_ms,
        });
    }

    /// Gives the step's waiting claims the outcome of the attempt that ended.
    fn end_attempt(&mut self, step: &StepId, outcome: Outcome) {
        self.running.remove(step);
        self.last_outcome.insert(step.clone(), outcome);
        let ended = self.awaiting_end.remove(step).unwrap_or_default();
        self.set_outcome(&ended, outcome);
        self.awaiting_settlement.remove(step);
        if outcome == Outcome::Unknown {
            self.awaiting_settlement.insert(step.clone(), ended);
        }
    }

    /// Replaces an unknown outcome that has become known, by a late answer, a probe or a decision.
    fn settle_unknown(&mut self, step: &StepId, outcome: Outcome) {
        if self.last_outcome.get(step) != Some(&Outcome::Unknown) || outcome == Outcome::Unknown {
            return;
        }
        self.last_outcome.insert(step.clone(), outcome);
        let settled = self.awaiting_settlement.remove(step).unwrap_or_default();
        self.set_outcome(&settled, outcome);
    }

    /// Sets the outcome of the claims at these indices.
    fn set_outcome(&mut self, claims: &[usize], outcome: Outcome) {
        for claim in claims {
            self.claims[*claim].outcome = Some(outcome);
        }
    }

    /// Gives the claims that still wait the outcome of the last attempt, unless one is running; returns all
    /// claims.
    fn finish(mut self) -> Vec<ClaimRow> {
        for (step, waiting) in std::mem::take(&mut self.awaiting_end) {
            if let Some(outcome) =
                self.last_outcome.get(&step).copied().filter(|_| !self.running.contains(&step))
            {
                self.set_outcome(&waiting, outcome);
            }
        }
        self.claims
    }
}
