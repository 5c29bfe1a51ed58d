//! The library in the pending state: plans saved and deleted, tools accepted.

use std::sync::Arc;

use actbook_engine::event::{ServerListed, ToolAccepted};
use actbook_engine::execution::NewEvent;
use actbook_engine::library::PlanLibrary;

use super::super::fold::{self, LIBRARY_STREAM};
use super::super::{
    AcceptToolRequest, DeletePlanRequest, Error, LedgerRequest, ListServerRequest, SavePlanReply,
    SavePlanRequest,
};
use super::{PendingState, StreamHead};
use crate::store::{projection, tools};

impl PendingState {
    /// Takes the library out of the cache, or folds it. The caller puts it back.
    fn take_library(&mut self) -> Result<PlanLibrary, Error> {
        match self.library.take() {
            Some(library) => Ok(library),
            None => fold::fold_library(&self.db, self.tenant),
        }
    }

    /// Calls `read` with the library, queued events included, and returns the result. Folds the library from
    /// the journal if it is not cached, which may block. Err: the journal cannot be read.
    pub(crate) fn with_library<T>(&mut self, read: impl FnOnce(&PlanLibrary) -> T) -> Result<T, Error> {
        self.ensure_head()?;
        let library = self.take_library()?;
        let result = read(&library);
        self.library = Some(library);
        Ok(result)
    }

    /// Queues the event and the plan row that it changes, and puts the evolved library back.
    fn append_to_library(
        &mut self,
        library: PlanLibrary,
        new_event: NewEvent,
        actor: &Arc<str>,
    ) -> Result<(), Error> {
        let last = StreamHead { version: library.version, position: library.position.0 };
        let recorded = self.append(LIBRARY_STREAM, last, new_event, actor);
        self.queue.statements.extend(projection::plan_statement(self.tenant, &recorded));
        self.library = Some(library.evolve(&recorded)?);
        Ok(())
    }
}

impl LedgerRequest for SavePlanRequest {
    type Reply = SavePlanReply;

    /// Queues the plan as a new version, unless the newest version equals it.
    fn decide(&self, pending: &mut PendingState, actor: &Arc<str>) -> Result<SavePlanReply, Error> {
        let Self { plan, new_id, placement, pins, tools } = self;
        let library = pending.take_library()?;
        let (reference, saved) = library.save(plan, placement, pins.as_ref(), new_id.clone());
        let is_new = saved.is_some();
        if let Some(saved) = saved {
            let payload = Some(plan.document.clone().into_bytes());
            pending.append_to_library(library, NewEvent { event: saved.into(), payload }, actor)?;
            pending.queue.statements.extend(tools.iter().map(|tool| tools::insert(pending.tenant, tool)));
        } else {
            pending.library = Some(library);
        }
        pending.plans.insert(plan.clone());
        Ok(SavePlanReply { plan: reference, is_new })
    }
}

impl LedgerRequest for AcceptToolRequest {
    type Reply = bool;

    /// Queues the acceptance of a tool's definition, unless that definition is accepted already.
    fn decide(&self, pending: &mut PendingState, actor: &Arc<str>) -> Result<bool, Error> {
        let Self { digest, tool, reason } = self;
        let library = pending.take_library()?;
        let is_new = library.accepted_definition(&tool.name) != Some(*digest);
        if is_new {
            let accepted = ToolAccepted { tool: tool.name.clone(), digest: *digest, reason: reason.clone() };
            pending.append_to_library(library, accepted.into(), actor)?;
            pending.queue.statements.push(tools::insert(pending.tenant, tool));
        } else {
            pending.library = Some(library);
        }
        Ok(is_new)
    }
}

impl LedgerRequest for ListServerRequest {
    type Reply = bool;

    /// Queues the listing, unless there is one of the server in this project.
    fn decide(&self, pending: &mut PendingState, actor: &Arc<str>) -> Result<bool, Error> {
        let Self { project, server, tools } = self;
        let library = pending.take_library()?;
        let is_first = library.first_listing(project, server).is_none();
        if is_first {
            let (project, server, tools) = (project.clone(), server.clone(), tools.clone());
            pending.append_to_library(library, ServerListed { server, project, tools }.into(), actor)?;
        } else {
            pending.library = Some(library);
        }
        Ok(is_first)
    }
}

impl LedgerRequest for DeletePlanRequest {
    type Reply = ();

    fn decide(&self, pending: &mut PendingState, actor: &Arc<str>) -> Result<(), Error> {
        let library = pending.take_library()?;
        match library.delete(&self.id) {
            Ok(deleted) => pending.append_to_library(library, deleted.into(), actor),
            Err(refusal) => {
                pending.library = Some(library);
                Err(refusal.into())
            }
        }
    }
}
