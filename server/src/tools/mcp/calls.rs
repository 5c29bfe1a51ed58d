//! The calls out at a child. They pass rmcp by: a call through its task is cloned, queued and woken for twice,
//! which together takes longer than all else that we do to send one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{RequestId, ServerJsonRpcMessage, ServerResult};
use rmcp::service::ServiceError;
use tokio::sync::oneshot;

use super::answer;

/// Calls are numbered from here on, what rmcp asks from zero.
const FIRST: i64 = 1_000_000_000;

pub type Outcome = Result<ServerResult, ServiceError>;

/// Clones are the same calls.
#[derive(Clone)]
pub struct Calls(Arc<Mutex<Out>>);

struct Out {
    next: i64,
    /// None: nobody reads what the server answers any more.
    waiting: Option<HashMap<i64, oneshot::Sender<Outcome>>>,
}

impl Calls {
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Out { next: FIRST, waiting: Some(HashMap::new()) })))
    }

    /// None where no answer can come.
    pub fn enter(&self) -> Option<(Waiting, oneshot::Receiver<Outcome>)> {
        let mut out = self.lock();
        let (settle, answer) = oneshot::channel();
        let number = out.next;
        out.waiting.as_mut()?.insert(number, settle);
        out.next += 1;
        drop(out);
        Some((Waiting { id: RequestId::Number(number), calls: self.clone() }, answer))
    }

    pub fn has(&self, id: &RequestId) -> bool {
        self.lock().waiting.as_ref().is_some_and(|waiting| waiting.contains_key(&number(id)))
    }

    /// Hands an answer to the call that waits for it; gives back whatever is none.
    pub fn settle(&self, heard: ServerJsonRpcMessage) -> Option<ServerJsonRpcMessage> {
        let Some(settle) = answer::id_of_request(&heard).and_then(|id| self.leave(id)) else {
            return Some(heard);
        };
        let answer = match heard {
            ServerJsonRpcMessage::Response(response) => Ok(response.result),
            ServerJsonRpcMessage::Error(error) => Err(ServiceError::McpError(error.error)),
            ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => return Some(heard),
        };
        // Whoever asked may have given up this very moment.
        drop(settle.send(answer));
        None
    }

    /// Takes it out; whoever has the sender settles it.
    pub fn leave(&self, id: &RequestId) -> Option<oneshot::Sender<Outcome>> {
        self.lock().waiting.as_mut()?.remove(&number(id))
    }

    /// Nothing more will be heard, and nothing more is sent.
    pub fn end(&self) {
        let waiting = self.lock().waiting.take();
        // Without the lock: whoever waited is woken.
        drop(waiting);
    }

    pub fn are_over(&self) -> bool {
        self.lock().waiting.is_none()
    }

    fn lock(&self) -> MutexGuard<'_, Out> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of them, for as long as somebody wants its answer.
pub struct Waiting {
    pub id: RequestId,
    calls: Calls,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        drop(self.calls.leave(&self.id));
    }
}

/// Some servers send a number back as text.
fn number(id: &RequestId) -> i64 {
    match id {
        RequestId::Number(number) => *number,
        RequestId::String(text) => text.parse().unwrap_or(-1),
    }
}
