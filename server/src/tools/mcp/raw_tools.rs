//! Raw tool descriptions. rmcp's types drop unknown fields, and a change of a dropped field would go
//! unnoticed; so each listed tool is passed through rmcp whole, inside its own `_meta`.
//!
//! The size of a list is checked before it is parsed: a parsed description takes many times the memory of its
//! text.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rmcp::model::{ErrorCode, Tool};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::tools::limits::bytes::{LISTING_BYTES_MAX, TOOLS_MAX};

/// The `_meta` key of the whole description.
const RAW_META: &str = "actbook/raw";
/// The `_meta` key of the description's length in bytes.
const BYTES_META: &str = "actbook/bytes";
/// The method of the notification that a server's tools have changed.
const LIST_CHANGED: &[u8] = b"notifications/tools/list_changed";

/// Counts a server's `list_changed` notifications. Clones share the count.
pub type ListChanges = Arc<AtomicU64>;

/// The part of a message that is parsed to count the tools it lists.
#[derive(Deserialize)]
struct ListMessage<'a> {
    #[serde(borrow)]
    result: ListResult<'a>,
}

/// The result of `tools/list`, with each tool left unparsed.
#[derive(Deserialize)]
struct ListResult<'a> {
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
}

/// What is passed to rmcp in place of a message.
#[derive(Debug)]
pub enum MessageRewrite {
    /// The message itself.
    Unchanged,
    /// Another message.
    Replaced(Vec<u8>),
    /// Nothing: the message is too large and is not a response.
    Dropped,
}

/// Rewrites a message for rmcp: in a tool list every tool is wrapped whole, a too large list becomes an error
/// with the same id, any other message is unchanged. Not for answers to calls, which may be larger.
pub fn rewrite_for_rmcp(message: &[u8]) -> MessageRewrite {
    if message.len() > LISTING_BYTES_MAX {
        return error_response(message, &listing_too_long())
            .map_or(MessageRewrite::Dropped, MessageRewrite::Replaced);
    }
    // `"tools"` could be spelled with escapes, so messages with escapes are parsed too.
    if !contains_bytes(message, b"\"tools\"") && !contains_bytes(message, b"\\u00") {
        return MessageRewrite::Unchanged;
    }
    // Only splits the list into raw values, without parsing the tools.
    if let Ok(list) = serde_json::from_slice::<ListMessage<'_>>(message)
        && list.result.tools.len() > TOOLS_MAX
    {
        return error_response(message, &too_many_tools())
            .map_or(MessageRewrite::Dropped, MessageRewrite::Replaced);
    }
    wrap_tools(message).map_or(MessageRewrite::Unchanged, MessageRewrite::Replaced)
}

/// The message with each listed tool moved into its `_meta`. None: it is not a tool list.
fn wrap_tools(message: &[u8]) -> Option<Vec<u8>> {
    let mut message: Value = serde_json::from_slice(message).ok()?;
    let tools = message.get_mut("result")?.get_mut("tools")?.as_array_mut()?;
    for tool in tools {
        let name = tool.get("name").cloned().filter(Value::is_string).unwrap_or_else(|| json!(""));
        let bytes = tool.to_string().len();
        let meta = json!({ RAW_META: tool.take(), BYTES_META: bytes });
        *tool = json!({ "name": name, "inputSchema": {}, "_meta": meta });
    }
    serde_json::to_vec(&message).ok()
}

/// Why a list with too many tools is refused, as the rest of a sentence.
pub fn too_many_tools() -> String {
    format!("it lists more than {TOOLS_MAX} tools")
}

/// Why a list with too many bytes is refused, as the rest of a sentence.
pub fn listing_too_long() -> String {
    format!("its list has more than {LISTING_BYTES_MAX} bytes")
}

/// The part of a message that is parsed to answer it with an error.
#[derive(Deserialize)]
struct ResponseId<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    /// Present in a request, absent in a response.
    method: Option<IgnoredAny>,
}

/// A JSON-RPC error with the id of the response, to take its place. None: the message is not a response.
fn error_response(message: &[u8], why: &str) -> Option<Vec<u8>> {
    #[derive(Serialize)]
    struct ErrorResponse<'a> {
        jsonrpc: &'static str,
        id: &'a RawValue,
        error: Value,
    }
    let ResponseId { id, method: None } = serde_json::from_slice(message).ok()? else { return None };
    let error = json!({ "code": ErrorCode::INTERNAL_ERROR.0, "message": why });
    serde_json::to_vec(&ErrorResponse { jsonrpc: "2.0", id, error }).ok()
}

/// The tool's object as its server sent it, and its length in bytes; `LISTING_BYTES_MAX` if the tool was not
/// wrapped.
pub fn unwrap_tool(mut tool: Tool) -> (Value, usize) {
    let meta = tool.meta.as_mut();
    let bytes = meta.as_ref().and_then(|meta| meta.0.get(BYTES_META)).and_then(Value::as_u64);
    let raw = meta.and_then(|meta| meta.0.remove(RAW_META));
    let raw = raw.unwrap_or_else(|| serde_json::to_value(&tool).unwrap_or(Value::Object(Map::new())));
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
    (raw, bytes.unwrap_or(LISTING_BYTES_MAX))
}

/// Whether the message contains the method name of a `list_changed` notification; elsewhere in the message
/// counts too.
pub fn mentions_list_changed(message: &[u8]) -> bool {
    contains_bytes(message, LIST_CHANGED)
}

/// Whether `part` occurs in `text`.
fn contains_bytes(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
