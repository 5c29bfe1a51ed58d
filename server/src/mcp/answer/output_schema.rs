//! The output schemas that tools declare, kept short because models read them. A test checks every answer
//! against them.

use std::sync::Arc;

use rmcp::model::JsonObject;
use serde_json::{Value, json};

/// The schema of an answer with these properties, of which `required` are always present, or of an error.
pub fn answer_schema(properties: Value, required: &[&str]) -> Arc<JsonObject> {
    let mut properties = properties;
    properties["error"] = json!({ "type": "object", "required": ["code", "message", "cure"] });
    let schema = json!({
        "type": "object",
        "properties": properties,
        "anyOf": [{ "required": required }, { "required": ["error"] }],
    });
    let Value::Object(schema) = schema else { unreachable!("the literal is an object") };
    Arc::new(schema)
}

pub fn execution_answer_schema() -> Arc<JsonObject> {
    answer_schema(
        execution_properties(),
        &["id", "status", "progress", "position", "steps", "waiting", "next"],
    )
}

/// The schema of an answer that shows an execution or some of these lists of objects; `required` are always
/// present.
pub fn execution_or_lists_schema(lists: &[&str], required: &[&str]) -> Arc<JsonObject> {
    let mut properties = execution_properties();
    for list in lists {
        properties[*list] = object_array_schema();
    }
    answer_schema(properties, required)
}

/// The schema of a list of objects of any kind.
pub fn object_array_schema() -> Value {
    json!({ "type": "array", "items": { "type": "object" } })
}

/// The properties of an answer that shows one execution.
fn execution_properties() -> Value {
    let text = || json!({ "type": "string" });
    json!({
        "id": text(),
        "status": text(),
        "position": { "type": "integer" },
        "steps": object_array_schema(),
        "waiting": object_array_schema(),
        "next": object_array_schema(),
    })
}
