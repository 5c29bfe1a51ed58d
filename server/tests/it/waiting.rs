//! Waits for what nothing announces: polls a condition, and pauses between two polls, so that the processes
//! that the test waits for have the processor.

use std::time::{Duration, Instant};

/// Time limit of every wait; a test that reaches it has failed.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(3);

/// Polls until `poll` returns a value; panics with `what` after the time-out.
#[track_caller]
pub fn wait_for<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = poll() {
            return found;
        }
        assert!(started.elapsed() < TEST_TIMEOUT, "timed out waiting for {what}");
        std::thread::park_timeout(POLL_INTERVAL);
    }
}

/// Polls until the condition holds; panics with `what` after the time-out.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(what, || holds().then_some(()));
}

/// Polls until the condition holds, in a task; panics with `what` after the time-out.
pub async fn poll_until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < TEST_TIMEOUT, "timed out waiting for {what}");
        pause().await;
    }
}

/// Lets other tasks and processes run before the next poll.
pub async fn pause() {
    drop(tokio::time::timeout(POLL_INTERVAL, std::future::pending::<()>()).await);
}
