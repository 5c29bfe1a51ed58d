//! Tool descriptions as they were sent. rmcp's types drop what they do not know, and a field that they
//! drop could change unseen; so each tool of a list travels through them inside its own `_meta`, whole.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rmcp::model::Tool;
use serde_json::{Map, Value, json};

const RAW_META: &str = "actbook/raw";
const LIST_CHANGED: &[u8] = b"notifications/tools/list_changed";

/// Counts how often a server has said that its list changed.
pub type ListChanges = Arc<AtomicU64>;

/// A message that lists tools, with every tool wrapped up whole; none for any other message.
pub fn wrapped(message: &[u8]) -> Option<Vec<u8>> {
    // An escape could hide the word; nobody needs one to write `tools`.
    if !contains(message, b"\"tools\"") && !contains(message, b"\\u00") {
        return None;
    }
    let mut message: Value = serde_json::from_slice(message).ok()?;
    let tools = message.get_mut("result")?.get_mut("tools")?.as_array_mut()?;
    for tool in tools {
        let name = tool.get("name").cloned().filter(Value::is_string).unwrap_or_else(|| json!(""));
        *tool = json!({ "name": name, "inputSchema": {}, "_meta": { RAW_META: tool.take() } });
    }
    serde_json::to_vec(&message).ok()
}

/// The tool's object as its server sent it.
pub fn unwrapped(mut tool: Tool) -> Value {
    let raw = tool.meta.as_mut().and_then(|meta| meta.0.remove(RAW_META));
    raw.unwrap_or_else(|| serde_json::to_value(&tool).unwrap_or(Value::Object(Map::new())))
}

pub fn says_list_changed(message: &[u8]) -> bool {
    contains(message, LIST_CHANGED)
}

fn contains(text: &[u8], sought: &[u8]) -> bool {
    text.windows(sought.len()).any(|window| window == sought)
}
