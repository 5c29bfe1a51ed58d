//! The reply to a tool's question in MCP's format. People may type less than a server expects: for a single
//! form, its fields are enough.

use serde_json::{Map, Value, json};

use crate::refusal::{Refusal, ReplyProblem};

/// Completes a reply to MCP's format, keyed as the tool's `inputRequests`; refused where keys are missing or
/// unknown.
pub(super) fn complete_reply(question: &Value, given: &Value) -> Result<Value, Refusal> {
    let no_requests = Map::new();
    let asked = question.get("inputRequests").and_then(Value::as_object).unwrap_or(&no_requests);
    let Value::Object(given) = given else {
        return Err(reply_refusal(ReplyProblem::NotAnObject, asked));
    };
    let is_keyed = !given.is_empty() && given.keys().all(|key| asked.contains_key(key));
    let replies: Map<String, Value> = match (asked.len(), asked.keys().next()) {
        (0, _) => Map::new(),
        (1, Some(only)) if !is_keyed => {
            Map::from_iter([(only.clone(), wrap_form_reply(&Value::Object(given.clone())))])
        }
        (_, _) => given.iter().map(|(key, value)| (key.clone(), wrap_form_reply(value))).collect(),
    };
    if let Some(key) = replies.keys().find(|key| !asked.contains_key(*key)) {
        return Err(reply_refusal(ReplyProblem::NotAsked { key: key.clone() }, asked));
    }
    if let Some(key) = asked.keys().find(|key| !replies.contains_key(*key)) {
        return Err(reply_refusal(ReplyProblem::NoReply { key: key.clone() }, asked));
    }
    Ok(Value::Object(replies))
}

/// Wraps a form's fields as an accepted form; a value that is a full MCP result stays.
fn wrap_form_reply(value: &Value) -> Value {
    let is_full_result = ["action", "role", "roots"].iter().any(|field| value.get(field).is_some());
    if is_full_result { value.clone() } else { json!({ "action": "accept", "content": value }) }
}

/// The refusal of a reply, with the keys that the tool asked for.
fn reply_refusal(problem: ReplyProblem, asked: &Map<String, Value>) -> Refusal {
    Refusal::ReplyDoesNotFit { problem, asked: asked.keys().cloned().collect() }
}
