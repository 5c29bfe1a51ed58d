//! One step whole: what it was called with, what came of each attempt, who approved it, and what takes or took
//! its effect back. Values are given as they are kept, however long.

use std::sync::Arc;

use actbook_engine::event::Event;
use actbook_engine::execution::{Attempt, Compensation, Execution, Stored, ToUndo, Values};
use actbook_engine::id::{ExecutionId, Position, StepId, StepNo};
use actbook_engine::policy::{Category, Outcome};
use serde::Serialize;
use serde_json::Value;

use super::Service;
use super::view::{StepView, WaitingView, time};
use crate::error::Error;
use crate::store::journal;

#[derive(Clone, Debug, Serialize)]
pub struct StepDetail {
    pub execution_id: ExecutionId,
    #[serde(flatten)]
    pub step: StepView,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<StepId>,
    /// Every attempt, oldest first.
    pub history: Vec<AttemptView>,
    /// Every yes and no that it was given, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<ApprovalView>,
    /// What undoing would call for it now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub to_undo: Vec<ToUndo>,
    /// Every attempt to take its effect back, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compensations: Vec<CompensationView>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WaitingView>,
}

/// One attempt of a step. `outcome` is none while it is under way.
#[derive(Clone, Debug, Serialize)]
pub struct AttemptView {
    pub started_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<Category>,
    /// What a probe or an answer made of an unknown outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub happened: Option<bool>,
    /// What was heard of it after that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<Outcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// Its output, or what its tool said of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
}

/// A yes or a no to a step.
#[derive(Clone, Debug, Serialize)]
pub struct ApprovalView {
    pub approved: bool,
    pub by: String,
    pub at: String,
    pub position: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One attempt to take an effect back.
#[derive(Clone, Debug, Serialize)]
pub struct CompensationView {
    /// The attempt, from 1, whose effect it takes back.
    pub attempt: u32,
    pub started_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<Category>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
}

impl Service {
    pub async fn step(&self, id: &str, step: &str) -> Result<StepDetail, Error> {
        let found = self.find(id).await?;
        let execution = self.fold(found.stream)?;
        let Some(no) = execution.plan.find(step) else { return Err(no_such_step(&execution, step)) };
        let view = self.render_live(found.stream, &execution).await?;
        let values = self.step_values(&execution, no).await?;
        let state = execution.step(no);
        let to_undo = self.brief(&execution).await?.undo;
        let needs = execution.plan.step(no).needs.iter();
        let own = |one: &WaitingView| one.step.as_ref().is_some_and(|id| id.as_str() == step);
        Ok(StepDetail {
            execution_id: found.id,
            depends_on: needs.map(|need| execution.step_id(need.step)).collect(),
            history: state.attempts.iter().map(|attempt| attempt_view(attempt, &values)).collect(),
            approvals: self.approvals(found.stream, step).await?,
            to_undo: to_undo.into_iter().filter(|one| one.step.as_str() == step).collect(),
            compensations: state.compensations.iter().map(|one| compensation_view(one, &values)).collect(),
            waiting: view.waiting.iter().filter(|one| own(one)).cloned().collect(),
            step: view.steps.into_iter().nth(no.index()).expect("a view has every step of its plan"),
        })
    }

    async fn step_values(&self, execution: &Execution, no: StepNo) -> Result<Values, Error> {
        let state = execution.step(no);
        let attempts = state.attempts.iter().flat_map(|one| [one.arguments, one.result]);
        let undo = state.compensations.iter().flat_map(|one| [one.arguments, one.result]);
        let positions: Vec<Position> =
            attempts.chain(undo).flatten().map(|stored: Stored| stored.position).collect();
        let mut values = Values::default();
        self.load(positions, &mut values).await?;
        Ok(values)
    }

    async fn approvals(&self, stream: u64, step: &str) -> Result<Vec<ApprovalView>, Error> {
        let entries = journal::of_stream(self.db.dialect(), self.tenant, stream, 0).all(&self.db).await?;
        let approval = |entry: &journal::Entry| {
            let event = Event::decode(&entry.kind, &entry.body).ok()?;
            let (of, approved, reason) = if let Event::StepApproved(event) = event {
                (event.step, true, event.reason)
            } else if let Event::StepRejected(event) = event {
                (event.step, false, event.reason)
            } else {
                return None;
            };
            let (by, at) = (entry.actor.to_string(), time(entry.at));
            let view = ApprovalView { approved, by, at, position: entry.position, reason };
            (of.as_str() == step).then_some(view)
        };
        Ok(entries.iter().filter_map(approval).collect())
    }
}

fn no_such_step(execution: &Execution, step: &str) -> Error {
    let ids = execution.plan.steps.iter().map(|one| one.id.as_str());
    let near = actbook_engine::analysis::nearest(step, ids);
    let cure = near.map_or("its plan names the steps".to_owned(), |near| format!("did you mean `{near}`?"));
    let message = format!("execution {} has no step `{step}`", execution.id);
    Error::new("no_such_step", message, cure)
}

fn value(stored: Option<Stored>, values: &Values) -> Option<Value> {
    let value: &Arc<Value> = values.0.get(&stored?.position)?;
    Some(value.as_ref().clone()).filter(|value| !value.is_null())
}

fn attempt_view(attempt: &Attempt, values: &Values) -> AttemptView {
    AttemptView {
        started_at: time(attempt.started_at_ms),
        ended_at: attempt.ended_at_ms.map(time),
        outcome: attempt.outcome,
        category: attempt.category,
        happened: attempt.settled,
        late: attempt.late,
        arguments: value(attempt.arguments, values),
        result: value(attempt.result, values),
    }
}

fn compensation_view(one: &Compensation, values: &Values) -> CompensationView {
    CompensationView {
        attempt: one.attempt + 1,
        started_at: time(one.started_at_ms),
        outcome: one.outcome,
        category: one.category,
        arguments: value(one.arguments, values),
        result: value(one.result, values),
    }
}
