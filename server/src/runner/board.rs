//! What calls in flight last said of their progress. In memory only: it is news while it lasts, and the
//! journal is for what happened.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use actbook_engine::id::StepNo;

use crate::tools::Progress;

/// One line per step that is being called. Clones are the same board.
#[derive(Clone, Debug, Default)]
pub struct Board(Arc<Mutex<Lines>>);

type Lines = HashMap<(u64, StepNo), Option<Progress>>;

impl Board {
    /// A line for a call, until the answer is dropped.
    pub fn open(&self, stream: u64, step: StepNo) -> Line {
        self.lock().insert((stream, step), None);
        Line { board: self.clone(), stream, step }
    }

    /// A word that comes after the call's end is not kept.
    pub fn note(&self, stream: u64, step: StepNo, progress: Progress) {
        if let Some(line) = self.lock().get_mut(&(stream, step)) {
            *line = Some(progress);
        }
    }

    pub fn read(&self, stream: u64, step: StepNo) -> Option<Progress> {
        self.lock().get(&(stream, step)).cloned().flatten()
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub struct Line {
    board: Board,
    stream: u64,
    step: StepNo,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.board.lock().remove(&(self.stream, self.step));
    }
}
