//! Requests that wait to become durable, with their entries, statements and replies.

use std::sync::Arc;

use actbook_engine::execution::Execution;
use actbook_engine::id::StreamId;
use tokio::sync::oneshot;

use super::super::{Error, LedgerRequest, LedgerResult, Operation, STALE_EPOCH};
use crate::store::{Batch, Entry, Statement};

/// A request that was decided and is not durable yet. It is kept so that it can be decided again.
#[derive(Debug)]
pub struct PendingRequest {
    pub request: LedgerRequest,
    pub reply: PendingReply,
}

/// The result of a request, and the channel that it is sent on once it is durable.
#[derive(Debug)]
pub struct PendingReply {
    pub result: LedgerResult,
    pub reply_to: oneshot::Sender<LedgerResult>,
}

impl PendingReply {
    pub fn send(self) {
        // The receiver is gone if the calling task was dropped; the request is durable all the same.
        drop(self.reply_to.send(self.result));
    }

    /// The same reply with this error as its result.
    pub fn with_error(self, error: Error) -> Self {
        Self { result: Err(error), ..self }
    }
}

/// A durable batch that is no longer needed. The next caller frees it instead of the writer: memory is
/// freed faster on the thread that allocated it, and the writer is the bottleneck.
#[derive(Debug)]
#[expect(dead_code, reason = "held only to be dropped")]
pub struct RetiredBatch {
    pub batch: Arc<Batch>,
    pub requests: Vec<LedgerRequest>,
    pub evicted: Vec<Execution>,
}

impl PendingRequest {
    /// The stream of the execution that this request changes, if it does not come from the driver.
    pub fn outside_change(&self) -> Option<StreamId> {
        match &self.request.operation {
            Operation::Command { stream, command }
                if command.epoch().is_none_or(|epoch| epoch == STALE_EPOCH) =>
            {
                Some(*stream)
            }
            Operation::Command { .. }
            | Operation::Start(_)
            | Operation::SavePlan(_)
            | Operation::DeletePlan { .. }
            | Operation::AcceptTool { .. }
            | Operation::RecordAct { .. }
            | Operation::EraseAct { .. }
            | Operation::SetNote(_)
            | Operation::DeleteNote { .. }
            | Operation::EraseNote { .. }
            | Operation::SetTasks { .. }
            | Operation::AddTask(_) => None,
        }
    }
}

/// What the next batch will hold, and the requests that wait for it.
#[derive(Debug, Default)]
pub struct Queue {
    pub entries: Vec<Entry>,
    /// Changes of rows outside the journal: projections, payloads' salts, request keys.
    pub statements: Vec<Statement>,
    pub requests: Vec<PendingRequest>,
}

/// A batch that is being written, with the requests that wait for it.
pub struct BatchInFlight {
    pub batch: Arc<Batch>,
    pub requests: Vec<PendingRequest>,
}
