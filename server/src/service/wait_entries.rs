//! The entries of an execution that begin or end a wait for a person: what was asked, approved, rejected, paused and
//! resumed. The folded state does not keep them. They are read once and kept beside the fold, so that a page of a long
//! execution reads only newer ones.

use std::sync::Arc;

use actbook_engine::event::Event;
use actbook_engine::execution::Execution;
use actbook_engine::id::StreamId;

use super::executions::Executions;
use crate::error::Error;
use crate::store::journal;

/// Beginnings of the kinds that are kept; other entries are not decoded.
const KINDS: [&str; 12] = [
    "approval_asked.",
    "step_approved.",
    "step_rejected.",
    "plan_approval_asked.",
    "plan_approved.",
    "plan_rejected.",
    "unwind_proposed.",
    "unwind_approved.",
    "unwind_rejected.",
    "undo_asked.",
    "paused.",
    "resumed.",
];

/// The entries up to a position of the journal, in order.
#[derive(Clone, Debug, Default)]
pub struct WaitEntries {
    through: u64,
    pub entries: Vec<WaitEntry>,
}

/// One entry that begins or ends a wait.
#[derive(Clone, Debug)]
pub struct WaitEntry {
    pub position: u64,
    pub at_ms: i64,
    pub actor: Arc<str>,
    pub event: Event,
}

impl WaitEntry {
    /// `None`: the entry neither begins nor ends a wait, or is of a newer actbook.
    fn of(entry: journal::Entry) -> Option<Self> {
        KINDS.iter().find(|kind| entry.kind.starts_with(**kind))?;
        let event = Event::decode(&entry.kind, &entry.body).ok()?;
        Some(Self { position: entry.position, at_ms: entry.at, actor: entry.actor, event })
    }
}

impl Executions<'_> {
    /// The entries of an execution, at least up to where it is folded.
    pub(super) async fn wait_entries(
        self,
        stream: StreamId,
        execution: &Execution,
    ) -> Result<Arc<WaitEntries>, Error> {
        let mut known = self.0.folds.wait_entries(stream).unwrap_or_default();
        if known.through < execution.position.0 {
            let newer = journal::by_stream(self.0.db.dialect(), self.0.tenant, stream, known.through);
            let newer = newer.all(&self.0.db).await?;
            let changed = Arc::make_mut(&mut known);
            changed.through = newer.last().map_or(execution.position.0, |last| last.position);
            changed.entries.extend(newer.into_iter().filter_map(WaitEntry::of));
            self.0.folds.put_wait_entries(stream, &known);
        }
        Ok(known)
    }
}
