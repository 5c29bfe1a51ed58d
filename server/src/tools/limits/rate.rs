//! At most so many calls in any stretch of so much time: each call waits until the one that many before it
//! lies a stretch back.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::time::{Instant, sleep_until};

use crate::config::RateWords;

pub struct Rate {
    words: RateWords,
    /// When the last calls left or will leave, oldest first.
    turns: Mutex<VecDeque<Instant>>,
}

impl Rate {
    pub fn new(words: RateWords) -> Self {
        Self { words, turns: Mutex::default() }
    }

    pub async fn turn(&self) {
        sleep_until(self.reserve(Instant::now())).await;
    }

    fn reserve(&self, now: Instant) -> Instant {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let full = turns.len() >= self.words.calls as usize;
        let oldest = if full { turns.pop_front() } else { None };
        let at = oldest.map_or(now, |oldest| now.max(oldest + self.words.per));
        turns.push_back(at);
        at
    }
}
