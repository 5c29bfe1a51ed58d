//! A tool's question as MCP writes it, and the reply to it. What people type is less than what a server
//! reads: for a form its fields are enough.

use serde_json::{Map, Value, json};

use super::command::Refusal;

/// The reply in full, by the keys under which the tool asked.
pub(super) fn reply(question: &Value, given: &Value) -> Result<Value, Refusal> {
    let nothing = Map::new();
    let asked = question.get("inputRequests").and_then(Value::as_object).unwrap_or(&nothing);
    let Value::Object(given) = given else {
        return Err(misfit("the reply is a JSON object", asked));
    };
    let keyed = !given.is_empty() && given.keys().all(|key| asked.contains_key(key));
    let replies: Map<String, Value> = match (asked.len(), asked.keys().next()) {
        (0, _) => Map::new(),
        (1, Some(only)) if !keyed => Map::from_iter([(only.clone(), one(&Value::Object(given.clone())))]),
        (_, _) => given.iter().map(|(key, value)| (key.clone(), one(value))).collect(),
    };
    if let Some(unasked) = replies.keys().find(|key| !asked.contains_key(*key)) {
        return Err(misfit(&format!("nothing was asked under `{unasked}`"), asked));
    }
    if let Some(left) = asked.keys().find(|key| !replies.contains_key(*key)) {
        return Err(misfit(&format!("`{left}` has no reply"), asked));
    }
    Ok(Value::Object(replies))
}

/// A form's fields become the answer to the form; what is a whole result already stays.
fn one(value: &Value) -> Value {
    let whole = ["action", "role", "roots"].iter().any(|field| value.get(field).is_some());
    if whole { value.clone() } else { json!({ "action": "accept", "content": value }) }
}

fn misfit(message: &str, asked: &Map<String, Value>) -> Refusal {
    let keys: Vec<String> = asked.keys().map(|key| format!("`{key}`")).collect();
    Refusal::new("reply_does_not_fit", message, format!("it asks under {}", keys.join(", ")))
}
