//! Plans that a new task brings with it: a rule of the config names a saved plan or a template; a plan is
//! made of it for the task, with the task's fields as the defaults of its inputs, and started only if the
//! rule says so. The task and what it brings are one request: all of it is written, or nothing.

use std::sync::Arc;

use actbook_engine::plan::Plan;
use actbook_engine::template::{self, Made};
use serde_json::{Map, Value, json};

use super::{TaskGiven, salt, told};
use crate::config::{Brings, TaskPlan};
use crate::error::Error;
use crate::ledger::{PlanAsked, Progress, Reply, Request, Start, TaskAsked};
use crate::service::Service;
use crate::service::executions::complete;
use crate::store::tasks;

/// What a new task has brought with it.
#[derive(Debug, Default)]
pub(super) struct Brought {
    pub plan: Option<String>,
    pub started: Option<String>,
    pub drive: Option<Progress>,
}

impl Service {
    /// What is to be written of a new task, and of what the first rule that fits makes of it.
    pub(super) async fn adding(&self, given: TaskGiven, drive: bool) -> Result<Request, Error> {
        self.refuse_known(&given.id).await?;
        let project = Some(self.project().to_owned());
        let Some(rule) = self.task_plans.iter().find(|rule| fits(rule, &given)) else {
            return Ok(Request::SetTasks { tasks: vec![(told(given, project), salt())], fresh: true });
        };
        let plan = match &rule.brings {
            Brings::Plan(name) => self.saved_plan(name).await?.1,
            Brings::Template(name) => self.template_plan(name).await?,
        };
        let document = for_task(&plan, &given)?;
        let (plan, _) = self.ready(&document, !rule.start).await?;
        let start = match rule.start {
            true => Some(self.begun(&plan, drive).await?),
            false => None,
        };
        Ok(Request::AddTask(Box::new(TaskAsked { task: told(given, project), salt: salt(), plan, start })))
    }

    /// A new task is its project's own: the ledger refuses a second one of its id there, this one that is older than
    /// projects.
    async fn refuse_known(&self, id: &str) -> Result<(), Error> {
        if tasks::of_project(self.tenant, None, id).first(&self.db).await?.is_none() {
            return Ok(());
        }
        let message = format!("there is a task `{id}` already");
        Err(Error::new("task_exists", message, "choose another id, or change that one"))
    }

    async fn begun(&self, asked: &PlanAsked, drive: bool) -> Result<Start, Error> {
        let plan = asked.plan.clone();
        let lacking = |error: Error| Error::findings("the task lacks what its plan needs", error.findings);
        let inputs = complete(&plan, None).map_err(lacking)?;
        let terms = self.terms_of(&plan, &asked.pins.clone().unwrap_or_default()).await?;
        // Its place in the library is known when it is written.
        let unsaved = actbook_engine::event::PlanRef {
            id: asked.new_id.clone(),
            name: plan.name.clone(),
            version: 1,
            digest: plan.digest,
        };
        self.beginning(unsaved, plan, inputs, terms, drive).await
    }

    /// What came of it, now or under the same key before.
    pub(super) async fn brought(&self, reply: Reply, drive: bool) -> Result<Brought, Error> {
        let of_plan = |plan: &str| Brought { plan: Some(plan.to_owned()), ..Brought::default() };
        match reply {
            Reply::Saved { plan, .. } => Ok(of_plan(plan.id.as_str())),
            Reply::Moved(progress) => {
                let plan =
                    self.ledger.look(progress.stream, |execution| execution.plan_ref.id.to_string())?;
                let started = Some(progress.id.to_string());
                Ok(Brought { plan: Some(plan), started, drive: drive.then_some(*progress) })
            }
            Reply::Repeated(result) => Ok(match result.split_once('@') {
                Some((plan, _)) => of_plan(plan),
                // A task that brought nothing gives its position.
                None if result.parse::<u64>().is_ok() => Brought::default(),
                None => {
                    let execution = self.fold(self.find(&result).await?.stream)?;
                    let plan = Some(execution.plan_ref.id.to_string());
                    Brought { plan, started: Some(result), drive: None }
                }
            }),
            Reply::Recorded(_) | Reply::Deleted | Reply::Accepted { .. } => Ok(Brought::default()),
        }
    }
}

/// The document of the plan that a task brings.
fn for_task(plan: &Arc<Plan>, given: &TaskGiven) -> Result<String, Error> {
    let mut inputs = fields(given);
    inputs.retain(|name, _| takes(plan, name));
    let name = format!("{} for {}", plan.name, given.id);
    let made = Made { name: &name, task: Some(&given.id), inputs: &inputs };
    let refused = |findings| Error::findings("the task does not fit its plan", findings);
    Ok(template::used(plan, made).map_err(refused)?.to_string())
}

/// It has an input of this name, and not one that is secret: a task's fields are kept.
fn takes(plan: &Plan, name: &str) -> bool {
    let property = plan.inputs.as_ref().and_then(|schema| schema.get("properties")?.get(name));
    property.is_some_and(|property| property.get("writeOnly") != Some(&Value::Bool(true)))
}

fn fits(rule: &TaskPlan, given: &TaskGiven) -> bool {
    let labels = given.labels.as_deref().unwrap_or_default();
    let of_type = rule.r#type.as_ref().is_none_or(|kind| given.r#type.as_ref() == Some(kind));
    of_type && rule.labels.iter().all(|label| labels.contains(label))
}

/// A task's own words, and what else was said of it.
fn fields(given: &TaskGiven) -> Map<String, Value> {
    let mut fields = match &given.fields {
        Some(Value::Object(fields)) => fields.clone(),
        Some(_) | None => Map::new(),
    };
    fields.insert("task".to_owned(), json!(given.id));
    for (name, value) in
        [("title", json!(given.title)), ("type", json!(given.r#type)), ("labels", json!(given.labels))]
    {
        if !value.is_null() {
            fields.entry(name).or_insert(value);
        }
    }
    fields
}
