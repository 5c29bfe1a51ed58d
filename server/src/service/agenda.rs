//! What there is to do: active and waiting executions, those of this place first, then what ended last.

use actbook_engine::policy::Status;
use serde::Serialize;

use super::Service;
use super::view::{ExecutionRow, ExecutionView, WaitingView};
use crate::error::Error;
use crate::store::executions;

/// So many of each status; older ones are for the ledger's queries.
const LISTED_MAX: u64 = 10;
const RECENT_MAX: u64 = 5;
/// What can still move, the most urgent first.
const OPEN: [Status; 4] = [Status::Blocked, Status::Running, Status::Compensating, Status::Paused];

#[derive(Clone, Debug, Serialize)]
pub struct AgendaItem {
    #[serde(flatten)]
    pub row: ExecutionRow,
    /// Its servers are defined here as they were where it was started.
    pub here: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WaitingView>,
    #[serde(skip)]
    pub view: Option<ExecutionView>,
}

impl Service {
    pub async fn agenda(&self) -> Result<Vec<AgendaItem>, Error> {
        let mut open = Vec::new();
        for status in OPEN {
            let filter = executions::Filter { status: Some(status.to_string()), ..Default::default() };
            for row in
                executions::list(self.tenant, self.boundary(), &filter, LISTED_MAX).all(&self.db).await?
            {
                open.push(self.item(&row, true).await?);
            }
        }
        open.sort_by_key(|item| !item.here);
        let any = executions::Filter::default();
        for row in executions::list(self.tenant, self.boundary(), &any, RECENT_MAX).all(&self.db).await? {
            if row.ended_at.is_some() {
                open.push(self.item(&row, false).await?);
            }
        }
        Ok(open)
    }

    async fn item(&self, row: &executions::Execution, looks: bool) -> Result<AgendaItem, Error> {
        let execution = self.fold(row.id)?;
        let here = self.place(&execution.plan) == execution.place;
        let view = if looks { Some(self.render(&execution).await?) } else { None };
        let waiting = view.as_ref().map(|view| view.waiting.clone()).unwrap_or_default();
        let row = ExecutionRow::of(row, &self.plan_digest(row).await?);
        Ok(AgendaItem { row, here, waiting, view })
    }
}
