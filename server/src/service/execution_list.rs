//! Lists of executions and what a dashboard shows beside them: pages with cursors, numbers by status, and the
//! values that a filter can have.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use actbook_engine::policy::ExecutionStatus;
use serde::Serialize;
use serde_json::Value;

use super::entries::{check_word_count, qualify_actor};
use super::executions::{Executions, WaitingExecutions};
use super::quote;
use super::view::{ExecutionSummary, needs_driver};
use crate::error::Error;
use crate::store::execution_filter::{ExecutionFilter, Terms};
use crate::store::execution_list::{self, ExecutionQuery};
use crate::store::executions::ExecutionRow;
use crate::store::facets::{self, FacetName};
use crate::store::{journal, payloads, plans};

/// At most this many executions of one status are counted as waiting.
const WAITING_COUNTED_MAX: u64 = 10_000;
/// Most characters of an error in a list.
const ERROR_CHARS_MAX: usize = 300;
/// Executions within a boundary that are counted for a value.
const VALUES_COUNTED_MAX: u64 = 100;
/// Plans among which names are completed.
const PLANS_COMPLETED_MAX: u64 = 1_000;

/// One page of a list of executions.
#[derive(Clone, Debug, Serialize)]
pub struct SummaryPage {
    pub items: Vec<ExecutionSummary>,
    /// `None`: this is the last page.
    pub next_cursor: Option<String>,
    /// How many entries of the journal are not in the list yet.
    pub behind: u64,
}

/// A value offered to complete a filter of executions, and how many executions have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FilterValue {
    pub value: String,
    /// How many executions have it; within a project boundary, up to 100.
    pub executions: u64,
}

/// An attribute whose values can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterAttribute {
    /// By name.
    Plan,
    Tool,
    Server,
    Actor,
    Category,
    Project,
}

impl Executions<'_> {
    /// Executions that match, newest first.
    pub async fn list(self, filter: &ExecutionFilter, limit: u64) -> Result<Vec<ExecutionSummary>, Error> {
        let (rows, _) = self.rows(filter, limit).await?;
        self.summaries(&rows).await
    }

    /// One page of the executions that match, newest first, with who started them and how far those are that run. `cursor`: the
    /// `next_cursor` of the page before; refused if that page had another filter.
    pub async fn list_page(
        self,
        filter: &ExecutionFilter,
        cursor: Option<&str>,
        limit: u64,
    ) -> Result<SummaryPage, Error> {
        let foreign = |_| Error::ForeignCursor;
        let filter = match cursor {
            Some(cursor) => filter.continued_at(cursor).map_err(foreign)?,
            None => filter.clone(),
        };
        let (mut rows, behind) = self.rows(&filter, limit.saturating_add(1)).await?;
        let has_more = rows.len() as u64 > limit;
        rows.truncate(limit as usize);
        let last = rows.last().filter(|_| has_more).map(|row| row.id.0);
        let mut items = self.summaries(&rows).await?;
        let streams: Vec<u64> = rows.iter().map(|row| row.id.0).collect();
        let starters = journal::actors_at(&self.0.db, self.0.tenant, &streams).await?;
        items.iter_mut().zip(starters).for_each(|(item, starter)| item.started_by = starter);
        for (row, item) in rows.iter().zip(&mut items).filter(|(row, _)| row.done.is_none()) {
            let execution = self.fold(row.id).await?;
            item.done = Some(execution.steps_done() as u64);
            item.total = Some(execution.steps.len() as u64);
        }
        Ok(SummaryPage { items, next_cursor: last.map(|last| filter.cursor_after(last)), behind })
    }

    /// How many executions match, counted up to `limit`.
    pub async fn count(self, filter: &ExecutionFilter, limit: u64) -> Result<u64, Error> {
        Ok(self.rows(filter, limit).await?.0.len() as u64)
    }

    /// Values of an attribute that begin with `prefix`, to complete what a person types.
    pub async fn filter_values(
        self,
        attribute: FilterAttribute,
        prefix: &str,
        limit: u64,
    ) -> Result<Vec<FilterValue>, Error> {
        self.0.projector.catch_up().await?;
        let name = match attribute {
            FilterAttribute::Plan => return self.plan_names(prefix, limit).await,
            FilterAttribute::Tool => FacetName::Tool,
            FilterAttribute::Server => FacetName::Server,
            FilterAttribute::Actor => FacetName::Actor,
            FilterAttribute::Category => FacetName::Category,
            FilterAttribute::Project => FacetName::Project,
        };
        let found = facets::by_prefix(self.0.tenant, name, prefix, limit).all(&self.0.db).await?;
        let mut values = Vec::new();
        for facet in found.into_iter().filter(|facet| !facet.value.is_empty()) {
            // A facet counts the executions of all projects.
            let executions = match self.0.boundary() {
                None => facet.executions,
                Some(_) => self.count_within(name, &facet.value).await?,
            };
            if executions > 0 {
                values.push(FilterValue { value: facet.value, executions });
            }
        }
        Ok(values)
    }

    /// How many executions within the boundary have a facet, counted up to `VALUES_COUNTED_MAX`.
    async fn count_within(self, name: FacetName, value: &str) -> Result<u64, Error> {
        let mut filter = ExecutionFilter::default();
        let value = value.to_owned();
        match name {
            FacetName::Tool => filter.tool = value.into(),
            FacetName::Server => filter.server = value.into(),
            FacetName::Actor => filter.actor = value.into(),
            FacetName::Category => filter.category = value.parse().ok().into(),
            FacetName::Project => filter.project = Some(value),
            FacetName::Any | FacetName::Plan | FacetName::Ended => {}
        }
        Ok(self.query(&filter, false, VALUES_COUNTED_MAX).await?.len() as u64)
    }

    /// Names of plans that begin with `prefix`, with the number of their executions.
    async fn plan_names(self, prefix: &str, limit: u64) -> Result<Vec<FilterValue>, Error> {
        let (db, tenant) = (&self.0.db, self.0.tenant);
        let plans = plans::list(tenant, self.0.boundary(), PLANS_COMPLETED_MAX).all(db).await?;
        let mut values = Vec::new();
        for plan in plans.into_iter().filter(|plan| plan.name.starts_with(prefix)).take(limit as usize) {
            let facet = facets::Facet::new(FacetName::Plan, plan.id);
            let found = facets::find(db, tenant, &[facet]).await?.into_iter().flatten().next();
            values.push(FilterValue {
                value: plan.name,
                executions: found.map_or(0, |facet| facet.executions),
            });
        }
        Ok(values)
    }

    /// The rows of executions that match, newest first, and how many entries the projector is behind.
    pub(super) async fn rows(
        self,
        filter: &ExecutionFilter,
        limit: u64,
    ) -> Result<(Vec<ExecutionRow>, u64), Error> {
        check_word_count(&filter.words)?;
        let query = ExecutionQuery { filter, within: self.0.boundary(), waiting_after_end: false };
        if let Some(rows) = execution_list::list_newest(&self.0.db, self.0.tenant, &query, limit).await? {
            return Ok((rows, 0));
        }
        let behind = if filter.needs_projection() { self.0.projector.catch_up().await? } else { 0 };
        let actor = filter.actor.clone().map(|actor| qualify_actor(&actor));
        let filter = ExecutionFilter { actor, ..filter.clone() };
        Ok((self.query(&filter, false, limit).await?, behind))
    }

    async fn query(
        self,
        filter: &ExecutionFilter,
        waiting_after_end: bool,
        limit: u64,
    ) -> Result<Vec<ExecutionRow>, Error> {
        let query = ExecutionQuery { filter, within: self.0.boundary(), waiting_after_end };
        Ok(execution_list::list(&self.0.db, self.0.tenant, &query, limit).await?)
    }

    /// What lists show of each row.
    pub(super) async fn summaries(self, rows: &[ExecutionRow]) -> Result<Vec<ExecutionSummary>, Error> {
        let mut digests = BTreeMap::new();
        for row in rows {
            if let Entry::Vacant(vacant) = digests.entry((row.plan.as_str(), row.plan_version)) {
                vacant.insert(self.plan_digest(row).await?);
            }
        }
        let errors = self.first_errors(rows).await?;
        let mut shown = Vec::with_capacity(rows.len());
        let stopped = self.stopped_flags(rows).await?;
        for (row, stopped) in rows.iter().zip(stopped) {
            let digest = &digests[&(row.plan.as_str(), row.plan_version)];
            let first_error = row.first_error.and_then(|position| errors.get(&position).cloned());
            shown.push(ExecutionSummary { stopped, first_error, ..ExecutionSummary::of(row, digest)? });
        }
        Ok(shown)
    }

    /// The texts of the rows' first errors by their positions; erased ones are missing, and withheld ones.
    async fn first_errors(self, rows: &[ExecutionRow]) -> Result<BTreeMap<u64, String>, Error> {
        if self.0.withholds() {
            return Ok(BTreeMap::new());
        }
        let positions: Vec<u64> = rows.iter().filter_map(|row| row.first_error).collect();
        let found = payloads::by_positions(&self.0.db, self.0.tenant, &positions).await?;
        let texts = found.into_iter().filter_map(|payload| {
            let error: Value = serde_json::from_slice(&payload.body).ok()?;
            Some((payload.position, quote::line(error.get("message")?.as_str()?, ERROR_CHARS_MAX)))
        });
        Ok(texts.collect())
    }

    /// The executions that pass the filter and need a person, on any page: how many wait for an answer, and
    /// the ids of those that are paused or that no live process drives.
    pub async fn waiting(self, filter: &ExecutionFilter) -> Result<WaitingExecutions, Error> {
        let unpositioned = ExecutionFilter { before: None, ..filter.clone() };
        let mut waiting = WaitingExecutions::default();
        for status in [
            ExecutionStatus::Blocked,
            ExecutionStatus::Paused,
            ExecutionStatus::Running,
            ExecutionStatus::Compensating,
        ] {
            let Terms { any_of, none_of } = &filter.status;
            if !any_of.is_empty() && !any_of.contains(&status) || none_of.contains(&status) {
                continue;
            }
            let filter = ExecutionFilter { status: status.into(), ..unpositioned.clone() };
            let (rows, _) = self.rows(&filter, WAITING_COUNTED_MAX).await?;
            let ids = rows.iter().map(|row| row.public_id.clone());
            if status == ExecutionStatus::Blocked {
                waiting.blocked = rows.len();
            } else if status == ExecutionStatus::Paused {
                waiting.paused = ids.collect();
            } else {
                let stopped = self.stopped_flags(&rows).await?;
                waiting.stopped.extend(ids.zip(stopped).filter(|(_, stopped)| *stopped).map(|(id, _)| id));
            }
        }
        waiting.blocked += self.waiting_after_end(&unpositioned, WAITING_COUNTED_MAX).await?.len();
        Ok(waiting)
    }

    /// Ended executions that match and whose undo waits for a yes, newest first.
    pub(super) async fn waiting_after_end(
        self,
        filter: &ExecutionFilter,
        limit: u64,
    ) -> Result<Vec<ExecutionRow>, Error> {
        let actor = filter.actor.clone().map(|actor| qualify_actor(&actor));
        self.query(&ExecutionFilter { actor, ..filter.clone() }, true, limit).await
    }

    /// For each row: whether the execution is running or compensating, and no live process drives it. Checks
    /// each node once.
    async fn stopped_flags(self, rows: &[ExecutionRow]) -> Result<Vec<bool>, Error> {
        let mut is_alive: BTreeMap<Option<&str>, bool> = BTreeMap::from([(None, false)]);
        let is_driven =
            |row: &ExecutionRow| row.status.parse().is_ok_and(|status| needs_driver(status, &row.plan));
        let mut stopped = Vec::with_capacity(rows.len());
        for row in rows {
            if let (true, Some(node), Entry::Vacant(vacant)) =
                (is_driven(row), &row.node, is_alive.entry(row.node.as_deref()))
            {
                vacant.insert(self.live_driver(node).await?.is_some());
            }
            stopped.push(is_driven(row) && !is_alive[&row.node.as_deref()]);
        }
        Ok(stopped)
    }
}
