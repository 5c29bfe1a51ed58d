//! The reply to a tool's question in MCP's format. People may type less than a server expects: for a single
//! form, its fields are enough.

use serde_json::{Map, Value, json};

use super::command::Refusal;

/// Completes a reply to MCP's format, keyed as the tool's `inputRequests`; refused where keys are missing or
/// unknown.
pub(super) fn complete_reply(question: &Value, given: &Value) -> Result<Value, Refusal> {
    let no_requests = Map::new();
    let asked = question.get("inputRequests").and_then(Value::as_object).unwrap_or(&no_requests);
    let Value::Object(given) = given else {
        return Err(reply_refusal("the reply is a JSON object", asked));
    };
    let is_keyed = !given.is_empty() && given.keys().all(|key| asked.contains_key(key));
    let replies: Map<String, Value> = match (asked.len(), asked.keys().next()) {
        (0, _) => Map::new(),
        (1, Some(only)) if !is_keyed => {
            Map::from_iter([(only.clone(), wrap_form_reply(&Value::Object(given.clone())))])
        }
        (_, _) => given.iter().map(|(key, value)| (key.clone(), wrap_form_reply(value))).collect(),
    };
    if let Some(unasked) = replies.keys().find(|key| !asked.contains_key(*key)) {
        return Err(reply_refusal(&format!("nothing was asked under `{unasked}`"), asked));
    }
    if let Some(left) = asked.keys().find(|key| !replies.contains_key(*key)) {
        return Err(reply_refusal(&format!("`{left}` has no reply"), asked));
    }
    Ok(Value::Object(replies))
}

/// Wraps a form's fields as an accepted form; a value that is a full MCP result stays.
fn wrap_form_reply(value: &Value) -> Value {
    let is_full_result = ["action", "role", "roots"].iter().any(|field| value.get(field).is_some());
    if is_full_result { value.clone() } else { json!({ "action": "accept", "content": value }) }
}

/// The refusal of a reply; its cure lists the keys that the tool asked for.
fn reply_refusal(message: &str, asked: &Map<String, Value>) -> Refusal {
    let keys: Vec<String> = asked.keys().map(|key| format!("`{key}`")).collect();
    Refusal::new("reply_does_not_fit", message, format!("it asks under {}", keys.join(", ")))
}
