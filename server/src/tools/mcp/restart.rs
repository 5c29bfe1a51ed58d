//! The restart policy of a server: backoff between starts, ping after silence, time limit of a start.

use std::time::Duration;

use serde::Serialize;

use super::McpConnection;
use crate::config::ServerConfig;
use crate::tools::CircuitState;

/// The wait before a restart after two consecutive failures; it doubles with each further one, …
const BACKOFF_DEFAULT: Duration = Duration::from_millis(250);
/// … up to this.
const BACKOFF_MAX_DEFAULT: Duration = Duration::from_secs(30);
/// A server that was up for so long, or has answered a call, counts as healthy: its next failure is the
/// first.
const HEALTHY_AFTER: Duration = Duration::from_secs(10);
/// A server that was silent for so long is pinged before the next call.
const CHECK_AFTER_DEFAULT: Duration = Duration::from_secs(60);

/// The limit for start and handshake. A server that is installed on first use (`npx -y …`) may need longer;
/// then the config sets it.
const START_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// When a server is restarted, pinged or given up.
pub struct RestartPolicy {
    backoff: Duration,
    max_backoff: Duration,
    /// The silence after which the server is pinged.
    pub check_after: Duration,
    pub start_timeout: Duration,
}

impl RestartPolicy {
    /// The server's settings, with defaults for what the config leaves out.
    pub fn from_config(settings: &ServerConfig) -> Self {
        let max_backoff = settings.restart.max_backoff.unwrap_or(BACKOFF_MAX_DEFAULT);
        Self {
            backoff: settings.restart.backoff.unwrap_or(BACKOFF_DEFAULT).min(max_backoff),
            max_backoff,
            check_after: settings.check_after.unwrap_or(CHECK_AFTER_DEFAULT),
            start_timeout: settings.start_timeout.unwrap_or(START_TIMEOUT_DEFAULT),
        }
    }

    /// Whether the failure of this connection counts as the first in a row.
    pub fn was_healthy(&self, connection: &McpConnection) -> bool {
        connection.health().was_healthy(HEALTHY_AFTER)
    }

    /// The minimum time between two starts after so many consecutive failures; zero after none or a single
    /// one.
    pub fn backoff_after(&self, failures: u32) -> Duration {
        let Some(doublings) = failures.checked_sub(2) else { return Duration::ZERO };
        let factor = 2u32.checked_pow(doublings).unwrap_or(u32::MAX);
        self.backoff.saturating_mul(factor).min(self.max_backoff)
    }
}

pub async fn run_after<T>(wait: Duration, work: impl Future<Output = T>) -> T {
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
    work.await
}

/// The state of an MCP server in this process, as shown to users.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerState {
    /// `not started`, `coming up`, `up` or `down`.
    pub state: &'static str,
    /// The pid of the server, where it is a child of this process.
    pub process: Option<u32>,
    /// The negotiated protocol version.
    pub protocol: Option<String>,
    /// Consecutive failures: starts that failed, and connections lost before they counted as healthy.
    pub falls: u32,
    #[serde(flatten)]
    pub circuit: CircuitState,
}

impl ServerState {
    /// The state by its name, with the data of the connection if it is `up`.
    pub(super) fn new(
        state: &'static str,
        up: Option<&McpConnection>,
        falls: u32,
        circuit: CircuitState,
    ) -> Self {
        let process = up.and_then(McpConnection::process).map(|child| child.pid);
        Self { state, process, protocol: up.and_then(McpConnection::protocol_version), falls, circuit }
    }
}
