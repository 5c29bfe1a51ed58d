//! Tool descriptions as they were sent. rmcp's types drop what they do not know, and a field that they
//! drop could change unseen; so each tool of a list travels through them inside its own `_meta`, whole.
//! Also hears, on the way, that a server's list has changed.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use rmcp::model::Tool;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, ReadBuf};

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

fn contains(text: &[u8], sought: &[u8]) -> bool {
    text.windows(sought.len()).any(|window| window == sought)
}

/// A server's output in which lists of tools are wrapped, line by line.
pub struct RawTools<R> {
    inner: R,
    /// A line that has not ended yet; whoever reads below bounds it.
    open: Vec<u8>,
    ready: Vec<u8>,
    given: usize,
    ended: bool,
    changes: ListChanges,
}

impl<R> RawTools<R> {
    pub fn new(inner: R, changes: ListChanges) -> Self {
        Self { inner, open: Vec::new(), ready: Vec::new(), given: 0, ended: false, changes }
    }

    fn take_in(&mut self, bytes: &[u8]) {
        let Some(last) = bytes.iter().rposition(|byte| *byte == b'\n') else {
            return self.open.extend_from_slice(bytes);
        };
        let mut whole = std::mem::take(&mut self.open);
        whole.extend_from_slice(&bytes[..=last]);
        self.open.extend_from_slice(&bytes[last + 1..]);
        (self.ready, self.given) = (Vec::with_capacity(whole.len()), 0);
        for line in whole.split_inclusive(|byte| *byte == b'\n') {
            self.pass(line);
        }
    }

    fn pass(&mut self, line: &[u8]) {
        if contains(line, LIST_CHANGED) {
            self.changes.fetch_add(1, Ordering::SeqCst);
        }
        match wrapped(line) {
            Some(wrapped) => {
                self.ready.extend(wrapped);
                self.ready.push(b'\n');
            }
            None => self.ready.extend_from_slice(line),
        }
    }

    fn give(&mut self, into: &mut ReadBuf<'_>) {
        let rest = &self.ready[self.given..];
        let part = &rest[..rest.len().min(into.remaining())];
        into.put_slice(part);
        self.given += part.len();
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for RawTools<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.given == this.ready.len() && !this.ended {
            let mut chunk = [0; 8 * 1024];
            let mut read = ReadBuf::new(&mut chunk);
            ready!(Pin::new(&mut this.inner).poll_read(context, &mut read))?;
            match read.filled() {
                [] => {
                    this.ended = true;
                    (this.ready, this.given) = (std::mem::take(&mut this.open), 0);
                }
                bytes => this.take_in(bytes),
            }
        }
        this.give(into);
        Poll::Ready(Ok(()))
    }
}
