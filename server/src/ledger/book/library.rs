//! The library's part of the book: plans saved and deleted, tools accepted.

use std::sync::Arc;

use actbook_engine::chain::Digest;
use actbook_engine::event::ToolAccepted;
use actbook_engine::execution::Fresh;
use actbook_engine::id::PlanId;
use actbook_engine::library::Library;

use super::super::fold::{self, LIBRARY};
use super::super::{Answer, Error, PlanAsked, Reply};
use super::{Book, Stands};
use crate::store::{project, tools};

impl Book {
    fn library(&mut self) -> Result<Library, Error> {
        match self.library.take() {
            Some(library) => Ok(library),
            None => fold::fold_library(&self.db, self.tenant),
        }
    }

    pub(super) fn save(&mut self, asked: &PlanAsked, actor: &Arc<str>) -> Answer {
        let PlanAsked { plan, new_id, placement, pins, tools } = asked;
        let library = self.library()?;
        let (reference, saved) = library.save(plan, placement, pins.as_ref(), new_id.clone());
        let fresh = saved.is_some();
        if let Some(saved) = saved {
            let payload = Some(plan.document.clone().into_bytes());
            self.shelve(library, Fresh { event: saved.into(), payload }, actor)?;
            self.queue.others.extend(tools.iter().map(|tool| tools::insert(self.tenant, tool)));
        } else {
            self.library = Some(library);
        }
        self.plans.put(plan.clone());
        Ok(Reply::Saved { plan: reference, fresh })
    }

    pub(super) fn accept(
        &mut self,
        digest: Digest,
        tool: &tools::Tool,
        reason: Option<&str>,
        actor: &Arc<str>,
    ) -> Answer {
        let library = self.library()?;
        let fresh = library.accepted(&tool.name) != Some(digest);
        if fresh {
            let (tool_name, reason) = (tool.name.clone(), reason.map(str::to_owned));
            self.shelve(library, ToolAccepted { tool: tool_name, digest, reason }.into(), actor)?;
            self.queue.others.push(tools::insert(self.tenant, tool));
        } else {
            self.library = Some(library);
        }
        Ok(Reply::Accepted { fresh })
    }

    pub fn look_at_library<T>(&mut self, look: impl FnOnce(&Library) -> T) -> Result<T, Error> {
        self.hold_head()?;
        let library = self.library()?;
        let seen = look(&library);
        self.library = Some(library);
        Ok(seen)
    }

    fn shelve(&mut self, library: Library, fresh: Fresh, actor: &Arc<str>) -> Result<(), Error> {
        let stands = Stands { version: library.version, position: library.position.0 };
        let recorded = self.append(LIBRARY, stands, fresh, actor);
        self.queue.others.extend(project::plan(self.tenant, &recorded));
        self.library = Some(library.evolve(&recorded)?);
        Ok(())
    }

    pub(super) fn delete(&mut self, id: &PlanId, actor: &Arc<str>) -> Answer {
        let library = self.library()?;
        match library.delete(id) {
            Ok(deleted) => self.shelve(library, deleted.into(), actor)?,
            Err(refusal) => {
                self.library = Some(library);
                return Err(refusal.into());
            }
        }
        Ok(Reply::Deleted)
    }
}
