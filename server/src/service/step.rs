//! The detail view of one step: its arguments, the result of each attempt, its approvals and its
//! compensations. Values are shown in full.

use std::sync::Arc;

use actbook_engine::event::Event;
use actbook_engine::execution::{Attempt, Execution, LoadedPayloads, PayloadRef, UndoItem, undo_of_step};
use actbook_engine::id::{ExecutionId, StepId, StepNo, StreamId};
use actbook_engine::policy::{ErrorCategory, Outcome};
use actbook_engine::refusal::StepSuggestion;
use serde::Serialize;
use serde_json::Value;

use super::executions::Executions;
use super::step_values::shown_values;
use super::view::{StepView, WaitingView, format_time};
use super::wait_entries::WaitEntry;
use crate::error::Error;
use crate::store::journal;

/// Most step ids that a refusal lists.
const STEPS_NAMED_MAX: usize = 50;

/// Everything about one step of an execution.
#[derive(Clone, Debug, Serialize)]
pub struct StepDetail {
    pub execution_id: ExecutionId,
    #[serde(flatten)]
    pub step: StepView,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<StepId>,
    /// Every attempt, oldest first.
    pub history: Vec<AttemptView>,
    /// Every approval and rejection of the step, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<ApprovalView>,
    /// The calls that undoing the step would make now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub to_undo: Vec<UndoItem>,
    /// Every attempt to compensate the step, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compensations: Vec<CompensationView>,
    /// Open questions about the step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WaitingView>,
}

/// One attempt of a step. `outcome` is `None` while the attempt is in flight.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize)]
pub struct AttemptView {
    pub started_at: String,
    pub ended_at: Option<String>,
    pub outcome: Option<Outcome>,
    pub category: Option<ErrorCategory>,
    /// Whether a probe or a decision found that an unknown attempt took effect. `None`: not settled.
    pub happened: Option<bool>,
    /// The outcome of an answer that came after the attempt had been given up.
    pub late: Option<Outcome>,
    pub arguments: Option<Value>,
    /// Its output, or the tool's error.
    pub result: Option<Value>,
}

/// An approval or a rejection of a step or of an undo.
#[derive(Clone, Debug, Serialize)]
pub struct ApprovalView {
    pub approved: bool,
    pub by: String,
    pub at: String,
    pub position: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One attempt to compensate a step.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize)]
pub struct CompensationView {
    /// Number, from 1, of the attempt whose effect it undoes.
    pub attempt: u32,
    pub started_at: String,
    pub ended_at: Option<String>,
    pub outcome: Option<Outcome>,
    pub category: Option<ErrorCategory>,
    pub arguments: Option<Value>,
    pub result: Option<Value>,
}

impl StepDetail {
    /// Whether the last attempt sent other arguments than `step` shows: an answer has corrected them since.
    pub fn has_corrected_arguments(&self) -> bool {
        self.history.last().is_some_and(|last| last.arguments != self.step.arguments)
            && self.step.tool.is_some()
    }
}

impl Executions<'_> {
    /// The detail view of one step, by the execution's id or a unique prefix of it and the step's id. Refused
    /// if there is no such execution or step.
    pub async fn step(self, id: &str, step: &str) -> Result<StepDetail, Error> {
        let found = self.find(id).await?;
        let execution = self.fold(found.stream).await?;
        let Some(no) = execution.plan.find_step(step) else { return Err(no_such_step(&execution, step)) };
        let inspected = self.inspect_fold(&found, &execution).await?;
        let values = self.load_step_values(&execution, no).await?;
        let state = execution.step(no);
        let needs = execution.plan.step(no).dependencies.iter();
        let is_own = |question: &WaitingView| question.step.as_ref().is_some_and(|id| id.as_str() == step);
        let mut detail = StepDetail {
            execution_id: found.id,
            depends_on: needs.map(|need| execution.step_id(need.step)).collect(),
            history: state.attempts.iter().map(|attempt| attempt_view(attempt, &values)).collect(),
            approvals: self.load_approvals(found.stream, &execution, step).await?,
            to_undo: self.load_undo(&execution, no).await?,
            compensations: state.compensations.iter().map(|undo| compensation_view(undo, &values)).collect(),
            waiting: inspected.view.waiting.iter().filter(|question| is_own(question)).cloned().collect(),
            step: self.step_view_live(found.stream, &execution, no, &values),
        };
        self.0.withhold_detail(&mut detail);
        Ok(detail)
    }

    /// Loads what a step shows, and the arguments and results of its attempts and compensations; erased ones become
    /// null.
    async fn load_step_values(self, execution: &Execution, no: StepNo) -> Result<LoadedPayloads, Error> {
        let state = execution.step(no);
        let attempts = state.attempts.iter().chain(&state.compensations);
        let stored = attempts.flat_map(|attempt| [attempt.arguments, attempt.result]);
        let positions = stored.flatten().map(|stored| stored.position);
        let positions = positions.chain(shown_values(state, true)).collect();
        let mut values = LoadedPayloads::default();
        self.load_values(positions, &mut values).await?;
        Ok(values)
    }

    /// Reads who rejected the execution's newest undo, and why. `None`: it was not rejected, or another was
    /// approved since.
    pub(super) async fn undo_rejection(self, execution: &Execution) -> Result<Option<ApprovalView>, Error> {
        let Some(position) = execution.undo_rejected_at else { return Ok(None) };
        let entry = journal::by_position(self.0.tenant, position.0).first(&self.0.db).await?;
        Ok(entry.and_then(|entry| match Event::decode(&entry.kind, &entry.body) {
            Ok(Event::UnwindRejected(event)) => {
                Some(approval_view(entry.position, &entry.actor, entry.at, false, event.reason))
            }
            Ok(_) | Err(_) => None,
        }))
    }

    /// The calls that undoing a step would make now.
    async fn load_undo(self, execution: &Execution, no: StepNo) -> Result<Vec<UndoItem>, Error> {
        let mut values = LoadedPayloads::default();
        loop {
            match undo_of_step(execution, no, &values) {
                Ok(undo) => return Ok(undo),
                Err(missing) => self.load_values(missing.0, &mut values).await?,
            }
        }
    }

    /// The approvals and rejections of a step, oldest first.
    async fn load_approvals(
        self,
        stream: StreamId,
        execution: &Execution,
        step: &str,
    ) -> Result<Vec<ApprovalView>, Error> {
        let approval = |entry: &WaitEntry| {
            let (subject, approved, reason) = if let Event::StepApproved(event) = &entry.event {
                (&event.step, true, &event.reason)
            } else if let Event::StepRejected(event) = &entry.event {
                (&event.step, false, &event.reason)
            } else {
                return None;
            };
            let view = || approval_view(entry.position, &entry.actor, entry.at_ms, approved, reason.clone());
            (subject.as_str() == step).then(view)
        };
        Ok(self.wait_entries(stream, execution).await?.entries.iter().filter_map(approval).collect())
    }
}

/// The approval or rejection that an entry records.
fn approval_view(
    position: u64,
    actor: &str,
    at_ms: i64,
    approved: bool,
    reason: Option<String>,
) -> ApprovalView {
    ApprovalView { approved, by: actor.to_owned(), at: format_time(at_ms), position, reason }
}

/// The refusal of an unknown step, with the nearest id, or else the plan's first ids.
fn no_such_step(execution: &Execution, step: &str) -> Error {
    let ids = || execution.plan.steps.iter().map(|step| &step.id);
    let suggestion = match actbook_engine::analysis::nearest(step, ids().map(StepId::as_str)) {
        Some(near) => StepSuggestion::Nearest(StepId::new(near)),
        None => StepSuggestion::Known(ids().take(STEPS_NAMED_MAX).cloned().collect()),
    };
    Error::NoSuchStep { execution: execution.id.clone(), step: step.to_owned(), suggestion }
}

/// A stored value. `None`: there is none, it was erased, or it is JSON `null`.
fn stored_value(stored: Option<PayloadRef>, values: &LoadedPayloads) -> Option<Value> {
    let value: &Arc<Value> = values.0.get(&stored?.position)?;
    Some(value.as_ref().clone()).filter(|value| !value.is_null())
}

/// The view of an attempt, with its arguments and result from `values`.
fn attempt_view(attempt: &Attempt, values: &LoadedPayloads) -> AttemptView {
    AttemptView {
        started_at: format_time(attempt.started_at_ms),
        ended_at: attempt.ended_at_ms.map(format_time),
        outcome: attempt.outcome,
        category: attempt.category,
        happened: attempt.settled,
        late: attempt.late_outcome,
        arguments: stored_value(attempt.arguments, values),
        result: stored_value(attempt.result, values),
    }
}

/// The view of an attempt to compensate a step, with its arguments and result from `values`.
fn compensation_view(undo: &Attempt, values: &LoadedPayloads) -> CompensationView {
    CompensationView {
        attempt: undo.undoes.map_or(0, |attempt| attempt + 1),
        started_at: format_time(undo.started_at_ms),
        ended_at: undo.ended_at_ms.map(format_time),
        outcome: undo.outcome,
        category: undo.category,
        arguments: stored_value(undo.arguments, values),
        result: stored_value(undo.result, values),
    }
}
