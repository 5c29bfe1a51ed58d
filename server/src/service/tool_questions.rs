//! What a tool asks, in words: its message and the fields of its forms.

use serde_json::Value;

use super::quote::{self, quoted};
use super::view::SAID_CHARS_MAX;

const NAME_CHARS_MAX: usize = 60;

/// What a tool wants to know, in one sentence: its words, and the fields of its forms.
pub fn asks_for(asked: Option<&Value>) -> String {
    let requests = asked.and_then(|asked| asked.get("inputRequests")).and_then(Value::as_object);
    let told: Vec<String> = requests.into_iter().flatten().map(|(key, one)| request_text(key, one)).collect();
    match told.is_empty() {
        true => " to be called again.".to_owned(),
        false => format!(": {}", told.join("; ")),
    }
}

fn request_text(key: &str, request: &Value) -> String {
    let params = &request["params"];
    let words = params["message"].as_str();
    let words = words
        .map_or("something that only a model can answer".to_owned(), |words| quoted(words, SAID_CHARS_MAX));
    let key = quote::line(key, NAME_CHARS_MAX);
    let schema = &params["requestedSchema"];
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let fields = schema["properties"].as_object().into_iter().flatten().map(|(name, field)| {
        let optional = if required.contains(&name.as_str()) { "" } else { ", optional" };
        let choices: Vec<&str> =
            field["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let kind = match choices.is_empty() {
            true => field["type"].as_str().unwrap_or("any").to_owned(),
            false => choices.join(" | "),
        };
        format!("{name} ({kind}{optional})")
    });
    let fields: Vec<String> = fields.collect();
    match (fields.is_empty(), params["url"].as_str()) {
        (true, Some(url)) => format!("{words} [{key}: open {}]", quoted(url, SAID_CHARS_MAX)),
        (true, None) => format!("{words} [{key}]"),
        (false, _) => format!("{words} [{key}: {}]", quote::line(&fields.join(", "), SAID_CHARS_MAX)),
    }
}
