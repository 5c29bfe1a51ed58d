//! Limits the connections that are served at a time. Some slots are reserved for `/healthz` and `/readyz`, so
//! that both answer while clients hold all other connections open.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections that clients may hold open.
const CONNECTIONS_MAX: usize = 1_024;
/// Further connections, which reach only the health routes.
const RESERVED_SLOTS: usize = 32;
/// A connection in a reserved slot is closed after this time.
pub const RESERVED_SLOT_TIMEOUT: Duration = Duration::from_secs(2);
/// File descriptors that are left for the database, server processes and outbound connections.
const OTHER_DESCRIPTORS: usize = 256;
/// Served even if the limit on file descriptors leaves room for fewer.
const CONNECTIONS_MIN: usize = 16;

/// The connection slots of one listener.
#[derive(Debug)]
pub struct ConnectionSlots {
    ordinary: Arc<Semaphore>,
    reserved: Arc<Semaphore>,
}

/// The slot of one connection; dropping it frees the slot.
#[derive(Debug)]
pub struct ConnectionSlot {
    /// The connection reaches only the health routes.
    pub is_reserved: bool,
    _permit: Option<OwnedSemaphorePermit>,
}

impl ConnectionSlots {
    /// As many free slots as the process's limit on file descriptors allows.
    pub fn new() -> Self {
        let ordinary = connections_max(getrlimit(Resource::Nofile).current);
        Self {
            ordinary: Arc::new(Semaphore::new(ordinary)),
            reserved: Arc::new(Semaphore::new(RESERVED_SLOTS)),
        }
    }

    /// Waits for a free slot; gives a reserved one only if all ordinary slots are taken.
    pub async fn acquire(&self) -> ConnectionSlot {
        let (ordinary, reserve) = (self.ordinary.clone(), self.reserved.clone());
        // The semaphores are never closed, so `acquire_owned` does not fail.
        tokio::select! {
            biased;
            permit = ordinary.acquire_owned() => ConnectionSlot { is_reserved: false, _permit: permit.ok() },
            permit = reserve.acquire_owned() => ConnectionSlot { is_reserved: true, _permit: permit.ok() },
        }
    }
}

/// The number of ordinary slots that a limit on file descriptors (None: unlimited) allows.
fn connections_max(descriptors: Option<u64>) -> usize {
    let descriptors = descriptors.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    descriptors.saturating_sub(OTHER_DESCRIPTORS + RESERVED_SLOTS).clamp(CONNECTIONS_MIN, CONNECTIONS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_the_rest_of_the_process() {
        assert_eq!(connections_max(None), CONNECTIONS_MAX);
        assert_eq!(connections_max(Some(20_000)), CONNECTIONS_MAX);
        assert_eq!(connections_max(Some(1_024)), 1_024 - OTHER_DESCRIPTORS - RESERVED_SLOTS);
        assert_eq!(connections_max(Some(64)), CONNECTIONS_MIN);
    }
}
