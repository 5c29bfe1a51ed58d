//! Templates: plans with inputs, kept under a name to be used again. How one is made of a plan, or of
//! what an execution ran; and how a plan is made of one. Documents in, documents out.

mod lift;

use serde_json::{Map, Value, json};

use crate::plan::{Finding, Plan};

pub use lift::of_execution;

/// A template from a plan: the same under another name, belonging to no task.
pub fn of_plan(plan: &Plan, name: &str) -> Value {
    let mut document = document(plan);
    document["name"] = json!(name);
    if let Value::Object(fields) = &mut document {
        fields.remove("task");
    }
    document
}

/// What a plan that is made of a template is to be.
#[derive(Clone, Copy, Debug)]
pub struct Made<'a> {
    pub name: &'a str,
    pub task: Option<&'a str>,
    pub inputs: &'a Map<String, Value>,
}

/// A plan from a template. What is given becomes the default of its input, so that the plan can be started
/// by anybody who does not know it; what is not given is asked for then.
pub fn used(template: &Plan, made: Made<'_>) -> Result<Value, Vec<Finding>> {
    template.check_given(made.inputs)?;
    let mut document = document(template);
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

fn document(plan: &Plan) -> Value {
    serde_json::from_str(&plan.document).expect("a plan's document is the JSON that it was written to")
}
