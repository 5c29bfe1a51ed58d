//! How long a server's life may be silent, and how soon it is given another one.

use std::time::Duration;

use serde::Serialize;

use super::Connection;
use crate::config::ServerWords;
use crate::tools::Circuit;

/// A server that fell more than once in a row is started again after this, then after twice as long, …
const BACKOFF_DEFAULT: Duration = Duration::from_millis(250);
/// … and after this at the latest.
const BACKOFF_MAX_DEFAULT: Duration = Duration::from_secs(30);
/// Up for so long, or once it has answered a call, a server counts as healthy: its next fall is the first.
const HEALTHY_AFTER: Duration = Duration::from_secs(10);
/// Silent for so long, a server is asked whether it is well before the next call.
const CHECK_AFTER_DEFAULT: Duration = Duration::from_secs(60);

/// A server that does not answer the handshake within this is given up. One that is installed on first use
/// (`npx -y …`) may need longer; config says so.
const START_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

pub struct Life {
    backoff: Duration,
    max_backoff: Duration,
    pub check_after: Duration,
    pub start_timeout: Duration,
}

impl Life {
    pub fn of(words: &ServerWords) -> Self {
        let max_backoff = words.restart.max_backoff.unwrap_or(BACKOFF_MAX_DEFAULT);
        Self {
            backoff: words.restart.backoff.unwrap_or(BACKOFF_DEFAULT).min(max_backoff),
            max_backoff,
            check_after: words.check_after.unwrap_or(CHECK_AFTER_DEFAULT),
            start_timeout: words.start_timeout.unwrap_or(START_TIMEOUT_DEFAULT),
        }
    }

    pub fn was_healthy(&self, connection: &Connection) -> bool {
        connection.signs().was_healthy(HEALTHY_AFTER)
    }

    /// How far two starts lie apart after so many falls in a row. The first one may be an accident.
    pub fn apart(&self, falls: u32) -> Duration {
        let Some(doublings) = falls.checked_sub(2) else { return Duration::ZERO };
        let factor = 2u32.checked_pow(doublings).unwrap_or(u32::MAX);
        self.backoff.saturating_mul(factor).min(self.max_backoff)
    }
}

pub async fn after<T>(wait: Duration, work: impl Future<Output = T>) -> T {
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
    work.await
}

/// How a server is doing in this process, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerState {
    /// `not started`, `coming up`, `up` or `down`.
    pub state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    /// The protocol that was agreed upon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// How often in a row it did not come up or fell, before it is healthy again.
    pub falls: u32,
    #[serde(flatten)]
    pub circuit: Circuit,
}

impl ServerState {
    pub(super) fn new(state: &'static str, up: Option<&Connection>, falls: u32, circuit: Circuit) -> Self {
        let process = up.and_then(Connection::process).map(|child| child.pid);
        Self { state, process, protocol: up.and_then(Connection::protocol), falls, circuit }
    }
}
