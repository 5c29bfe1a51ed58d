//! The rate limit, as a sliding window: with N calls per interval, each call waits until one interval after
//! the Nth call before it.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::config::RateConfig;

/// Delays calls to at most `calls` in any interval `per`.
pub struct RateLimiter {
    limit: RateConfig,
    /// When the last calls were or will be sent, oldest first; at most `calls` entries.
    send_times: Mutex<VecDeque<Instant>>,
}

impl RateLimiter {
    pub fn new(limit: RateConfig) -> Self {
        Self { limit, send_times: Mutex::default() }
    }

    /// Waits until the call may be sent.
    pub async fn acquire(&self) {
        sleep_until(self.reserve(Instant::now())).await;
    }

    /// Reserves the next free time to send a call, not before `now`, and returns it.
    fn reserve(&self, now: Instant) -> Instant {
        let mut send_times = self.send_times.lock();
        let full = send_times.len() >= self.limit.calls as usize;
        let oldest = if full { send_times.pop_front() } else { None };
        let at = oldest.map_or(now, |oldest| now.max(oldest + self.limit.per));
        send_times.push_back(at);
        at
    }
}
