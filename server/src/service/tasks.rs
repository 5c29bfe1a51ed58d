//! Tasks: put down, changed, split into the steps of a plan, listed. How far a task is comes from its
//! executions where it has some: nothing is written for it while they run.

mod automatic;
mod story;

use std::sync::Arc;

use actbook_engine::event::PlanRef;
use actbook_engine::id::PlanId;
use actbook_engine::plan::{Plan, Step, Work, duration_text};
use actbook_engine::policy::StepStatus;
use actbook_engine::task::{self, Status};
use serde::Serialize;
use serde_json::Value;

use super::Service;
use super::quote::plain_name;
use super::view::time;
use crate::caller::Caller;
use crate::error::Error;
use crate::ledger::{Reply, Request};
use crate::random;
use crate::store::{executions, payloads, tasks};

use automatic::Brought;
pub use story::{Happening, Story};

const LISTED_MAX: u64 = 200;
const SUBTASKS_MAX: u64 = 10_000;
/// Tasks that one plan is split for.
const SPLIT_MAX: u64 = 1_000;
/// Executions that are looked at to see how far a task is.
const LOOKED_AT: u64 = 50;

/// What is said of a task; what is left out stays as it was.
#[derive(Clone, Debug, Default)]
pub struct TaskGiven {
    pub id: String,
    pub title: Option<String>,
    pub status: Option<Status>,
    pub priority: Option<i64>,
    pub estimate_ms: Option<u64>,
    pub parent: Option<String>,
    pub r#type: Option<String>,
    pub labels: Option<Vec<String>>,
    /// What else there is to say, by name.
    pub fields: Option<Value>,
}

#[derive(Clone, Debug, Serialize)]
pub struct TaskView {
    pub id: String,
    pub title: String,
    pub status: Status,
    pub priority: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// The plan and the step that it stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Where its status comes from, if not from whoever set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fields: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    pub added_at: String,
    pub position: u64,
}

/// A new task, and what a rule of the config made of it.
#[derive(Debug, Serialize)]
pub struct TaskAdded {
    #[serde(flatten)]
    pub task: TaskView,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    #[serde(skip)]
    pub drive: Option<crate::ledger::Progress>,
}

impl Service {
    /// Puts down a new task. Where a rule of the config fits, its plan is saved for the task, and started
    /// if the rule says so; with `drive`, by this process.
    pub async fn add_task(
        &self,
        caller: &Caller,
        mut given: TaskGiven,
        drive: bool,
    ) -> Result<TaskAdded, Error> {
        given.title.iter().try_for_each(|title| plain_name("title", title))?;
        self.redact_task(&mut given);
        let id = given.id.clone();
        let reply = match self.repeated(caller).await? {
            Some(result) => Reply::Repeated(result),
            None => self.ask(caller, self.adding(given, drive).await?).await?,
        };
        let Brought { plan, started, drive } = self.brought(reply, drive).await?;
        Ok(TaskAdded { task: self.task(&id).await?, plan, started, drive })
    }

    pub async fn change_task(&self, caller: &Caller, mut given: TaskGiven) -> Result<TaskView, Error> {
        given.title.iter().try_for_each(|title| plain_name("title", title))?;
        self.redact_task(&mut given);
        let id = given.id.clone();
        let project = self.project_of_task(&id).await?;
        self.write_tasks(caller, vec![told(given, project)], false).await?;
        self.task(&id).await
    }

    /// One subtask per step of a saved plan. Steps that have one already keep it.
    pub async fn split_task(&self, caller: &Caller, id: &str, plan: &str) -> Result<Vec<TaskView>, Error> {
        let row = self.task_row(id).await?.ok_or_else(|| no_such_task(id))?;
        let (reference, plan) = self.saved_plan(plan).await?;
        self.add_subtasks(caller, &(row.project, row.id), &reference, &plan).await?;
        self.subtasks(id).await
    }

    /// A plan that was saved anew brings its new steps to the tasks that were split by it. Whoever saves it
    /// once more completes what a crash left undone.
    pub(super) async fn follow_plan(
        &self,
        caller: &Caller,
        reference: &PlanRef,
        plan: &Plan,
    ) -> Result<(), Error> {
        let caller = caller.clone().with_key(None);
        for task in tasks::split_by(self.tenant, reference.id.as_str(), SPLIT_MAX).all(&self.db).await? {
            match self.add_subtasks(&caller, &task, reference, plan).await {
                // Somebody else's task bears the name; the plan is saved all the same.
                Err(error) if error.code == "task_exists" => {}
                added => added?,
            }
        }
        Ok(())
    }

    /// To the task of a project, by its id: its subtasks belong to the same project.
    async fn add_subtasks(
        &self,
        caller: &Caller,
        (project, id): &(Option<String>, String),
        reference: &PlanRef,
        plan: &Plan,
    ) -> Result<(), Error> {
        let there = tasks::of_parent(self.tenant, self.boundary(), id, SUBTASKS_MAX).all(&self.db).await?;
        let has = |step: &Step| {
            there.iter().any(|task| {
                task.project == *project
                    && task.step.as_deref() == Some(step.id.as_str())
                    && task.plan.as_deref() == Some(reference.id.as_str())
            })
        };
        let missing = plan.steps.iter().filter(|step| !has(step));
        let fresh: Vec<task::Task> = missing
            .map(|step| task::Task { project: project.clone(), ..subtask(id, &reference.id, step) })
            .collect();
        match fresh.is_empty() {
            true => Ok(()),
            false => self.write_tasks(caller, fresh, true).await,
        }
    }

    pub async fn task(&self, id: &str) -> Result<TaskView, Error> {
        let row = self.task_row(id).await?.ok_or_else(|| no_such_task(id))?;
        self.task_view(&row).await
    }

    /// The project of a task that is about to be changed; where there is none of that id, the own one.
    async fn project_of_task(&self, id: &str) -> Result<Option<String>, Error> {
        let row = self.task_row(id).await?;
        Ok(row.map_or_else(|| Some(self.project().to_owned()), |row| row.project))
    }

    /// Those that belong under no other: what is open first, the most urgent first.
    pub async fn tasks(&self, status: Option<Status>) -> Result<Vec<TaskView>, Error> {
        let mut views = Vec::new();
        for row in tasks::list(self.tenant, self.boundary(), LISTED_MAX).all(&self.db).await? {
            views.push(self.task_view(&row).await?);
        }
        views.retain(|view| status.is_none_or(|status| view.status == status));
        Ok(views)
    }

    pub async fn subtasks(&self, id: &str) -> Result<Vec<TaskView>, Error> {
        let mut views = Vec::new();
        let mut seen = Vec::new();
        let project = self.project_of_task(id).await?;
        let within = self.boundary().or(project.as_deref());
        let there = tasks::of_parent(self.tenant, within, id, SUBTASKS_MAX).all(&self.db).await?;
        for row in there {
            views.push(match self.step_status(&row, &mut seen).await? {
                Some((status, execution)) => shown(&row, status, execution, None),
                None => self.task_view(&row).await?,
            });
        }
        Ok(views)
    }

    async fn task_view(&self, row: &tasks::Task) -> Result<TaskView, Error> {
        let fields = match row.fields {
            Some(position) => payloads::at(self.tenant, position).first(&self.db).await?,
            None => None,
        };
        let fields = fields.and_then(|payload| serde_json::from_slice(&payload.body).ok());
        let derived = match row.step {
            Some(_) => self.step_status(row, &mut Vec::new()).await?,
            None => self.executions_status(row).await?,
        };
        let own = row
            .status
            .parse()
            .map_err(|error: String| Error::new("corrupt", error, "run `actbook rebuild`"))?;
        Ok(match derived.filter(|_| !is_settled(own)) {
            Some((status, execution)) => shown(row, status, execution, fields),
            None => shown(row, own, None, fields),
        })
    }

    /// How far the step is that a subtask stands for, in the newest execution; cancelled where its plan has
    /// dropped it. `seen`: what was folded for its siblings.
    async fn step_status(
        &self,
        row: &tasks::Task,
        seen: &mut Vec<(String, Folded)>,
    ) -> Result<Option<Derived>, Error> {
        let (Some(plan), Some(step), false) =
            (&row.plan, &row.step, row.status == "done" || row.status == "cancelled")
        else {
            return Ok(None);
        };
        let known = seen.iter().position(|(known, _)| known == plan);
        let at = match known {
            Some(at) => at,
            None => {
                let folded = self.newest_of(plan, row.parent.as_deref()).await?;
                seen.push((plan.clone(), folded));
                seen.len() - 1
            }
        };
        let folded = &seen[at].1;
        let status = folded.steps.iter().find(|(id, _)| id == step).map(|(_, status)| of_step(*status));
        let dropped = folded.planned.as_ref().is_some_and(|plan| plan.find(step).is_none());
        Ok(match status {
            Some(status) => Some((status, folded.execution.clone())),
            None => dropped.then_some((Status::Cancelled, None)),
        })
    }

    async fn newest_of(&self, plan: &str, task: Option<&str>) -> Result<Folded, Error> {
        let filter = executions::Filter { plan: Some(plan.to_owned()), ..Default::default() };
        let rows = executions::list(self.tenant, self.boundary(), &filter, LOOKED_AT).all(&self.db).await?;
        // A plan that serves several tasks runs for one of them at a time.
        let row = rows.into_iter().find(|row| row.task.is_none() || row.task.as_deref() == task);
        let planned = match self.saved_plan(plan).await {
            Ok((_, plan)) => Some(plan),
            Err(gone) if gone.code == "no_such_plan" => None,
            Err(error) => return Err(error),
        };
        let Some(row) = row else { return Ok(Folded { execution: None, steps: Vec::new(), planned }) };
        let execution = self.fold(row.id)?;
        let steps = execution.plan.steps.iter().zip(&execution.steps);
        let steps = steps.map(|(spec, state)| (spec.id.to_string(), state.status())).collect();
        Ok(Folded { execution: Some(row.public_id), steps, planned })
    }

    /// What the executions of a task say of it, while they are under way.
    async fn executions_status(&self, row: &tasks::Task) -> Result<Option<Derived>, Error> {
        let filter = executions::Filter { task: Some(row.id.clone()), ..Default::default() };
        let within = self.boundary().or(row.project.as_deref());
        let rows = executions::list(self.tenant, within, &filter, LOOKED_AT).all(&self.db).await?;
        let first = |statuses: &[&str]| rows.iter().find(|row| statuses.contains(&row.status.as_str()));
        let blocked = first(&["blocked"]).map(|row| (Status::Blocked, row));
        let going = first(&["running", "paused", "compensating"]).map(|row| (Status::InProgress, row));
        Ok(blocked.or(going).map(|(status, row)| (status, Some(row.public_id.clone()))))
    }

    async fn write_tasks(&self, caller: &Caller, tasks: Vec<task::Task>, fresh: bool) -> Result<(), Error> {
        let salted = |task| (task, salt());
        let request = Request::SetTasks { tasks: tasks.into_iter().map(salted).collect(), fresh };
        self.ask(caller, request).await.map(drop)
    }

    fn redact_task(&self, given: &mut TaskGiven) {
        given.title.iter_mut().for_each(|title| self.tools.redact_text(title));
        given.fields.iter_mut().for_each(|fields| self.tools.redact(fields));
    }
}

fn salt() -> Arc<[u8]> {
    random::bytes::<16>().to_vec().into()
}

/// A status, and the execution that it comes from.
type Derived = (Status, Option<String>);

/// The newest execution's steps and how far each is, and the plan as it was saved last.
struct Folded {
    execution: Option<String>,
    steps: Vec<(String, StepStatus)>,
    /// None: it was deleted.
    planned: Option<Arc<Plan>>,
}

fn is_settled(status: Status) -> bool {
    match status {
        Status::Done | Status::Cancelled => true,
        Status::Open | Status::InProgress | Status::Blocked => false,
    }
}

fn of_step(status: StepStatus) -> Status {
    match status {
        StepStatus::Pending => Status::Open,
        StepStatus::Running | StepStatus::AwaitingAgent | StepStatus::Compensating => Status::InProgress,
        StepStatus::AwaitingApproval
        | StepStatus::Failed
        | StepStatus::Unknown
        | StepStatus::CompensationFailed => Status::Blocked,
        StepStatus::Succeeded => Status::Done,
        StepStatus::Skipped | StepStatus::Cancelled | StepStatus::Compensated => Status::Cancelled,
    }
}

fn told(given: TaskGiven, project: Option<String>) -> task::Task {
    task::Task {
        id: given.id,
        title: given.title,
        status: given.status,
        priority: given.priority,
        estimate_ms: given.estimate_ms,
        parent: given.parent,
        r#type: given.r#type,
        labels: given.labels,
        plan: None,
        step: None,
        project,
        fields: given.fields.map(|fields| fields.to_string().into_bytes()),
    }
}

fn subtask(parent: &str, plan: &PlanId, step: &Step) -> task::Task {
    let (what, estimate_ms) = match &step.work {
        Work::Tool { tool, .. } | Work::AgentTool { tool, .. } => (tool.clone(), None),
        Work::Action { action, estimated_ms, .. } => (action.clone(), *estimated_ms),
    };
    let title: String = step
        .name
        .clone()
        .unwrap_or(what)
        .chars()
        .filter(|c| !c.is_control() && *c != '`')
        .take(120)
        .collect();
    task::Task {
        id: format!("{parent}/{}", step.id),
        title: (!title.trim().is_empty()).then_some(title),
        estimate_ms,
        parent: Some(parent.to_owned()),
        plan: Some(plan.clone()),
        step: Some(step.id.clone()),
        ..task::Task::default()
    }
}

fn shown(row: &tasks::Task, status: Status, execution: Option<String>, fields: Option<Value>) -> TaskView {
    TaskView {
        id: row.id.clone(),
        title: row.title.clone(),
        status,
        priority: row.priority,
        estimate: row.estimate_ms.map(duration_text),
        parent: row.parent.clone(),
        r#type: row.r#type.clone(),
        labels: row.labels.clone(),
        plan_id: row.plan.clone(),
        step: row.step.clone(),
        execution_id: execution,
        fields,
        project: row.project.clone(),
        added_at: time(row.added_at),
        position: row.position,
    }
}

fn no_such_task(id: &str) -> Error {
    Error::new("no_such_task", format!("there is no task `{id}`"), "`actbook task list` shows them")
}
