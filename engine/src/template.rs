//! Templates: plans with inputs, saved under a name for reuse. Makes a template from a plan or from an
//! execution, and a plan from a template. Takes and returns plan documents.

mod lift;

use serde_json::{Map, Value, json};

use crate::plan::{Finding, Plan};

pub use lift::{ExecutionValues, escape_expressions, template_from_execution};

/// Makes a template document from a plan: the same plan under another name, without its task.
pub fn template_from_plan(plan: &Plan, name: &str) -> Value {
    let mut document = parse_document(plan);
    document["name"] = json!(name);
    if let Value::Object(fields) = &mut document {
        fields.remove("task");
    }
    document
}

/// The name, task and inputs of a plan to be made from a template.
#[derive(Clone, Copy, Debug)]
pub struct PlanFromTemplate<'a> {
    pub name: &'a str,
    pub task: Option<&'a str>,
    pub inputs: &'a Map<String, Value>,
}

/// Makes a plan document from a template. Each given value becomes the default of its input, so that the plan
/// can be started without knowing it; the other inputs are given at the start. `Err`: the given inputs are
/// invalid.
pub fn plan_from_template(template: &Plan, made: PlanFromTemplate<'_>) -> Result<Value, Vec<Finding>> {
    template.check_partial_inputs(made.inputs)?;
    let mut document = parse_document(template);
    document["name"] = json!(made.name);
    if let Some(task) = made.task {
        document["task"] = json!(task);
    }
    if let Some(Value::Object(properties)) = document.pointer_mut("/inputs/properties") {
        for (name, value) in made.inputs {
            if let Some(Value::Object(schema)) = properties.get_mut(name) {
                schema.insert("default".to_owned(), value.clone());
            }
        }
    }
    Ok(document)
}

/// The plan's document, parsed.
fn parse_document(plan: &Plan) -> Value {
    serde_json::from_str(&plan.document).expect("a plan's document is the JSON that it was written to")
}
