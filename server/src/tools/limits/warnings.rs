//! Limits warnings that a server can provoke with every message that it sends.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The least time between two lines of the same warning.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Lets the first warning through, and later at most one per `WARNING_INTERVAL`; counts the others.
#[derive(Debug, Default)]
pub struct WarningThrottle(Mutex<ThrottleState>);

/// When the last warning was logged, and the number suppressed since.
#[derive(Debug, Default)]
struct ThrottleState {
    last_logged: Option<Instant>,
    /// Warnings since then that were not logged.
    suppressed: u64,
}

impl WarningThrottle {
    /// Counts a warning. Some: it is to be logged, with the number of those suppressed since the last one.
    /// None: do not log it.
    pub fn admit(&self) -> Option<u64> {
        let mut state = self.0.lock();
        if state.last_logged.is_some_and(|at| at.elapsed() < WARNING_INTERVAL) {
            state.suppressed += 1;
            return None;
        }
        state.last_logged = Some(Instant::now());
        Some(std::mem::take(&mut state.suppressed))
    }

    /// How many warnings were suppressed since the last one that was logged.
    pub fn suppressed(&self) -> u64 {
        self.0.lock().suppressed
    }
}
