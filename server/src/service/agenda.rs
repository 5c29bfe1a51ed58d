//! The agenda: open executions and ended ones whose undo waits for a yes, those with this process's toolset
//! first, then those of the newest executions that have ended, and saved plans that were never started.

use std::collections::BTreeMap;

use actbook_engine::id::ExecutionId;
use actbook_engine::note::NoteScope;
use actbook_engine::policy::ExecutionStatus;
use serde::Serialize;

use super::executions::Executions;
use super::step_values::StepValues;
use super::view::{ExecutionSummary, ExecutionView, PlanView, WaitingView};
use crate::error::Error;
use crate::store::execution_filter::ExecutionFilter;
use crate::store::{executions, notes, plans};

/// At most this many executions of each status are listed; older ones are found with `list`.
const LISTED_MAX: usize = 10;
/// How many of the newest executions are looked through for ended ones.
const RECENT_MAX: u64 = 5;
/// Most plans that the agenda lists as saved and never started.
const UNSTARTED_MAX: u64 = 5;
/// Executions of one status are counted up to this number.
const COUNTED_MAX: u64 = 10_000;
/// Notes of one execution are counted up to this number.
const NOTES_COUNTED_MAX: u64 = 100;
/// The statuses of executions that have not ended, the most urgent first.
const OPEN_STATUSES: [ExecutionStatus; 4] = [
    ExecutionStatus::Blocked,
    ExecutionStatus::Running,
    ExecutionStatus::Compensating,
    ExecutionStatus::Paused,
];

/// The work that an agent or a person without any memory of it can continue.
#[derive(Clone, Debug, Serialize)]
pub struct Agenda {
    pub items: Vec<AgendaItem>,
    /// By status: the number of executions beyond those in `items`.
    pub more: BTreeMap<String, u64>,
    /// Saved plans that never had an execution, the newest first.
    pub unstarted: Vec<PlanView>,
}

/// One execution on the agenda.
#[derive(Clone, Debug, Serialize)]
pub struct AgendaItem {
    #[serde(flatten)]
    pub row: ExecutionSummary,
    /// Its toolset equals this process's: the same server definitions as where it was started.
    pub here: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WaitingView>,
    /// How many notes belong to the execution; 0 if it has ended and nothing of it waits.
    pub notes: usize,
    /// `None`: the execution has ended, and nothing of it waits.
    #[serde(skip)]
    pub view: Option<ExecutionView>,
}

impl Executions<'_> {
    /// The agenda of all executions that this service may see.
    pub async fn agenda(self) -> Result<Agenda, Error> {
        let mut items = Vec::new();
        let mut more = BTreeMap::new();
        for status in OPEN_STATUSES {
            let filter = ExecutionFilter { status: status.into(), ..ExecutionFilter::default() };
            let (rows, _) = self.rows(&filter, COUNTED_MAX).await?;
            let listed = rows.len().min(LISTED_MAX);
            for row in &rows[..listed] {
                items.push(self.agenda_item(row, true).await?);
            }
            if rows.len() > listed {
                more.insert(status.to_string(), (rows.len() - listed) as u64);
            }
        }
        let all = ExecutionFilter::default();
        for row in self.waiting_after_end(&all, LISTED_MAX as u64).await? {
            items.push(self.agenda_item(&row, true).await?);
        }
        items.sort_by_key(|item| !item.here);
        for row in self.rows(&all, RECENT_MAX).await?.0 {
            if row.ended_at.is_some() && row.wake_at.is_none() {
                items.push(self.agenda_item(&row, false).await?);
            }
        }
        let unstarted =
            plans::never_started(self.0.tenant, self.0.boundary(), UNSTARTED_MAX).all(&self.0.db).await?;
        Ok(Agenda { items, more, unstarted: unstarted.iter().map(PlanView::of).collect() })
    }

    /// The item of one execution; its view, open questions and note count only if `with_view`.
    async fn agenda_item(self, row: &executions::ExecutionRow, with_view: bool) -> Result<AgendaItem, Error> {
        let execution = self.fold(row.id).await?;
        let here = self.0.runner.toolset_for(&execution) == execution.toolset;
        let view = if with_view { Some(self.render(&execution, StepValues::All).await?) } else { None };
        let waiting = view.as_ref().map(|view| view.waiting.clone()).unwrap_or_default();
        let notes = if with_view { self.count_notes(&execution.id).await? } else { 0 };
        let row = ExecutionSummary::of(row, &self.plan_digest(row).await?)?;
        Ok(AgendaItem { row, here, waiting, notes, view })
    }

    /// The number of notes that belong to an execution, counted up to `NOTES_COUNTED_MAX`.
    async fn count_notes(self, id: &ExecutionId) -> Result<usize, Error> {
        let scope = Some(NoteScope::Execution(ExecutionId::new(id.as_str())));
        let filter = notes::NoteRowFilter { scope, ..self.0.notes().filter() };
        Ok(notes::list(self.0.tenant, &filter, NOTES_COUNTED_MAX).all(&self.0.db).await?.len())
    }
}
