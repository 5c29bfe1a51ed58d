//! Tasks: adding, changing, listing, and splitting them into the steps of a plan. While a task's executions
//! are open its status is derived from them on read; nothing is written for the task then.

mod history;
mod task_plan_rules;

use std::sync::Arc;

use actbook_engine::event::PlanRef;
use actbook_engine::id::PlanId;
use actbook_engine::plan::{Plan, Step, StepWork, duration_text};
use actbook_engine::policy::{ExecutionStatus, StepStatus};
use actbook_engine::refusal::Refusal;
use actbook_engine::task::{self, TaskStatus};
use serde::Serialize;
use serde_json::Value;

use super::Service;
use super::quote::require_plain_name;
use super::view::format_time;
use crate::caller::Caller;
use crate::error::{Corruption, Error};
use crate::ledger::{KeyedReply, SetTasksRequest};
use crate::random;
use crate::store::execution_filter::ExecutionFilter;
use crate::store::execution_list::{self, ExecutionQuery};
use crate::store::{payloads, tasks};

pub use history::{TaskHistory, TaskHistoryEvent};
use task_plan_rules::RuleEffects;

/// At most this many tasks are listed.
const LISTED_MAX: u64 = 200;
/// The place before the first task of the list.
const FIRST_PLACE: tasks::TaskPlace = (-1, 0, 0);
/// At most this many subtasks of one task are read.
const SUBTASKS_MAX: u64 = 10_000;
/// At most this many tasks that were split by one plan are updated when it is saved.
const SPLIT_TASKS_MAX: u64 = 1_000;
/// At most this many executions are read to derive the status of a task.
const STATUS_EXECUTIONS_MAX: u64 = 50;

/// The properties of a task to add or change; `None` leaves a property as it is.
#[derive(Clone, Debug, Default)]
pub struct TaskSpec {
    pub id: String,
    pub title: Option<String>,
    pub status: Option<TaskStatus>,
    pub priority: Option<i64>,
    pub estimate_ms: Option<u64>,
    pub parent: Option<String>,
    pub r#type: Option<String>,
    pub labels: Option<Vec<String>>,
    /// Further properties, as a JSON object.
    pub fields: Option<Value>,
}

/// A task as it is shown.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize)]
pub struct TaskView {
    pub id: String,
    pub title: String,
    pub status: TaskStatus,
    pub priority: i64,
    pub estimate: Option<String>,
    pub parent: Option<String>,
    pub r#type: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// The plan and the step that a subtask stands for.
    pub plan_id: Option<String>,
    pub step: Option<String>,
    /// The execution that the status is derived from. `None`: the status was set on the task.
    pub execution_id: Option<String>,
    pub fields: Option<Value>,
    pub project: Option<String>,
    pub added_at: String,
    pub position: u64,
}

/// A new task, and what a task-plan rule of the config created for it.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize)]
pub struct AddedTask {
    #[serde(flatten)]
    pub task: TaskView,
    /// Id of the plan that was saved for the task.
    pub plan: Option<String>,
    /// Id of the execution that was started.
    pub started: Option<String>,
    /// Progress of that execution, if this process is to drive it.
    #[serde(skip)]
    pub drive: Option<crate::ledger::DriveState>,
}

/// Tasks that plans, executions and notes belong to.
#[derive(Clone, Copy, Debug)]
pub struct Tasks<'a>(pub(super) &'a Service);

impl Tasks<'_> {
    /// Adds a new task. If a task-plan rule of the config matches, its plan is saved for the task, and
    /// started if the rule says so; with `drive`, this process is to drive the execution. A repeated request
    /// returns the first one's task.
    pub async fn add(self, caller: &Caller, mut given: TaskSpec, drive: bool) -> Result<AddedTask, Error> {
        given.title.iter().try_for_each(|title| require_plain_name("title", title))?;
        self.redact(&mut given);
        let id = given.id.clone();
        let reply = match self.0.previous_result(caller).await? {
            Some(result) => KeyedReply::Repeated(result),
            None => self.0.submit(caller, self.add_request(given, drive).await?).await?,
        };
        let RuleEffects { plan, started, drive } = self.rule_effects(reply, drive).await?;
        Ok(AddedTask { task: self.get(&id).await?, plan, started, drive })
    }

    /// Changes the given properties of a task. Refused if there is no task with that id.
    pub async fn change(self, caller: &Caller, mut given: TaskSpec) -> Result<TaskView, Error> {
        given.title.iter().try_for_each(|title| require_plain_name("title", title))?;
        self.redact(&mut given);
        let id = given.id.clone();
        let project = self.project_of(&id).await?;
        self.write(caller, vec![engine_task(given, project)], false).await?;
        self.get(&id).await
    }

    /// Adds a subtask for each step of a saved plan that has none yet; returns all subtasks. `plan`: its name
    /// or id. Refused if there is no such task or plan.
    pub async fn split(self, caller: &Caller, id: &str, plan: &str) -> Result<Vec<TaskView>, Error> {
        let row = self.row(id).await?.ok_or_else(|| no_such_task(id))?;
        let (reference, plan) = self.0.plans().load(plan).await?;
        self.add_subtasks(caller, &(row.project, row.id), &reference, &plan).await?;
        self.subtasks(id).await
    }

    /// Adds the new steps of a plan that was saved again as subtasks to the tasks that were split by it. This
    /// is not atomic with saving: after a crash in between, saving the plan once more completes it.
    pub(super) async fn add_new_steps_as_subtasks(
        self,
        caller: &Caller,
        reference: &PlanRef,
        plan: &Plan,
    ) -> Result<(), Error> {
        let caller = caller.clone().with_key(None);
        for task in tasks::parents_split_by_plan(self.0.tenant, reference.id.as_str(), SPLIT_TASKS_MAX)
            .all(&self.0.db)
            .await?
        {
            match self.add_subtasks(&caller, &task, reference, plan).await {
                // Another task has the subtask's id; the plan is saved nevertheless.
                Err(Error::Refused(Refusal::TaskExists { .. })) => {}
                added => added?,
            }
        }
        Ok(())
    }

    /// Adds a subtask for each step that has none, to a task given by project and id; subtasks get the same
    /// project.
    async fn add_subtasks(
        self,
        caller: &Caller,
        (project, id): &(Option<String>, String),
        reference: &PlanRef,
        plan: &Plan,
    ) -> Result<(), Error> {
        let existing =
            tasks::by_parent(self.0.tenant, self.0.boundary(), id, SUBTASKS_MAX).all(&self.0.db).await?;
        let has_subtask = |step: &Step| {
            existing.iter().any(|task| {
                task.project == *project
                    && task.step.as_deref() == Some(step.id.as_str())
                    && task.plan.as_deref() == Some(reference.id.as_str())
            })
        };
        let missing = plan.steps.iter().filter(|step| !has_subtask(step));
        let subtasks: Vec<task::Task> = missing
            .map(|step| task::Task { project: project.clone(), ..subtask_for_step(id, &reference.id, step) })
            .collect();
        if subtasks.is_empty() { Ok(()) } else { self.write(caller, subtasks, true).await }
    }

    /// The view of a task, by id. Refused if there is none with that id.
    pub async fn get(self, id: &str) -> Result<TaskView, Error> {
        let row = self.row(id).await?.ok_or_else(|| no_such_task(id))?;
        self.view(&row).await
    }

    /// The project of a task that is about to be changed; this project if there is no task with that id.
    async fn project_of(self, id: &str) -> Result<Option<String>, Error> {
        let row = self.row(id).await?;
        Ok(row.map_or_else(|| Some(self.0.project().to_owned()), |row| row.project))
    }

    /// Tasks without a parent, open ones first, then by priority; only those with `status` if it is given.
    /// `LISTED_MAX` at most are read.
    pub async fn list(self, status: Option<TaskStatus>) -> Result<Vec<TaskView>, Error> {
        let mut views = Vec::new();
        for row in tasks::list(self.0.tenant, self.0.boundary(), LISTED_MAX).all(&self.0.db).await? {
            views.push(self.view(&row).await?);
        }
        views.retain(|view| status.is_none_or(|status| view.status == status));
        Ok(views)
    }

    /// One page of the tasks without a parent, in the order of `list`, and the place after which the next one begins.
    /// `after`: such a place. Err `ForeignCursor`: it is none.
    pub async fn list_page(
        self,
        status: Option<TaskStatus>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<TaskView>, Option<String>), Error> {
        let mut place = match after {
            Some(after) => parse_place(after).ok_or(Error::ForeignCursor)?,
            None => FIRST_PLACE,
        };
        let mut views = Vec::new();
        loop {
            let select = tasks::list_after(self.0.tenant, self.0.boundary(), place, LISTED_MAX);
            let rows = select.all(&self.0.db).await?;
            let is_last = (rows.len() as u64) < LISTED_MAX;
            for row in rows {
                let view = self.view(&row).await?;
                if status.is_none_or(|status| view.status == status) {
                    if views.len() == limit {
                        let (closed, priority, stream) = place;
                        return Ok((views, Some(format!("{closed}.{priority}.{stream}"))));
                    }
                    views.push(view);
                }
                place = tasks::place(&row);
            }
            if is_last {
                return Ok((views, None));
            }
        }
    }

    /// Views of the subtasks of a task, with the statuses of the plan's steps that they stand for; empty if
    /// it has none.
    pub async fn subtasks(self, id: &str) -> Result<Vec<TaskView>, Error> {
        let mut views = Vec::new();
        let mut loaded = Vec::new();
        let project = self.project_of(id).await?;
        let within = self.0.boundary().or(project.as_deref());
        let rows = tasks::by_parent(self.0.tenant, within, id, SUBTASKS_MAX).all(&self.0.db).await?;
        for row in rows {
            views.push(match self.status_from_step(&row, &mut loaded).await? {
                Some((status, execution)) => build_task_view(&row, status, execution, None),
                None => self.view(&row).await?,
            });
        }
        Ok(views)
    }

    /// The view of a task's row; a status derived from executions replaces a stored one that is not final.
    async fn view(self, row: &tasks::TaskRow) -> Result<TaskView, Error> {
        let fields = match row.fields_position {
            Some(position) => payloads::by_position(self.0.tenant, position).first(&self.0.db).await?,
            None => None,
        };
        let fields = fields.and_then(|payload| serde_json::from_slice(&payload.body).ok());
        let fields = fields.map(|fields| self.0.shown(fields));
        let derived = match row.step {
            Some(_) => self.status_from_step(row, &mut Vec::new()).await?,
            None => self.status_from_executions(row).await?,
        };
        let stored = row.status.parse().map_err(|error| Error::Corrupt(Corruption::Row(error)))?;
        Ok(match derived.filter(|_| !is_final(stored)) {
            Some((status, execution)) => build_task_view(row, status, execution, fields),
            None => build_task_view(row, stored, None, fields),
        })
    }

    /// The status of a subtask, derived from its step in the newest execution of its plan; cancelled if the
    /// plan no longer has the step. `None`: nothing to derive from, or the stored status is final. `loaded`
    /// caches progress by plan.
    async fn status_from_step(
        self,
        row: &tasks::TaskRow,
        loaded: &mut Vec<(String, PlanProgress)>,
    ) -> Result<Option<DerivedTaskStatus>, Error> {
        let is_final = row.status.parse().is_ok_and(is_final);
        let (Some(plan), Some(step), false) = (&row.plan, &row.step, is_final) else { return Ok(None) };
        let known = loaded.iter().position(|(known, _)| known == plan);
        let index = match known {
            Some(index) => index,
            None => {
                let progress = self.load_plan_progress(plan, row.parent.as_deref()).await?;
                loaded.push((plan.clone(), progress));
                loaded.len() - 1
            }
        };
        let progress = &loaded[index].1;
        let status =
            progress.steps.iter().find(|(id, _)| id == step).map(|(_, status)| task_status_of_step(*status));
        let dropped = progress.saved_plan.as_ref().is_some_and(|plan| plan.find_step(step).is_none());
        Ok(match status {
            Some(status) => Some((status, progress.execution.clone())),
            None => dropped.then_some((TaskStatus::Cancelled, None)),
        })
    }

    /// The progress of a plan's newest execution that belongs to `task` or to no task. `plan`: its id.
    async fn load_plan_progress(self, plan: &str, task: Option<&str>) -> Result<PlanProgress, Error> {
        let filter = ExecutionFilter { plan: plan.to_owned().into(), ..ExecutionFilter::default() };
        let (rows, _) = self.0.executions().rows(&filter, STATUS_EXECUTIONS_MAX).await?;
        // A plan may serve several tasks; each of its executions runs for one of them.
        let row = rows.into_iter().find(|row| row.task.is_none() || row.task.as_deref() == task);
        let planned = match self.0.plans().load(plan).await {
            Ok((_, plan)) => Some(plan),
            Err(Error::NoSuchPlan { .. }) => None,
            Err(error) => return Err(error),
        };
        let Some(row) = row else {
            return Ok(PlanProgress { execution: None, steps: Vec::new(), saved_plan: planned });
        };
        let execution = self.0.executions().fold(row.id).await?;
        let steps = execution.plan.steps.iter().zip(&execution.steps);
        let steps = steps.map(|(spec, state)| (spec.id.to_string(), state.status())).collect();
        Ok(PlanProgress { execution: Some(row.public_id), steps, saved_plan: planned })
    }

    /// The status of a task derived from its open executions: blocked if one is, else in progress. `None`: it
    /// has none.
    async fn status_from_executions(self, row: &tasks::TaskRow) -> Result<Option<DerivedTaskStatus>, Error> {
        let filter = ExecutionFilter { task: row.id.clone().into(), ..ExecutionFilter::default() };
        let within = self.0.boundary().or(row.project.as_deref());
        let query = ExecutionQuery { filter: &filter, within, waiting_after_end: false };
        let rows = execution_list::list(&self.0.db, self.0.tenant, &query, STATUS_EXECUTIONS_MAX).await?;
        let first = |statuses: &[ExecutionStatus]| {
            rows.iter().find(|row| statuses.iter().any(|status| row.status == status.as_str()))
        };
        let blocked = first(&[ExecutionStatus::Blocked]).map(|row| (TaskStatus::Blocked, row));
        let active =
            first(&[ExecutionStatus::Running, ExecutionStatus::Paused, ExecutionStatus::Compensating])
                .map(|row| (TaskStatus::InProgress, row));
        Ok(blocked.or(active).map(|(status, row)| (status, Some(row.public_id.clone()))))
    }

    /// Submits tasks to the ledger: new ones if `fresh`, else changes of existing ones. Refused if a new one
    /// exists or a changed one does not.
    async fn write(self, caller: &Caller, tasks: Vec<task::Task>, fresh: bool) -> Result<(), Error> {
        let salted = |task| (task, new_salt());
        let request = SetTasksRequest { tasks: tasks.into_iter().map(salted).collect(), create: fresh };
        self.0.submit(caller, request).await.map(drop)
    }

    /// Redacts the title and the further properties; names with a secret are refused later.
    fn redact(self, given: &mut TaskSpec) {
        given.title.iter_mut().for_each(|title| self.0.tools.redact_text(title));
        given.fields.iter_mut().for_each(|fields| self.0.tools.redact(fields));
    }
}

/// A random salt for the payloads of a new stream.
fn new_salt() -> Arc<[u8]> {
    random::bytes::<16>().to_vec().into()
}

/// A status, and the id of the execution that it is derived from. `None`: from the plan, which has dropped
/// the step.
type DerivedTaskStatus = (TaskStatus, Option<String>);

/// The progress of a plan: the steps of its newest execution, and its newest saved version.
struct PlanProgress {
    /// Id of the newest execution. `None`: there is none.
    execution: Option<String>,
    /// Ids and statuses of its steps.
    steps: Vec<(String, StepStatus)>,
    /// `None`: the plan was deleted.
    saved_plan: Option<Arc<Plan>>,
}

/// Whether the status is final: executions no longer change it.
fn is_final(status: TaskStatus) -> bool {
    match status {
        TaskStatus::Done | TaskStatus::Cancelled => true,
        TaskStatus::Open | TaskStatus::InProgress | TaskStatus::Blocked => false,
    }
}

/// The status of a subtask whose step has this status.
fn task_status_of_step(status: StepStatus) -> TaskStatus {
    match status {
        StepStatus::Pending => TaskStatus::Open,
        StepStatus::Running | StepStatus::AwaitingAgent | StepStatus::Compensating => TaskStatus::InProgress,
        StepStatus::AwaitingApproval
        | StepStatus::Failed
        | StepStatus::Unknown
        | StepStatus::CompensationFailed => TaskStatus::Blocked,
        StepStatus::Succeeded => TaskStatus::Done,
        StepStatus::Skipped | StepStatus::Cancelled | StepStatus::Compensated => TaskStatus::Cancelled,
    }
}

/// The engine's task from the given properties, in this project, without a plan or a step.
fn engine_task(given: TaskSpec, project: Option<String>) -> task::Task {
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

/// The subtask of `parent` for a step of a plan, titled with the step's name, tool or action.
fn subtask_for_step(parent: &str, plan: &PlanId, step: &Step) -> task::Task {
    let (what, estimate_ms) = match &step.work {
        StepWork::Tool { tool, .. } | StepWork::AgentTool { tool, .. } => (tool.clone(), None),
        StepWork::Action { action, estimated_ms, .. } => (action.clone(), *estimated_ms),
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

/// The view of a task's row with this status, derived from `execution` if that is given.
fn build_task_view(
    row: &tasks::TaskRow,
    status: TaskStatus,
    execution: Option<String>,
    fields: Option<Value>,
) -> TaskView {
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
        added_at: format_time(row.added_at),
        position: row.position,
    }
}

/// The refusal of a task's id that no visible task has.
fn no_such_task(id: &str) -> Error {
    Refusal::NoSuchTask { id: id.to_owned() }.into()
}

/// The place in a cursor. `None`: it has none.
fn parse_place(text: &str) -> Option<tasks::TaskPlace> {
    let mut parts = text.split('.');
    let place = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    parts.next().is_none().then_some(place)
}
