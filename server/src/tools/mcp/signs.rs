//! What is known of how a server is doing: since when it is up, when it was last heard, whether it is in doubt.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub struct Signs {
    up_since: Instant,
    /// When it last answered anything.
    heard: Mutex<Instant>,
    answered_a_call: AtomicBool,
    /// A call has timed out, and nothing was heard since.
    in_doubt: AtomicBool,
    /// It did not answer when asked whether it is well.
    unwell: AtomicBool,
    /// One question at a time.
    pub asking: tokio::sync::Mutex<()>,
}

impl Signs {
    pub fn new() -> Self {
        let now = Instant::now();
        Self {
            up_since: now,
            heard: Mutex::new(now),
            answered_a_call: AtomicBool::new(false),
            in_doubt: AtomicBool::new(false),
            unwell: AtomicBool::new(false),
            asking: tokio::sync::Mutex::default(),
        }
    }

    pub fn heard(&self) {
        self.in_doubt.store(false, Ordering::Relaxed);
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    pub fn answered_a_call(&self) {
        self.heard();
        self.answered_a_call.store(true, Ordering::Relaxed);
    }

    pub fn doubt(&self) {
        self.in_doubt.store(true, Ordering::Relaxed);
    }

    pub fn give_up(&self) {
        self.unwell.store(true, Ordering::Relaxed);
    }

    pub fn in_doubt(&self) -> bool {
        self.in_doubt.load(Ordering::Relaxed)
    }

    pub fn is_unwell(&self) -> bool {
        self.unwell.load(Ordering::Relaxed)
    }

    pub fn silent_for(&self) -> Duration {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// It has been of use, or at least up for so long.
    pub fn was_healthy(&self, after: Duration) -> bool {
        self.answered_a_call.load(Ordering::Relaxed) || self.up_since.elapsed() > after
    }
}
