//! The library in the pending state: plans saved and deleted, tools accepted.

use std::sync::Arc;

use actbook_engine::chain::Digest;
use actbook_engine::event::ToolAccepted;
use actbook_engine::execution::NewEvent;
use actbook_engine::id::PlanId;
use actbook_engine::library::PlanLibrary;

use super::super::fold::{self, LIBRARY_STREAM};
use super::super::{Error, LedgerReply, LedgerResult, SavePlanRequest};
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

    /// Queues the plan as a new version, unless the newest version equals it.
    pub(super) fn save_plan(&mut self, request: &SavePlanRequest, actor: &Arc<str>) -> LedgerResult {
        let SavePlanRequest { plan, new_id, placement, pins, tools } = request;
        let library = self.take_library()?;
        let (reference, saved) = library.save(plan, placement, pins.as_ref(), new_id.clone());
        let is_new = saved.is_some();
        if let Some(saved) = saved {
            let payload = Some(plan.document.clone().into_bytes());
            self.append_to_library(library, NewEvent { event: saved.into(), payload }, actor)?;
            self.queue.statements.extend(tools.iter().map(|tool| tools::insert(self.tenant, tool)));
        } else {
            self.library = Some(library);
        }
        self.plans.insert(plan.clone());
        Ok(LedgerReply::PlanSaved { plan: reference, is_new })
    }

    /// Queues the acceptance of a tool's definition, unless that definition is accepted already.
    pub(super) fn accept_tool(
        &mut self,
        digest: Digest,
        tool: &tools::ToolRow,
        reason: Option<&str>,
        actor: &Arc<str>,
    ) -> LedgerResult {
        let library = self.take_library()?;
        let is_new = library.accepted_definition(&tool.name) != Some(digest);
        if is_new {
            let (tool_name, reason) = (tool.name.clone(), reason.map(str::to_owned));
            self.append_to_library(library, ToolAccepted { tool: tool_name, digest, reason }.into(), actor)?;
            self.queue.statements.push(tools::insert(self.tenant, tool));
        } else {
            self.library = Some(library);
        }
        Ok(LedgerReply::ToolAccepted { is_new })
    }

    pub fn with_library<T>(&mut self, read: impl FnOnce(&PlanLibrary) -> T) -> Result<T, Error> {
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

    pub(super) fn delete_plan(&mut self, id: &PlanId, actor: &Arc<str>) -> LedgerResult {
        let library = self.take_library()?;
        match library.delete(id) {
            Ok(deleted) => self.append_to_library(library, deleted.into(), actor)?,
            Err(refusal) => {
                self.library = Some(library);
                return Err(refusal.into());
            }
        }
        Ok(LedgerReply::Done)
    }
}
