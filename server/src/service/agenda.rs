//! What there is to do: active and waiting executions, those of this place first, then what ended last, and
//! plans that were saved and never started.

use std::collections::BTreeMap;

use actbook_engine::id::ExecutionId;
use actbook_engine::note::Scope;
use actbook_engine::policy::Status;
use serde::Serialize;

use super::Service;
use super::view::{ExecutionRow, ExecutionView, PlanView, WaitingView};
use crate::error::Error;
use crate::store::{executions, notes, plans};

/// So many of each status; older ones are for the ledger's queries.
const LISTED_MAX: usize = 10;
const RECENT_MAX: u64 = 5;
const UNSTARTED_MAX: u64 = 5;
/// Executions beyond those that are listed are counted up to here.
const COUNTED_MAX: u64 = 10_000;
/// Notes of one execution are counted up to here.
const NOTES_COUNTED_MAX: u64 = 100;
/// What can still move, the most urgent first.
const OPEN: [Status; 4] = [Status::Blocked, Status::Running, Status::Compensating, Status::Paused];

/// What an agent or a person with nothing in memory can carry on with.
#[derive(Clone, Debug, Serialize)]
pub struct Agenda {
    pub items: Vec<AgendaItem>,
    /// By status: how many there are beyond those that are listed.
    pub more: BTreeMap<String, u64>,
    /// Saved plans of which no execution was ever started, the newest first.
    pub unstarted: Vec<PlanView>,
}

#[derive(Clone, Debug, Serialize)]
pub struct AgendaItem {
    #[serde(flatten)]
    pub row: ExecutionRow,
    /// Its servers are defined here as they were where it was started.
    pub here: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WaitingView>,
    /// How many notes belong to it.
    pub notes: usize,
    #[serde(skip)]
    pub view: Option<ExecutionView>,
}

impl Service {
    pub async fn agenda(&self) -> Result<Agenda, Error> {
        let mut items = Vec::new();
        let mut more = BTreeMap::new();
        for status in OPEN {
            let filter = executions::Filter { status: Some(status.to_string()), ..Default::default() };
            let rows =
                executions::list(self.tenant, self.boundary(), &filter, COUNTED_MAX).all(&self.db).await?;
            let listed = rows.len().min(LISTED_MAX);
            for row in &rows[..listed] {
                items.push(self.item(row, true).await?);
            }
            if rows.len() > listed {
                more.insert(status.to_string(), (rows.len() - listed) as u64);
            }
        }
        items.sort_by_key(|item| !item.here);
        let any = executions::Filter::default();
        for row in executions::list(self.tenant, self.boundary(), &any, RECENT_MAX).all(&self.db).await? {
            if row.ended_at.is_some() {
                items.push(self.item(&row, false).await?);
            }
        }
        let unstarted = plans::unstarted(self.tenant, self.boundary(), UNSTARTED_MAX).all(&self.db).await?;
        Ok(Agenda { items, more, unstarted: unstarted.iter().map(PlanView::of).collect() })
    }

    async fn item(&self, row: &executions::Execution, looks: bool) -> Result<AgendaItem, Error> {
        let execution = self.fold(row.id)?;
        let here = self.place(&execution.plan) == execution.place;
        let view = if looks { Some(self.render(&execution).await?) } else { None };
        let waiting = view.as_ref().map(|view| view.waiting.clone()).unwrap_or_default();
        let notes = if looks { self.count_notes(&execution.id).await? } else { 0 };
        let row = ExecutionRow::of(row, &self.plan_digest(row).await?);
        Ok(AgendaItem { row, here, waiting, notes, view })
    }

    async fn count_notes(&self, id: &ExecutionId) -> Result<usize, Error> {
        let scope = Some(Scope::Execution(ExecutionId::new(id.as_str())));
        let filter = notes::Filter { scope, ..self.note_filter() };
        Ok(notes::list(self.tenant, &filter, NOTES_COUNTED_MAX).all(&self.db).await?.len())
    }
}
