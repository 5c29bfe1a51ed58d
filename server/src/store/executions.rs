//! The projection of executions, one row each, for lists, searches by id prefix and the runner's poll for
//! due work. The view of a single execution is rendered from its fold, not from here.

use actbook_engine::id::{StreamId, TenantId};
use actbook_engine::policy::ExecutionStatus;

use super::journal::like_pattern;
use super::select::prefix_end;
use super::{Db, Error, PrefixMatch, Row, Select, Statement};

/// One row of the table `executions`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionRow {
    /// Its stream in the journal.
    pub id: StreamId,
    /// The id that people see.
    pub public_id: String,
    pub plan: String,
    pub plan_name: String,
    pub plan_version: u64,
    pub task: Option<String>,
    /// None: the execution was started before projects existed.
    pub project: Option<String>,
    pub status: String,
    /// Digest of the definitions of the servers that its plan names.
    pub toolset: String,
    /// The node that drives it.
    pub node: Option<String>,
    pub epoch: u64,
    pub started_at: i64,
    pub ended_at: Option<i64>,
    /// When the runner has work to do on it, in epoch milliseconds; 0 while it runs, None if never, and
    /// `WAITS_AFTER_END` if it has ended and an undo waits for a yes.
    pub wake_at: Option<i64>,
    /// Steps that have succeeded or were skipped. None while it runs or compensates: a step does not update
    /// the row.
    pub done: Option<u64>,
    /// Steps of its plan. None: a former version wrote the row, or a session is open, which grows.
    pub total: Option<u64>,
    /// Position of the error of the first step that failed or is unknown. None while it runs, as `done`.
    pub first_error: Option<u64>,
}

/// The `wake_at` of an ended execution whose undo waits for a yes: never due, and found by its index.
pub const WAITS_AFTER_END: i64 = i64::MAX;

/// The columns of an execution's row that change while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionChange<'a> {
    pub status: &'a str,
    pub toolset: &'a str,
    pub node: Option<&'a str>,
    pub epoch: u64,
    pub ended_at: Option<i64>,
    pub wake_at: Option<i64>,
    pub done: Option<u64>,
    pub total: Option<u64>,
    pub first_error: Option<u64>,
}

pub fn insert(tenant: TenantId, execution: &ExecutionRow) -> Statement {
    Statement::new(
        "INSERT INTO executions (tenant, id, public_id, plan, plan_name, plan_version, task, status, \
         place, seat, epoch, started_at, ended_at, look_again_at, project, done, total, first_error) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)",
        vec![
            tenant.into(),
            execution.id.into(),
            execution.public_id.as_str().into(),
            execution.plan.as_str().into(),
            execution.plan_name.as_str().into(),
            execution.plan_version.into(),
            execution.task.as_deref().into(),
            execution.status.as_str().into(),
            execution.toolset.as_str().into(),
            execution.node.as_deref().into(),
            execution.epoch.into(),
            execution.started_at.into(),
            execution.ended_at.into(),
            execution.wake_at.into(),
            project_param(execution.project.as_deref()),
            execution.done.into(),
            execution.total.into(),
            execution.first_error.into(),
        ],
    )
}

/// Updates the columns that change while an execution runs.
pub fn update(tenant: TenantId, id: StreamId, change: &ExecutionChange<'_>) -> Statement {
    Statement::new(
        "UPDATE executions SET status = $3, place = $4, seat = $5, epoch = $6, ended_at = $7, \
         look_again_at = $8, done = $9, total = $10, first_error = $11 WHERE tenant = $1 AND id = $2",
        vec![
            tenant.into(),
            id.into(),
            change.status.into(),
            change.toolset.into(),
            change.node.into(),
            change.epoch.into(),
            change.ended_at.into(),
            change.wake_at.into(),
            change.done.into(),
            change.total.into(),
            change.first_error.into(),
        ],
    )
}

/// Deletes all rows, before `rebuild` inserts them again.
pub fn erase_all(tenant: TenantId) -> Statement {
    Statement::new("DELETE FROM executions WHERE tenant = $1", vec![tenant.into()])
}

macro_rules! select_executions {
    ($($rest:expr),+ $(,)?) => {
        concat!(
            "SELECT id, public_id, plan, plan_name, plan_version, task, status, place, \
             executions.seat, epoch, started_at, ended_at, look_again_at, project, done, total, first_error \
             FROM executions ",
            $($rest),+
        )
    };
}

/// Decodes a row of `select_executions!`.
fn decode_execution(mut row: Row) -> Result<ExecutionRow, Error> {
    Ok(ExecutionRow {
        id: row.stream(0)?,
        public_id: row.take_text(1)?,
        plan: row.take_text(2)?,
        plan_name: row.take_text(3)?,
        plan_version: row.uint(4)?,
        task: row.optional_text(5)?.map(str::to_owned),
        status: row.take_text(6)?,
        toolset: row.take_text(7)?,
        node: row.optional_text(8)?.map(str::to_owned),
        epoch: row.uint(9)?,
        started_at: row.int(10)?,
        ended_at: row.optional_int(11)?,
        wake_at: row.optional_int(12)?,
        project: decode_project(&mut row, 13)?,
        done: optional_uint(&row, 14)?,
        total: optional_uint(&row, 15)?,
        first_error: optional_uint(&row, 16)?,
    })
}

/// A column with a number that is never negative, or null.
fn optional_uint(row: &Row, column: usize) -> Result<Option<u64>, Error> {
    if row.is_null(column) { Ok(None) } else { row.uint(column).map(Some) }
}

pub fn by_id(tenant: TenantId, id: StreamId) -> Select<ExecutionRow> {
    Select::new(
        select_executions!("WHERE tenant = $1 AND id = $2"),
        vec![tenant.into(), id.into()],
        decode_execution,
    )
}

/// All executions, oldest first.
pub fn all(tenant: TenantId) -> Select<ExecutionRow> {
    Select::new(select_executions!("WHERE tenant = $1 ORDER BY id"), vec![tenant.into()], decode_execution)
}

/// The project boundary as an SQL condition: parameter `$n` is empty (no boundary), or the row belongs to
/// that project, or it was written before projects existed.
macro_rules! within {
    ($n:literal) => {
        concat!("($", $n, " = '' OR project = $", $n, " OR project = '')")
    };
}
pub(super) use within;

/// Like `within!`, but rows that are shared with every project pass too.
macro_rules! within_or_everywhere {
    ($n:literal) => {
        concat!("(everywhere = 1 OR ", within!($n), ")")
    };
}
pub(super) use within_or_everywhere;

/// Picks one of several rows of the same name: first the row of project `$n`, then one from before projects
/// existed, then the newest.
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

/// A project as an SQL parameter; None becomes the empty text.
pub(super) fn project_param(project: Option<&str>) -> super::SqlValue {
    project.unwrap_or_default().into()
}

/// Decodes a project column. None: the row is from before projects existed.
pub(super) fn decode_project(row: &mut Row, column: usize) -> Result<Option<String>, Error> {
    Ok(Some(row.take_text(column)?).filter(|project| !project.is_empty()))
}

/// The execution with this public id.
pub fn by_public_id(tenant: TenantId, id: &str) -> Select<ExecutionRow> {
    Select::new(
        select_executions!("WHERE tenant = $1 AND public_id = $2"),
        vec![tenant.into(), id.into()],
        decode_execution,
    )
}

/// Finds the execution whose public id equals `prefix`, or is the only one to begin with it. `within`:
/// executions of other projects are not found.
pub async fn find_by_prefix(
    db: &Db,
    tenant: TenantId,
    within: Option<&str>,
    prefix: &str,
) -> Result<PrefixMatch<ExecutionRow>, Error> {
    let candidates = by_id_prefix(tenant, within, prefix).look_up(db).await?;
    Ok(PrefixMatch::from_candidates(prefix, candidates, |candidate| &candidate.public_id))
}

/// The first two executions whose public id begins with `prefix`: two show that it is not unique. In byte
/// order an id that equals the prefix comes first.
fn by_id_prefix(tenant: TenantId, within: Option<&str>, prefix: &str) -> Select<ExecutionRow> {
    Select::new(
        select_executions!(
            "WHERE tenant = $1 AND public_id >= $2 AND public_id < $3 AND ",
            within!(4),
            " ORDER BY public_id LIMIT 2"
        ),
        vec![tenant.into(), prefix.into(), prefix_end(prefix).into(), project_param(within)],
        decode_execution,
    )
}

/// The sessions of a project that are open or have ended since `since_ms`, newest first.
pub fn sessions_since(tenant: TenantId, project: &str, since_ms: i64) -> Select<ExecutionRow> {
    Select::new(
        select_executions!(
            "WHERE tenant = $1 AND (ended_at IS NULL OR ended_at >= $2) AND plan = 'session' AND project = $3 \
             ORDER BY started_at DESC"
        ),
        vec![tenant.into(), since_ms.into(), project.into()],
        decode_execution,
    )
}

/// All sessions of a project that started since `since_ms`, oldest first.
pub fn all_sessions_since(tenant: TenantId, project: &str, since_ms: i64) -> Select<ExecutionRow> {
    Select::new(
        select_executions!(
            "WHERE tenant = $1 AND started_at >= $2 AND plan = 'session' AND project = $3 ORDER BY started_at"
        ),
        vec![tenant.into(), since_ms.into(), project.into()],
        decode_execution,
    )
}

/// The plans of a project that have not ended, newest first: few are open at a time.
pub fn open_plans(tenant: TenantId, project: &str) -> Select<ExecutionRow> {
    Select::new(
        select_executions!(
            "WHERE tenant = $1 AND (status = 'blocked' OR status = 'running') AND plan <> 'session' AND project = $2 \
             ORDER BY id DESC LIMIT 100"
        ),
        vec![tenant.into(), project.into()],
        decode_execution,
    )
}

/// The plans of a project that started until `until_ms` and are open or have ended since `since_ms`, newest first: the
/// last 100.
pub fn plans_between(
    tenant: TenantId,
    project: &str,
    (since_ms, until_ms): (i64, i64),
) -> Select<ExecutionRow> {
    Select::new(
        select_executions!(
            "WHERE tenant = $1 AND (ended_at IS NULL OR ended_at >= $2) AND plan <> 'session' AND project = $3 \
             AND started_at <= $4 ORDER BY started_at DESC LIMIT 100"
        ),
        vec![tenant.into(), since_ms.into(), project.into(), until_ms.into()],
        decode_execution,
    )
}

/// At most 20 sessions of the project that have not ended and began before `at_ms`, the oldest first.
pub fn open_sessions(tenant: TenantId, project: &str, at_ms: i64) -> Select<ExecutionRow> {
    Select::new(
        select_executions!(
            "WHERE tenant = $1 AND started_at < $2 AND plan = 'session' AND project = $3 AND ended_at IS NULL \
             ORDER BY started_at LIMIT 20"
        ),
        vec![tenant.into(), at_ms.into(), project.into()],
        decode_execution,
    )
}

/// The executions with these ids, in their order; ids without an execution are left out.
pub async fn by_ids(db: &Db, tenant: TenantId, ids: &[u64]) -> Result<Vec<ExecutionRow>, Error> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let param_sets = ids.iter().map(|id| vec![tenant.into(), (*id).into()]).collect();
    let found = db.look_up(select_executions!("WHERE tenant = $1 AND id = $2"), param_sets).await?;
    found.into_iter().flatten().map(decode_execution).collect()
}

/// Executions with an id from `from` up to but excluding `before` that started at or after `since` and before
/// `until`, newest first.
pub fn newest(
    tenant: TenantId,
    (from, before): (u64, u64),
    (since, until): (i64, i64),
    limit: u64,
) -> Select<ExecutionRow> {
    Select::new(
        select_executions!(
            "WHERE tenant = $1 AND id >= $2 AND id < $3 AND started_at >= $4 AND started_at < $5 \
             ORDER BY id DESC LIMIT $6"
        ),
        vec![tenant.into(), from.into(), before.into(), since.into(), until.into(), limit.into()],
        decode_execution,
    )
}

/// The streams of executions whose public id begins with `prefix`.
pub fn ids_by_prefix(tenant: TenantId, prefix: &str, limit: u64) -> Select<u64> {
    Select::new(
        "SELECT id FROM executions WHERE tenant = $1 AND public_id >= $2 AND public_id < $3 \
         ORDER BY public_id LIMIT $4",
        vec![tenant.into(), prefix.into(), prefix_end(prefix).into(), limit.into()],
        |row| row.uint(0),
    )
}

/// The streams of a task's executions.
pub fn ids_by_task(tenant: TenantId, task: &str) -> Select<StreamId> {
    Select::new(
        "SELECT id FROM executions WHERE tenant = $1 AND task = $2 ORDER BY id",
        vec![tenant.into(), task.into()],
        |row| row.stream(0),
    )
}

/// Tasks that are searched for a word; those beyond, in byte order, are not found by it.
const TASKS_SEARCHED_MAX: u64 = 20_000;

/// Tasks of executions that contain `word`, ignoring case. Each task is one step along the index, however many
/// executions it has.
pub fn tasks_containing(tenant: TenantId, word: &str, limit: u64) -> Select<String> {
    Select::new(
        "WITH RECURSIVE each_task (task, nth) AS (\
         SELECT MIN(task), CAST(1 AS BIGINT) FROM executions WHERE tenant = $1 AND task IS NOT NULL UNION ALL \
         SELECT (SELECT MIN(executions.task) FROM executions WHERE tenant = $1 \
         AND executions.task > each_task.task), nth + 1 \
         FROM each_task WHERE each_task.task IS NOT NULL AND nth < $4) \
         SELECT task FROM each_task WHERE lower(task) LIKE $2 ESCAPE '\\' LIMIT $3",
        vec![tenant.into(), like_pattern(word).into(), limit.into(), TASKS_SEARCHED_MAX.into()],
        |mut row| row.take_text(0),
    )
}

/// The oldest execution within the project boundary of a plan (its id or name), of a task, with a status; None
/// does not restrict.
pub fn oldest(
    tenant: TenantId,
    within: Option<&str>,
    plan: Option<&str>,
    task: Option<&str>,
    status: Option<ExecutionStatus>,
) -> Select<ExecutionRow> {
    let [plan, task, status] =
        [plan, task, status.map(ExecutionStatus::as_str)].map(|word| word.unwrap_or_default().into());
    Select::new(
        select_executions!(
            "WHERE tenant = $1 AND ($2 = '' OR plan = $2 OR plan_name = $2) \
             AND ($3 = '' OR task = $3) AND ($4 = '' OR status = $4) AND ",
            within!(5),
            " ORDER BY id LIMIT 1"
        ),
        vec![tenant.into(), plan, task, status, project_param(within)],
        decode_execution,
    )
}

/// The executions whose stream lies after `after` and up to `through`, in order.
pub fn between(tenant: TenantId, after: u64, through: u64) -> Select<ExecutionRow> {
    Select::new(
        select_executions!("WHERE tenant = $1 AND id > $2 AND id <= $3 ORDER BY id"),
        vec![tenant.into(), after.into(), through.into()],
        decode_execution,
    )
}

/// Executions with work due by `now_ms` of the journal's clock, whichever node drives them: the caller has
/// to check whether that node is alive.
pub fn due_by(tenant: TenantId, now_ms: i64, limit: u64) -> Select<ExecutionRow> {
    Select::new(
        select_executions!("WHERE tenant = $1 AND look_again_at <= $2 ORDER BY look_again_at, id LIMIT $3"),
        vec![tenant.into(), now_ms.into(), limit.into()],
        decode_execution,
    )
}

/// Executions that ended before `at` and pass the project boundary `within`, for `cleanup` to erase; `after`
/// is the cursor of the next page.
pub fn ended_before(
    tenant: TenantId,
    within: Option<&str>,
    at: i64,
    after: u64,
    limit: u64,
) -> Select<ExecutionRow> {
    Select::new(
        select_executions!(
            "WHERE tenant = $1 AND ended_at < $2 AND id > $3 AND ",
            within!(5),
            " ORDER BY id LIMIT $4"
        ),
        vec![tenant.into(), at.into(), after.into(), limit.into(), project_param(within)],
        decode_execution,
    )
}
