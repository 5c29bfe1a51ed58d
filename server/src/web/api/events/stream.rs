//! One reader's stream of events. It is read only as fast as its client takes it, and holds no more than one batch.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::watch;
use tokio::time::Instant;

use super::tail_ring::{EncodedEntry, RingPart};
use crate::caller::{Credential, CredentialKind};
use crate::error::Error;
use crate::service::LabelCache;
use crate::web::{Problem, WebState};

/// A stream without events sends a comment this often, so that proxies and clients know that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How often a stream checks that its credential is still good.
const CREDENTIAL_CHECK: Duration = Duration::from_secs(5);
/// Most entries of one chunk.
const BATCH_ENTRIES: usize = 64;

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
    state: WebState,
    credential: Credential,
    filter: EventFilter,
    /// All entries up to here were sent or did not match.
    position: u64,
    /// The position that the client has heard of.
    told: u64,
    changes: watch::Receiver<u64>,
    labels: LabelCache,
    heartbeat_at: Instant,
    check_at: Instant,
}

impl JournalStream {
    /// A stream of the entries after a position. Err: the tail reader was not started.
    pub fn open(
        state: WebState,
        credential: Credential,
        filter: EventFilter,
        after: u64,
    ) -> Result<Self, Problem> {
        let missing = || Error::Bug("the tail reader was not started".to_owned());
        let changes = state.tail.changes().ok_or_else(missing)?;
        let now = Instant::now();
        Ok(Self {
            state,
            credential,
            filter,
            position: after,
            told: after,
            changes,
            labels: LabelCache::default(),
            heartbeat_at: now,
            check_at: now + CREDENTIAL_CHECK,
        })
    }

    /// The chunks to send, until the server shuts down or the credential ends.
    pub fn into_chunks(self) -> impl Stream<Item = Result<Bytes, Infallible>> {
        unfold(self, |mut stream| async move {
            let ending = stream.state.ending.clone();
            let chunk = tokio::select! {
                chunk = stream.next_chunk() => chunk?,
                () = ending.cancelled() => return None,
            };
            Some((Ok(chunk), stream))
        })
    }

    /// The next events, or a heartbeat. None: the credential has ended, or the journal cannot be read.
    async fn next_chunk(&mut self) -> Option<Bytes> {
        loop {
            if Instant::now() >= self.check_at && !self.recheck_credential().await {
                return None;
            }
            // Before the look at the ring: what is appended after it must wake this stream.
            self.changes.mark_unchanged();
            match self.next_entries().await {
                Ok(entries) if !entries.is_empty() => return Some(self.take(&entries)),
                Ok(_) if self.is_at_end() => {}
                Ok(_) => continue,
                Err(error) => {
                    tracing::warn!("a stream of events ends: {error}");
                    return None;
                }
            }
            let next = self.heartbeat_at.min(self.check_at);
            match tokio::time::timeout_at(next, self.changes.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return None,
                Err(_) if Instant::now() >= self.heartbeat_at => return Some(self.heartbeat()),
                Err(_) => {}
            }
        }
    }

    /// Entries that match, after the position; the position moves past all that were looked at.
    async fn next_entries(&mut self) -> Result<Vec<Arc<EncodedEntry>>, Error> {
        let mut entries = match self.state.tail.after(self.position, BATCH_ENTRIES) {
            RingPart::Entries(entries, reached) => {
                self.position = reached;
                entries
            }
            RingPart::Behind => {
                let page = self.state.tail.read(self.position, &mut self.labels).await?;
                self.position = page.last().map_or(self.position, |last| last.position);
                page.into_iter().map(Arc::new).collect()
            }
        };
        entries.retain(|entry| self.filter.matches(entry));
        Ok(entries)
    }

    fn is_at_end(&self) -> bool {
        self.position >= *self.changes.borrow()
    }

    /// The bytes of these entries.
    fn take(&mut self, entries: &[Arc<EncodedEntry>]) -> Bytes {
        self.heartbeat_at = Instant::now() + HEARTBEAT;
        self.told = entries.last().map_or(self.told, |last| last.position);
        match entries {
            [one] => one.bytes.clone(),
            several => several.iter().map(|entry| &entry.bytes[..]).collect::<Vec<_>>().concat().into(),
        }
    }

    /// A comment; on a filtered stream also how far it has read, so that it need not read that again.
    fn heartbeat(&mut self) -> Bytes {
        self.heartbeat_at = Instant::now() + HEARTBEAT;
        if self.filter.is_empty() || self.told == self.position {
            return Bytes::from_static(b": \n\n");
        }
        self.told = self.position;
        format!(": \nid: {}\n\n", self.position).into()
    }

    /// Whether the credential is still good; the next check is due later.
    async fn recheck_credential(&mut self) -> bool {
        self.check_at = Instant::now() + CREDENTIAL_CHECK;
        let access = self.state.service.access();
        let found = match self.credential.kind {
            CredentialKind::ProgramToken | CredentialKind::PersonToken => {
                access.is_token_active(&self.credential.id).await
            }
            CredentialKind::Session => access.is_session_open(&self.credential.id).await,
        };
        found.unwrap_or_else(|error| {
            tracing::warn!("a credential cannot be checked: {error}");
            false
        })
    }
}
