//! The health of a connection: since when it is up, when the server last answered, whether it is suspected to
//! hang.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The health of one connection, from the time it came up.
pub struct Health {
    up_since: Instant,
    /// When the server last answered anything.
    last_heard: Mutex<Instant>,
    has_answered_call: AtomicBool,
    /// A call has timed out, and the server has answered nothing since.
    suspect: AtomicBool,
    /// The server did not answer a ping.
    unresponsive: AtomicBool,
    /// Held during a ping, so that only one is in flight.
    pub ping_lock: tokio::sync::Mutex<()>,
}

impl Health {
    pub fn new() -> Self {
        let now = Instant::now();
        Self {
            up_since: now,
            last_heard: Mutex::new(now),
            has_answered_call: AtomicBool::new(false),
            suspect: AtomicBool::new(false),
            unresponsive: AtomicBool::new(false),
            ping_lock: tokio::sync::Mutex::default(),
        }
    }

    /// Records that the server answered something; it is then no longer suspect.
    pub fn record_answer(&self) {
        self.suspect.store(false, Ordering::Relaxed);
        *self.last_heard.lock() = Instant::now();
    }

    /// Records that the server answered a tool call.
    pub fn record_call_answer(&self) {
        self.record_answer();
        self.has_answered_call.store(true, Ordering::Relaxed);
    }

    /// Records that a call timed out: the server is pinged before the next call.
    pub fn mark_suspect(&self) {
        self.suspect.store(true, Ordering::Relaxed);
    }

    /// Records that the server did not answer a ping: the connection is no longer used.
    pub fn mark_unresponsive(&self) {
        self.unresponsive.store(true, Ordering::Relaxed);
    }

    /// Whether a call has timed out, and the server has answered nothing since.
    pub fn is_suspect(&self) -> bool {
        self.suspect.load(Ordering::Relaxed)
    }

    /// Whether the server did not answer a ping: the connection is no longer used.
    pub fn is_unresponsive(&self) -> bool {
        self.unresponsive.load(Ordering::Relaxed)
    }

    /// The time since the server last answered anything.
    pub fn silent_for(&self) -> Duration {
        self.last_heard.lock().elapsed()
    }

    /// Whether the server has answered a call, or has been up for longer than `after`.
    pub fn was_healthy(&self, after: Duration) -> bool {
        self.has_answered_call.load(Ordering::Relaxed) || self.up_since.elapsed() > after
    }
}
