//! A server's answer to a call, read as one. rmcp guesses from its fields what an answer is of, so that one
//! with a field too many becomes a list of prompts; and the guessing is most of what the reading costs.

use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, CustomResult, JsonRpcVersion2_0, RequestId, ResultType,
    ServerJsonRpcMessage, ServerResult,
};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};
use serde_json::json;
use serde_json::value::RawValue;

/// Without an error beside its result, or anything else.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer<'a> {
    #[serde(rename = "jsonrpc")]
    _version: JsonRpcVersion2_0,
    id: RequestId,
    #[serde(borrow)]
    result: &'a RawValue,
}

/// What tells a tool's result from a question, a task, or whatever else.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kind {
    result_type: Option<ResultType>,
    #[serde(default, deserialize_with = "present")]
    content: bool,
    #[serde(default, deserialize_with = "present")]
    structured_content: bool,
    #[serde(default, deserialize_with = "present")]
    is_error: bool,
}

fn present<'de, D: Deserializer<'de>>(field: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(field).map(|_| true)
}

/// The id of a call that a message makes.
pub fn id_of_call(message: &ClientJsonRpcMessage) -> Option<&RequestId> {
    match message {
        ClientJsonRpcMessage::Request(asked) => {
            matches!(asked.request, ClientRequest::CallToolRequest(_)).then_some(&asked.id)
        }
        _ => None,
    }
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
    let Answer { id, result, .. } = serde_json::from_slice(message).ok()?;
    let kind: Kind = serde_json::from_str(result.get()).ok()?;
    if kind.result_type.is_some_and(|kind| !kind.is_complete()) || !is_call(&id) {
        return None;
    }
    let result = match kind.content || kind.structured_content || kind.is_error {
        true => ServerResult::CallToolResult(serde_json::from_str(result.get()).ok()?),
        // rmcp takes anything that has a `_meta` for one.
        false => ServerResult::CustomResult(CustomResult(json!({}))),
    };
    Some(ServerJsonRpcMessage::response(result, id))
}
