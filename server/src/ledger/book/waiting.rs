//! Those who wait for their words to be durable, and what waits with them.

use std::sync::Arc;

use actbook_engine::execution::Execution;
use tokio::sync::oneshot;

use super::super::{Answer, Asked, Error, Request, STALE_EPOCH};
use crate::store::{Batch, Entry, Statement};

/// Somebody who waits for durability, with what is needed to decide again.
#[derive(Debug)]
pub struct Waiter {
    pub asked: Asked,
    pub said: Said,
}

/// An answer, and who hears it.
#[derive(Debug)]
pub struct Said {
    pub reply: Answer,
    pub to: oneshot::Sender<Answer>,
}

impl Said {
    pub fn go_out(self) {
        // Nobody listens any more when the asking task was dropped; what was decided stands.
        drop(self.to.send(self.reply));
    }

    pub fn failed(self, error: Error) -> Self {
        Self { reply: Err(error), ..self }
    }
}

/// What is durable and needed no more. Whoever asks next drops it: memory goes back faster on the thread that
/// took it, and the writer has enough to do.
#[derive(Debug)]
#[expect(dead_code, reason = "held only to be dropped")]
pub struct Spent {
    pub batch: Arc<Batch>,
    pub asked: Vec<Asked>,
    pub ended: Vec<Execution>,
}

impl Waiter {
    /// The execution that somebody else than its driver has moved.
    pub fn moved_from_outside(&self) -> Option<u64> {
        match &self.asked.request {
            Request::Do { stream, command } if command.epoch().is_none_or(|epoch| epoch == STALE_EPOCH) => {
                Some(*stream)
            }
            Request::Do { .. }
            | Request::Start(_)
            | Request::SavePlan(_)
            | Request::DeletePlan { .. }
            | Request::AcceptTool { .. }
            | Request::Act { .. }
            | Request::EraseAct { .. }
            | Request::SetNote(_)
            | Request::DeleteNote { .. }
            | Request::EraseNote { .. }
            | Request::SetTasks { .. }
            | Request::AddTask(_) => None,
        }
    }
}

#[derive(Debug, Default)]
pub struct Queue {
    pub entries: Vec<Entry>,
    pub others: Vec<Statement>,
    pub waiters: Vec<Waiter>,
}

/// A batch on its way, with those who wait for it.
pub struct Taken {
    pub batch: Arc<Batch>,
    pub waiters: Vec<Waiter>,
}
