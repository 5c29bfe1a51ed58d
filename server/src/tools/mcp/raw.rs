//! Tool descriptions as they were sent. rmcp's types drop what they do not know, and a field that they
//! drop could change unseen; so each tool of a list travels through them inside its own `_meta`, whole.
//!
//! A list is bounded here, before anything is made of it: a description in memory takes many times its text.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rmcp::model::{ErrorCode, Tool};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::tools::limits::bytes::{LISTING_BYTES_MAX, TOOLS_MAX};

const RAW_META: &str = "actbook/raw";
/// How long a tool's description is, as it was written.
const BYTES_META: &str = "actbook/bytes";
const LIST_CHANGED: &[u8] = b"notifications/tools/list_changed";

/// Counts how often a server has said that its list changed.
pub type ListChanges = Arc<AtomicU64>;

/// What is read of a message to see how many tools it lists.
#[derive(Deserialize)]
struct ListMessage<'a> {
    #[serde(borrow)]
    result: ListResult<'a>,
}

#[derive(Deserialize)]
struct ListResult<'a> {
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
}

/// What rmcp is given of a message.
#[derive(Debug)]
pub enum Passed {
    /// As it came.
    AsIs,
    Instead(Vec<u8>),
    /// Too large for what it is.
    Nothing,
}

/// A message that lists tools has every tool wrapped up whole; any other passes as it is. A list that is too large
/// becomes an error under the same id. Not for answers to calls, which may be larger.
pub fn passed(message: &[u8]) -> Passed {
    if message.len() > LISTING_BYTES_MAX {
        return refused(message, &too_long()).map_or(Passed::Nothing, Passed::Instead);
    }
    // An escape could hide the word; nobody needs one to write `tools`.
    if !contains(message, b"\"tools\"") && !contains(message, b"\\u00") {
        return Passed::AsIs;
    }
    // Reads where each tool stands, without making anything of it.
    if let Ok(list) = serde_json::from_slice::<ListMessage<'_>>(message)
        && list.result.tools.len() > TOOLS_MAX
    {
        return refused(message, &too_many()).map_or(Passed::Nothing, Passed::Instead);
    }
    wrapped(message).map_or(Passed::AsIs, Passed::Instead)
}

fn wrapped(message: &[u8]) -> Option<Vec<u8>> {
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

pub fn too_many() -> String {
    format!("it lists more than {TOOLS_MAX} tools")
}

pub fn too_long() -> String {
    format!("its list has more than {LISTING_BYTES_MAX} bytes")
}

/// What is read of an answer whose rest is not wanted.
#[derive(Deserialize)]
struct Identified<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    /// A request has one, an answer has none.
    method: Option<IgnoredAny>,
}

/// An error in the place of an answer; none for what is no answer.
fn refused(message: &[u8], why: &str) -> Option<Vec<u8>> {
    #[derive(Serialize)]
    struct Refusal<'a> {
        jsonrpc: &'static str,
        id: &'a RawValue,
        error: Value,
    }
    let Identified { id, method: None } = serde_json::from_slice(message).ok()? else { return None };
    let error = json!({ "code": ErrorCode::INTERNAL_ERROR.0, "message": why });
    serde_json::to_vec(&Refusal { jsonrpc: "2.0", id, error }).ok()
}

/// The tool's object as its server sent it, and how long it was.
pub fn unwrapped(mut tool: Tool) -> (Value, usize) {
    let meta = tool.meta.as_mut();
    let bytes = meta.as_ref().and_then(|meta| meta.0.get(BYTES_META)).and_then(Value::as_u64);
    let raw = meta.and_then(|meta| meta.0.remove(RAW_META));
    let raw = raw.unwrap_or_else(|| serde_json::to_value(&tool).unwrap_or(Value::Object(Map::new())));
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
    (raw, bytes.unwrap_or(LISTING_BYTES_MAX))
}

pub fn says_list_changed(message: &[u8]) -> bool {
    contains(message, LIST_CHANGED)
}

fn contains(text: &[u8], sought: &[u8]) -> bool {
    text.windows(sought.len()).any(|window| window == sought)
}
