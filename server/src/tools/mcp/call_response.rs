//! Parses a server's response to a tool call. rmcp guesses from its fields what kind of result a response is,
//! so that one with an extra field may be taken for a list of prompts; and guessing is most of the cost of
//! parsing.

use actbook_engine::long_number::quote_inexact_in_json;
use rmcp::model::{
    CallToolResult, ContentBlock, CustomResult, JsonRpcVersion2_0, MetaObject, RequestId, ResultType,
    ServerJsonRpcMessage, ServerResult,
};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};
use serde_json::{Value, json};

/// A JSON-RPC response with a result and no other fields. A message with others, such as an error, is not
/// parsed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallResponse {
    #[serde(rename = "jsonrpc")]
    _version: JsonRpcVersion2_0,
    id: RequestId,
    result: CallResultFields,
}

/// The fields that distinguish a tool result from a question, a task or any other result.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallResultFields {
    result_type: Option<ResultType>,
    content: Option<Vec<ContentBlock>>,
    #[serde(default, deserialize_with = "present")]
    structured_content: Option<Value>,
    is_error: Option<bool>,
    #[serde(rename = "_meta")]
    meta: Option<MetaObject>,
}

/// Reads an explicit null as `Some(Value::Null)`; only an absent field is `None`.
fn present<'de, D: Deserializer<'de>>(field: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(field).map(Some)
}

/// The id of the request that a message answers, with a result or an error. None: it is not an answer.
pub fn answered_id(message: &ServerJsonRpcMessage) -> Option<&RequestId> {
    match message {
        ServerJsonRpcMessage::Response(response) => Some(&response.id),
        ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
        ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => None,
    }
}

/// The parts of a message that tell which request it answers.
#[derive(Deserialize)]
struct AnswerEnvelope {
    id: RequestId,
    /// Present in a request, absent in an answer.
    method: Option<IgnoredAny>,
    result: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

/// The id of the request that a message answers, also where its result cannot be parsed: values are skipped
/// without recursion, however deep they are nested. None: it is not JSON, or not an answer.
pub fn scan_answered_id(message: &[u8]) -> Option<RequestId> {
    let envelope: AnswerEnvelope = serde_json::from_slice(message).ok()?;
    let is_answer = envelope.method.is_none() && (envelope.result.is_some() || envelope.error.is_some());
    is_answer.then_some(envelope.id)
}

/// Stands for an answer that cannot be read: a result that is not a tool result.
pub fn invalid_answer(id: RequestId) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::response(ServerResult::CustomResult(CustomResult(json!({}))), id)
}

/// Parses a message as the result of a call; `is_call` says whether a call in flight has this id. None: the
/// message does not answer a call, or declares itself something else, such as a task or a question.
pub fn parse(message: &[u8], is_call: impl FnOnce(&RequestId) -> bool) -> Option<ServerJsonRpcMessage> {
    let text = quote_inexact_in_json(std::str::from_utf8(message).ok()?);
    let CallResponse { id, result: fields, .. } = serde_json::from_str(&text).ok()?;
    if fields.result_type.as_ref().is_some_and(|kind| !kind.is_complete()) || !is_call(&id) {
        return None;
    }
    let result = match (&fields.content, &fields.structured_content, fields.is_error) {
        // Not a tool result; rmcp would take it for one if it has a `_meta`.
        (None, None, None) => return Some(invalid_answer(id)),
        _ => ServerResult::CallToolResult(tool_result(fields)),
    };
    Some(ServerJsonRpcMessage::response(result, id))
}

/// rmcp's result with these fields.
fn tool_result(fields: CallResultFields) -> CallToolResult {
    let mut result = CallToolResult::default();
    result.content = fields.content.unwrap_or_default();
    result.structured_content = fields.structured_content;
    result.is_error = fields.is_error;
    result.meta = fields.meta;
    result
}
