//! Notifications that a tenant's journal has reached a position. They carry no data: a subscriber reads the
//! store from its own cursor, so a missed or repeated notification changes only when it reads.

use std::sync::{Arc, Weak};

use actbook_engine::id::TenantId;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::store::db::WatchGuard;
use crate::store::{Db, Error};

/// Notifies this process's subscribers of one tenant's journal. Clones share the subscribers.
#[derive(Debug, Clone)]
pub struct Notifier {
    db: Db,
    tenant: TenantId,
    /// The highest position known from this process or from the database.
    highest: watch::Sender<u64>,
    /// The highest position that the database has notified of.
    highest_remote: watch::Sender<u64>,
    /// The database listener that all `RemoteListener` guards share.
    listener: Arc<Mutex<Weak<WatchGuard>>>,
}

/// A guard: notifications of other processes' appends arrive while it is held.
#[derive(Debug)]
pub struct RemoteListener(#[expect(dead_code, reason = "held only for what its drop does")] Arc<WatchGuard>);

impl Notifier {
    pub fn new(db: Db, tenant: TenantId) -> Self {
        let (highest, highest_remote) = (watch::Sender::new(0), watch::Sender::new(0));
        Self { db, tenant, highest, highest_remote, listener: Arc::default() }
    }

    /// Notifies the subscribers, unless they were notified of this position or a later one.
    pub fn notify(&self, position: u64) {
        raise(&self.highest, position);
    }

    /// A receiver of the highest known position.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.highest.subscribe()
    }

    /// A receiver of the positions that the database notifies of while a guard of `listen_remote` is held:
    /// other processes' appends, and the echo of this process's own.
    pub fn subscribe_remote(&self) -> watch::Receiver<u64> {
        self.highest_remote.subscribe()
    }

    /// Starts to listen for other processes' appends, until the last guard is dropped.
    pub fn listen_remote(&self) -> Result<RemoteListener, Error> {
        let mut listener = self.listener.lock();
        if let Some(shared) = listener.upgrade() {
            return Ok(RemoteListener(shared));
        }
        let (highest, highest_remote) = (self.highest.clone(), self.highest_remote.clone());
        let on_moved = move |moved_to| {
            raise(&highest, moved_to);
            raise(&highest_remote, moved_to);
        };
        let started = Arc::new(self.db.watch(self.tenant, on_moved)?);
        *listener = Arc::downgrade(&started);
        Ok(RemoteListener(started))
    }
}

/// Raises `highest` to `position` and wakes its receivers, if that is higher.
fn raise(highest: &watch::Sender<u64>, position: u64) {
    highest.send_if_modified(|known| {
        let is_new = position > *known;
        *known = position.max(*known);
        is_new
    });
}
