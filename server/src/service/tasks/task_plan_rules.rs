//! Task-plan rules: a rule of the config names a saved plan or a template. For a new task that matches, a
//! plan is made from it, with the task's fields as the defaults of its inputs, and started only if the rule
//! says so. The task, the plan and the start are one request to the ledger: all of it is written, or nothing.

use std::sync::Arc;

use actbook_engine::plan::Plan;
use actbook_engine::refusal::Refusal;
use actbook_engine::template::{self, PlanFromTemplate};
use serde_json::{Map, Value, json};

use super::{TaskSpec, Tasks, engine_task, new_salt};
use crate::config::{PlanSource, TaskPlanRule};
use crate::error::{DocumentKind, Error, InvalidDocument};
use crate::ledger::{
    AddTaskReply, AddTaskRequest, DriveState, KeyedReply, SavePlanRequest, StartRequest, TaskPlanRequest,
};
use crate::service::executions::complete_inputs;
use crate::store::tasks;

/// What a matching task-plan rule has created for a new task: a plan, and perhaps an execution of it. All
/// fields are `None` if no rule matched.
#[derive(Debug, Default)]
pub(super) struct RuleEffects {
    /// Id of the saved plan.
    pub plan: Option<String>,
    /// Id of the started execution.
    pub started: Option<String>,
    /// Progress of that execution, if this process is to drive it.
    pub drive: Option<DriveState>,
}

impl Tasks<'_> {
    /// The ledger's request to add a task, with the plan and the start that the first matching rule creates.
    pub(super) async fn add_request(self, given: TaskSpec, drive: bool) -> Result<AddTaskRequest, Error> {
        self.refuse_id_without_project(&given.id).await?;
        let rule = self.0.task_plans.iter().find(|rule| rule_matches(rule, &given));
        let plan = match rule {
            Some(rule) => Some(self.task_plan_request(rule, &given, drive).await?),
            None => None,
        };
        let task = engine_task(given, Some(self.0.project().to_owned()));
        Ok(AddTaskRequest { task, salt: new_salt(), plan })
    }

    /// The part of `add_request` that saves the rule's plan, and starts it if the rule says so.
    async fn task_plan_request(
        self,
        rule: &TaskPlanRule,
        given: &TaskSpec,
        drive: bool,
    ) -> Result<TaskPlanRequest, Error> {
        let plan = match &rule.source {
            PlanSource::Plan(name) => self.0.plans().load(name).await?.1,
            PlanSource::Template(name) => self.0.templates().plan(name).await?,
        };
        let document = plan_document_for_task(&plan, given)?;
        let (save, _) = self.0.plans().prepare(&document, !rule.start).await?;
        let start = if rule.start { Some(self.build_rule_start(&save, drive).await?) } else { None };
        Ok(TaskPlanRequest { save, start })
    }

    /// Refuses the id of a task that was written before projects existed. The ledger refuses a second task
    /// with the same id only within one project.
    async fn refuse_id_without_project(self, id: &str) -> Result<(), Error> {
        if tasks::by_id_in_project(self.0.tenant, None, id).first(&self.0.db).await?.is_none() {
            return Ok(());
        }
        Err(Refusal::TaskExists { id: id.to_owned() }.into())
    }

    /// The request to start a plan that is saved by the same request. Refused if the task lacks an input that
    /// the plan needs.
    async fn build_rule_start(self, request: &SavePlanRequest, drive: bool) -> Result<StartRequest, Error> {
        let plan = request.plan.clone();
        let inputs = complete_inputs(&plan, None).map_err(of_task_inputs)?;
        let terms =
            self.0.catalog().policies_with_pins(&plan, &request.pins.clone().unwrap_or_default()).await?;
        // The ledger replaces this reference by that of the saved plan.
        let unsaved = actbook_engine::event::PlanRef {
            id: request.new_id.clone(),
            name: plan.name.clone(),
            version: 1,
            digest: plan.digest,
        };
        self.0.executions().build_start(unsaved, plan, inputs, terms, drive).await
    }

    /// What the rule created, from the ledger's reply or from the stored result of a repeated request.
    pub(super) async fn rule_effects(
        self,
        reply: KeyedReply<AddTaskReply>,
        drive: bool,
    ) -> Result<RuleEffects, Error> {
        let result = match reply {
            KeyedReply::First(AddTaskReply { plan, started, .. }) => {
                let plan = plan.map(|saved| saved.plan.id.to_string());
                let id = started.as_ref().map(|progress| progress.id.to_string());
                return Ok(RuleEffects { plan, started: id, drive: started.filter(|_| drive) });
            }
            KeyedReply::Repeated(result) => result,
        };
        if let Some((plan, _)) = result.split_once('@') {
            return Ok(RuleEffects { plan: Some(plan.to_owned()), ..RuleEffects::default() });
        }
        // The result of a task without a rule is its position.
        if result.parse::<u64>().is_ok() {
            return Ok(RuleEffects::default());
        }
        let execution = self.0.executions().load(&result).await?;
        let plan = Some(execution.plan_ref.id.to_string());
        Ok(RuleEffects { plan, started: Some(result), drive: None })
    }
}

/// Marks the refusal of a plan's inputs as one of a task's: the task lacks what its plan needs. Any other
/// error stays.
fn of_task_inputs(error: Error) -> Error {
    if let Error::Invalid(document) = error {
        return Error::Invalid(InvalidDocument { kind: DocumentKind::TaskInputs, ..document });
    }
    error
}

/// The document of the plan that is made for a task, named `PLAN for TASK`, with the task's fields as
/// defaults of its inputs.
fn plan_document_for_task(plan: &Arc<Plan>, given: &TaskSpec) -> Result<String, Error> {
    let mut inputs = input_defaults(given);
    inputs.retain(|name, _| accepts_input(plan, name));
    let name = format!("{} for {}", plan.name, given.id);
    let made = PlanFromTemplate { name: &name, task: Some(&given.id), inputs: &inputs };
    let refused = |findings| Error::invalid(DocumentKind::TaskPlan, findings);
    Ok(template::plan_from_template(plan, made).map_err(refused)?.to_string())
}

/// Whether a plan has an input of this name that is not secret: defaults are stored in the document.
fn accepts_input(plan: &Plan, name: &str) -> bool {
    let property = plan.inputs.as_ref().and_then(|schema| schema.get("properties")?.get(name));
    property.is_some_and(|property| property.get("writeOnly") != Some(&Value::Bool(true)))
}

/// Whether a rule's type, if it has one, and all of its labels match a task.
fn rule_matches(rule: &TaskPlanRule, given: &TaskSpec) -> bool {
    let labels = given.labels.as_deref().unwrap_or_default();
    let type_matches = rule.r#type.as_ref().is_none_or(|kind| given.r#type.as_ref() == Some(kind));
    type_matches && rule.labels.iter().all(|label| labels.contains(label))
}

/// The defaults for a plan's inputs: a task's further fields, with its id as `task` and, where not set there,
/// its title, type and labels.
fn input_defaults(given: &TaskSpec) -> Map<String, Value> {
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
