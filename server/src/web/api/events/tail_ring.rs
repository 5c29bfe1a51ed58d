//! The tail of the journal in memory: one task per process reads each new entry once and encodes it once; all streams
//! share the bytes.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::body::Bytes;
use parking_lot::RwLock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::service::{EntryScope, ExecutionLabels, LabelCache, Service, TailEntry};

/// Entries that the ring holds. A stream that falls further behind reads the journal itself.
pub const RING_ENTRIES: usize = 4_096;
/// Entries that are read from the journal at a time.
const PAGE_ENTRIES: u64 = 500;
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

/// The tail reader of this process, started by the first stream. Clones share it.
#[derive(Clone, Debug)]
pub struct EventTail {
    /// Sees every project, since all streams share what is read.
    service: Service,
    ring: Arc<OnceLock<Ring>>,
}

/// The newest entries, and a signal that there are more.
#[derive(Clone, Debug)]
struct Ring {
    entries: Arc<RwLock<VecDeque<Arc<EncodedEntry>>>>,
    /// The position up to which entries have been read.
    read_to: watch::Receiver<u64>,
}

/// What the ring has for a reader.
#[derive(Debug)]
pub enum RingPart {
    /// The entries after the reader's position, and the position after them.
    Entries(Vec<Arc<EncodedEntry>>, u64),
    /// The reader is further behind than the ring reaches.
    Behind,
}

impl EventTail {
    /// A tail that is not read yet. `service` must see every project.
    pub fn new(service: Service) -> Self {
        Self { service, ring: Arc::default() }
    }

    /// Starts the tail reader at position `head`, unless it runs already. `ending` stops it.
    pub fn start(&self, head: u64, ending: &CancellationToken) -> Result<(), Error> {
        if self.ring.get().is_some() {
            return Ok(());
        }
        let (listener, appended) = self.service.journal().subscribe()?;
        self.ring.get_or_init(|| {
            let (progress, read_to) = watch::channel(head);
            let ring = Ring { entries: Arc::default(), read_to };
            let reader = TailReader {
                service: self.service.clone(),
                entries: ring.entries.clone(),
                labels: LabelCache::default(),
                progress,
            };
            let ending = ending.clone();
            tokio::spawn(async move {
                let _listener = listener;
                tokio::select! {
                    () = reader.run(appended) => {}
                    () = ending.cancelled() => {}
                }
            });
            ring
        });
        Ok(())
    }

    /// At most `limit` entries after a position.
    pub fn after(&self, position: u64, limit: usize) -> RingPart {
        let Some(ring) = self.ring.get() else { return RingPart::Behind };
        let entries = ring.entries.read();
        let read_to = *ring.read_to.borrow();
        if position >= read_to {
            return RingPart::Entries(Vec::new(), position);
        }
        // Positions have no gaps, so the first entry of the ring tells whether one is missing.
        let Some(first) = entries.front().filter(|first| first.position <= position + 1) else {
            return RingPart::Behind;
        };
        let skipped = usize::try_from(position + 1 - first.position).unwrap_or(usize::MAX);
        let found: Vec<Arc<EncodedEntry>> = entries.iter().skip(skipped).take(limit).cloned().collect();
        let reached = found.last().map_or(position, |last| last.position);
        RingPart::Entries(found, reached)
    }

    /// Up to a page of entries after a position, from the journal itself.
    pub async fn read(&self, after: u64, labels: &mut LabelCache) -> Result<Vec<EncodedEntry>, Error> {
        let page = self.service.journal().tail(after, PAGE_ENTRIES, labels).await?;
        Ok(page.into_iter().map(encode).collect())
    }

    /// Changes whenever the ring has grown; None: the reader was not started.
    pub fn changes(&self) -> Option<watch::Receiver<u64>> {
        self.ring.get().map(|ring| ring.read_to.clone())
    }
}

/// Reads the journal on and on into the ring.
struct TailReader {
    service: Service,
    entries: Arc<RwLock<VecDeque<Arc<EncodedEntry>>>>,
    labels: LabelCache,
    progress: watch::Sender<u64>,
}

impl TailReader {
    async fn run(mut self, mut appended: watch::Receiver<u64>) {
        loop {
            match self.read_page().await {
                Ok(0) => {
                    if appended.changed().await.is_err() {
                        return;
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!("the journal's tail cannot be read: {error}");
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        }
    }

    /// Reads the next page into the ring; gives the number of entries.
    async fn read_page(&mut self) -> Result<usize, Error> {
        let after = *self.progress.borrow();
        let page = self.service.journal().tail(after, PAGE_ENTRIES, &mut self.labels).await?;
        let Some(last) = page.last().map(|entry| entry.view.position) else { return Ok(0) };
        let encoded: Vec<Arc<EncodedEntry>> = page.into_iter().map(|entry| Arc::new(encode(entry))).collect();
        let count = encoded.len();
        let mut entries = self.entries.write();
        entries.extend(encoded);
        let surplus = entries.len().saturating_sub(RING_ENTRIES);
        entries.drain(..surplus);
        drop(entries);
        self.progress.send_replace(last);
        Ok(count)
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
