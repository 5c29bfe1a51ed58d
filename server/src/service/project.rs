//! Projects: the boundary between agents that share a database. The MCP interface uses a service that is
//! confined to its project, and so does the HTTP interface for callers with the role `agent`; what other
//! projects wrote does not exist for it. People are not confined, nor are other programs unless they ask for
//! it. Every read and every command of a confined service goes through here or
//! through a store read that takes `boundary`.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

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
use crate::caller::{Caller, Right, Role};
use crate::error::{Error, PersonAct};
use crate::ledger;
use crate::store::{Entry, journal, notes, plans, tasks};

/// Entries that are read at a time to find the visible ones, at first and at most.
const PAGE_MIN: u64 = 20;
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

    /// The service as a caller with this role gets it over HTTP: agents are confined to the project, and roles
    /// without the right `payloads` see no values.
    #[must_use]
    pub fn for_role(&self, role: Role) -> Self {
        let service = match role {
            Role::Agent => self.confined(),
            Role::Viewer | Role::Operator | Role::Approver | Role::Admin => self.clone(),
        };
        Self { withholds: !role.rights().has(Right::Payloads), ..service }
    }

    /// The project that reads and commands are confined to. `None`: all projects are visible.
    pub fn boundary(&self) -> Option<&str> {
        self.is_confined.then_some(&*self.project)
    }

    /// The boundary as an owned string, for filters.
    pub fn owned_boundary(&self) -> Option<String> {
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

    /// Whether an entry with this scope is visible to this service.
    fn is_visible(&self, scope: &EntryScope) -> bool {
        self.boundary().is_none_or(|own| scope.includes(own))
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

    /// Whether the caller may give the approvals of this execution: it needs the right, and an agent also
    /// configs that allow it.
    pub(super) async fn is_approver(self, caller: &Caller, id: &str) -> Result<bool, Error> {
        Ok(caller.rights.has(Right::Approve) && (!caller.is_agent() || self.agents_may_approve(id).await?))
    }

    /// Refuses the answer to an approval of a caller without the right, and a confined agent's unless agents may
    /// approve this execution.
    pub(super) async fn require_approver(self, caller: &Caller, id: &str) -> Result<(), Error> {
        self.0.require(caller, Right::Approve)?;
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
            let scopes = self.entry_scopes(&entries, &mut streams).await?;
            let pairs = entries.into_iter().zip(&scopes);
            let visible = pairs.filter(|(_, scope)| self.0.is_visible(scope)).map(|(entry, _)| entry);
            let missing = limit - found.len() as u64;
            found.extend(visible.take(missing as usize));
            match last {
                Some(last) if read == page && (found.len() as u64) < limit => filter.after = last,
                Some(_) | None => return Ok(found),
            }
            page = PAGE_MAX.min(4 * page);
        }
    }

    /// Who sees each of these entries; `streams` caches the answers by stream.
    pub(super) async fn entry_scopes(
        self,
        entries: &[Entry],
        streams: &mut HashMap<StreamId, EntryScope>,
    ) -> Result<Vec<EntryScope>, Error> {
        self.read_stream_scopes(entries, streams).await?;
        let mut scopes = Vec::with_capacity(entries.len());
        for entry in entries {
            scopes.push(match streams.get(&entry.stream) {
                Some(scope) => scope.clone(),
                None if entry.stream == ledger::LIBRARY_STREAM => self.library_scope(entry).await?,
                None => EntryScope::People,
            });
        }
        Ok(scopes)
    }

    /// Adds to `streams` who sees the streams of these entries, but for the plan library's: the first entry of
    /// a stream, whose position is the stream's id, names its project.
    async fn read_stream_scopes(
        self,
        entries: &[Entry],
        streams: &mut HashMap<StreamId, EntryScope>,
    ) -> Result<(), Error> {
        let is_first = |entry: &&Entry| entry.position == entry.stream.0;
        let firsts = entries.iter().filter(is_first);
        streams.extend(firsts.map(|first| (first.stream, EntryScope::of_first_entry(first))));
        let is_unknown =
            |stream: &StreamId| *stream != ledger::LIBRARY_STREAM && !streams.contains_key(stream);
        let unknown: BTreeSet<StreamId> =
            entries.iter().map(|entry| entry.stream).filter(is_unknown).collect();
        let positions: Vec<u64> = unknown.into_iter().map(|stream| stream.0).collect();
        let firsts = journal::by_positions(&self.0.db, self.0.tenant, &positions).await?;
        streams.extend(firsts.iter().map(|first| (first.stream, EntryScope::of_first_entry(first))));
        Ok(())
    }

    /// Who sees an entry of the plan library: its plan's project, all for shared plans and accepted tools.
    async fn library_scope(self, entry: &Entry) -> Result<EntryScope, Error> {
        let of_plan = |project: Option<String>, everywhere: bool| {
            if everywhere { EntryScope::All } else { EntryScope::of_project(project.as_deref()) }
        };
        match Event::decode(&entry.kind, &entry.body) {
            Ok(Event::PlanSaved(saved)) => Ok(of_plan(saved.project.clone(), saved.everywhere)),
            Ok(Event::PlanDeleted(deleted)) => {
                let first =
                    plans::by_version(self.0.tenant, deleted.id.as_str(), 1).first(&self.0.db).await?;
                Ok(first.map_or(EntryScope::People, |plan| of_plan(plan.project, plan.everywhere)))
            }
            Ok(Event::ToolAccepted(_)) => Ok(EntryScope::All),
            Ok(Event::ServerListed(listed)) => Ok(EntryScope::of_project(Some(&listed.project))),
            Ok(_) | Err(_) => Ok(EntryScope::People),
        }
    }
}

/// Who sees an entry of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryScope {
    /// Everybody: it was written before projects existed, or is shared.
    All,
    /// People, and agents of this project.
    Project(Arc<str>),
    /// Callers that are not confined: it cannot be decoded.
    People,
}

impl EntryScope {
    fn of_project(project: Option<&str>) -> Self {
        project.map_or(Self::All, |project| Self::Project(project.into()))
    }

    /// The scope of the stream that begins with this entry.
    fn of_first_entry(first: &Entry) -> Self {
        let event = Event::decode(&first.kind, &first.body);
        event.map_or(Self::People, |event| Self::of_project(event.project()))
    }

    /// Whether a caller that is confined to a project sees the entry.
    pub fn includes(&self, own: &str) -> bool {
        match self {
            Self::All => true,
            Self::Project(project) => **project == *own,
            Self::People => false,
        }
    }
}

impl Service {
    /// Whether the stream that begins with this entry is visible; false if the entry cannot be decoded.
    pub(super) fn is_first_entry_visible(&self, first: &Entry) -> bool {
        self.is_visible(&EntryScope::of_first_entry(first))
    }
}
