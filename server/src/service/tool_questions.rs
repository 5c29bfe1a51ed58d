//! Renders the questions of a tool (MCP `inputRequests`) as text: its messages and the fields of its forms.

use serde_json::Value;

use super::quote::{self, quoted};
use super::view::QUOTE_CHARS_MAX;

const NAME_CHARS_MAX: usize = 60;

/// What a tool asks for, as the end of a sentence that begins "Step `x` asks".
pub fn tool_request_text(asked: Option<&Value>) -> String {
    let requests = asked.and_then(|asked| asked.get("inputRequests")).and_then(Value::as_object);
    let requests = requests.into_iter().flatten();
    let texts: Vec<String> = requests.map(|(key, request)| request_text(key, request)).collect();
    if texts.is_empty() { " to be called again.".to_owned() } else { format!(": {}", texts.join("; ")) }
}

/// One request of a tool: its message, its key, and the fields of its form or the address to open.
fn request_text(key: &str, request: &Value) -> String {
    let params = &request["params"];
    let message = params["message"].as_str();
    let message = message
        .map_or("something that only a model can answer".to_owned(), |text| quoted(text, QUOTE_CHARS_MAX));
    let key = quote::line(key, NAME_CHARS_MAX);
    let schema = &params["requestedSchema"];
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let fields = schema["properties"].as_object().into_iter().flatten().map(|(name, field)| {
        let optional = if required.contains(&name.as_str()) { "" } else { ", optional" };
        let choices: Vec<&str> =
            field["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let kind = if choices.is_empty() {
            field["type"].as_str().unwrap_or("any").to_owned()
        } else {
            choices.join(" | ")
        };
        format!("{name} ({kind}{optional})")
    });
    let fields: Vec<String> = fields.collect();
    match (fields.is_empty(), params["url"].as_str()) {
        (true, Some(url)) => format!("{message} [{key}: open {}]", quoted(url, QUOTE_CHARS_MAX)),
        (true, None) => format!("{message} [{key}]"),
        (false, _) => format!("{message} [{key}: {}]", quote::line(&fields.join(", "), QUOTE_CHARS_MAX)),
    }
}
