//! One reader's stream of journal entries. It is read only as fast as its client takes it. It holds no more than one
//! chunk, and one page of the journal while it is behind the ring.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::body::Bytes;
use tokio::sync::watch;

use super::tail_ring::{EncodedEntry, EventRing};
use crate::web::event_stream::EventSource;

/// Entries that a stream takes from the ring at a time.
const BATCH_ENTRIES: usize = 64;
/// A chunk ends with the entry that reaches this size.
const CHUNK_BYTES: usize = 64 * 1024;

/// Which entries a stream sends. A field that is not set does not filter.
#[derive(Debug)]
pub struct EventFilter {
    pub execution: Option<String>,
    /// A plan's id or name.
    pub plan: Option<String>,
    pub task: Option<String>,
    /// The beginning of a kind.
    pub kind: Option<String>,
    /// The project that the reader is confined to.
    pub within: Option<String>,
}

impl EventFilter {
    fn is_empty(&self) -> bool {
        [&self.execution, &self.plan, &self.task, &self.kind, &self.within]
            .iter()
            .all(|field| field.is_none())
    }

    fn matches(&self, entry: &EncodedEntry) -> bool {
        let labels = entry.labels.as_deref();
        let of_plan =
            |plan: &String| labels.is_some_and(|labels| labels.plan_id == *plan || labels.plan_name == *plan);
        let of_task = |task: &String| labels.is_some_and(|labels| labels.task.as_ref() == Some(task));
        self.within.as_ref().is_none_or(|own| entry.scope.includes(own))
            && self.execution.as_ref().is_none_or(|id| entry.execution.as_ref() == Some(id))
            && self.kind.as_ref().is_none_or(|kind| entry.kind.starts_with(kind.as_str()))
            && self.plan.as_ref().is_none_or(of_plan)
            && self.task.as_ref().is_none_or(of_task)
    }
}

/// A stream that one client reads.
#[derive(Debug)]
pub struct JournalStream {
    ring: Arc<EventRing>,
    growth: watch::Receiver<u64>,
    filter: EventFilter,
    /// Entries that are to be sent.
    pending: VecDeque<Arc<EncodedEntry>>,
    /// All entries up to here are pending, were sent or did not match.
    position: u64,
    /// The position that the client has heard of.
    told: u64,
}

impl JournalStream {
    /// A stream of the entries after a position.
    pub fn new(ring: Arc<EventRing>, filter: EventFilter, after: u64) -> Self {
        Self { growth: ring.growth(), ring, filter, pending: VecDeque::new(), position: after, told: after }
    }

    /// The next pending entries as one chunk. None: nothing is pending.
    fn take_chunk(&mut self) -> Option<Bytes> {
        let first = self.pending.pop_front()?;
        self.told = first.position;
        if self.pending.is_empty() || first.bytes.len() >= CHUNK_BYTES {
            return Some(first.bytes.clone());
        }
        let mut chunk = first.bytes.to_vec();
        while chunk.len() < CHUNK_BYTES
            && let Some(next) = self.pending.pop_front()
        {
            chunk.extend_from_slice(&next.bytes);
            self.told = next.position;
        }
        Some(chunk.into())
    }
}

impl EventSource for JournalStream {
    async fn next_chunk(&mut self) -> Option<Bytes> {
        loop {
            if let Some(chunk) = self.take_chunk() {
                return Some(chunk);
            }
            // Before the look at the ring: what is appended after it must wake this stream.
            self.growth.mark_unchanged();
            let mut run = match self.ring.after(self.position, BATCH_ENTRIES).await {
                Ok(run) => run,
                Err(error) => {
                    tracing::warn!("a stream of events ends: {error}");
                    return None;
                }
            };
            let has_all = run.reached == self.position;
            self.position = run.reached;
            run.entries.retain(|entry| self.filter.matches(entry));
            self.pending = run.entries.into();
            if has_all {
                self.growth.changed().await.ok()?;
            }
        }
    }

    /// A comment; on a filtered stream also how far it has read, so that it need not read that again.
    fn heartbeat(&mut self) -> Bytes {
        if self.filter.is_empty() || self.told == self.position {
            return Bytes::from_static(b": \n\n");
        }
        self.told = self.position;
        format!(": \nid: {}\n\n", self.position).into()
    }
}
