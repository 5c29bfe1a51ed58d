//! The tail of the journal in memory: one task per process reads each new entry once and encodes it once; all streams
//! share the bytes. The task runs while a stream is open.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::body::Bytes;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::error::Error;
use crate::service::{EntryScope, ExecutionLabels, LabelCache, RemoteListener, Service, TailEntry};

/// Entries that the ring holds. A stream that falls further behind reads the journal itself.
pub const RING_ENTRIES_MAX: usize = 4_096;
/// Bytes that the ring holds: of entries that are large, fewer.
const RING_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Entries that are read from the journal at a time.
const PAGE_ENTRIES: u64 = 500;
/// A page of large entries ends after so many bytes: each stream that is behind the ring holds one.
const PAGE_BYTES_MAX: usize = 256 * 1024;
/// The reader waits this long after an append for more entries, so that a busy journal wakes every stream at most
/// fifty times a second.
const GATHER_TIME: Duration = Duration::from_millis(20);
/// How long the reader waits after a failed read.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// An entry as streams send it, with what they filter by.
#[derive(Clone, Debug)]
pub struct EncodedEntry {
    pub position: u64,
    pub execution: Option<String>,
    pub kind: String,
    pub labels: Option<Arc<ExecutionLabels>>,
    /// A stream of a confined caller leaves out what is not in its project.
    pub scope: EntryScope,
    /// The whole event: `id:`, `event:` and `data:`.
    pub bytes: Bytes,
}

/// Entries that follow each other in the journal.
#[derive(Debug)]
pub struct EntryRun {
    pub entries: Vec<Arc<EncodedEntry>>,
    /// The position of the last one; without entries, that after which they were asked for.
    pub reached: u64,
    /// The journal may have more.
    has_more: bool,
}

impl EntryRun {
    /// The entries after a position.
    fn new(entries: Vec<Arc<EncodedEntry>>, after: u64) -> Self {
        let reached = entries.last().map_or(after, |last| last.position);
        Self { entries, reached, has_more: false }
    }
}

/// The tail of one tenant's journal, which is read while a stream is open. Clones share it.
#[derive(Clone, Debug)]
pub struct EventTail {
    /// Sees every project, since all streams share what is read.
    service: Service,
    ring: Arc<Mutex<Weak<EventRing>>>,
}

impl EventTail {
    /// A tail that is not read yet. `service` must see every project.
    pub fn new(service: Service) -> Self {
        Self { service, ring: Arc::default() }
    }

    /// The ring; the first stream starts its reader at position `head`. Dropping the last one stops the reader, as
    /// does `ending`.
    pub fn open(&self, head: u64, ending: &CancellationToken) -> Result<Arc<EventRing>, Error> {
        let mut shared = self.ring.lock();
        if let Some(ring) = shared.upgrade() {
            return Ok(ring);
        }
        let (listener, appended) = self.service.journal().subscribe()?;
        let stop = ending.child_token();
        let ring = Arc::new(EventRing {
            service: self.service.clone(),
            recent: RwLock::default(),
            read_to: watch::Sender::new(head),
            labels: LabelCache::default(),
            _reader: stop.clone().drop_guard(),
        });
        *shared = Arc::downgrade(&ring);
        let reader = TailReader { ring: shared.clone(), appended, _listener: listener };
        tokio::spawn(stop.run_until_cancelled_owned(reader.run()));
        Ok(ring)
    }
}

/// The newest entries, and a signal that there are more.
#[derive(Debug)]
pub struct EventRing {
    service: Service,
    recent: RwLock<RecentEntries>,
    /// The position up to which entries have been read.
    read_to: watch::Sender<u64>,
    labels: LabelCache,
    _reader: DropGuard,
}

/// The entries of the ring: without a gap, within its limits.
#[derive(Debug, Default)]
struct RecentEntries {
    entries: VecDeque<Arc<EncodedEntry>>,
    bytes: usize,
}

impl RecentEntries {
    /// Appends entries and drops the oldest ones beyond the limits.
    fn extend(&mut self, run: EntryRun) {
        self.bytes += run.entries.iter().map(|entry| entry.bytes.len()).sum::<usize>();
        self.entries.extend(run.entries);
        while self.entries.len() > RING_ENTRIES_MAX || self.bytes > RING_BYTES_MAX {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.bytes -= oldest.bytes.len();
        }
    }

    /// At most `limit` entries after a position. None: the first of them is not in the ring any more.
    fn after(&self, position: u64, limit: usize) -> Option<Vec<Arc<EncodedEntry>>> {
        // Positions have no gaps, so the first entry of the ring tells whether one is missing.
        let first = self.entries.front().filter(|first| first.position <= position + 1)?;
        let skipped = usize::try_from(position + 1 - first.position).unwrap_or(usize::MAX);
        Some(self.entries.iter().skip(skipped).take(limit).cloned().collect())
    }
}

impl EventRing {
    /// Entries after a position, at most `limit` of them from memory, or a page of the journal for a reader that is
    /// behind the ring. None of them: the reader has them all.
    pub async fn after(&self, position: u64, limit: usize) -> Result<EntryRun, Error> {
        let read_to = *self.read_to.borrow();
        if position >= read_to {
            return Ok(EntryRun::new(Vec::new(), position));
        }
        let found = self.recent.read().after(position, limit);
        match found {
            Some(entries) => Ok(EntryRun::new(entries, position)),
            None => self.read_page(position).await,
        }
    }

    /// A receiver that changes whenever the ring has grown.
    pub fn growth(&self) -> watch::Receiver<u64> {
        self.read_to.subscribe()
    }

    /// The next page of the journal after a position, encoded.
    async fn read_page(&self, after: u64) -> Result<EntryRun, Error> {
        let page = self.service.journal().tail(after, PAGE_ENTRIES, &self.labels).await?;
        let (read, mut bytes, mut entries) = (page.len(), 0, Vec::new());
        for entry in page {
            if bytes >= PAGE_BYTES_MAX {
                break;
            }
            let encoded = encode(entry);
            bytes += encoded.bytes.len();
            entries.push(Arc::new(encoded));
        }
        let has_more = entries.len() < read || read as u64 == PAGE_ENTRIES;
        Ok(EntryRun { has_more, ..EntryRun::new(entries, after) })
    }

    /// Reads a page into the ring; returns whether there may be more.
    async fn grow(&self) -> Result<bool, Error> {
        let after = *self.read_to.borrow();
        let run = self.read_page(after).await?;
        let (reached, has_more) = (run.reached, run.has_more);
        self.recent.write().extend(run);
        self.read_to.send_replace(reached);
        Ok(has_more)
    }
}

/// Reads the journal on and on into the ring.
struct TailReader {
    ring: Weak<EventRing>,
    appended: watch::Receiver<u64>,
    /// Keeps notifications from other processes coming.
    _listener: RemoteListener,
}

impl TailReader {
    async fn run(mut self) {
        loop {
            // Before the read: what is appended after it must wake the reader again.
            self.appended.mark_unchanged();
            let Some(ring) = self.ring.upgrade() else { return };
            match ring.grow().await {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!("the journal's tail cannot be read: {error}");
                    tokio::time::sleep(RETRY_PAUSE).await;
                    continue;
                }
            }
            drop(ring);
            if self.appended.changed().await.is_err() {
                return;
            }
            tokio::time::sleep(GATHER_TIME).await;
        }
    }
}

/// The entry as an event.
fn encode(entry: TailEntry) -> EncodedEntry {
    let TailEntry { view, scope, labels } = entry;
    let kind = view.kind.split('.').next().unwrap_or_default().to_owned();
    let data = serde_json::to_string(&view).unwrap_or_default();
    let text = format!("id: {}\nevent: {kind}\ndata: {data}\n\n", view.position);
    let bytes = text.into();
    EncodedEntry { position: view.position, execution: view.execution, kind, labels, scope, bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(positions: std::ops::RangeInclusive<u64>, bytes: usize) -> EntryRun {
        let entry = |position| EncodedEntry {
            position,
            execution: None,
            kind: "a".to_owned(),
            labels: None,
            scope: EntryScope::All,
            bytes: vec![0; bytes].into(),
        };
        EntryRun::new(positions.map(|position| Arc::new(entry(position))).collect(), 0)
    }

    fn positions(recent: &RecentEntries, after: u64) -> Option<Vec<u64>> {
        Some(recent.after(after, usize::MAX)?.iter().map(|entry| entry.position).collect())
    }

    #[test]
    fn ring_gives_every_later_entry_or_none() {
        let mut recent = RecentEntries::default();
        assert_eq!(positions(&recent, 0), None);
        recent.extend(run(1..=3, 10));
        let full = RING_ENTRIES_MAX as u64;
        recent.extend(run(4..=full + 10, 10));
        assert_eq!(recent.entries.len(), RING_ENTRIES_MAX);
        assert_eq!(positions(&recent, 9), None);
        assert_eq!(positions(&recent, 10), Some((11..=full + 10).collect()));
        assert_eq!(positions(&recent, full + 9), Some(vec![full + 10]));
    }

    #[test]
    fn ring_holds_no_more_bytes_than_its_limit() {
        let mut recent = RecentEntries::default();
        recent.extend(run(1..=5, RING_BYTES_MAX / 3));
        assert_eq!(positions(&recent, 2), Some(vec![3, 4, 5]));
        recent.extend(run(6..=6, RING_BYTES_MAX + 1));
        assert_eq!((recent.bytes, positions(&recent, 5)), (0, None));
    }
}
