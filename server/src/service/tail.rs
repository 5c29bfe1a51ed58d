//! The journal as a stream of entries, each with what a reader filters by. Entries carry no payloads.

use std::collections::BTreeMap;
use std::sync::Arc;

use actbook_engine::id::StreamId;
use parking_lot::Mutex;

use super::entries::{EntryView, JournalFilter};
use super::journal::Journal;
use crate::error::Error;
use crate::store::executions;

/// An entry, and the plan and task of its execution.
#[derive(Clone, Debug)]
pub struct TailEntry {
    pub view: EntryView,
    /// `None`: it belongs to no execution.
    pub labels: Option<Arc<ExecutionLabels>>,
}

/// What never changes about an execution and is filtered by.
#[derive(Clone, Debug)]
pub struct ExecutionLabels {
    pub plan_id: String,
    pub plan_name: String,
    pub task: Option<String>,
}

/// Labels of executions by id, for readers that read on and on.
#[derive(Debug, Default)]
pub struct LabelCache(Mutex<BTreeMap<String, Arc<ExecutionLabels>>>);

/// A cache with more executions than this is emptied.
const CACHED_MAX: usize = 10_000;

impl Journal<'_> {
    /// Up to `limit` entries after a position, oldest first.
    pub async fn tail(self, after: u64, limit: u64, cache: &LabelCache) -> Result<Vec<TailEntry>, Error> {
        let filter = JournalFilter { after, ..JournalFilter::default() };
        let mut entries = Vec::new();
        for view in self.list(&filter, limit).await? {
            let labels = match &view.execution {
                Some(id) => self.labels(id, cache).await?,
                None => None,
            };
            entries.push(TailEntry { view: EntryView { recorded: None, ..view }, labels });
        }
        Ok(entries)
    }

    /// The labels of an execution, by its whole id.
    async fn labels(self, id: &str, cache: &LabelCache) -> Result<Option<Arc<ExecutionLabels>>, Error> {
        if let Some(known) = cache.0.lock().get(id).cloned() {
            return Ok(Some(known));
        }
        let stream: StreamId = self.0.executions().find(id).await?.stream;
        let Some(row) = executions::by_id(self.0.tenant, stream).first(&self.0.db).await? else {
            return Ok(None);
        };
        let labels =
            Arc::new(ExecutionLabels { plan_id: row.plan, plan_name: row.plan_name, task: row.task });
        let mut cached = cache.0.lock();
        if cached.len() >= CACHED_MAX {
            cached.clear();
        }
        cached.insert(id.to_owned(), labels.clone());
        Ok(Some(labels))
    }
}
