//! The projection that lists, prefix searches and the runner's look-out read: one row per
//! execution. What a single execution looks like comes from its fold, not from here.

use super::journal::patterns;
use super::select::prefix_end;
use super::{Db, Error, Found, Row, Select, Statement};

/// `id` is the stream; `public_id` is what people see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    pub id: u64,
    pub public_id: String,
    pub plan: String,
    pub plan_name: String,
    pub plan_version: u64,
    pub task: Option<String>,
    /// None: it was started before there were projects.
    pub project: Option<String>,
    pub status: String,
    pub place: String,
    pub seat: Option<String>,
    pub epoch: u64,
    pub started_at: i64,
    pub ended_at: Option<i64>,
    pub look_again_at: Option<i64>,
}

/// The part of an execution's row that changes while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change<'a> {
    pub status: &'a str,
    pub place: &'a str,
    pub seat: Option<&'a str>,
    pub epoch: u64,
    pub ended_at: Option<i64>,
    pub look_again_at: Option<i64>,
}

pub fn insert(tenant: i64, execution: &Execution) -> Statement {
    Statement::new(
        "INSERT INTO executions (tenant, id, public_id, plan, plan_name, plan_version, task, status, \
         place, seat, epoch, started_at, ended_at, look_again_at, project) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
        vec![
            tenant.into(),
            execution.id.into(),
            execution.public_id.as_str().into(),
            execution.plan.as_str().into(),
            execution.plan_name.as_str().into(),
            execution.plan_version.into(),
            execution.task.as_deref().into(),
            execution.status.as_str().into(),
            execution.place.as_str().into(),
            execution.seat.as_deref().into(),
            execution.epoch.into(),
            execution.started_at.into(),
            execution.ended_at.into(),
            execution.look_again_at.into(),
            stored(execution.project.as_deref()),
        ],
    )
}

pub fn update(tenant: i64, id: u64, change: &Change<'_>) -> Statement {
    Statement::new(
        "UPDATE executions SET status = $3, place = $4, seat = $5, epoch = $6, ended_at = $7, \
         look_again_at = $8 WHERE tenant = $1 AND id = $2",
        vec![
            tenant.into(),
            id.into(),
            change.status.into(),
            change.place.into(),
            change.seat.into(),
            change.epoch.into(),
            change.ended_at.into(),
            change.look_again_at.into(),
        ],
    )
}

/// What `rebuild` begins with.
pub fn erase_all(tenant: i64) -> Statement {
    Statement::new("DELETE FROM executions WHERE tenant = $1", vec![tenant.into()])
}

macro_rules! executions {
    ($($rest:expr),+ $(,)?) => {
        concat!(
            "SELECT id, public_id, plan, plan_name, plan_version, task, status, place, \
             executions.seat, epoch, started_at, ended_at, look_again_at, project FROM executions ",
            $($rest),+
        )
    };
}

fn execution(mut row: Row) -> Result<Execution, Error> {
    Ok(Execution {
        id: row.count(0)?,
        public_id: row.take_text(1)?,
        plan: row.take_text(2)?,
        plan_name: row.take_text(3)?,
        plan_version: row.count(4)?,
        task: row.maybe_text(5)?.map(str::to_owned),
        status: row.take_text(6)?,
        place: row.take_text(7)?,
        seat: row.maybe_text(8)?.map(str::to_owned),
        epoch: row.count(9)?,
        started_at: row.int(10)?,
        ended_at: row.maybe_int(11)?,
        look_again_at: row.maybe_int(12)?,
        project: read_project(&mut row, 13)?,
    })
}

pub fn by_id(tenant: i64, id: u64) -> Select<Execution> {
    Select::new(executions!("WHERE tenant = $1 AND id = $2"), vec![tenant.into(), id.into()], execution)
}

pub fn all(tenant: i64) -> Select<Execution> {
    Select::new(executions!("WHERE tenant = $1 ORDER BY id"), vec![tenant.into()], execution)
}

/// The condition that a row passes a boundary: parameter `$n` is empty (no boundary), or the row was written in
/// that project, or before there were projects.
macro_rules! within {
    ($n:literal) => {
        concat!("($", $n, " = '' OR project = $", $n, " OR project = '')")
    };
}
pub(super) use within;

/// The same for what may be shared with every project.
macro_rules! within_or_everywhere {
    ($n:literal) => {
        concat!("(everywhere = 1 OR ", within!($n), ")")
    };
}
pub(super) use within_or_everywhere;

/// Of rows that bear one name, those of project `$n` come first, then those older than projects, then the newest.
macro_rules! own_first {
    ($n:literal) => {
        concat!(
            " ORDER BY CASE WHEN project = $",
            $n,
            " THEN 0 WHEN project = '' THEN 1 ELSE 2 END, position DESC LIMIT 1"
        )
    };
}
pub(super) use own_first;

/// A project as rows hold it.
pub(super) fn stored(project: Option<&str>) -> super::Value {
    project.unwrap_or_default().into()
}

/// A project as a row has it; none where the row is older than projects.
pub(super) fn read_project(row: &mut Row, column: usize) -> Result<Option<String>, Error> {
    Ok(Some(row.take_text(column)?).filter(|project| !project.is_empty()))
}

/// The execution whose public id is, or alone begins with, `prefix`. `within`: what other projects started does
/// not exist.
pub async fn find(
    db: &Db,
    tenant: i64,
    within: Option<&str>,
    prefix: &str,
) -> Result<Found<Execution>, Error> {
    let candidates = beginning_with(tenant, within, prefix).look_up(db).await?;
    Ok(Found::among(prefix, candidates, |candidate| &candidate.public_id))
}

/// Two are enough to see that a prefix is not unique; in byte order a whole id comes first.
fn beginning_with(tenant: i64, within: Option<&str>, prefix: &str) -> Select<Execution> {
    Select::new(
        executions!(
            "WHERE tenant = $1 AND public_id >= $2 AND public_id < $3 AND ",
            within!(4),
            " ORDER BY public_id LIMIT 2"
        ),
        vec![tenant.into(), prefix.into(), prefix_end(prefix).into(), stored(within)],
        execution,
    )
}

/// Which executions to list. Everything left out lets all pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    pub status: Option<String>,
    /// A plan's id or name.
    pub plan: Option<String>,
    pub task: Option<String>,
    pub project: Option<String>,
    /// Somebody with entries in it; needs what was seen to be caught up, as `category` does.
    pub actor: Option<String>,
    /// Of a step that was left failed or unknown.
    pub category: Option<String>,
    /// When it began.
    pub since: Option<i64>,
    pub until: Option<i64>,
    /// Each must occur in the id, the plan's name or the task, in any case.
    pub words: Vec<String>,
    /// The id of the last one shown, to go on from there.
    pub before: Option<u64>,
}

macro_rules! holds {
    ($word:literal) => {
        concat!(
            " AND (CAST($",
            $word,
            " AS TEXT) IS NULL OR lower(public_id || ' ' || plan_name || ' ' || COALESCE(task, '')) LIKE $",
            $word,
            " ESCAPE '\\')"
        )
    };
}

macro_rules! listed {
    ($by:literal) => {
        concat!(
            "SELECT id, public_id, plan, plan_name, plan_version, task, status, place, \
             executions.seat, epoch, started_at, ended_at, look_again_at, project FROM executions \
             WHERE tenant = $1 AND started_at >= $2 AND started_at < $3 AND id < $4",
            $by,
            " AND ($7 = '' OR plan = $7 OR plan_name = $7) \
             AND ($9 = '' OR id IN (SELECT stream FROM actors WHERE actors.tenant = $1 AND actor = $9)) \
             AND ($10 = '' OR id IN (SELECT stream FROM troubles WHERE troubles.tenant = $1 AND category = $10))",
            holds!(11),
            holds!(12),
            holds!(13),
            holds!(14),
            " AND ",
            within!(15),
            " AND ($16 = '' OR project = $16) ORDER BY id DESC LIMIT $5"
        )
    };
}

/// Newest first. `within`: only what passes that project's boundary.
pub fn list(tenant: i64, within: Option<&str>, filter: &Filter, limit: u64) -> Select<Execution> {
    let (since, until) = (filter.since.unwrap_or(i64::MIN), filter.until.unwrap_or(i64::MAX));
    let before = filter.before.unwrap_or(u64::MAX);
    let mut params = vec![tenant.into(), since.into(), until.into(), before.into(), limit.into()];
    let wanted = [&filter.status, &filter.plan, &filter.task, &filter.actor, &filter.category];
    params.extend(wanted.map(|word| word.as_deref().unwrap_or_default().into()));
    params.extend(patterns(&filter.words));
    params.extend([within, filter.project.as_deref()].map(stored));
    // Written out, so that the index by task, by status or by when to look is used where one is wanted.
    let sql = match (&filter.task, filter.status.as_deref()) {
        (Some(_), _) => listed!(" AND ($6 = '' OR status = $6) AND task = $8"),
        (None, None) => listed!(" AND $6 = '' AND $8 = ''"),
        (None, Some("succeeded")) => listed!(" AND status = $6 AND $8 = ''"),
        (None, Some("running")) => listed!(" AND status = $6 AND look_again_at = 0 AND $8 = ''"),
        (None, Some(_)) => {
            listed!(" AND status = $6 AND status <> 'running' AND status <> 'succeeded' AND $8 = ''")
        }
    };
    Select::new(sql, params, execution)
}

/// The oldest execution of a plan (its id or name), of a task, with a status; empty words let all pass.
pub fn oldest(tenant: i64, plan: &str, task: &str, status: &str) -> Select<Execution> {
    Select::new(
        executions!(
            "WHERE tenant = $1 AND ($2 = '' OR plan = $2 OR plan_name = $2) \
             AND ($3 = '' OR task = $3) AND ($4 = '' OR status = $4) ORDER BY id LIMIT 1"
        ),
        vec![tenant.into(), plan.into(), task.into(), status.into()],
        execution,
    )
}

/// What has something to do at a time of the journal's clock, by which it is written when to look again, whoever
/// sits on it: whether a seat is alive is for its taker to find out.
pub fn left(tenant: i64, now_ms: i64, limit: u64) -> Select<Execution> {
    Select::new(
        executions!("WHERE tenant = $1 AND look_again_at <= $2 ORDER BY look_again_at, id LIMIT $3"),
        vec![tenant.into(), now_ms.into(), limit.into()],
        execution,
    )
}

/// Ended before a time: what `cleanup` erases. `within`: only what passes that project's boundary.
pub fn ended_before(tenant: i64, within: Option<&str>, at: i64, after: u64, limit: u64) -> Select<Execution> {
    Select::new(
        executions!(
            "WHERE tenant = $1 AND ended_at < $2 AND id > $3 AND ",
            within!(5),
            " ORDER BY id LIMIT $4"
        ),
        vec![tenant.into(), at.into(), after.into(), limit.into(), stored(within)],
        execution,
    )
}
