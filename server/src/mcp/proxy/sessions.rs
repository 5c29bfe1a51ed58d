//! The sessions of callers whose protocol has none: one for each caller, until nothing came from it for a while.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::service::SessionKey;

/// After this time without a call, a caller's next call begins another session.
const IDLE_MAX: Duration = Duration::from_secs(30 * 60);

/// The sessions of callers, by caller. A session keeps the name of its client as it was at its first call.
#[derive(Debug, Default)]
pub struct CallerSessions(Mutex<HashMap<String, (SessionKey, Instant)>>);

impl CallerSessions {
    /// The caller's session, which is used now.
    pub fn key_of(&self, caller: &str, now: Instant, new_session: impl FnOnce() -> SessionKey) -> SessionKey {
        let mut sessions = self.0.lock();
        sessions.retain(|_, (_, used)| now.duration_since(*used) < IDLE_MAX);
        let session = sessions.entry(caller.to_owned()).or_insert_with(|| (new_session(), now));
        session.1 = now;
        session.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caller_keeps_its_session_until_it_was_idle() {
        let (sessions, start) = (CallerSessions::default(), Instant::now());
        let session = |key: &str| SessionKey { client: "one".to_owned(), key: key.to_owned() };
        let key = |caller, minutes: u32, new| {
            let now = start + minutes * Duration::from_secs(60);
            sessions.key_of(caller, now, || session(new)).key
        };
        assert_eq!([key("a", 0, "1"), key("b", 0, "2"), key("a", 1, "3")], ["1", "2", "1"]);
        assert_eq!(key("a", 30, "4"), "1", "used 29 minutes ago");
        assert_eq!([key("a", 59, "5"), key("b", 59, "6"), key("a", 89, "7")], ["1", "6", "7"]);
    }
}
