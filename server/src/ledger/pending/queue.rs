//! Requests that wait to become durable, with their entries, statements and replies.

use std::fmt::Debug;
use std::sync::Arc;

use actbook_engine::execution::Execution;
use tokio::sync::oneshot;

use super::super::{CommandRequest, Error, LedgerRequest};
use super::PendingState;
use crate::store::{Batch, Entry, Statement};

/// A request of any type that waits to become durable. It is kept so that it can be decided again.
pub(crate) trait PendingRequest: Debug + Send {
    /// Decides the request and keeps the result as its reply.
    fn decide(&mut self, pending: &mut PendingState);

    /// Makes this error the reply.
    fn fail(&mut self, error: Error);

    /// Sends the reply, with the request itself: memory is freed faster on the thread that allocated it, and
    /// the writer is the bottleneck.
    fn reply(self: Box<Self>);

    /// The command that the request gives to an execution. None: it is a request of another kind.
    fn command(&self) -> Option<&CommandRequest>;
}

/// A pending request with the type of its reply.
#[derive(Debug)]
pub(crate) struct TypedRequest<R: LedgerRequest> {
    actor: Arc<str>,
    request: R,
    /// Valid once it is durable; `Closed` until the request is decided.
    pub result: Result<R::Reply, Error>,
    /// None: the reply is sent.
    reply_to: Option<oneshot::Sender<Box<Self>>>,
}

impl<R: LedgerRequest> TypedRequest<R> {
    /// An undecided request, and the channel on which it comes back with its result.
    pub fn new(actor: Arc<str>, request: R) -> (Box<Self>, oneshot::Receiver<Box<Self>>) {
        let (reply_to, reply) = oneshot::channel();
        let result = Err(Error::Closed);
        (Box::new(Self { actor, request, result, reply_to: Some(reply_to) }), reply)
    }
}

impl<R: LedgerRequest> PendingRequest for TypedRequest<R> {
    fn decide(&mut self, pending: &mut PendingState) {
        self.result = pending.decide(&self.request, &self.actor);
    }

    fn fail(&mut self, error: Error) {
        self.result = Err(error);
    }

    /// Sends the decided request, with its result, to the task that waits for it.
    fn reply(mut self: Box<Self>) {
        // The receiver is gone if the calling task was dropped; the request is durable all the same.
        if let Some(reply_to) = self.reply_to.take() {
            drop(reply_to.send(self));
        }
    }

    fn command(&self) -> Option<&CommandRequest> {
        self.request.command()
    }
}

/// A durable batch that is no longer needed. The next caller frees it instead of the writer.
#[derive(Debug)]
#[expect(dead_code, reason = "held only to be dropped")]
pub(crate) struct RetiredBatch {
    pub batch: Arc<Batch>,
    pub evicted: Vec<Execution>,
}

/// What the next batch will hold, and the requests that wait for it.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub entries: Vec<Entry>,
    /// Changes of rows outside the journal: projections, payloads' salts, request keys.
    pub statements: Vec<Statement>,
    pub requests: Vec<Box<dyn PendingRequest>>,
}

/// A batch that is being written, with the requests that wait for it.
pub(crate) struct BatchInFlight {
    pub batch: Arc<Batch>,
    pub requests: Vec<Box<dyn PendingRequest>>,
}
