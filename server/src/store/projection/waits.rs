//! Converts an execution's entries to rows of waits: the questions to people, and how long each waited for
//! its answer. Approvals are of a plan, a step or an undo; decisions are about a step that ended failed or
//! unknown.

use std::collections::BTreeMap;

use actbook_engine::any_event;
use actbook_engine::event::Event;
use actbook_engine::execution::{Execution, QuestionSubject, RecordedEvent, questions};
use actbook_engine::id::{StepId, StreamId};
use actbook_engine::policy::{Outcome, WaitKind};

use crate::store::stream_rows::WaitRow;

/// An entry, with whether a caller (a person or an agent) caused it rather than the driver.
#[derive(Debug, Clone, Copy)]
pub struct AuthoredEntry<'a> {
    pub recorded: &'a RecordedEvent,
    pub by_caller: bool,
}

/// The waits of one execution.
#[derive(Debug, Default)]
pub struct Waits {
    pub answered: Vec<WaitRow>,
    /// Not answered in the journal; `still_open` tells which of them the execution really asks.
    pub open: Vec<WaitRow>,
}

pub fn collect_waits<'a>(stream: StreamId, entries: impl Iterator<Item = AuthoredEntry<'a>>) -> Waits {
    let mut tracker = WaitTracker { stream, ..WaitTracker::default() };
    for entry in entries {
        tracker.apply(entry);
    }
    let open = tracker.open_waits();
    Waits { answered: tracker.answered, open }
}

/// Filters `open` to the questions that the execution in its current state asks people.
pub fn still_open(open: Vec<WaitRow>, execution: &Execution) -> Vec<WaitRow> {
    let asked: Vec<(WaitKind, Option<String>)> = questions(execution)
        .into_iter()
        .filter_map(|question| {
            let kind = match question.subject {
                QuestionSubject::PlanApproval
                | QuestionSubject::UndoApproval
                | QuestionSubject::StepApproval => WaitKind::Approval,
                QuestionSubject::ToolQuestion
                | QuestionSubject::Failure
                | QuestionSubject::Unknown
                | QuestionSubject::FailedUndo => WaitKind::Decision,
                QuestionSubject::AgentWork | QuestionSubject::AgentUndo => return None,
            };
            Some((kind, question.step.map(|no| execution.step_id(no).to_string())))
        })
        .collect();
    open.into_iter().filter(|wait| asked.contains(&(wait.kind, wait.step.clone()))).collect()
}

/// Position and time of the entry that asked a question.
#[derive(Debug, Clone, Copy)]
struct QuestionStart {
    position: u64,
    at: i64,
}

/// Tracks open and answered questions while an execution's entries are read in order.
#[derive(Debug, Default)]
struct WaitTracker {
    stream: StreamId,
    is_session: bool,
    /// The open approval of the plan.
    plan_approval: Option<QuestionStart>,
    /// The open approval of an undo.
    undo_approval: Option<QuestionStart>,
    step_approvals: BTreeMap<StepId, QuestionStart>,
    /// The open decisions about failed or unknown steps.
    decisions: BTreeMap<StepId, QuestionStart>,
    answered: Vec<WaitRow>,
}

impl WaitTracker {
    /// Applies one entry.
    fn apply(&mut self, entry: AuthoredEntry<'_>) {
        let now = QuestionStart { position: entry.recorded.position.0, at: entry.recorded.at_ms };
        match &entry.recorded.event {
            Event::PlanApprovalAsked(_) => self.plan_approval = Some(now),
            Event::PlanApproved(_) | Event::PlanRejected(_) => {
                let asked = self.plan_approval.take();
                self.push_answered(WaitKind::Approval, None, asked, now.at);
            }
            Event::ApprovalAsked(event) => {
                self.step_approvals.insert(event.step.clone(), now);
            }
            Event::StepApproved(event) => self.close_approval(&event.step, now.at),
            Event::StepRejected(event) => {
                self.close_approval(&event.step, now.at);
                self.decisions.insert(event.step.clone(), now);
            }
            Event::UnwindProposed(_) => self.undo_approval = Some(now),
            Event::UnwindApproved(_) => {
                let asked = self.undo_approval.take();
                self.push_answered(WaitKind::Approval, None, asked, now.at);
            }
            Event::UnwindRejected(_) => {
                let asked = self.undo_approval.take();
                self.push_answered(WaitKind::Approval, None, asked, now.at);
                self.decisions.values_mut().for_each(|since| since.at = now.at);
            }
            Event::UnwindStarted(_) => match self.undo_approval.take() {
                Some(asked) => {
                    self.push_answered(WaitKind::Approval, None, Some(asked), now.at);
                    self.drop_open();
                }
                None => self.stop(entry.by_caller, now.at),
            },
            Event::CancelAsked(_) => self.stop(entry.by_caller, now.at),
            Event::Decided(event) => match &event.step {
                Some(step) => self.close_decision(step, now.at),
                None => self.close_decisions(now.at),
            },
            Event::StepFailed(event) => self.ask_decision(&event.step, now),
            Event::StepUnknown(event) => self.ask_decision(&event.step, now),
            Event::CompensationGivenUp(event) => self.ask_decision(&event.step, now),
            Event::CompensationEnded(event) if event.outcome != Outcome::Succeeded => {
                self.ask_decision(&event.step, now);
            }
            Event::AttemptEnded(event) if event.asks => self.ask_decision(&event.step, now),
            Event::AttemptStarted(event) => self.drop_decision(&event.step),
            Event::CompensationStarted(event) => self.drop_decision(&event.step),
            Event::StepSucceeded(event) => self.drop_decision(&event.step),
            Event::FailureHandled(event) => {
                self.drop_approvals(event.cancelled.iter().chain(&event.skipped));
            }
            Event::ExecutionStarted(event) => self.is_session = event.session.is_some(),
            // In a session the question about a call outlives a caller that stopped waiting.
            Event::StepsCancelled(event) => {
                let is_session = self.is_session;
                self.drop_approvals(event.steps.iter().filter(|_| !is_session));
            }
            Event::ExecutionEnded(_) | Event::Closed(_) => self.drop_open(),
            any_event! {
                PlanSaved | PlanDeleted | ToolAccepted | ServerListed | DriverChanged | PlaceAdopted | UnwindEnded
                | StepAdded | YesSpent | StateKept | LabelsChanged
                | PinMoved | TaskAccepted | AgentStarted | AttemptEnded | LateAnswer | RetryScheduled
                | ProbeStarted | ProbeEnded | StepSkipped | Paused | Resumed | UndoAsked
                | CompensationEnded | LateCompensation | CompensationRecorded | ActionRecorded
                | DecisionRecorded | NoteSet | NoteDeleted | TaskSet | PayloadsErased
            } => {}
        }
    }

    /// Opens a decision about the step.
    fn ask_decision(&mut self, step: &StepId, now: QuestionStart) {
        self.decisions.insert(step.clone(), now);
    }

    /// Drops the decision about a step that continues without an answer.
    fn drop_decision(&mut self, step: &StepId) {
        self.decisions.remove(step);
    }

    /// Drops the approvals of steps that will not run.
    fn drop_approvals<'a>(&mut self, steps: impl Iterator<Item = &'a StepId>) {
        for step in steps {
            self.step_approvals.remove(step);
        }
    }

    fn close_approval(&mut self, step: &StepId, at: i64) {
        let asked = self.step_approvals.remove(step);
        self.push_answered(WaitKind::Approval, Some(step), asked, at);
    }

    /// Closes the decision about a step.
    fn close_decision(&mut self, step: &StepId, at: i64) {
        let asked = self.decisions.remove(step);
        self.push_answered(WaitKind::Decision, Some(step), asked, at);
    }

    /// Closes all decisions.
    fn close_decisions(&mut self, at: i64) {
        for (step, asked) in std::mem::take(&mut self.decisions) {
            self.push_answered(WaitKind::Decision, Some(&step), Some(asked), at);
        }
    }

    /// The execution is cancelled or undone: a caller thereby answers all decisions, whereas the driver only
    /// withdraws them. All other questions are dropped.
    fn stop(&mut self, by_caller: bool, at: i64) {
        if by_caller {
            self.close_decisions(at);
        }
        self.drop_open();
    }

    fn drop_open(&mut self) {
        (self.plan_approval, self.undo_approval) = (None, None);
        self.step_approvals.clear();
        self.decisions.clear();
    }

    /// Records a question as answered at `at`; does nothing if it was not open.
    fn push_answered(
        &mut self,
        kind: WaitKind,
        step: Option<&StepId>,
        asked: Option<QuestionStart>,
        at: i64,
    ) {
        let Some(QuestionStart { position, at: asked_at }) = asked else { return };
        let step = step.map(ToString::to_string);
        let took_ms = Some(at - asked_at);
        self.answered.push(WaitRow { stream: self.stream, position, kind, step, asked_at, took_ms });
    }

    fn open_waits(&self) -> Vec<WaitRow> {
        let wait = |kind, step: Option<&StepId>, since: &QuestionStart| WaitRow {
            stream: self.stream,
            position: since.position,
            kind,
            step: step.map(ToString::to_string),
            asked_at: since.at,
            took_ms: None,
        };
        let whole = self
            .plan_approval
            .iter()
            .chain(&self.undo_approval)
            .map(|since| wait(WaitKind::Approval, None, since));
        let approvals =
            self.step_approvals.iter().map(|(step, since)| wait(WaitKind::Approval, Some(step), since));
        let troubles = self.decisions.iter().map(|(step, since)| wait(WaitKind::Decision, Some(step), since));
        whole.chain(approvals).chain(troubles).collect()
    }
}
