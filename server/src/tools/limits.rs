//! Limits of one server: concurrent calls, calls per time, size of an output, and a circuit breaker for when
//! it is unreachable. Knows calls and clocks; not how a call is sent.

mod breaker;
pub mod bytes;
mod rate;
pub mod warnings;

use std::collections::BTreeMap;

use tokio::sync::{Semaphore, SemaphorePermit};

use super::CallOutcome;
use super::classify::{OUTPUT_BYTES_MAX, RawOutcome};
use crate::config::{COMMAND_SERVER, Config, HTTP_SERVER, ServerConfig};
pub use breaker::CircuitState;
use breaker::{AdmittedCall, CircuitBreaker};
use rate::RateLimiter;

/// Concurrent calls to one server, unless the config says otherwise.
const CONCURRENCY_DEFAULT: usize = 64;

/// The limits of one server and their current use. `rate`: None if calls per time are not limited.
pub struct ServerLimits {
    permits: Semaphore,
    rate: Option<RateLimiter>,
    breakers: Breakers,
    pub output_bytes_max: usize,
}

/// Which calls share a circuit breaker.
enum Breakers {
    /// None, for commands: each call starts a new process.
    None,
    /// One for the whole server.
    Server(CircuitBreaker),
    /// One for each HTTP tool with a fixed host; a tool whose host comes from the arguments has none.
    Tools(BTreeMap<String, CircuitBreaker>),
}

impl ServerLimits {
    /// The limits that the config sets for a server.
    pub fn for_server(config: &Config, server: &str) -> Self {
        let settings = config.servers.get(server).cloned().unwrap_or_default();
        let breakers = match server {
            COMMAND_SERVER => Breakers::None,
            HTTP_SERVER => {
                let entry =
                    |tool: &String| (tool.clone(), new_breaker(&format!("{server}/{tool}"), &settings));
                let fixed = config.http.iter().filter(|(_, tool)| has_fixed_host(&tool.url.source));
                Breakers::Tools(fixed.map(|(name, _)| entry(name)).collect())
            }
            _ => Breakers::Server(new_breaker(server, &settings)),
        };
        Self {
            permits: Semaphore::new(
                settings.concurrency.unwrap_or(CONCURRENCY_DEFAULT).min(Semaphore::MAX_PERMITS),
            ),
            rate: settings.rate.map(RateLimiter::new),
            breakers,
            output_bytes_max: settings.output_bytes_max.unwrap_or(OUTPUT_BYTES_MAX),
        }
    }

    /// Waits until the call of `tool`, a name without the server, may be sent. Err: the circuit breaker
    /// rejects it; the breaker is asked only once a permit is free.
    pub async fn acquire(&self, tool: &str) -> Result<CallPermit<'_>, RawOutcome> {
        let permit = self.permits.acquire().await.expect("the semaphore is never closed");
        let admitted = match self.breaker_for(tool) {
            Some(breaker) => Some(breaker.admit()?),
            None => None,
        };
        if let Some(rate) = &self.rate {
            rate.acquire().await;
        }
        Ok(CallPermit { admitted, _permit: permit })
    }

    /// The state of the server's circuit, or of the tool's where each tool has its own; closed where there is
    /// none.
    pub fn circuit_state(&self, tool: &str) -> CircuitState {
        self.breaker_for(tool).map_or(CircuitState::Closed, CircuitBreaker::circuit_state)
    }

    /// The circuit breaker for a tool's calls. None: they have none.
    fn breaker_for(&self, tool: &str) -> Option<&CircuitBreaker> {
        match &self.breakers {
            Breakers::None => None,
            Breakers::Server(breaker) => Some(breaker),
            Breakers::Tools(breakers) => breakers.get(tool),
        }
    }
}

/// Whether scheme and host of a URL template do not depend on the call's arguments.
fn has_fixed_host(url: &str) -> bool {
    let has_argument = |text: &str| text.contains("${arguments");
    match url.split_once("://") {
        Some((scheme, rest)) => {
            !has_argument(scheme) && !rest.split(['/', '?', '#']).next().is_some_and(has_argument)
        }
        None => !has_argument(url),
    }
}

/// A circuit breaker with the server's settings; `name`, a server or `server/tool`, is for messages.
fn new_breaker(name: &str, settings: &ServerConfig) -> CircuitBreaker {
    CircuitBreaker::new(name, settings.breaker.after, settings.breaker.cool_down)
}

/// Permission to send one call; holds its concurrency permit. Dropped without an outcome, it records nothing.
pub struct CallPermit<'a> {
    admitted: Option<AdmittedCall<'a>>,
    _permit: SemaphorePermit<'a>,
}

impl CallPermit<'_> {
    /// Tells the circuit breaker the call's outcome.
    pub fn record_outcome(self, outcome: &CallOutcome) {
        if let Some(admitted) = self.admitted {
            admitted.record_outcome(outcome);
        }
    }
}
