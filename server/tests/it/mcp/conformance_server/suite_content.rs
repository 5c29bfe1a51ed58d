//! The tools, prompts, resources and fixed results that the suite's scenarios prescribe, word for word.

use rmcp::model::{JsonObject, Tool};
use serde_json::{Map, Value, json};

/// A PNG of one red pixel, in base64.
const IMAGE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/// A WAV file without samples, in base64.
const AUDIO: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";

/// The tools that take no arguments.
const TOOLS_WITHOUT_ARGUMENTS: [&str; 29] = [
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_tool_with_logging",
    "test_logging_tool",
    "test_error_handling",
    "test_tool_with_progress",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_reconnection",
    "test_missing_capability",
    "test_streaming_elicitation",
    "test_trigger_tool_change",
    "test_trigger_prompt_change",
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
    "failing_job",
    "protocol_error_job",
    "confirm_delete",
    "multi_input",
    "test_tool_with_task",
];

/// All tools of the suite.
pub fn tools() -> Vec<Tool> {
    let plain = TOOLS_WITHOUT_ARGUMENTS
        .iter()
        .map(|name| suite_tool(name, json!({ "type": "object", "properties": {} })));
    let one = |name: &str| json!({ "type": "object", "properties": { name: { "type": "string" } }, "required": [name] });
    let header = json!({
        "type": "object",
        "properties": { "region": { "type": "string", "x-mcp-header": "Region" } },
        "required": ["region"],
    });
    let others = [
        suite_tool("test_sampling", one("prompt")),
        suite_tool("test_elicitation", one("message")),
        suite_tool("test_custom_headers", header),
        suite_tool("greet", one("name")),
        suite_tool(
            "slow_compute",
            json!({ "type": "object", "properties": { "seconds": { "type": "integer" } } }),
        ),
        suite_tool("json_schema_2020_12_tool", schema_2020_12()),
    ];
    plain.chain(others).collect()
}

fn suite_tool(name: &'static str, schema: Value) -> Tool {
    let schema: JsonObject = schema.as_object().cloned().unwrap_or_default();
    Tool::new(name, "Part of the conformance suite", schema)
}

/// An input schema that uses keywords of JSON Schema 2020-12.
fn schema_2020_12() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": { "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
        } },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}

/// The result of a tool that always answers the same; None: the tool is no such tool.
pub fn fixed_result(tool: &str) -> Option<Value> {
    let text = |text: &str| json!({ "type": "text", "text": text });
    let image = || json!({ "type": "image", "data": IMAGE, "mimeType": "image/png" });
    let content = match tool {
        "test_simple_text" => json!([text("This is a simple text response for testing.")]),
        "test_image_content" => json!([image()]),
        "test_audio_content" => json!([{ "type": "audio", "data": AUDIO, "mimeType": "audio/wav" }]),
        "test_embedded_resource" => json!([{ "type": "resource", "resource": {
            "uri": "test://embedded-resource",
            "mimeType": "text/plain",
            "text": "This is an embedded resource content.",
        } }]),
        "test_multiple_content_types" => json!([text("Multiple content types test:"), image(), {
            "type": "resource",
            "resource": {
                "uri": "test://mixed-content-resource",
                "mimeType": "application/json",
                "text": "{\"test\":\"data\",\"value\":123}",
            },
        }]),
        "test_error_handling" => {
            let words = "This tool intentionally returns an error for testing";
            return Some(json!({ "resultType": "complete", "isError": true, "content": [text(words)] }));
        }
        "test_logging_tool"
        | "test_reconnection"
        | "test_streaming_elicitation"
        | "test_custom_headers"
        | "json_schema_2020_12_tool" => json!([text("done")]),
        _ => return None,
    };
    Some(json!({ "resultType": "complete", "content": content }))
}

/// The elicitation of a tool as JSON, and the prefix of the text that reports its answer.
pub fn elicitation_form(tool: &str, message: &str) -> (&'static str, Value) {
    let titled =
        |names: [(&str, &str); 3]| names.map(|(value, title)| json!({ "const": value, "title": title }));
    let plain = json!(["option1", "option2", "option3"]);
    let first = titled([("value1", "First Option"), ("value2", "Second Option"), ("value3", "Third Option")]);
    let choices =
        titled([("value1", "First Choice"), ("value2", "Second Choice"), ("value3", "Third Choice")]);
    let (prefix, message, properties, required) = match tool {
        "test_elicitation" => {
            let username = json!({ "type": "string", "description": "User's response" });
            let email = json!({ "type": "string", "description": "User's email address" });
            let fields = json!({ "username": username, "email": email });
            ("User response", message, fields, json!(["username", "email"]))
        }
        "test_elicitation_sep1034_defaults" => {
            let fields = json!({
                "name": { "type": "string", "default": "John Doe" },
                "age": { "type": "integer", "default": 30 },
                "score": { "type": "number", "default": 95.5 },
                "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
                "verified": { "type": "boolean", "default": true },
            });
            ("Elicitation completed", "Every field has a default", fields, json!([]))
        }
        _ => {
            let names = json!(["Option One", "Option Two", "Option Three"]);
            let fields = json!({
                "untitledSingle": { "type": "string", "enum": plain },
                "titledSingle": { "type": "string", "oneOf": first },
                "legacyEnum": { "type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": names },
                "untitledMulti": { "type": "array", "items": { "type": "string", "enum": plain } },
                "titledMulti": { "type": "array", "items": { "anyOf": choices } },
            });
            ("Elicitation completed", "Choose from every kind of list", fields, json!([]))
        }
    };
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    (prefix, json!({ "mode": "form", "message": message, "requestedSchema": schema }))
}

/// The list of prompts.
pub fn prompts() -> Value {
    let plain = |name: &str| json!({ "name": name, "description": "Part of the conformance suite" });
    let argument = |name: &str| json!({ "name": name, "required": true });
    let mut with_arguments = plain("test_prompt_with_arguments");
    with_arguments["arguments"] = json!([argument("arg1"), argument("arg2")]);
    let mut embedding = plain("test_prompt_with_embedded_resource");
    embedding["arguments"] = json!([argument("resourceUri")]);
    json!([
        plain("test_simple_prompt"),
        with_arguments,
        embedding,
        plain("test_prompt_with_image"),
        plain("test_input_required_result_prompt"),
    ])
}

/// The result of a prompt that needs no input; None: there is no such prompt.
pub fn prompt_result(name: &str, arguments: &Map<String, Value>) -> Option<Value> {
    let given = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
    let says = |content: Value| json!({ "role": "user", "content": content });
    let text = |text: String| says(json!({ "type": "text", "text": text }));
    let messages = match name {
        "test_simple_prompt" => json!([text("This is a simple prompt for testing.".to_owned())]),
        "test_prompt_with_arguments" => {
            let words = format!("Prompt with arguments: arg1='{}', arg2='{}'", given("arg1"), given("arg2"));
            json!([text(words)])
        }
        "test_prompt_with_embedded_resource" => {
            let words = "Embedded resource content for testing.";
            let resource = json!({ "uri": given("resourceUri"), "mimeType": "text/plain", "text": words });
            let embedded = says(json!({ "type": "resource", "resource": resource }));
            json!([embedded, text("Please process the embedded resource above.".to_owned())])
        }
        "test_prompt_with_image" => {
            let image = says(json!({ "type": "image", "data": IMAGE, "mimeType": "image/png" }));
            json!([image, text("Please analyze the image above.".to_owned())])
        }
        _ => return None,
    };
    Some(json!({ "resultType": "complete", "messages": messages }))
}

/// The list of resources.
pub fn resources() -> Value {
    json!([
        { "uri": "test://static-text", "name": "static-text", "mimeType": "text/plain" },
        { "uri": "test://static-binary", "name": "static-binary", "mimeType": "image/png" },
        { "uri": "test://watched-resource", "name": "watched-resource", "mimeType": "text/plain" },
    ])
}

/// The list of resource templates.
pub fn resource_templates() -> Value {
    json!([{ "uriTemplate": "test://template/{id}/data", "name": "template", "mimeType": "application/json" }])
}

/// The result of reading a resource; None: there is no such resource.
pub fn resource_result(uri: &str) -> Option<Value> {
    let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
    let content = match (uri, id) {
        (_, Some(id)) => {
            let text = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
            json!({ "uri": uri, "mimeType": "application/json", "text": text.to_string() })
        }
        ("test://static-text", _) => {
            let text = "This is the content of the static text resource.";
            json!({ "uri": uri, "mimeType": "text/plain", "text": text })
        }
        ("test://static-binary", _) => json!({ "uri": uri, "mimeType": "image/png", "blob": IMAGE }),
        ("test://watched-resource", _) => json!({ "uri": uri, "mimeType": "text/plain", "text": "watched" }),
        _ => return None,
    };
    Some(json!({ "resultType": "complete", "contents": [content] }))
}
