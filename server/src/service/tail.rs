//! The journal as a stream of entries, each with what a reader filters by. Entries carry no payloads.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use actbook_engine::id::StreamId;
use parking_lot::Mutex;

use super::entries::EntryView;
use super::journal::Journal;
use super::project::EntryScope;
use crate::error::Error;
use crate::store::journal::{self, EntryFilter};
use crate::store::{Entry, executions};

/// An entry, who sees it, and the plan and task of its execution.
#[derive(Clone, Debug)]
pub struct TailEntry {
    pub view: EntryView,
    /// The reader shows the entry to nobody else.
    pub scope: EntryScope,
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

/// Labels of executions by id and scopes of streams, for readers that read on and on.
#[derive(Debug, Default)]
pub struct LabelCache {
    labels: Mutex<BTreeMap<String, Arc<ExecutionLabels>>>,
    scopes: Mutex<HashMap<StreamId, EntryScope>>,
}

/// A cache with more executions or streams than this is emptied.
const CACHED_MAX: usize = 10_000;

impl Journal<'_> {
    /// Up to `limit` entries after a position, oldest first, of every project.
    pub async fn tail(self, after: u64, limit: u64, cache: &LabelCache) -> Result<Vec<TailEntry>, Error> {
        let filter = EntryFilter { after, ..EntryFilter::default() };
        let found = journal::list(self.0.db.dialect(), self.0.tenant, &filter, limit).all(&self.0.db).await?;
        let scopes = self.scopes(&found, cache).await?;
        let mut entries = Vec::with_capacity(found.len());
        for (view, scope) in self.entry_views(found, false).await?.into_iter().zip(scopes) {
            let labels = match &view.execution {
                Some(id) => self.labels(id, cache).await?,
                None => None,
            };
            entries.push(TailEntry { view: EntryView { recorded: None, ..view }, scope, labels });
        }
        Ok(entries)
    }

    /// Who sees each of these entries.
    async fn scopes(self, entries: &[Entry], cache: &LabelCache) -> Result<Vec<EntryScope>, Error> {
        // Taken out, for a lock cannot be held while the database is read; a reader that comes meanwhile finds none.
        let mut known = std::mem::take(&mut *cache.scopes.lock());
        if known.len() >= CACHED_MAX {
            known.clear();
        }
        let scopes = self.entry_scopes(entries, &mut known).await?;
        *cache.scopes.lock() = known;
        Ok(scopes)
    }

    /// The labels of an execution, by its whole id.
    async fn labels(self, id: &str, cache: &LabelCache) -> Result<Option<Arc<ExecutionLabels>>, Error> {
        if let Some(known) = cache.labels.lock().get(id).cloned() {
            return Ok(Some(known));
        }
        let stream: StreamId = self.0.executions().find(id).await?.stream;
        let Some(row) = executions::by_id(self.0.tenant, stream).first(&self.0.db).await? else {
            return Ok(None);
        };
        let labels =
            Arc::new(ExecutionLabels { plan_id: row.plan, plan_name: row.plan_name, task: row.task });
        let mut cached = cache.labels.lock();
        if cached.len() >= CACHED_MAX {
            cached.clear();
        }
        cached.insert(id.to_owned(), labels.clone());
        Ok(Some(labels))
    }
}
