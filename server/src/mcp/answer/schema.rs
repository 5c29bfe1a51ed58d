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

pub fn execution() -> Arc<JsonObject> {
    let objects = || json!({ "type": "array", "items": { "type": "object" } });
    let text = || json!({ "type": "string" });
    let properties = json!({
        "id": text(),
        "status": text(),
        "plan": { "type": "object" },
        "progress": { "type": "object" },
        "position": { "type": "integer" },
        "steps": objects(),
        "waiting": objects(),
        "brief": { "type": "object" },
        "next": { "type": "array", "items": text() },
    });
    answer(properties, &["id", "status", "progress", "position", "steps", "waiting", "next"])
}
