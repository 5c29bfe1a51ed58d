//! Projects: the boundary between agents that share a database. The MCP door holds a service that is confined to
//! its project; what other projects wrote does not exist for it. People, and programs unless they ask for it, are
//! not confined. Every read and every command of a confined service goes through here or through a store read
//! that takes `boundary`.

use std::collections::HashMap;

use actbook_engine::event::Event;
use actbook_engine::execution::StartContext;
use actbook_engine::note::Scope;
use actbook_engine::plan::Plan;

use super::Service;
use crate::caller::Caller;
use crate::error::Error;
use crate::ledger;
use crate::store::{Entry, journal, notes, plans, tasks};

/// Entries that are read at a time to find those that pass the boundary, at first and at most.
const PAGE: u64 = 500;
const PAGE_MAX: u64 = 8_000;

impl Service {
    /// The project that whatever is started here belongs to.
    pub fn project(&self) -> &str {
        &self.project
    }

    /// The same service as an agent of this project has it: confined to what the project itself wrote and to
    /// what was written before there were projects.
    #[must_use]
    pub fn confined(&self) -> Self {
        Self { is_confined: true, ..self.clone() }
    }

    /// The project that reads and commands are confined to; none: all projects are open.
    pub(super) fn boundary(&self) -> Option<&str> {
        self.is_confined.then_some(&*self.project)
    }

    /// The same, as filters hold it.
    pub(super) fn within(&self) -> Option<String> {
        self.boundary().map(str::to_owned)
    }

    /// Which notes there are for whoever asks, now.
    pub(super) fn note_filter(&self) -> notes::Filter {
        let now_ms = self.ledger.clock().now_ms();
        notes::Filter { now_ms, within: self.within(), ..notes::Filter::default() }
    }

    /// The project of a note that is about to be written: that of the note that bears the key already, which may be
    /// older than projects, else the own one.
    pub(super) async fn project_of_note(&self, scope: &Scope, key: &str) -> Result<Option<String>, Error> {
        let there = notes::to_write(self.tenant, &self.project, scope, key).first(&self.db).await?;
        Ok(there.map_or_else(|| Some(self.project.to_string()), |note| note.project))
    }

    /// A task as whoever asks may see it: the own project's before another's.
    pub(super) async fn task_row(&self, id: &str) -> Result<Option<tasks::Task>, Error> {
        Ok(tasks::by_id(self.tenant, self.boundary(), &self.project, id).first(&self.db).await?)
    }

    /// Refuses a confined caller who would delete what is not its own project's.
    pub(super) fn require_own(&self, project: Option<&str>, what: &str) -> Result<(), Error> {
        if self.boundary().is_none_or(|own| project == Some(own)) {
            return Ok(());
        }
        let message = format!("the {what} does not belong to this project");
        Err(Error::new("needs_a_person", message, "a person can delete it at the command line"))
    }

    /// Refuses an agent who would share something with every project, unless the config lets agents.
    pub(super) fn require_sharer(&self, caller: &Caller, everywhere: bool) -> Result<(), Error> {
        if !everywhere || !self.is_confined || !caller.is_agent() || self.agents_may_share {
            return Ok(());
        }
        let message = "only a person shares something with every project";
        let cure = "leave `everywhere` out, or ask your user for `everywhere: agents` in the config";
        Err(Error::new("needs_a_person", message, cure))
    }

    fn is_visible(&self, project: Option<&str>) -> bool {
        self.boundary().is_none_or(|own| project.is_none_or(|project| project == own))
    }

    /// What the first entry of an execution of this plan records of where it was started.
    pub(super) fn start_context(&self, plan: &Plan) -> StartContext {
        StartContext {
            place: self.place(plan),
            project: Some(self.project.to_string()),
            agents_may_approve: self.agents_may_approve,
        }
    }

    /// Whether an agent's answer to an approval of this execution counts: the config here says so, and so did
    /// the one that the execution was started under.
    pub async fn agents_may_approve(&self, id: &str) -> Result<bool, Error> {
        let found = self.find(id).await?;
        Ok(self.agents_may_approve && self.fold(found.stream)?.agents_may_approve)
    }

    /// Whether the caller's word is the yes that calls under approval wait for.
    pub(super) async fn is_approver(&self, caller: &Caller, id: &str) -> Result<bool, Error> {
        Ok(!caller.is_agent() || self.agents_may_approve(id).await?)
    }

    /// Refuses a confined agent's answer to an approval that is a person's to give.
    pub(super) async fn require_approver(&self, caller: &Caller, id: &str) -> Result<(), Error> {
        if !self.is_confined || self.is_approver(caller, id).await? {
            return Ok(());
        }
        let message = "yes or no to an approval is a person's word; an agent cannot give it here";
        Err(Error::new("needs_a_person", message, format!("a person runs `actbook approve {id}`")))
    }

    /// Entries in order, those left out that lie beyond the boundary. Which project a stream belongs to is said
    /// by its first entry.
    pub(super) async fn visible_entries(
        &self,
        filter: &journal::Filter,
        limit: u64,
    ) -> Result<Vec<Entry>, Error> {
        let mut filter = filter.clone();
        let (mut found, mut page) = (Vec::new(), PAGE.max(limit));
        let mut streams = HashMap::new();
        loop {
            let entries =
                journal::filtered(self.db.dialect(), self.tenant, &filter, page).all(&self.db).await?;
            let (read, last) = (entries.len() as u64, entries.last().map(|entry| entry.position));
            for entry in entries {
                if found.len() as u64 == limit {
                    return Ok(found);
                }
                if self.shows_stream_of(&entry, &mut streams).await? {
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

    /// `streams`: what is known of each already.
    async fn shows_stream_of(&self, entry: &Entry, streams: &mut HashMap<u64, bool>) -> Result<bool, Error> {
        if entry.stream == ledger::LIBRARY {
            return self.shows_library_entry(entry).await;
        }
        if let Some(known) = streams.get(&entry.stream) {
            return Ok(*known);
        }
        let visible = match entry.version {
            1 => self.is_first_entry_visible(entry),
            _ => {
                let first = journal::at(self.tenant, entry.stream).first(&self.db).await?;
                first.is_some_and(|first| self.is_first_entry_visible(&first))
            }
        };
        streams.insert(entry.stream, visible);
        Ok(visible)
    }

    async fn shows_library_entry(&self, entry: &Entry) -> Result<bool, Error> {
        match Event::decode(&entry.kind, &entry.body) {
            Ok(Event::PlanSaved(saved)) => Ok(saved.everywhere || self.is_visible(saved.project.as_deref())),
            Ok(Event::PlanDeleted(deleted)) => {
                let first = plans::version(self.tenant, deleted.id.as_str(), 1).first(&self.db).await?;
                Ok(first.is_some_and(|plan| plan.everywhere || self.is_visible(plan.project.as_deref())))
            }
            Ok(Event::ToolAccepted(_)) => Ok(true),
            Ok(_) | Err(_) => Ok(false),
        }
    }

    /// An entry that cannot be read belongs to nobody who is confined.
    pub(super) fn is_first_entry_visible(&self, first: &Entry) -> bool {
        Event::decode(&first.kind, &first.body).is_ok_and(|event| self.is_visible(event.project()))
    }
}
