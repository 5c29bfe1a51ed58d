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
    Replaces,
    ReplacesOnce,
}

impl Effect {
    fn hints(self) -> ToolAnnotations {
        let (read_only, destructive, idempotent) = match self {
            Self::None => (true, false, true),
            Self::Adds => (false, false, false),
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
    [file_tools(), number_tools(), trying_tools()].into_iter().flatten().collect()
}

/// A tool before its schemas are built: every property of the output is always there.
struct Draft {
    name: &'static str,
    description: &'static str,
    effect: Effect,
    arguments: Value,
    required: &'static [&'static str],
    output: Value,
}

fn file_tools() -> Vec<Offered> {
    let (text, count, flag) = (text(), count(), json!({ "type": "boolean" }));
    let path = json!({ "type": "string", "minLength": 1, "description": "relative to the folder" });
    let (one, content) = (json!({ "path": path }), json!({ "path": path, "content": text }));
    let draft = |name, description, effect, arguments, required, output| {
        build(Draft { name, description, effect, arguments, required, output })
    };
    let (of_path, of_content): (&[_], &[_]) = (&["path"], &["path", "content"]);
    vec![
        draft(
            "write_file",
            "Write a file, replacing what was there.",
            Effect::ReplacesOnce,
            content.clone(),
            of_content,
            json!({ "path": text, "bytes": count, "created": flag }),
        ),
        draft(
            "append_file",
            "Append text to a file, creating it if need be.",
            Effect::Adds,
            content,
            of_content,
            json!({ "path": text, "bytes": count }),
        ),
        draft(
            "move_file",
            "Move a file; refuses to overwrite.",
            Effect::Replaces,
            json!({ "from": path, "to": path }),
            &["from", "to"],
            json!({ "from": text, "to": text }),
        ),
        draft(
            "delete_file",
            "Delete a file; deleting nothing is no error.",
            Effect::ReplacesOnce,
            one.clone(),
            of_path,
            json!({ "path": text, "existed": flag }),
        ),
    ]
    .into_iter()
    .chain(reading_tools(one))
    .collect()
}

fn reading_tools(one_path: Value) -> Vec<Offered> {
    let (text, count) = (text(), count());
    let draft = |name, description, arguments, required, output| {
        build(Draft { name, description, effect: Effect::None, arguments, required, output })
    };
    vec![
        draft(
            "stat_file",
            "Say whether a file exists, and its size.",
            one_path.clone(),
            &["path"],
            json!({ "path": text, "exists": { "type": "boolean" }, "bytes": count }),
        ),
        draft(
            "read_file",
            "Read a text file.",
            one_path,
            &["path"],
            json!({ "path": text, "content": text }),
        ),
        draft(
            "list_files",
            "List all files of the folder, by path.",
            json!({}),
            &[],
            json!({ "files": { "type": "array", "items": text } }),
        ),
    ]
}

fn number_tools() -> Vec<Offered> {
    let output = json!({ "name": text(), "value": { "type": "integer" } });
    vec![
        build(Draft {
            name: "counter_add",
            description: "Add to a named counter.",
            effect: Effect::Adds,
            arguments: json!({ "name": name(), "amount": { "type": "integer", "default": 1 } }),
            required: &["name"],
            output: output.clone(),
        }),
        build(Draft {
            name: "counter_get",
            description: "Read a named counter; 0 if never added to.",
            effect: Effect::None,
            arguments: json!({ "name": name() }),
            required: &["name"],
            output,
        }),
    ]
}

/// For trying out what a plan does when time passes, things fail, or a server dies.
fn trying_tools() -> Vec<Offered> {
    let anything = json!({ "type": "object" });
    vec![
        compile("echo", "Answer with the arguments.", Effect::None, anything.clone(), anything),
        build(Draft {
            name: "sleep",
            description: "Sleep, reporting progress; stops when cancelled.",
            effect: Effect::None,
            arguments: json!({ "ms": { "type": "integer", "minimum": 0, "maximum": 3_600_000 } }),
            required: &["ms"],
            output: json!({ "slept_ms": count() }),
        }),
        build(Draft {
            name: "fail_times",
            description: "Fail the first `times` calls under a name, then succeed.",
            effect: Effect::Adds,
            arguments: json!({ "name": name(), "times": count() }),
            required: &["name", "times"],
            output: json!({ "name": text(), "calls": count() }),
        }),
        build(Draft {
            name: "crash",
            description: "End the server in the middle of the call, after writing a file if asked to.",
            effect: Effect::ReplacesOnce,
            arguments: json!({ "after_effect": { "type": "string", "minLength": 1 } }),
            required: &[],
            output: json!({}),
        }),
    ]
}

/// Offered only where asked for: not every client can wait for a task or answer a question.
pub fn long_tools() -> Vec<Offered> {
    let output = json!({ "path": text(), "bytes": count() });
    vec![
        build(Draft {
            name: "append_later",
            description: "Append text to a file after a while, as a task; with `ask` it wants a name first.",
            effect: Effect::Adds,
            arguments: json!({
                "path": name(), "content": text(), "ms": count(), "ask": { "type": "boolean" },
            }),
            required: &["path", "content", "ms"],
            output: output.clone(),
        }),
        build(Draft {
            name: "sign",
            description: "Sign a file, after asking in whose name.",
            effect: Effect::Adds,
            arguments: json!({ "path": name() }),
            required: &["path"],
            output,
        }),
    ]
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn count() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}

fn name() -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": 200 })
}

fn build(draft: Draft) -> Offered {
    let Draft { name, description, effect, arguments, required, output } = draft;
    let always: Vec<String> =
        output.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    let input = json!({
        "type": "object", "properties": arguments, "required": required, "additionalProperties": false,
    });
    let output = json!({ "type": "object", "properties": output, "required": always });
    compile(name, description, effect, input, output)
}

fn compile(
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
