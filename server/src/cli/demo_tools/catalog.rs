//! What the demo server offers: names, schemas, and hints that are true.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

/// A tool with its arguments' schema compiled.
pub struct Offered {
    pub tool: Tool,
    pub validator: jsonschema::Validator,
}

impl Offered {
    pub fn has_effect(&self) -> bool {
        self.tool.annotations.as_ref().is_none_or(|hints| hints.read_only_hint != Some(true))
    }
}

/// What calling it does to the folder, as the protocol's hints put it.
#[derive(Clone, Copy)]
enum Effect {
    None,
    Adds,
    AddsOnce,
    Replaces,
    ReplacesOnce,
}

impl Effect {
    fn hints(self) -> ToolAnnotations {
        let (read_only, destructive, idempotent) = match self {
            Self::None => (true, false, true),
            Self::Adds => (false, false, false),
            Self::AddsOnce => (false, false, true),
            Self::Replaces => (false, true, false),
            Self::ReplacesOnce => (false, true, true),
        };
        ToolAnnotations::new()
            .read_only(read_only)
            .destructive(destructive)
            .idempotent(idempotent)
            .open_world(false)
    }
}

pub fn tools() -> Vec<Offered> {
    let path = || json!({ "type": "string", "minLength": 1 });
    let (text, count) = (json!({ "type": "string" }), json!({ "type": "integer", "minimum": 0 }));
    let (name, flag) =
        (json!({ "type": "string", "minLength": 1, "maxLength": 200 }), json!({ "type": "boolean" }));
    let written = json!({ "path": text, "bytes": count });
    vec![
        offer(
            "write_file",
            "Write a file, replacing what was there.",
            Effect::ReplacesOnce,
            json!({ "path": path(), "content": text }),
            &["path", "content"],
            json!({ "path": text, "bytes": count, "created": flag }),
        ),
        offer(
            "append_file",
            "Append text to a file, creating it if need be.",
            Effect::Adds,
            json!({ "path": path(), "content": text }),
            &["path", "content"],
            written,
        ),
        offer(
            "move_file",
            "Move a file; refuses to overwrite.",
            Effect::Replaces,
            json!({ "from": path(), "to": path() }),
            &["from", "to"],
            json!({ "from": text, "to": text }),
        ),
        offer(
            "delete_file",
            "Delete a file; deleting nothing is no error.",
            Effect::ReplacesOnce,
            json!({ "path": path() }),
            &["path"],
            json!({ "path": text, "existed": flag }),
        ),
        offer(
            "stat_file",
            "Say whether a file exists, and its size.",
            Effect::None,
            json!({ "path": path() }),
            &["path"],
            json!({ "path": text, "exists": flag, "bytes": count }),
        ),
        offer(
            "read_file",
            "Read a text file.",
            Effect::None,
            json!({ "path": path() }),
            &["path"],
            json!({ "path": text, "content": text }),
        ),
        offer(
            "list_files",
            "List all files of the folder, by path.",
            Effect::None,
            json!({}),
            &[],
            json!({ "files": { "type": "array", "items": text } }),
        ),
        offer(
            "counter_add",
            "Add to a named counter.",
            Effect::Adds,
            json!({ "name": name, "amount": { "type": "integer", "default": 1 } }),
            &["name"],
            json!({ "name": text, "value": { "type": "integer" } }),
        ),
        offer(
            "counter_get",
            "Read a named counter; 0 if never added to.",
            Effect::None,
            json!({ "name": name }),
            &["name"],
            json!({ "name": text, "value": { "type": "integer" } }),
        ),
        offer_any("echo", "Answer with the arguments.", Effect::None),
        offer(
            "sleep",
            "Sleep, reporting progress; stops when cancelled.",
            Effect::None,
            json!({ "ms": { "type": "integer", "minimum": 0, "maximum": 3_600_000 } }),
            &["ms"],
            json!({ "slept_ms": count }),
        ),
        offer(
            "fail_times",
            "Fail the first `times` calls under a name, then succeed.",
            Effect::Adds,
            json!({ "name": name, "times": count }),
            &["name", "times"],
            json!({ "name": text, "calls": count }),
        ),
        offer(
            "crash",
            "End the server in the middle of the call, after writing a file if asked to.",
            Effect::AddsOnce,
            json!({ "after_effect": path() }),
            &[],
            json!({}),
        ),
    ]
}

fn offer(
    name: &'static str,
    description: &'static str,
    effect: Effect,
    arguments: Value,
    required: &[&str],
    output: Value,
) -> Offered {
    let always: Vec<String> =
        output.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    let input = json!({
        "type": "object", "properties": arguments, "required": required, "additionalProperties": false,
    });
    let output = json!({ "type": "object", "properties": output, "required": always });
    build(name, description, effect, input, output)
}

fn offer_any(name: &'static str, description: &'static str, effect: Effect) -> Offered {
    build(name, description, effect, json!({ "type": "object" }), json!({ "type": "object" }))
}

fn build(
    name: &'static str,
    description: &'static str,
    effect: Effect,
    input: Value,
    output: Value,
) -> Offered {
    let validator = jsonschema::validator_for(&input).expect("the schemas above are well formed");
    let tool = Tool::new(name, description, object(input))
        .with_raw_output_schema(object(output))
        .with_annotations(effect.hints());
    Offered { tool, validator }
}

fn object(schema: Value) -> Arc<JsonObject> {
    match schema {
        Value::Object(object) => Arc::new(object),
        other => unreachable!("a schema above is no object: {other}"),
    }
}
