//! The lease of this node: until when no other node may take its executions over, and since when that has
//! held without a gap.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::node::NodeLock;
use crate::boot_instant::BootInstant;
use crate::store::{self, Db, nodes};
use crate::tools;

/// A node that cannot reach the database for this long loses its lease.
pub const LEASE_MS: i64 = 6_000;
pub const LEASE: Duration = Duration::from_millis(LEASE_MS as u64);
/// How often the lease is renewed: often enough that a failed renewal can be repeated in time.
const RENEW_INTERVAL: Duration = Duration::from_millis(1_500);
/// Nothing is sent in the last part of a lease: a call may have to connect first.
const SEND_MARGIN: Duration = tools::CONNECT_TIMEOUT.saturating_add(Duration::from_millis(500));

/// This process's view of its lease.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    /// The lease has held without a gap since then.
    since: BootInstant,
    until: BootInstant,
    /// The expiry by the database's clock, which other nodes go by.
    until_database_ms: i64,
}

impl Lease {
    /// Writes the node's first lease. The term counts from before the query, so that this process's view
    /// never outlasts the database's.
    pub async fn acquire(db: &Db, node: &NodeLock) -> Result<Self, store::Error> {
        let queried_at = BootInstant::now();
        let until_ms = write_lease(db, &NodeIdentity::from_lock(node)).await?;
        Ok(Self { since: queried_at, until: queried_at + LEASE, until_database_ms: until_ms })
    }

    /// The lease after a renewal. If it had expired before, by either clock, other nodes may have acted in
    /// between, and it holds only since now.
    fn renewed(self, queried_at: BootInstant, until_ms: i64) -> Self {
        let in_time = !self.has_expired() && until_ms - LEASE_MS < self.until_database_ms;
        let since = if in_time { self.since } else { BootInstant::now() };
        Self { since, until: queried_at + LEASE, until_database_ms: until_ms }
    }

    /// Expires the lease at once: a node that shuts down sends nothing more, not even calls that are queued.
    fn expire(&mut self) {
        self.until = self.since;
    }

    fn has_expired(&self) -> bool {
        self.until <= BootInstant::now()
    }

    /// Whether more than `SEND_MARGIN` is left of the lease, so that a call may be sent.
    pub fn allows_sending(&self) -> bool {
        self.until > BootInstant::now() + SEND_MARGIN
    }

    /// Whether a call may be sent, and the lease has held without a gap since `then`.
    pub fn allows_sending_since(&self, then: BootInstant) -> bool {
        self.allows_sending() && self.since <= then
    }

    /// Whether the lease has expired at some time since `then`, so that another node may have acted. It stays
    /// true for the same `then`, whatever is renewed later.
    pub fn has_lapsed_since(&self, then: BootInstant) -> bool {
        self.since > then || self.has_expired()
    }
}

/// What the node's row in the database says of it.
pub struct NodeIdentity {
    node: String,
    host: String,
    boot: String,
    served_url: Arc<OnceLock<String>>,
}

impl NodeIdentity {
    pub fn from_lock(lock: &NodeLock) -> Self {
        Self {
            node: lock.id().to_owned(),
            host: lock.host().to_owned(),
            boot: lock.boot_id().to_owned(),
            served_url: lock.served_url().clone(),
        }
    }
}

/// Writes the node's row with a new term, and returns its expiry in ms by the database's clock.
async fn write_lease(db: &Db, identity: &NodeIdentity) -> Result<i64, store::Error> {
    let NodeIdentity { node, host, boot, served_url } = identity;
    let (pid, url) = (u64::from(std::process::id()), served_url.get().map(String::as_str));
    nodes::acquire_lease(db, node, host, boot, pid, LEASE_MS, url).await
}

/// Writes where this process serves HTTP into the node's row; every renewal repeats it.
pub async fn publish_url(db: &Db, node: &NodeLock, url: String) -> Result<(), store::Error> {
    node.served_url().get_or_init(|| url);
    write_lease(db, &NodeIdentity::from_lock(node)).await.map(drop)
}

/// Renews the lease until `shutdown` fires, then expires it.
pub async fn renew_until_shutdown(
    db: Db,
    identity: NodeIdentity,
    renewed: watch::Sender<Lease>,
    mut shutdown: watch::Receiver<()>,
) {
    let (mut pause, mut last_error) = (RENEW_INTERVAL, String::new());
    while tokio::time::timeout(pause, shutdown.changed()).await.is_err() {
        let (begun, queried_at) = (Instant::now(), BootInstant::now());
        match write_lease(&db, &identity).await {
            Ok(until_ms) => {
                last_error.clear();
                renewed.send_modify(|lease| *lease = lease.renewed(queried_at, until_ms));
            }
            Err(error) => {
                let error = error.to_string();
                // A repeated error is logged once.
                if error != last_error {
                    tracing::warn!("the node's lease could not be renewed: {error}");
                }
                last_error = error;
            }
        }
        pause = RENEW_INTERVAL.saturating_sub(begun.elapsed());
    }
    renewed.send_modify(Lease::expire);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewal_after_expiry_does_not_cover_the_time_before() {
        let (then, now_ms) = (BootInstant::now(), LEASE_MS);
        let renewed = |lease: Lease| lease.renewed(BootInstant::now(), now_ms + LEASE_MS);
        let in_time = Lease { since: then, until: then + LEASE, until_database_ms: now_ms + 1 };
        assert!(renewed(in_time).allows_sending_since(then));
        let expired_by_own_clock = Lease { until: then, ..in_time };
        let expired_by_database = Lease { until_database_ms: now_ms, ..in_time };
        for expired in [expired_by_own_clock, expired_by_database] {
            assert!(renewed(expired).allows_sending());
            assert!(renewed(expired).has_lapsed_since(then));
            assert!(!renewed(expired).allows_sending_since(then));
        }
    }

    #[tokio::test]
    async fn shutdown_expires_the_lease() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("book.db").display());
        let (db, node) =
            (Db::open(&url, Default::default()).await.unwrap(), NodeLock::acquire(folder.path()).unwrap());
        let (renewed, lease) = watch::channel(Lease::acquire(&db, &node).await.unwrap());
        assert!(lease.borrow().allows_sending());
        let (shutdown, stopped) = watch::channel(());
        let renewal =
            tokio::spawn(renew_until_shutdown(db, NodeIdentity::from_lock(&node), renewed, stopped));
        shutdown.send_replace(());
        renewal.await.unwrap();
        assert!(!lease.borrow().allows_sending());
    }
}
