//! Lists of executions, newest first. Conditions become groups of id sources; the list walks the stretches of
//! 65,536 ids in which every group occurs, intersects their sets, and reads the rows that remain.
//!
//!   filter ─► groups (any of these sources) ─► stretch by stretch: ∩ groups ∖ excluded ─► rows ─► page

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use actbook_engine::id::TenantId;
use actbook_engine::policy::ExecutionStatus;

use super::execution_filter::{ExecutionFilter, Terms};
use super::executions::{self, ExecutionRow};
use super::facets::{self, Facet, FacetName};
use super::id_set::{IdSet, first_id, stretch_of};
use super::id_source::IdSource;
use super::projection_cursor::{self, ProjectionCursor};
use super::{Db, Error, plans, starts};

/// Rows that are read at a time while most of them do not pass.
const SCAN_ROWS: u64 = 200;
/// Stretches that are read at a time, in one round trip, while no page is filled by fewer.
const WINDOW_MAX: u64 = 32;
/// Sets of ids that are read at a time: each has up to 8 KB.
const MARKS_READ_MAX: usize = 1000;
/// Values that one search word may match in all.
const WORD_MATCHES_MAX: u64 = 1000;

/// The executions of one list.
#[derive(Debug)]
pub struct ExecutionQuery<'a> {
    pub filter: &'a ExecutionFilter,
    /// Project boundary: only executions of this project, and those from before projects existed.
    pub within: Option<&'a str>,
    /// Only ended executions whose undo waits for a yes.
    pub waiting_after_end: bool,
}

/// Executions that pass, newest first. Tools, servers, actors, categories and words are known up to the
/// position of the projector.
pub async fn list(
    db: &Db,
    tenant: TenantId,
    query: &ExecutionQuery<'_>,
    limit: u64,
) -> Result<Vec<ExecutionRow>, Error> {
    let mut lister = Lister { db, tenant, check: RowCheck::new(query), limit, found: Vec::new() };
    let filter = query.filter;
    let before = filter.before.unwrap_or(u64::MAX >> 1);
    let ranges = starts::id_ranges(db, tenant, (filter.since, filter.until), before).await?;
    let mut groups = Groups::resolve(db, tenant, query).await?;
    let tail = if groups.use_facets() {
        let projected = projection_cursor::position(tenant, ProjectionCursor::Executions).first(db).await?;
        projected.map_or(0, |position| position + 1)
    } else {
        u64::MAX
    };
    for (from, before) in ranges {
        // What the projector has not read yet is known by its rows alone.
        if lister.check.decides_alone() && tail < u64::MAX {
            lister.scan(from.max(tail), before).await?;
        }
        let before = before.min(tail);
        if groups.included.is_empty() {
            lister.scan(from, before).await?;
        } else {
            lister.walk(&mut groups, from, before).await?;
        }
    }
    Ok(lister.found)
}

/// The executions that pass, newest first, if the newest rows fill a page of `limit`: so most lists need one
/// read and no projector. `None`: they do not, or the rows do not decide.
pub async fn list_newest(
    db: &Db,
    tenant: TenantId,
    query: &ExecutionQuery<'_>,
    limit: u64,
) -> Result<Option<Vec<ExecutionRow>>, Error> {
    let mut lister = Lister { db, tenant, check: RowCheck::new(query), limit, found: Vec::new() };
    let ends_earlier = query.filter.until.is_some() || query.waiting_after_end;
    if !lister.check.decides_alone() || ends_earlier || limit > SCAN_ROWS {
        return Ok(None);
    }
    let before = query.filter.before.unwrap_or(u64::MAX >> 1);
    let rows = executions::newest(tenant, (0, before), (i64::MIN, i64::MAX), 2 * limit).all(db).await?;
    lister.keep_passing(rows);
    Ok((lister.missing() == 0).then_some(lister.found))
}

/// The conditions that an execution's row can decide.
#[derive(Debug)]
struct RowCheck<'a> {
    query: &'a ExecutionQuery<'a>,
    statuses: Vec<ExecutionStatus>,
}

impl<'a> RowCheck<'a> {
    fn new(query: &'a ExecutionQuery<'a>) -> Self {
        Self { query, statuses: wanted_statuses(&query.filter.status) }
    }

    /// Whether no condition needs a facet.
    fn decides_alone(&self) -> bool {
        let ExecutionFilter { tool, server, actor, category, words, .. } = self.query.filter;
        [tool, server, actor].into_iter().all(Terms::is_unrestricted)
            && category.is_unrestricted()
            && words.is_empty()
    }

    fn passes(&self, row: &ExecutionRow) -> bool {
        let ExecutionQuery { filter, within, waiting_after_end } = self.query;
        let project = row.project.as_deref();
        self.statuses.iter().any(|status| row.status == status.as_str())
            && filter.since.is_none_or(|since| row.started_at >= since)
            && filter.until.is_none_or(|until| row.started_at < until)
            && within.is_none_or(|within| project.is_none_or(|project| project == within))
            && filter.project.as_deref().is_none_or(|wanted| project == Some(wanted))
            && passes_terms(&filter.task, |task| row.task.as_ref() == Some(task))
            && passes_terms(&filter.plan, |plan| row.plan == *plan || row.plan_name == *plan)
            && (!waiting_after_end || row.wake_at == Some(executions::WAITS_AFTER_END))
    }
}

/// Whether a row with the values for which `has` is true passes the condition.
fn passes_terms<T>(terms: &Terms<T>, has: impl Fn(&T) -> bool) -> bool {
    (terms.any_of.is_empty() || terms.any_of.iter().any(&has)) && !terms.none_of.iter().any(&has)
}

/// The statuses that pass.
fn wanted_statuses(terms: &Terms<ExecutionStatus>) -> Vec<ExecutionStatus> {
    let all = ExecutionStatus::ALL.iter().copied();
    all.filter(|status| passes_terms(terms, |wanted| wanted == status)).collect()
}

/// Whether an execution with this status has not ended.
fn is_open(status: ExecutionStatus) -> bool {
    use ExecutionStatus::{Blocked, Compensating, Paused, Running};
    matches!(status, Running | Paused | Blocked | Compensating)
}

/// The sources of a list: an execution must be in one source of each included group, and in no excluded one.
#[derive(Debug, Default)]
struct Groups {
    included: Vec<Vec<IdSource>>,
    excluded: Vec<IdSource>,
}

impl Groups {
    /// Whether a source is as old as the projector's position.
    fn use_facets(&self) -> bool {
        self.included.iter().flatten().chain(&self.excluded).any(IdSource::is_projected)
    }

    /// Finds the sources of all conditions.
    async fn resolve(db: &Db, tenant: TenantId, query: &ExecutionQuery<'_>) -> Result<Self, Error> {
        let mut groups = Self::default();
        let filter = query.filter;
        groups.add_tasks(&filter.task);
        if query.waiting_after_end {
            groups.included.push(vec![IdSource::WaitsAfterEnd]);
        }
        let own_facets = [
            (FacetName::Tool, &filter.tool),
            (FacetName::Server, &filter.server),
            (FacetName::Actor, &filter.actor),
        ];
        for (name, terms) in own_facets {
            groups.add_facets(db, tenant, name, terms).await?;
        }
        let categories = filter.category.clone().map(|category| category.as_str().to_owned());
        groups.add_facets(db, tenant, FacetName::Category, &categories).await?;
        let plans = plan_ids(db, tenant, &filter.plan).await?;
        groups.add_facets(db, tenant, FacetName::Plan, &plans).await?;
        for word in &filter.words {
            let sources = word_sources(db, tenant, word).await?;
            groups.included.push(sources);
        }
        groups.add_statuses(db, tenant, &filter.status).await?;
        groups.add_project(db, tenant, query).await?;
        if groups.included.is_empty() && !groups.excluded.is_empty() {
            let all = Facet::new(FacetName::Any, "");
            groups.included.push(facet_sources(db, tenant, &[all]).await?);
        }
        Ok(groups)
    }

    fn add_tasks(&mut self, tasks: &Terms<String>) {
        let sources = |tasks: &[String]| tasks.iter().cloned().map(IdSource::Task).collect::<Vec<_>>();
        if !tasks.any_of.is_empty() {
            self.included.push(sources(&tasks.any_of));
        }
        self.excluded.extend(sources(&tasks.none_of));
    }

    async fn add_facets(
        &mut self,
        db: &Db,
        tenant: TenantId,
        name: FacetName,
        terms: &Terms<String>,
    ) -> Result<(), Error> {
        let facets = |values: &[String]| -> Vec<Facet> {
            values.iter().map(|value| Facet::new(name, value.as_str())).collect()
        };
        if !terms.any_of.is_empty() {
            self.included.push(facet_sources(db, tenant, &facets(&terms.any_of)).await?);
        }
        self.excluded.extend(facet_sources(db, tenant, &facets(&terms.none_of)).await?);
        Ok(())
    }

    /// Adds the statuses, an exclusion as the inclusion of all others. An ended status comes from the database's
    /// index if it is the only condition, which needs no projector; within a larger query from its facet, whose
    /// sets are quicker to intersect.
    async fn add_statuses(
        &mut self,
        db: &Db,
        tenant: TenantId,
        terms: &Terms<ExecutionStatus>,
    ) -> Result<(), Error> {
        let wanted = wanted_statuses(terms);
        if wanted.len() == ExecutionStatus::ALL.len() {
            return Ok(());
        }
        let is_alone = self.included.is_empty() && self.excluded.is_empty();
        let mut sources = Vec::new();
        for status in wanted {
            let is_indexed = status != ExecutionStatus::Succeeded;
            if is_open(status) || is_alone && is_indexed {
                sources.push(IdSource::Status(status));
            } else {
                let facet = Facet::new(FacetName::Ended, status.as_str());
                sources.extend(facet_sources(db, tenant, &[facet]).await?);
                sources.push(IdSource::NoExecution);
            }
        }
        self.included.push(sources);
        Ok(())
    }

    /// Adds the project boundary and the project. If all other sources come from the database's indexes, they
    /// select few rows, which are checked by themselves.
    async fn add_project(
        &mut self,
        db: &Db,
        tenant: TenantId,
        query: &ExecutionQuery<'_>,
    ) -> Result<(), Error> {
        if !self.included.is_empty() && !self.use_facets() {
            return Ok(());
        }
        let boundary = query.within.map(|within| vec![within, ""]);
        let project = query.filter.project.as_deref().map(|project| vec![project]);
        for projects in [boundary, project].into_iter().flatten() {
            let projects = projects.into_iter().map(|project| Facet::new(FacetName::Project, project));
            let mut sources = facet_sources(db, tenant, &projects.collect::<Vec<_>>()).await?;
            sources.push(IdSource::NoExecution);
            self.included.push(sources);
        }
        Ok(())
    }
}

/// The sources of the facets that occur, and `NoExecution` if one does not.
async fn facet_sources(db: &Db, tenant: TenantId, facets: &[Facet]) -> Result<Vec<IdSource>, Error> {
    let found = facets::find(db, tenant, facets).await?;
    Ok(found.into_iter().map(|facet| facet.map_or(IdSource::NoExecution, IdSource::facet)).collect())
}

/// The condition on plans with each name replaced by the ids of the plans that have it.
async fn plan_ids(db: &Db, tenant: TenantId, plans: &Terms<String>) -> Result<Terms<String>, Error> {
    let mut ids = Terms::default();
    for (given, found) in [(&plans.any_of, &mut ids.any_of), (&plans.none_of, &mut ids.none_of)] {
        for plan in given {
            // The id of a plan that does not exist is kept: it selects nothing, whereas no id at all selects all.
            found.push(plan.clone());
            found.extend(plans::ids_by_name(tenant, plan).all(db).await?);
        }
    }
    Ok(ids)
}

/// The executions in which a word occurs, or whose id begins with it.
async fn word_sources(db: &Db, tenant: TenantId, word: &str) -> Result<Vec<IdSource>, Error> {
    let facets = facets::containing(tenant, word, WORD_MATCHES_MAX).all(db).await?;
    let mut sources: Vec<IdSource> = facets.into_iter().map(IdSource::facet).collect();
    let plans = plans::ids_by_name_word(tenant, word, WORD_MATCHES_MAX).all(db).await?;
    let plans: Vec<Facet> = plans.into_iter().map(|id| Facet::new(FacetName::Plan, id)).collect();
    sources.extend(facet_sources(db, tenant, &plans).await?);
    let tasks = executions::tasks_containing(tenant, word, WORD_MATCHES_MAX).all(db).await?;
    sources.extend(tasks.into_iter().map(IdSource::Task));
    let ids = executions::ids_by_prefix(tenant, &word.to_lowercase(), WORD_MATCHES_MAX).all(db).await?;
    sources.push(IdSource::Ids(ids.into_iter().collect::<BTreeSet<u64>>()));
    sources.push(IdSource::NoExecution);
    Ok(sources)
}

/// Collects one page.
struct Lister<'a> {
    db: &'a Db,
    tenant: TenantId,
    check: RowCheck<'a>,
    limit: u64,
    found: Vec<ExecutionRow>,
}

impl Lister<'_> {
    fn missing(&self) -> u64 {
        self.limit.saturating_sub(self.found.len() as u64)
    }

    fn keep_passing(&mut self, rows: Vec<ExecutionRow>) {
        let missing = self.missing() as usize;
        let passing = rows.into_iter().filter(|row| self.check.passes(row)).take(missing);
        self.found.extend(passing.collect::<Vec<_>>());
    }

    /// Adds the executions of a range of ids that pass, row by row.
    async fn scan(&mut self, from: u64, mut before: u64) -> Result<(), Error> {
        let ExecutionFilter { since, until, .. } = self.check.query.filter;
        let mut limit = self.missing();
        while self.missing() > 0 && from < before {
            let times = (since.unwrap_or(i64::MIN), until.unwrap_or(i64::MAX));
            let rows = executions::newest(self.tenant, (from, before), times, limit).all(self.db).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            before = last.id.0;
            self.keep_passing(rows);
            limit = self.missing().max(SCAN_ROWS);
        }
        Ok(())
    }

    /// Adds the executions of a range of ids that are in every included group and in no excluded source.
    async fn walk(&mut self, groups: &mut Groups, from: u64, before: u64) -> Result<(), Error> {
        let mut below = stretch_of(before) + 1;
        let mut window = 1;
        while self.missing() > 0 && from < before {
            let newest = newest_common(self.db, self.tenant, &mut groups.included, below).await?;
            let Some(newest) = newest.filter(|newest| *newest >= stretch_of(from)) else { return Ok(()) };
            let oldest = (newest + 1).saturating_sub(window).max(stretch_of(from));
            let mut found = candidates(self.db, self.tenant, groups, oldest..=newest).await?;
            let ids = std::iter::from_fn(|| found.pop_last());
            let ids = ids.flat_map(|(stretch, set)| set.descending(stretch).collect::<Vec<_>>());
            self.read_rows(ids.filter(|id| (from..before).contains(id)).collect()).await?;
            // Values that never meet are found out in few round trips.
            (below, window) = (oldest, (window * 2).min(WINDOW_MAX));
        }
        Ok(())
    }

    /// Reads the rows with these ids until the page is full.
    async fn read_rows(&mut self, ids: Vec<u64>) -> Result<(), Error> {
        let mut rest = &ids[..];
        while self.missing() > 0 && !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(self.missing() as usize));
            rest = later;
            let rows = executions::by_ids(self.db, self.tenant, now).await?;
            self.keep_passing(rows);
        }
        Ok(())
    }
}

/// The newest stretch below `below` in which every group may have an execution. None: there is none.
async fn newest_common(
    db: &Db,
    tenant: TenantId,
    groups: &mut [Vec<IdSource>],
    mut below: u64,
) -> Result<Option<u64>, Error> {
    loop {
        let mut common = u64::MAX;
        for group in groups.iter_mut() {
            let mut newest = None;
            for source in group {
                newest = newest.max(source.newest_below(db, tenant, below).await?);
            }
            let Some(newest) = newest else { return Ok(None) };
            common = common.min(newest);
        }
        // Every group occurs at or below the lowest of their newest stretches.
        if common + 1 == below {
            return Ok(Some(common));
        }
        below = common + 1;
    }
}

/// The ids that are in every included group and in no excluded source, by their stretch.
async fn candidates(
    db: &Db,
    tenant: TenantId,
    groups: &mut Groups,
    stretches: RangeInclusive<u64>,
) -> Result<BTreeMap<u64, IdSet>, Error> {
    let mut common: Option<BTreeMap<u64, IdSet>> = None;
    for group in &mut groups.included {
        let united = united_ids(db, tenant, group, stretches.clone()).await?;
        common = Some(match common {
            None => united,
            Some(common) => intersect(common, &united),
        });
    }
    let mut common = common.unwrap_or_default();
    for (stretch, excluded) in united_ids(db, tenant, &mut groups.excluded, stretches).await? {
        if let Some(set) = common.get_mut(&stretch) {
            set.subtract(&excluded);
        }
    }
    Ok(common)
}

/// The ids that are in both, by their stretch.
fn intersect(mut one: BTreeMap<u64, IdSet>, other: &BTreeMap<u64, IdSet>) -> BTreeMap<u64, IdSet> {
    one.retain(|stretch, set| match other.get(stretch) {
        Some(other) => {
            set.intersect(other);
            true
        }
        None => false,
    });
    one
}

/// The ids in at least one of the sources, by their stretch (the `stretch`-th range of `STRETCH_IDS` ids). Facets
/// are read in one round trip, or few.
async fn united_ids(
    db: &Db,
    tenant: TenantId,
    sources: &mut [IdSource],
    stretches: RangeInclusive<u64>,
) -> Result<BTreeMap<u64, IdSet>, Error> {
    // The newest stretch first: a source remembers where the last one leads.
    let mut keys: Vec<(u64, u64)> = Vec::new();
    for stretch in stretches.clone().rev() {
        keys.extend(sources.iter().filter_map(|source| Some((stretch, source.facet_id(stretch)?))));
    }
    let mut united: BTreeMap<u64, IdSet> = BTreeMap::new();
    for keys in keys.chunks(MARKS_READ_MAX) {
        for mark in facets::marks(db, tenant, keys).await?.into_iter().flatten() {
            united.entry(mark.stretch).or_default().unite(&mark.held);
            sources.iter_mut().for_each(|source| source.remember(&mark));
        }
    }
    let range = (first_id(*stretches.start()), first_id(stretches.end() + 1));
    for source in sources {
        for id in source.indexed_ids(db, tenant, range).await? {
            united.entry(stretch_of(id)).or_default().insert(id);
        }
    }
    Ok(united)
}
