//! Projects: the boundary between agents that share a database. The MCP interface uses a service that is
//! confined to its project; what other projects wrote does not exist for it. People are not confined, nor are
//! programs unless they ask for it. Every read and every command of a confined service goes through here or
//! through a store read that takes `boundary`.

use std::collections::HashMap;

use actbook_engine::event::Event;
use actbook_engine::execution::StartContext;
use actbook_engine::id::StreamId;
use actbook_engine::note::NoteScope;
use actbook_engine::plan::Plan;

use super::Service;
use super::context::Notes;
use super::executions::Executions;
use super::journal::Journal;
use super::tasks::Tasks;
use crate::caller::{Caller, Right};
use crate::error::{Error, PersonAct};
use crate::ledger;
use crate::store::{Entry, journal, notes, plans, tasks};

/// Entries that are read at a time to find the visible ones, at first and at most.
const PAGE_MIN: u64 = 500;
const PAGE_MAX: u64 = 8_000;

impl Service {
    /// The project that everything written by this service belongs to.
    pub fn project(&self) -> &str {
        &self.project
    }

    /// A service on the same state as agents get it: confined to what its project wrote and to what was
    /// written before projects existed.
    #[must_use]
    pub fn confined(&self) -> Self {
        Self { is_confined: true, ..self.clone() }
    }

    /// The project that reads and commands are confined to. `None`: all projects are visible.
    pub(super) fn boundary(&self) -> Option<&str> {
        self.is_confined.then_some(&*self.project)
    }

    pub(super) fn owned_boundary(&self) -> Option<String> {
        self.boundary().map(str::to_owned)
    }
}

impl Notes<'_> {
    /// A filter for the notes that are visible to this service and have not expired.
    pub(super) fn filter(self) -> notes::NoteRowFilter {
        let now_ms = self.0.ledger.clock().now_ms();
        notes::NoteRowFilter { now_ms, within: self.0.owned_boundary(), ..notes::NoteRowFilter::default() }
    }

    /// The project of a note that is about to be written: that of the existing note with this scope and key,
    /// which is `None` if it was written before projects existed, else this project.
    pub(super) async fn project_of(self, scope: &NoteScope, key: &str) -> Result<Option<String>, Error> {
        let existing =
            notes::writable_by_key(self.0.tenant, &self.0.project, scope, key).first(&self.0.db).await?;
        Ok(existing.map_or_else(|| Some(self.0.project.to_string()), |note| note.project))
    }
}

impl Tasks<'_> {
    /// The row of a visible task, this project's before another's. `None`: there is none with that id.
    pub(super) async fn row(self, id: &str) -> Result<Option<tasks::TaskRow>, Error> {
        Ok(tasks::by_id(self.0.tenant, self.0.boundary(), &self.0.project, id).first(&self.0.db).await?)
    }
}

impl Service {
    /// Refuses to act (`act`) on another project's plan or template through a confined service.
    pub(super) fn require_own_project(&self, project: Option<&str>, act: PersonAct) -> Result<(), Error> {
        if self.boundary().is_none_or(|own| project == Some(own)) {
            return Ok(());
        }
        Err(Error::NeedsPerson(act))
    }

    /// Refuses a confined agent's request to share something with every project, unless the config allows it.
    pub(super) fn require_may_share(&self, caller: &Caller, everywhere: bool) -> Result<(), Error> {
        if !everywhere || !self.is_confined || !caller.is_agent() || self.agents_may_share {
            return Ok(());
        }
        Err(Error::NeedsPerson(PersonAct::Share))
    }

    /// Whether something of this project is visible to this service. `None`: written before projects existed,
    /// and so visible to all.
    fn is_visible(&self, project: Option<&str>) -> bool {
        self.boundary().is_none_or(|own| project.is_none_or(|project| project == own))
    }
}

impl Executions<'_> {
    /// What the first entry of an execution records about the process that started it.
    pub(super) fn start_context(self, plan: &Plan) -> StartContext {
        StartContext {
            toolset: self.toolset_digest(plan),
            project: Some(self.0.project.to_string()),
            agents_may_approve: self.0.agents_may_approve,
        }
    }

    /// Whether agents may approve this execution: the config here must allow it, and so must the config that
    /// it was started under.
    pub async fn agents_may_approve(self, id: &str) -> Result<bool, Error> {
        Ok(self.0.agents_may_approve && self.load(id).await?.agents_may_approve)
    }

    /// Whether the caller may give the approvals of this execution: a person may, an agent only if configs
    /// allow it.
    pub(super) async fn is_approver(self, caller: &Caller, id: &str) -> Result<bool, Error> {
        if caller.is_agent() {
            self.agents_may_approve(id).await
        } else {
            Ok(caller.rights.has(Right::Approve))
        }
    }

    /// Refuses a confined agent's answer to an approval, unless agents may approve this execution.
    pub(super) async fn require_approver(self, caller: &Caller, id: &str) -> Result<(), Error> {
        if !self.0.is_confined || self.is_approver(caller, id).await? {
            return Ok(());
        }
        Err(Error::NeedsPerson(PersonAct::Approve { execution: id.to_owned() }))
    }
}

impl Journal<'_> {
    /// Up to `limit` entries that match and lie within the boundary, oldest first. The first entry of a
    /// stream names the stream's project.
    pub(super) async fn visible_entries(
        self,
        filter: &journal::EntryFilter,
        limit: u64,
    ) -> Result<Vec<Entry>, Error> {
        let mut filter = filter.clone();
        let (mut found, mut page) = (Vec::new(), PAGE_MIN.max(limit));
        let mut streams = HashMap::new();
        loop {
            let entries =
                journal::list(self.0.db.dialect(), self.0.tenant, &filter, page).all(&self.0.db).await?;
            let (read, last) = (entries.len() as u64, entries.last().map(|entry| entry.position));
            for entry in entries {
                if found.len() as u64 == limit {
                    return Ok(found);
                }
                if self.is_stream_visible(&entry, &mut streams).await? {
                    found.push(entry);
                }
            }
            match last {
                Some(last) if read == page => filter.after = last,
                Some(_) | None => return Ok(found),
            }
            page = PAGE_MAX.min(4 * page);
        }
    }

    /// Whether an entry's stream is visible to this service; `streams` caches the answers.
    async fn is_stream_visible(
        self,
        entry: &Entry,
        streams: &mut HashMap<StreamId, bool>,
    ) -> Result<bool, Error> {
        if entry.stream == ledger::LIBRARY_STREAM {
            return self.is_library_entry_visible(entry).await;
        }
        if let Some(known) = streams.get(&entry.stream) {
            return Ok(*known);
        }
        let visible = match entry.version {
            1 => self.0.is_first_entry_visible(entry),
            _ => {
                let first = journal::by_position(self.0.tenant, entry.stream.0).first(&self.0.db).await?;
                first.is_some_and(|first| self.0.is_first_entry_visible(&first))
            }
        };
        streams.insert(entry.stream, visible);
        Ok(visible)
    }

    /// Whether an entry of the plan library is visible: plans of visible projects and shared ones, and
    /// accepted tools. False if it cannot be decoded.
    async fn is_library_entry_visible(self, entry: &Entry) -> Result<bool, Error> {
        match Event::decode(&entry.kind, &entry.body) {
            Ok(Event::PlanSaved(saved)) => {
                Ok(saved.everywhere || self.0.is_visible(saved.project.as_deref()))
            }
            Ok(Event::PlanDeleted(deleted)) => {
                let first =
                    plans::by_version(self.0.tenant, deleted.id.as_str(), 1).first(&self.0.db).await?;
                Ok(first.is_some_and(|plan| plan.everywhere || self.0.is_visible(plan.project.as_deref())))
            }
            Ok(Event::ToolAccepted(_)) => Ok(true),
            Ok(_) | Err(_) => Ok(false),
        }
    }
}

impl Service {
    /// Whether the stream that begins with this entry is visible; false if the entry cannot be decoded.
    pub(super) fn is_first_entry_visible(&self, first: &Entry) -> bool {
        Event::decode(&first.kind, &first.body).is_ok_and(|event| self.is_visible(event.project()))
    }
}
