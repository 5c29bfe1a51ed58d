//! The declared shape of answers, in as few words as say it. A test holds every answer against it.

use std::sync::Arc;

use rmcp::model::JsonObject;
use serde_json::{Value, json};

/// An answer with these properties, of which `required` are always there; or an error.
pub fn answer(properties: Value, required: &[&str]) -> Arc<JsonObject> {
    let mut properties = properties;
    properties["error"] = json!({ "type": "object", "required": ["code", "message", "cure"] });
    let schema = json!({
        "type": "object",
        "properties": properties,
        "anyOf": [{ "required": required }, { "required": ["error"] }],
    });
    let Value::Object(schema) = schema else { unreachable!("it is written as an object") };
    Arc::new(schema)
}

/// An execution as it stands and what to do next.
pub fn execution() -> Arc<JsonObject> {
    answer(standing(), &["id", "status", "progress", "position", "steps", "waiting", "next"])
}

/// The same, or something else: `lists` of it, and what is always there.
pub fn execution_or(lists: &[&str], required: &[&str]) -> Arc<JsonObject> {
    let mut properties = standing();
    for list in lists {
        properties[*list] = objects();
    }
    answer(properties, required)
}

pub fn objects() -> Value {
    json!({ "type": "array", "items": { "type": "object" } })
}

fn standing() -> Value {
    let text = || json!({ "type": "string" });
    json!({
        "id": text(),
        "status": text(),
        "position": { "type": "integer" },
        "steps": objects(),
        "waiting": objects(),
        "next": objects(),
    })
}
