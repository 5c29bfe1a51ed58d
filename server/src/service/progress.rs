//! Progress of an execution for the people and agents who work on it: its current steps, their estimated and
//! actual durations, and the notes that say what blocks it.

use std::collections::BTreeSet;

use actbook_engine::execution::Execution;
use actbook_engine::id::{ExecutionId, PlanId, StepId};
use actbook_engine::note::NoteScope;
use actbook_engine::plan::{Step, StepWork};
use actbook_engine::policy::StepStatus;
use serde::Serialize;

use super::context::NoteView;
use super::executions::Executions;
use super::view::{StepView, WaitingView};
use crate::error::Error;
use crate::store::notes;

/// The type of the notes that say what blocks the work.
const BLOCKER_NOTE_TYPE: &str = "blockers";
/// At most this many such notes are read for each owner.
const BLOCKERS_MAX: u64 = 20;

/// Sums of step durations, for a plan that estimates some of its steps.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Durations {
    /// Estimates of all steps.
    pub estimated_ms: u64,
    /// Actual durations of the steps that are done.
    pub took_ms: i64,
    /// Estimates of the steps that are not done.
    pub left_ms: u64,
}

/// The estimated duration of a step in milliseconds. `None`: the plan gives none, or the step is a tool's
/// call.
pub(super) fn estimated_ms(step: &Step) -> Option<u64> {
    match step.work {
        StepWork::Action { estimated_ms, .. } => estimated_ms,
        StepWork::Tool { .. } | StepWork::AgentTool { .. } => None,
    }
}

/// The sums of all steps. `None`: no step has an estimate.
pub(super) fn sum_durations(steps: &[StepView]) -> Option<Durations> {
    let sum_estimates = |includes: &dyn Fn(&StepView) -> bool| -> u64 {
        steps.iter().filter(|step| includes(step)).filter_map(|step| step.estimated_ms).sum()
    };
    steps.iter().any(|step| step.estimated_ms.is_some()).then(|| Durations {
        estimated_ms: sum_estimates(&|_| true),
        took_ms: steps.iter().filter(|step| is_done(step)).filter_map(|step| step.took_ms).sum(),
        left_ms: sum_estimates(&|step| !is_done(step)),
    })
}

/// Whether no more time is estimated for the step: it succeeded or was skipped.
fn is_done(step: &StepView) -> bool {
    matches!(step.status, StepStatus::Succeeded | StepStatus::Skipped)
}

/// Ids of the steps that are running or wait for an answer.
pub(super) fn current_steps(steps: &[StepView], waiting: &[WaitingView]) -> Vec<StepId> {
    let is_active = |step: &StepView| match step.status {
        StepStatus::Running
        | StepStatus::AwaitingApproval
        | StepStatus::AwaitingAgent
        | StepStatus::Compensating => true,
        StepStatus::Pending
        | StepStatus::Succeeded
        | StepStatus::Failed
        | StepStatus::Unknown
        | StepStatus::Skipped
        | StepStatus::Cancelled
        | StepStatus::Compensated
        | StepStatus::CompensationFailed => false,
    };
    let asked: BTreeSet<&StepId> = waiting.iter().filter_map(|question| question.step.as_ref()).collect();
    steps
        .iter()
        .filter(|step| is_active(step) || asked.contains(&step.id))
        .map(|step| step.id.clone())
        .collect()
}

impl Executions<'_> {
    /// The notes of type `blockers` on an execution, its plan and its task; none once the execution has
    /// ended. Deleted and expired notes are left out.
    pub(super) async fn blockers(self, execution: &Execution) -> Result<Vec<NoteView>, Error> {
        if execution.ended_at_ms.is_some() {
            return Ok(Vec::new());
        }
        let own = NoteScope::Execution(ExecutionId::new(execution.id.as_str()));
        let plan = NoteScope::Plan(PlanId::new(execution.plan_ref.id.as_str()));
        let scopes = [own, plan].into_iter().chain(execution.task.clone().map(NoteScope::Task));
        let queries = scopes.map(|scope| {
            let (scope, r#type) = (Some(scope), Some(BLOCKER_NOTE_TYPE.to_owned()));
            let filter = notes::NoteRowFilter { r#type, scope, ..self.0.notes().filter() };
            notes::list(self.0.tenant, &filter, BLOCKERS_MAX).look_up(&self.0.db)
        });
        let rows = futures_util::future::try_join_all(queries).await?.into_iter().flatten();
        let mut found: Vec<notes::NoteHit> =
            rows.map(|note| notes::NoteHit { rank: note.position, note }).collect();
        found.sort_by_key(|hit| hit.note.position);
        self.0.notes().views(&found, None).await
    }
}
