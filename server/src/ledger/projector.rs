//! Follows the journal by a cursor and keeps up what lists and statistics read: facets and their marks, totals,
//! counts, questions and errors. Appends do not pay for it. The rows of a round and the cursor are written in
//! one transaction, so that a process that is killed loses nothing and counts nothing twice.
//!
//!   entries after the cursor ─► executions before and after them ─► differences ─► rows and cursor

mod payload_facts;
mod streams;
mod writes;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actbook_engine::id::{StreamId, TenantId};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use super::Error;
use super::fold::PlanCache;
use super::journal_index::tolerate_race;
use crate::notify::Notifier;
use crate::store::counts::HourlyCounts;
use crate::store::projection_cursor::{self, ProjectionCursor};
use crate::store::{Db, journal, run_blocking, starts};
use streams::StreamCache;

/// Entries of one transaction at most.
const ROUND_ENTRIES_MAX: u64 = 5_000;
/// Positions of which one transaction adds the starts: after an upgrade they are those of the whole journal.
const STARTS_POSITIONS_MAX: u64 = 500_000;
/// A reader in a process that follows the journal catches up with at most so many entries by itself.
const READER_ENTRIES_MAX: u64 = 2_000;
/// While others append, the follower rests this many times as long as a round took, so that it takes at most a
/// few percent of the write lock and of a processor.
const REST_FACTOR: u32 = 40;
/// The same while readers are told that the projection is behind.
const REST_FACTOR_OF_READERS: u32 = 10;
/// The longest rest of the follower: that of the longest round, so that under load too it takes no larger share.
const REST_MAX: Duration = Duration::from_secs(20);
/// The follower ends its rest if nothing was appended for this long: then it is in nobody's way.
const QUIET_TIME: Duration = Duration::from_millis(250);
/// The follower waits this long after an append for more entries, to write them in one transaction.
const GATHER_TIME: Duration = Duration::from_millis(100);
/// The follower waits this long after an error.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// One tenant's projector in this process. Clones share it.
#[derive(Clone, Debug)]
pub struct Projector {
    db: Db,
    tenant: TenantId,
    plans: PlanCache,
    /// Held during a round.
    cache: Arc<Mutex<StreamCache>>,
    /// Some task of this process follows the journal.
    is_followed: Arc<AtomicBool>,
    /// Since the follower rested last, a reader was told that the projection is behind.
    is_awaited: Arc<AtomicBool>,
}

impl Projector {
    pub fn new(db: Db, tenant: TenantId, plans: PlanCache) -> Self {
        let (is_followed, is_awaited) = Default::default();
        Self { db, tenant, plans, cache: Arc::default(), is_followed, is_awaited }
    }

    /// Brings the projection up to the head as it is at the time of the call, for a reader. In a process that
    /// follows the journal, only if that is near. Returns how many entries the projection is behind.
    pub async fn catch_up(&self) -> Result<u64, Error> {
        let head = self.head().await?;
        let behind = head.saturating_sub(self.position().await?);
        if self.is_followed.load(Ordering::Relaxed) && behind > READER_ENTRIES_MAX {
            self.is_awaited.store(true, Ordering::Relaxed);
            return Ok(behind);
        }
        self.catch_up_to(head, |_| {}).await?;
        Ok(0)
    }

    /// Brings the projection up to the head; calls `on_round` with the entries that remain after each round.
    pub async fn catch_up_whole(&self, on_round: impl Fn(u64)) -> Result<(), Error> {
        self.catch_up_to(self.head().await?, on_round).await
    }

    /// Projects new entries whenever the journal has grown, until the future is dropped. Logs and retries
    /// errors.
    pub async fn follow(&self, notifier: &Notifier) {
        let _guard = FollowGuard::new(&self.is_followed);
        loop {
            if let Err(error) = self.follow_until_error(notifier).await {
                tracing::warn!("lists and statistics are not kept up to date: {error}");
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    }

    /// Projects entries as the journal grows; returns only with an error.
    async fn follow_until_error(&self, notifier: &Notifier) -> Result<(), Error> {
        let _listening = notifier.listen_remote()?;
        let mut grown = notifier.subscribe();
        loop {
            grown.mark_unchanged();
            self.follow_to_head(&grown).await?;
            if grown.changed().await.is_err() {
                return Err(Error::Closed);
            }
            tokio::time::sleep(GATHER_TIME).await;
        }
    }

    /// Projects entries in rounds until none remain. If the journal has grown since the round before, rests
    /// between rounds (see `rest`), so that those who append get the write lock. `grown` tells of appends.
    async fn follow_to_head(&self, grown: &watch::Receiver<u64>) -> Result<(), Error> {
        let mut last_head = self.head().await?;
        let mut tries = 0;
        loop {
            let started = Instant::now();
            let head = self.head().await?;
            let round = self.round_to(head).await;
            match round {
                Ok(0) => return Ok(()),
                Ok(_) => tries = 0,
                Err(error) => tolerate_race(Err(error), &mut tries)?,
            }
            if head > last_head {
                rest(started.elapsed(), grown, &self.is_awaited).await;
            }
            last_head = head;
        }
    }

    /// Projects entries up to `head`, in rounds; `on_round` gets the number of entries that remain after each.
    async fn catch_up_to(&self, head: u64, on_round: impl Fn(u64)) -> Result<(), Error> {
        let mut tries = 0;
        loop {
            let round = self.round_to(head).await;
            if let Ok(remaining) = round {
                tries = 0;
                on_round(remaining);
                if remaining == 0 {
                    return Ok(());
                }
            }
            tolerate_race(round.map(drop), &mut tries)?;
        }
    }

    /// One round towards `head`; returns how many entries remain. `Error::Store(Constraint)`: another process
    /// wrote the round first.
    async fn round_to(&self, head: u64) -> Result<u64, Error> {
        let mut cache = self.cache.clone().lock_owned().await;
        let from = self.position().await?;
        if from >= head {
            return Ok(0);
        }
        let to = head.min(from + ROUND_ENTRIES_MAX);
        let (tenant, plans) = (self.tenant, self.plans.clone());
        let (rows, _cache) = run_blocking(&self.db, move |db| {
            let changes = streams::read_changes(&db, tenant, &plans, &mut cache, (from, to))?;
            Ok::<_, Error>((writes::statements(&db, tenant, &changes)?, cache))
        })
        .await?;
        let mut statements =
            Vec::from(projection_cursor::advance(tenant, ProjectionCursor::Executions, from, to));
        let starts = projection_cursor::position(tenant, ProjectionCursor::Starts).first(&self.db).await?;
        let from_start = starts.unwrap_or(0);
        statements.extend(starts::add(tenant, from_start, to.min(from_start + STARTS_POSITIONS_MAX)));
        statements.extend(rows);
        self.db.transact_relaxed(statements).await?;
        Ok(head - to)
    }

    /// The position of the journal's last entry; 0 if it is empty.
    async fn head(&self) -> Result<u64, Error> {
        Ok(journal::head(self.tenant).first(&self.db).await?.map_or(0, |head| head.position))
    }

    /// The last position that the projection contains.
    pub async fn position(&self) -> Result<u64, Error> {
        let cursor = projection_cursor::position(self.tenant, ProjectionCursor::Executions);
        Ok(cursor.first(&self.db).await?.unwrap_or(0))
    }

    /// The counts of these executions up to a position, of items that began in a range of times. Not from the
    /// projection but from the journal: for ranges that are no whole hours, and for few executions.
    pub async fn counts_of_streams(
        &self,
        streams: Vec<StreamId>,
        through: u64,
        (since, until): (i64, i64),
    ) -> Result<HourlyCounts, Error> {
        let (tenant, plans) = (self.tenant, self.plans.clone());
        run_blocking(&self.db, move |db| {
            let includes = |at: i64| at >= since && at < until;
            streams::counts_of_streams(&db, tenant, &plans, &streams, through, &includes)
        })
        .await
    }
}

/// Rests after a round that took so long: until its share of the time is small, or nobody appends any more.
async fn rest(took: Duration, grown: &watch::Receiver<u64>, is_awaited: &AtomicBool) {
    let began = Instant::now();
    loop {
        let whole = rest_after(took, is_awaited.load(Ordering::Relaxed));
        let left = whole.saturating_sub(began.elapsed());
        let head = *grown.borrow();
        tokio::time::sleep(left.min(QUIET_TIME)).await;
        if left <= QUIET_TIME || *grown.borrow() == head {
            is_awaited.store(false, Ordering::Relaxed);
            return;
        }
    }
}

/// How long the rest after a round is.
fn rest_after(took: Duration, is_awaited: bool) -> Duration {
    (took * if is_awaited { REST_FACTOR_OF_READERS } else { REST_FACTOR }).min(REST_MAX)
}

/// Marks the process as one that follows the journal, until dropped.
struct FollowGuard<'a>(&'a AtomicBool);

impl<'a> FollowGuard<'a> {
    fn new(is_followed: &'a AtomicBool) -> Self {
        is_followed.store(true, Ordering::Relaxed);
        Self(is_followed)
    }
}

impl Drop for FollowGuard<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follower_rests_until_nobody_appends() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (_head, grown) = watch::channel(7);
            let is_awaited = AtomicBool::new(true);
            let began = Instant::now();
            rest(Duration::from_secs(1), &grown, &is_awaited).await;
            assert!(began.elapsed() < REST_MAX / 4, "nothing was appended meanwhile");
            assert!(!is_awaited.load(Ordering::Relaxed), "the next rest is long again");
        });
    }

    #[test]
    fn rest_is_shorter_for_a_reader_and_never_longer_than_its_limit() {
        let rest = |took_ms, is_awaited| rest_after(Duration::from_millis(took_ms), is_awaited);
        assert_eq!(rest(100, false), Duration::from_secs(4));
        assert_eq!(rest(100, true), Duration::from_secs(1));
        assert_eq!(rest(5_000, false), REST_MAX);
    }
}
