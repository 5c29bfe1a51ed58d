//! Plans that a new task brings with it: a rule of the config names a saved plan; a copy of it is saved
//! for the task, with the task's fields as the defaults of its inputs, and started only if the rule says so.

use serde_json::{Map, Value, json};

use super::{Automatic, TaskAdded, TaskGiven};
use crate::caller::Caller;
use crate::config::TaskPlan;
use crate::error::Error;
use crate::service::Service;

impl Service {
    /// What the first rule that fits makes of a task. Refused before anything is written.
    pub(super) async fn automatic_plan(&self, given: &TaskGiven) -> Result<Option<Automatic>, Error> {
        let Some(rule) = self.task_plans.iter().find(|rule| fits(rule, given)) else { return Ok(None) };
        let (_, plan) = self.saved_plan(&rule.plan).await?;
        let broken =
            |error: serde_json::Error| Error::new("corrupt", error.to_string(), "run `actbook verify`");
        let mut document: Value = serde_json::from_str(&plan.document).map_err(broken)?;
        document["name"] = json!(format!("{} for {}", plan.name, given.id));
        document["task"] = json!(given.id);
        if let Some(Value::Object(properties)) = document.pointer_mut("/inputs/properties") {
            fill(properties, &fields(given));
        }
        let automatic = Automatic { document: document.to_string(), start: rule.start };
        if rule.start {
            let made = self.check(&automatic.document, false).await;
            if let Some(plan) = made.plan {
                let inputs = plan.with_defaults(json!({}));
                let refused = |findings| Error::findings("the task lacks what its plan needs", findings);
                plan.check_inputs(&inputs).map_err(refused)?;
            }
        }
        Ok(Some(automatic))
    }

    pub(super) async fn plan_for_task(
        &self,
        caller: &Caller,
        automatic: Automatic,
        drive: bool,
        added: &mut TaskAdded,
    ) -> Result<(), Error> {
        let caller = caller.clone().with_key(None);
        let saved = self.save_plan(&caller, &automatic.document, !automatic.start).await?;
        added.plan = Some(saved.plan_id.to_string());
        if automatic.start {
            let started = self.start(&caller, saved.reference, saved.plan, None, drive).await?;
            added.started = Some(started.id.to_string());
            added.drive = drive.then_some(started.progress);
        }
        Ok(())
    }
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

fn fill(properties: &mut Map<String, Value>, fields: &Map<String, Value>) {
    for (name, schema) in properties.iter_mut() {
        if let (Some(value), Value::Object(schema)) = (fields.get(name), schema) {
            schema.insert("default".to_owned(), value.clone());
        }
    }
}
