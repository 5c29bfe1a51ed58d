//! The projection of executions, one row each, for lists, searches by id prefix and the runner's poll for
//! due work. The view of a single execution is rendered from its fold, not from here.

use actbook_engine::id::{StreamId, TenantId};
use actbook_engine::policy::{ErrorCategory, ExecutionStatus};

use super::journal::like_patterns;
use super::select::prefix_end;
use super::{Db, Error, PrefixMatch, Row, Select, SqlValue, Statement};

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
}

/// Inserts the row of a new execution.
pub fn insert(tenant: TenantId, execution: &ExecutionRow) -> Statement {
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
            execution.toolset.as_str().into(),
            execution.node.as_deref().into(),
            execution.epoch.into(),
            execution.started_at.into(),
            execution.ended_at.into(),
            execution.wake_at.into(),
            project_param(execution.project.as_deref()),
        ],
    )
}

/// Updates the columns that change while an execution runs.
pub fn update(tenant: TenantId, id: StreamId, change: &ExecutionChange<'_>) -> Statement {
    Statement::new(
        "UPDATE executions SET status = $3, place = $4, seat = $5, epoch = $6, ended_at = $7, \
         look_again_at = $8 WHERE tenant = $1 AND id = $2",
        vec![
            tenant.into(),
            id.into(),
            change.status.into(),
            change.toolset.into(),
            change.node.into(),
            change.epoch.into(),
            change.ended_at.into(),
            change.wake_at.into(),
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
             executions.seat, epoch, started_at, ended_at, look_again_at, project FROM executions ",
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
    })
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

/// Which executions to list. A field that is None does not restrict.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecutionRowFilter {
    pub status: Option<ExecutionStatus>,
    /// A plan's id or name.
    pub plan: Option<String>,
    pub task: Option<String>,
    pub project: Option<String>,
    /// An actor with entries in the execution. This and `category` need an up-to-date `call_stats`
    /// projection.
    pub actor: Option<String>,
    /// Error category of a step that ended failed or unknown.
    pub category: Option<ErrorCategory>,
    /// Earliest start, in epoch milliseconds.
    pub since: Option<i64>,
    /// Starts before this, in epoch milliseconds.
    pub until: Option<i64>,
    /// Each word must occur in the id, the plan's name or the task, ignoring case.
    pub words: Vec<String>,
    /// Cursor of the next page: the id of the last execution shown.
    pub before: Option<u64>,
}

macro_rules! matches_word {
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

/// The text of `list`, with a condition on status and task that suits an index.
macro_rules! list_sql {
    ($by:literal) => {
        concat!(
            "SELECT id, public_id, plan, plan_name, plan_version, task, status, place, \
             executions.seat, epoch, started_at, ended_at, look_again_at, project FROM executions \
             WHERE tenant = $1 AND started_at >= $2 AND started_at < $3 AND id < $4",
            $by,
            " AND ($7 = '' OR plan = $7 OR plan_name = $7) \
             AND ($9 = '' OR id IN (SELECT stream FROM actors WHERE actors.tenant = $1 AND actor = $9)) \
             AND ($10 = '' OR id IN (SELECT stream FROM troubles WHERE troubles.tenant = $1 AND category = $10))",
            matches_word!(11),
            matches_word!(12),
            matches_word!(13),
            matches_word!(14),
            " AND ",
            within!(15),
            " AND ($16 = '' OR project = $16) ORDER BY id DESC LIMIT $5"
        )
    };
}

/// The parameters of `list_sql!`.
fn list_params(
    tenant: TenantId,
    within: Option<&str>,
    filter: &ExecutionRowFilter,
    limit: u64,
) -> Vec<SqlValue> {
    let (since, until) = (filter.since.unwrap_or(i64::MIN), filter.until.unwrap_or(i64::MAX));
    let before = filter.before.unwrap_or(u64::MAX);
    let mut params = vec![tenant.into(), since.into(), until.into(), before.into(), limit.into()];
    let (status, category) =
        (filter.status.map(ExecutionStatus::as_str), filter.category.map(ErrorCategory::as_str));
    let [plan, task, actor] = [&filter.plan, &filter.task, &filter.actor].map(Option::as_deref);
    params.extend([status, plan, task, actor, category].map(|word| word.unwrap_or_default().into()));
    params.extend(like_patterns(&filter.words));
    params.extend([within, filter.project.as_deref()].map(project_param));
    params
}

/// Executions that pass the filter and the project boundary `within`, newest first.
pub fn list(
    tenant: TenantId,
    within: Option<&str>,
    filter: &ExecutionRowFilter,
    limit: u64,
) -> Select<ExecutionRow> {
    // Separate texts, so that the planner uses the index by task, by status or by `look_again_at`.
    let sql = match (&filter.task, filter.status) {
        (Some(_), _) => list_sql!(" AND ($6 = '' OR status = $6) AND task = $8"),
        (None, None) => list_sql!(" AND $6 = '' AND $8 = ''"),
        (None, Some(ExecutionStatus::Succeeded)) => list_sql!(" AND status = $6 AND $8 = ''"),
        (None, Some(ExecutionStatus::Running)) => {
            list_sql!(" AND status = $6 AND look_again_at = 0 AND $8 = ''")
        }
        (None, Some(_)) => {
            list_sql!(" AND status = $6 AND status <> 'running' AND status <> 'succeeded' AND $8 = ''")
        }
    };
    Select::new(sql, list_params(tenant, within, filter, limit), decode_execution)
}

/// The number of executions of each status within the project boundary `within`.
pub fn count_by_status(tenant: TenantId, within: Option<&str>) -> Select<(String, u64)> {
    Select::new(
        concat!(
            "SELECT status, COUNT(*) FROM executions WHERE tenant = $1 AND ",
            within!(2),
            " GROUP BY status ORDER BY status"
        ),
        vec![tenant.into(), project_param(within)],
        |mut row| Ok((row.take_text(0)?, row.uint(1)?)),
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

/// Like `list`, for ended executions whose undo waits for a yes.
pub fn waiting_after_end(
    tenant: TenantId,
    within: Option<&str>,
    filter: &ExecutionRowFilter,
    limit: u64,
) -> Select<ExecutionRow> {
    let mut params = list_params(tenant, within, filter, limit);
    params.push(WAITS_AFTER_END.into());
    Select::new(
        list_sql!(" AND look_again_at = $17 AND ($6 = '' OR status = $6) AND ($8 = '' OR task = $8)"),
        params,
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
