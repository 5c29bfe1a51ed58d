//! How far an execution is for those who work on it: the steps that it is at, what they were estimated at
//! and what they took, and the notes that say what blocks it.

use actbook_engine::execution::Execution;
use actbook_engine::id::{ExecutionId, PlanId, StepId};
use actbook_engine::note::Scope;
use actbook_engine::plan::{Step, Work};
use actbook_engine::policy::StepStatus;
use serde::Serialize;

use super::Service;
use super::context::NoteView;
use super::view::{StepView, WaitingView};
use crate::error::Error;
use crate::store::notes;

/// The type of note that says what blocks somebody.
const BLOCKERS: &str = "blockers";
const BLOCKERS_MAX: u64 = 20;

/// Of the steps of a plan that estimates some of them.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Durations {
    pub estimated_ms: u64,
    /// Those that are done.
    pub took_ms: i64,
    /// Estimated of those that are not.
    pub left_ms: u64,
}

pub(super) fn estimate(step: &Step) -> Option<u64> {
    match step.work {
        Work::Action { estimated_ms, .. } => estimated_ms,
        Work::Tool { .. } | Work::AgentTool { .. } => None,
    }
}

pub(super) fn durations(steps: &[StepView]) -> Option<Durations> {
    let sum = |only: &dyn Fn(&StepView) -> bool| -> u64 {
        steps.iter().filter(|step| only(step)).filter_map(|step| step.estimated_ms).sum()
    };
    steps.iter().any(|step| step.estimated_ms.is_some()).then(|| Durations {
        estimated_ms: sum(&|_| true),
        took_ms: steps.iter().filter(|step| is_done(step)).filter_map(|step| step.took_ms).sum(),
        left_ms: sum(&|step| !is_done(step)),
    })
}

fn is_done(step: &StepView) -> bool {
    matches!(step.status, StepStatus::Succeeded | StepStatus::Skipped)
}

/// The steps that are at work, or that somebody is waited for.
pub(super) fn current(steps: &[StepView], waiting: &[WaitingView]) -> Vec<StepId> {
    let at_work = |step: &StepView| match step.status {
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
    let asks = |step: &StepView| waiting.iter().any(|one| one.step.as_ref() == Some(&step.id));
    steps.iter().filter(|step| at_work(step) || asks(step)).map(|step| step.id.clone()).collect()
}

impl Service {
    /// What somebody noted that blocks an open execution, its task or its plan; a note that is deleted, or
    /// has expired, blocks no more.
    pub(super) async fn blockers(&self, execution: &Execution) -> Result<Vec<NoteView>, Error> {
        if execution.ended_at_ms.is_some() {
            return Ok(Vec::new());
        }
        let own = Scope::Execution(ExecutionId::new(execution.id.as_str()));
        let plan = Scope::Plan(PlanId::new(execution.plan_ref.id.as_str()));
        let scopes = [own, plan].into_iter().chain(execution.task.clone().map(Scope::Task));
        let asked = scopes.map(|scope| {
            let (scope, r#type) = (Some(scope), Some(BLOCKERS.to_owned()));
            let filter = notes::Filter { r#type, scope, ..self.note_filter() };
            notes::list(self.tenant, &filter, BLOCKERS_MAX).look_up(&self.db)
        });
        let rows = futures_util::future::try_join_all(asked).await?.into_iter().flatten();
        let mut found: Vec<notes::Hit> = rows.map(|note| notes::Hit { rank: note.position, note }).collect();
        found.sort_by_key(|hit| hit.note.position);
        self.views(&found, None).await
    }
}
