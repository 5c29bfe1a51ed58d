//! The calls in flight at a child. They bypass rmcp's client: through its task each message would be cloned,
//! queued and woken for twice, which takes longer than the rest of sending a call.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::model::{RequestId, ServerJsonRpcMessage, ServerResult};
use rmcp::service::ServiceError;
use tokio::sync::oneshot;

use super::call_response;

/// The first id of our calls; rmcp numbers its own requests from zero.
const FIRST_CALL_ID: i64 = 1_000_000_000;

/// A server's answer to a request: its result, or an error of the server or of the transport.
pub type RpcResult = Result<ServerResult, ServiceError>;

/// The calls of one connection that wait for an answer. Clones share them.
#[derive(Clone)]
pub struct PendingCalls(Arc<Mutex<CallTable>>);

/// The senders of the pending calls' answers, by call id.
struct CallTable {
    next_id: i64,
    /// None: closed, the server's output is no longer read.
    answer_senders: Option<HashMap<i64, oneshot::Sender<RpcResult>>>,
}

impl PendingCalls {
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(CallTable { next_id: FIRST_CALL_ID, answer_senders: Some(HashMap::new()) })))
    }

    /// Registers a call under a new id. None: closed, no answer can come.
    pub fn register(&self) -> Option<(PendingCall, oneshot::Receiver<RpcResult>)> {
        let mut table = self.0.lock();
        let (sender, answer) = oneshot::channel();
        let number = table.next_id;
        table.answer_senders.as_mut()?.insert(number, sender);
        table.next_id += 1;
        drop(table);
        Some((PendingCall { id: RequestId::Number(number), calls: self.clone() }, answer))
    }

    /// Whether a call with this id waits for its answer.
    pub fn contains(&self, id: &RequestId) -> bool {
        self.0.lock().answer_senders.as_ref().is_some_and(|senders| senders.contains_key(&numeric_id(id)))
    }

    /// Sends an answer to the call that waits for it. Some: the message answers no pending call, and is
    /// returned.
    pub fn deliver(&self, message: ServerJsonRpcMessage) -> Option<ServerJsonRpcMessage> {
        let Some(sender) = call_response::answered_id(&message).and_then(|id| self.remove(id)) else {
            return Some(message);
        };
        let answer = match message {
            ServerJsonRpcMessage::Response(response) => Ok(response.result),
            ServerJsonRpcMessage::Error(error) => Err(ServiceError::McpError(error.error)),
            ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => return Some(message),
        };
        // The call may have stopped waiting in the meantime.
        drop(sender.send(answer));
        None
    }

    /// Removes a call and returns its sender; dropping the sender ends the wait. None: not pending.
    pub fn remove(&self, id: &RequestId) -> Option<oneshot::Sender<RpcResult>> {
        self.0.lock().answer_senders.as_mut()?.remove(&numeric_id(id))
    }

    /// Ends all waits without an answer; no call can be registered afterwards.
    pub fn close(&self) {
        let senders = self.0.lock().answer_senders.take();
        // Dropped without the lock: it wakes the waiting calls.
        drop(senders);
    }

    /// Whether the server's output is no longer read, so that no answer can come.
    pub fn is_closed(&self) -> bool {
        self.0.lock().answer_senders.is_none()
    }
}

/// A registered call; removed when dropped.
pub struct PendingCall {
    pub id: RequestId,
    calls: PendingCalls,
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        drop(self.calls.remove(&self.id));
    }
}

/// The number of a call id; some servers return it as text. -1: not the id of a call.
fn numeric_id(id: &RequestId) -> i64 {
    match id {
        RequestId::Number(number) => *number,
        RequestId::String(text) => text.parse().unwrap_or(-1),
    }
}
