//! The demo server's tools: names, schemas, and hints that match what the tools do.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

/// A tool as it is listed, with the compiled schema of its arguments.
pub struct DemoTool {
    pub tool: Tool,
    pub validator: jsonschema::Validator,
}

impl DemoTool {
    /// Whether the tool may change something: it does not claim to be read-only.
    pub fn has_effect(&self) -> bool {
        self.tool.annotations.as_ref().is_none_or(|hints| hints.read_only_hint != Some(true))
    }
}

/// What a call does to the folder; it decides the protocol's hints.
#[derive(Clone, Copy)]
enum FolderEffect {
    None,
    Adds,
    Replaces,
    /// Replaces, and a second call with the same arguments changes nothing.
    ReplacesIdempotently,
}

impl FolderEffect {
    /// The protocol's hints for this effect.
    fn annotations(self) -> ToolAnnotations {
        let (read_only, destructive, idempotent) = match self {
            Self::None => (true, false, true),
            Self::Adds => (false, false, false),
            Self::Replaces => (false, true, false),
            Self::ReplacesIdempotently => (false, true, true),
        };
        ToolAnnotations::new()
            .read_only(read_only)
            .destructive(destructive)
            .idempotent(idempotent)
            .open_world(false)
    }
}

/// The tools that are always offered.
pub fn base_tools() -> Vec<DemoTool> {
    [file_tools(), number_tools(), failure_tools()].into_iter().flatten().collect()
}

/// A tool's definition before its schemas are built; every property of `output` will be required.
struct ToolSpec {
    name: &'static str,
    description: &'static str,
    effect: FolderEffect,
    arguments: Value,
    required: &'static [&'static str],
    output: Value,
}

fn file_tools() -> Vec<DemoTool> {
    let (text, count, flag) = (text_schema(), count_schema(), json!({ "type": "boolean" }));
    let path = json!({ "type": "string", "minLength": 1, "description": "relative to the folder" });
    let (one, content) = (json!({ "path": path }), json!({ "path": path, "content": text }));
    let tool = |name, description, effect, arguments, required, output| {
        build_tool(ToolSpec { name, description, effect, arguments, required, output })
    };
    let (of_path, of_content): (&[_], &[_]) = (&["path"], &["path", "content"]);
    vec![
        tool(
            "write_file",
            "Write a file, replacing what was there.",
            FolderEffect::ReplacesIdempotently,
            content.clone(),
            of_content,
            json!({ "path": text, "bytes": count, "created": flag }),
        ),
        tool(
            "append_file",
            "Append text to a file, creating it if need be.",
            FolderEffect::Adds,
            content,
            of_content,
            json!({ "path": text, "bytes": count }),
        ),
        tool(
            "move_file",
            "Move a file; refuses to overwrite.",
            FolderEffect::Replaces,
            json!({ "from": path, "to": path }),
            &["from", "to"],
            json!({ "from": text, "to": text }),
        ),
        tool(
            "delete_file",
            "Delete a file; deleting a missing file is not an error.",
            FolderEffect::ReplacesIdempotently,
            one.clone(),
            of_path,
            json!({ "path": text, "existed": flag }),
        ),
    ]
    .into_iter()
    .chain(reading_tools(one))
    .collect()
}

fn reading_tools(one_path: Value) -> Vec<DemoTool> {
    let (text, count) = (text_schema(), count_schema());
    let tool = |name, description, arguments, required, output| {
        build_tool(ToolSpec { name, description, effect: FolderEffect::None, arguments, required, output })
    };
    vec![
        tool(
            "stat_file",
            "Say whether a file exists, and its size.",
            one_path.clone(),
            &["path"],
            json!({ "path": text, "exists": { "type": "boolean" }, "bytes": count }),
        ),
        tool("read_file", "Read a text file.", one_path, &["path"], json!({ "path": text, "content": text })),
        tool(
            "list_files",
            "List all files of the folder, by path.",
            json!({}),
            &[],
            json!({ "files": { "type": "array", "items": text } }),
        ),
    ]
}

fn number_tools() -> Vec<DemoTool> {
    let output = json!({ "name": text_schema(), "value": { "type": "integer" } });
    vec![
        build_tool(ToolSpec {
            name: "counter_add",
            description: "Add to a named counter.",
            effect: FolderEffect::Adds,
            arguments: json!({ "name": name_schema(), "amount": { "type": "integer", "default": 1 } }),
            required: &["name"],
            output: output.clone(),
        }),
        build_tool(ToolSpec {
            name: "counter_get",
            description: "Read a named counter; 0 if never added to.",
            effect: FolderEffect::None,
            arguments: json!({ "name": name_schema() }),
            required: &["name"],
            output,
        }),
    ]
}

/// Tools that try out what a plan does when time passes, a call fails, or the server exits.
fn failure_tools() -> Vec<DemoTool> {
    let anything = json!({ "type": "object" });
    vec![
        compile_tool("echo", "Answer with the arguments.", FolderEffect::None, anything.clone(), anything),
        build_tool(ToolSpec {
            name: "sleep",
            description: "Sleep, reporting progress; stops when cancelled.",
            effect: FolderEffect::None,
            arguments: json!({ "ms": { "type": "integer", "minimum": 0, "maximum": 3_600_000 } }),
            required: &["ms"],
            output: json!({ "slept_ms": count_schema() }),
        }),
        build_tool(ToolSpec {
            name: "fail_times",
            description: "Fail the first `times` calls under a name, then succeed.",
            effect: FolderEffect::Adds,
            arguments: json!({ "name": name_schema(), "times": count_schema() }),
            required: &["name", "times"],
            output: json!({ "name": text_schema(), "calls": count_schema() }),
        }),
        build_tool(ToolSpec {
            name: "crash",
            description: "End the server in the middle of the call, after writing a file if asked to.",
            effect: FolderEffect::ReplacesIdempotently,
            arguments: json!({ "after_effect": { "type": "string", "minLength": 1 } }),
            required: &[],
            output: json!({}),
        }),
    ]
}

/// Tools that answer with a task or ask back. Offered on request only: not every client supports that.
pub fn long_tools() -> Vec<DemoTool> {
    let output = json!({ "path": text_schema(), "bytes": count_schema() });
    vec![
        build_tool(ToolSpec {
            name: "append_later",
            description: "Append text to a file after a while, as a task; with `ask` it wants a name first.",
            effect: FolderEffect::Adds,
            arguments: json!({
                "path": name_schema(), "content": text_schema(), "ms": count_schema(), "ask": { "type": "boolean" },
            }),
            required: &["path", "content", "ms"],
            output: output.clone(),
        }),
        build_tool(ToolSpec {
            name: "sign",
            description: "Sign a file, after asking in whose name.",
            effect: FolderEffect::Adds,
            arguments: json!({ "path": name_schema() }),
            required: &["path"],
            output,
        }),
    ]
}

fn text_schema() -> Value {
    json!({ "type": "string" })
}

fn count_schema() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}

fn name_schema() -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": 200 })
}

/// Builds both schemas and compiles the tool.
fn build_tool(spec: ToolSpec) -> DemoTool {
    let ToolSpec { name, description, effect, arguments, required, output } = spec;
    let always_present: Vec<String> =
        output.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    let input = json!({
        "type": "object", "properties": arguments, "required": required, "additionalProperties": false,
    });
    let output = json!({ "type": "object", "properties": output, "required": always_present });
    compile_tool(name, description, effect, input, output)
}

/// Compiles a tool from complete schemas.
fn compile_tool(
    name: &'static str,
    description: &'static str,
    effect: FolderEffect,
    input: Value,
    output: Value,
) -> DemoTool {
    let validator = jsonschema::validator_for(&input).expect("the schemas above are well formed");
    let tool = Tool::new(name, description, schema_object(input))
        .with_raw_output_schema(schema_object(output))
        .with_annotations(effect.annotations());
    DemoTool { tool, validator }
}

fn schema_object(schema: Value) -> Arc<JsonObject> {
    match schema {
        Value::Object(object) => Arc::new(object),
        other => unreachable!("a schema above is no object: {other}"),
    }
}
