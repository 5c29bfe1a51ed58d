//! How many connections are served at a time. Some places are kept for `/healthz` and `/readyz`, so that both
//! answer though clients hold all other connections open.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections that clients may hold open.
const CONNECTIONS_MAX: usize = 1_024;
/// Further connections, which may only ask whether this process is well.
const RESERVE: usize = 32;
/// A reserved place is given back after this, whatever its client does.
pub const RESERVE_WITHIN: Duration = Duration::from_secs(2);
/// Descriptors that are left for the database, server processes and outbound connections.
const OTHER_DESCRIPTORS: usize = 256;
const CONNECTIONS_MIN: usize = 16;

/// The places for connections of one listener.
#[derive(Debug)]
pub struct Places {
    ordinary: Arc<Semaphore>,
    reserve: Arc<Semaphore>,
}

/// One connection's place, until it is dropped.
#[derive(Debug)]
pub struct Place {
    /// It may only ask whether this process is well.
    pub reserved: bool,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Places {
    pub fn new() -> Self {
        let ordinary = connections_max(getrlimit(Resource::Nofile).current);
        Self { ordinary: Arc::new(Semaphore::new(ordinary)), reserve: Arc::new(Semaphore::new(RESERVE)) }
    }

    /// Waits for a place; a reserved one is given where all others are taken.
    pub async fn next(&self) -> Place {
        let (ordinary, reserve) = (self.ordinary.clone(), self.reserve.clone());
        // The semaphores are never closed, so neither of them gives an error.
        tokio::select! {
            biased;
            permit = ordinary.acquire_owned() => Place { reserved: false, _permit: permit.ok() },
            permit = reserve.acquire_owned() => Place { reserved: true, _permit: permit.ok() },
        }
    }
}

/// A process that may open few files serves fewer connections, lest the next accept fail for all of them.
fn connections_max(descriptors: Option<u64>) -> usize {
    let descriptors = descriptors.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    descriptors.saturating_sub(OTHER_DESCRIPTORS + RESERVE).clamp(CONNECTIONS_MIN, CONNECTIONS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_the_rest_of_the_process() {
        assert_eq!(connections_max(None), CONNECTIONS_MAX);
        assert_eq!(connections_max(Some(20_000)), CONNECTIONS_MAX);
        assert_eq!(connections_max(Some(1_024)), 1_024 - OTHER_DESCRIPTORS - RESERVE);
        assert_eq!(connections_max(Some(64)), CONNECTIONS_MIN);
    }
}
