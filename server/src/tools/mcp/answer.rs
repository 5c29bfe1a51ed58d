//! A server's answer to a call, read as one. rmcp guesses from its fields what an answer is of, so that one
//! with a field too many becomes a list of prompts; and the guessing is most of what the reading costs.

use rmcp::model::{
    CallToolResult, ContentBlock, CustomResult, JsonRpcVersion2_0, RequestId, ResultType,
    ServerJsonRpcMessage, ServerResult,
};
use serde::Deserialize;
use serde::de::Deserializer;
use serde_json::{Value, json};

/// Without an error beside its result, or anything else.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    #[serde(rename = "jsonrpc")]
    _version: JsonRpcVersion2_0,
    id: RequestId,
    result: Said,
}

/// The fields that tell a tool's result from a question, a task, or whatever else.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Said {
    result_type: Option<ResultType>,
    content: Option<Vec<ContentBlock>>,
    #[serde(default, deserialize_with = "present")]
    structured_content: Option<Value>,
    is_error: Option<bool>,
}

/// A null that is said is not the same as none.
fn present<'de, D: Deserializer<'de>>(field: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(field).map(Some)
}

/// The id of the request that a message answers.
pub fn id_of_request(message: &ServerJsonRpcMessage) -> Option<&RequestId> {
    match message {
        ServerJsonRpcMessage::Response(response) => Some(&response.id),
        ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
        ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => None,
    }
}

/// None for what is no answer to a call, or names itself something other than its result.
pub fn of_call(message: &[u8], is_call: impl FnOnce(&RequestId) -> bool) -> Option<ServerJsonRpcMessage> {
    let Answer { id, result: said, .. } = serde_json::from_slice(message).ok()?;
    if said.result_type.as_ref().is_some_and(|kind| !kind.is_complete()) || !is_call(&id) {
        return None;
    }
    let result = match (&said.content, &said.structured_content, said.is_error) {
        // rmcp takes anything that has a `_meta` for one.
        (None, None, None) => ServerResult::CustomResult(CustomResult(json!({}))),
        _ => ServerResult::CallToolResult(result(said)),
    };
    Some(ServerJsonRpcMessage::response(result, id))
}

fn result(said: Said) -> CallToolResult {
    let mut result = CallToolResult::default();
    result.content = said.content.unwrap_or_default();
    result.structured_content = said.structured_content;
    result.is_error = said.is_error;
    result
}
