//! The last progress report of each call in flight. In memory only: progress is of no interest once the
//! call has ended, and the journal holds what happened.

use std::collections::HashMap;
use std::sync::Arc;

use actbook_engine::id::{StepNo, StreamId};
use parking_lot::Mutex;

use crate::tools::CallProgress;

/// One slot for each step that is being called. Clones share the slots.
#[derive(Clone, Debug, Default)]
pub struct ProgressBoard(Arc<Mutex<ProgressSlots>>);

/// The last report by stream and step; None: the call is in flight and has reported nothing.
type ProgressSlots = HashMap<(StreamId, StepNo), Option<CallProgress>>;

impl ProgressBoard {
    /// Opens a slot for a call; it is removed when the result is dropped.
    pub fn open_slot(&self, stream: StreamId, step: StepNo) -> ProgressSlot {
        self.0.lock().insert((stream, step), None);
        ProgressSlot { board: self.clone(), stream, step }
    }

    /// Stores a report; one that comes after the call's end is dropped.
    pub fn update(&self, stream: StreamId, step: StepNo, progress: CallProgress) {
        if let Some(slot) = self.0.lock().get_mut(&(stream, step)) {
            *slot = Some(progress);
        }
    }

    /// The last report; None: there is none, or no call of the step is in flight.
    pub fn latest(&self, stream: StreamId, step: StepNo) -> Option<CallProgress> {
        self.0.lock().get(&(stream, step)).cloned().flatten()
    }
}

/// Removes its call's slot when dropped.
#[derive(Debug)]
pub struct ProgressSlot {
    board: ProgressBoard,
    stream: StreamId,
    step: StepNo,
}

impl Drop for ProgressSlot {
    fn drop(&mut self) {
        self.board.0.lock().remove(&(self.stream, self.step));
    }
}
