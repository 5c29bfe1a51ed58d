//! Statistics, computed by the database from the rows of `executions` and of `call_stats`. Percentiles are
//! nearest-rank: each is a value that occurred.

use actbook_engine::id::TenantId;
use actbook_engine::policy::{ErrorCategory, Outcome, WaitKind};

use super::executions::within;
use super::{Error, Row, Select, SqlValue};

/// Which executions to compute statistics from. A field that is None does not restrict.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatsRowFilter {
    /// Earliest start, in epoch milliseconds.
    pub since: Option<i64>,
    /// Starts before this, in epoch milliseconds.
    pub until: Option<i64>,
    /// A plan's id or name.
    pub plan: Option<String>,
    pub task: Option<String>,
    /// Project boundary: only executions of this project, and those from before projects existed.
    pub within: Option<String>,
}

impl StatsRowFilter {
    /// The parameters `$1` to `$6` of `execution_filter!` and `row_filter!`.
    fn params(&self, tenant: TenantId) -> Vec<SqlValue> {
        let text = |text: &Option<String>| text.as_deref().unwrap_or_default().into();
        let (since, until) = (self.since.unwrap_or(i64::MIN), self.until.unwrap_or(i64::MAX));
        let texts = [&self.plan, &self.task, &self.within].map(text);
        [tenant.into(), since.into(), until.into()].into_iter().chain(texts).collect()
    }
}

/// Restricts rows of `executions` by a `StatsRowFilter`.
macro_rules! execution_filter {
    () => {
        concat!(
            "tenant = $1 AND started_at >= $2 AND started_at < $3 \
             AND ($4 = '' OR plan = $4 OR plan_name = $4) AND ($5 = '' OR task = $5) AND ",
            within!(6)
        )
    };
}

/// Restricts rows that have their execution's stream and a time column of their own by a `StatsRowFilter`.
macro_rules! row_filter {
    ($at:literal) => {
        concat!(
            "tenant = $1 AND ",
            $at,
            " >= $2 AND ",
            $at,
            " < $3 AND ($4 = '' AND $5 = '' AND $6 = '' OR stream IN (SELECT id FROM executions \
             WHERE executions.tenant = $1 AND ($4 = '' OR executions.plan = $4 OR executions.plan_name = $4) \
             AND ($5 = '' OR executions.task = $5) AND ",
            within!(6),
            "))"
        )
    };
}

/// Computes the 50th, 95th and 99th percentile of a duration for each group of rows.
macro_rules! percentiles {
    ($named:literal, $took:literal, $from:literal, $of:expr) => {
        concat!(
            "SELECT named, MIN(took) FILTER (WHERE nth * 100 >= size * 50), \
             MIN(took) FILTER (WHERE nth * 100 >= size * 95), \
             MIN(took) FILTER (WHERE nth * 100 >= size * 99) FROM (SELECT ",
            $named,
            " AS named, ",
            $took,
            " AS took, ROW_NUMBER() OVER (PARTITION BY ",
            $named,
            " ORDER BY ",
            $took,
            ") AS nth, COUNT(*) OVER (PARTITION BY ",
            $named,
            ") AS size FROM ",
            $from,
            " AND ",
            $of,
            ") AS ranked GROUP BY named ORDER BY named"
        )
    };
}

/// Nearest-rank percentiles of the durations in one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Percentiles {
    /// The group: a plan, tool, server or kind of wait.
    pub group: String,
    pub p50_ms: i64,
    pub p95_ms: i64,
    pub p99_ms: i64,
}

/// Decodes a row of `percentiles!`.
fn decode_percentiles(mut row: Row) -> Result<Percentiles, Error> {
    Ok(Percentiles {
        group: row.take_text(0)?,
        p50_ms: row.int(1)?,
        p95_ms: row.int(2)?,
        p99_ms: row.int(3)?,
    })
}

/// Start of the first and of the last execution, in epoch milliseconds. None: no execution passes.
pub fn start_range(tenant: TenantId, filter: &StatsRowFilter) -> Select<Option<(i64, i64)>> {
    Select::new(
        concat!("SELECT MIN(started_at), MAX(started_at) FROM executions WHERE ", execution_filter!()),
        filter.params(tenant),
        |row| Ok(row.optional_int(0)?.zip(row.optional_int(1)?)),
    )
}

/// Number of executions that started in one period and have one status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedCount {
    /// Number of the period, counted from the shifted epoch.
    pub period: i64,
    pub status: String,
    pub executions: u64,
}

/// Counts executions by start period and status. `shift_ms` moves the beginning of every period.
pub fn started_per_period(
    tenant: TenantId,
    filter: &StatsRowFilter,
    period_ms: i64,
    shift_ms: i64,
) -> Select<StartedCount> {
    let mut params = filter.params(tenant);
    params.extend([period_ms.into(), shift_ms.into()]);
    Select::new(
        concat!(
            "SELECT (started_at + $8) / $7, status, COUNT(*) FROM executions WHERE ",
            execution_filter!(),
            " GROUP BY 1, 2 ORDER BY 1, 2"
        ),
        params,
        |mut row| {
            Ok(StartedCount { period: row.int(0)?, status: row.take_text(1)?, executions: row.uint(2)? })
        },
    )
}

/// Numbers of executions of one plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanCount {
    pub plan: String,
    pub name: String,
    pub executions: u64,
    pub ended: u64,
    pub succeeded: u64,
}

/// Counts executions by plan; the plan with the most comes first.
pub fn plan_counts(tenant: TenantId, filter: &StatsRowFilter) -> Select<PlanCount> {
    Select::new(
        concat!(
            "SELECT plan, plan_name, COUNT(*), COUNT(ended_at), \
             COUNT(*) FILTER (WHERE status = 'succeeded') FROM executions WHERE ",
            execution_filter!(),
            " GROUP BY plan, plan_name ORDER BY 3 DESC, 2, 1"
        ),
        filter.params(tenant),
        |mut row| {
            Ok(PlanCount {
                plan: row.take_text(0)?,
                name: row.take_text(1)?,
                executions: row.uint(2)?,
                ended: row.uint(3)?,
                succeeded: row.uint(4)?,
            })
        },
    )
}

/// Percentiles by plan of the time from start to end, waiting included.
pub fn percentiles_of_plans(tenant: TenantId, filter: &StatsRowFilter) -> Select<Percentiles> {
    Select::new(
        percentiles!(
            "plan",
            "ended_at - started_at",
            "executions WHERE ended_at IS NOT NULL",
            execution_filter!()
        ),
        filter.params(tenant),
        decode_percentiles,
    )
}

/// Number of calls of one tool that ended in one way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallCount {
    pub server: String,
    pub tool: String,
    pub outcome: Outcome,
    pub category: Option<ErrorCategory>,
    pub calls: u64,
}

/// Counts ended calls by tool, outcome and category. Calls that agents made are left out.
pub fn call_counts(tenant: TenantId, filter: &StatsRowFilter) -> Select<CallCount> {
    Select::new(
        concat!(
            "SELECT server, tool, outcome, category, COUNT(*) FROM calls \
             WHERE agent = 0 AND outcome IS NOT NULL AND ",
            row_filter!("started_at"),
            " GROUP BY server, tool, outcome, category ORDER BY tool, outcome, category"
        ),
        filter.params(tenant),
        |mut row| {
            Ok(CallCount {
                server: row.take_text(0)?,
                tool: row.take_text(1)?,
                outcome: row.parsed(2)?,
                category: row.optional_parsed(3)?,
                calls: row.uint(4)?,
            })
        },
    )
}

/// Percentiles by tool of the duration of calls that were sent and seen to end.
pub fn percentiles_of_tools(tenant: TenantId, filter: &StatsRowFilter) -> Select<Percentiles> {
    Select::new(
        percentiles!(
            "tool",
            "took_ms",
            "calls WHERE agent = 0 AND sent = 1 AND took_ms IS NOT NULL",
            row_filter!("started_at")
        ),
        filter.params(tenant),
        decode_percentiles,
    )
}

/// Percentiles by server of the duration of calls that were sent and seen to end.
pub fn percentiles_of_servers(tenant: TenantId, filter: &StatsRowFilter) -> Select<Percentiles> {
    Select::new(
        percentiles!(
            "server",
            "took_ms",
            "calls WHERE agent = 0 AND sent = 1 AND took_ms IS NOT NULL",
            row_filter!("started_at")
        ),
        filter.params(tenant),
        decode_percentiles,
    )
}

/// A tool's most recent call that ended failed or unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastErrorRow {
    pub tool: String,
    pub started_at: i64,
    pub outcome: Outcome,
    pub category: Option<ErrorCategory>,
    /// Position of the payload with the error text, if there is one.
    pub error_position: Option<u64>,
}

/// The last error of each tool.
pub fn last_errors(tenant: TenantId, filter: &StatsRowFilter) -> Select<LastErrorRow> {
    Select::new(
        concat!(
            "SELECT tool, started_at, outcome, category, said FROM (\
             SELECT tool, started_at, outcome, category, said, ROW_NUMBER() OVER \
             (PARTITION BY tool ORDER BY started_at DESC, stream DESC, step DESC, kind DESC, number DESC) \
             AS nth FROM calls WHERE agent = 0 AND outcome IN ('failed', 'unknown') AND ",
            row_filter!("started_at"),
            ") AS ranked WHERE nth = 1 ORDER BY tool"
        ),
        filter.params(tenant),
        |mut row| {
            Ok(LastErrorRow {
                tool: row.take_text(0)?,
                started_at: row.int(1)?,
                outcome: row.parsed(2)?,
                category: row.optional_parsed(3)?,
                error_position: row.optional_int(4)?.and_then(|position| u64::try_from(position).ok()),
            })
        },
    )
}

/// Statistics of steps with more than one attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retries {
    /// Steps with more than one attempt.
    pub steps: u64,
    /// Attempts beyond each step's first.
    pub attempts: u64,
    /// Steps of these that succeeded in the end.
    pub succeeded: u64,
}

/// Counts retried steps.
pub fn retries(tenant: TenantId, filter: &StatsRowFilter) -> Select<Retries> {
    Select::new(
        concat!(
            "SELECT COUNT(*), CAST(COALESCE(SUM(tries - 1), 0) AS BIGINT), \
             CAST(COALESCE(SUM(good), 0) AS BIGINT) FROM (SELECT COUNT(*) AS tries, \
             MAX(CASE WHEN outcome = 'succeeded' THEN 1 ELSE 0 END) AS good FROM calls WHERE kind = 'run' AND ",
            row_filter!("started_at"),
            " GROUP BY stream, step) AS steps WHERE tries > 1"
        ),
        filter.params(tenant),
        |row| Ok(Retries { steps: row.uint(0)?, attempts: row.uint(1)?, succeeded: row.uint(2)? }),
    )
}

/// Number of steps that ended failed or unknown with one error category.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TroubleCount {
    pub category: ErrorCategory,
    pub failed: u64,
    pub unknown: u64,
}

/// Counts failed and unknown steps by category; the most frequent comes first.
pub fn trouble_counts(tenant: TenantId, filter: &StatsRowFilter) -> Select<TroubleCount> {
    Select::new(
        concat!(
            "SELECT category, COUNT(*) FILTER (WHERE outcome = 'failed'), \
             COUNT(*) FILTER (WHERE outcome = 'unknown') FROM troubles WHERE ",
            row_filter!("at"),
            " GROUP BY category ORDER BY COUNT(*) DESC, category"
        ),
        filter.params(tenant),
        |row| Ok(TroubleCount { category: row.parsed(0)?, failed: row.uint(1)?, unknown: row.uint(2)? }),
    )
}

/// Statistics of one kind of question to people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitCount {
    pub kind: WaitKind,
    pub answered: u64,
    pub open: u64,
    /// Total time that answered questions waited.
    pub total_ms: i64,
    /// When the oldest open question was asked, in epoch milliseconds.
    pub open_since: Option<i64>,
}

/// Counts questions to people by kind.
pub fn wait_counts(tenant: TenantId, filter: &StatsRowFilter) -> Select<WaitCount> {
    Select::new(
        concat!(
            "SELECT kind, COUNT(took_ms), COUNT(*) FILTER (WHERE took_ms IS NULL), \
             CAST(COALESCE(SUM(took_ms), 0) AS BIGINT), MIN(asked_at) FILTER (WHERE took_ms IS NULL) \
             FROM waits WHERE ",
            row_filter!("asked_at"),
            " GROUP BY kind ORDER BY kind"
        ),
        filter.params(tenant),
        |row| {
            Ok(WaitCount {
                kind: row.parsed(0)?,
                answered: row.uint(1)?,
                open: row.uint(2)?,
                total_ms: row.int(3)?,
                open_since: row.optional_int(4)?,
            })
        },
    )
}

/// Percentiles by kind of the time that answered questions waited.
pub fn percentiles_of_waits(tenant: TenantId, filter: &StatsRowFilter) -> Select<Percentiles> {
    Select::new(
        percentiles!("kind", "took_ms", "waits WHERE took_ms IS NOT NULL", row_filter!("asked_at")),
        filter.params(tenant),
        decode_percentiles,
    )
}

/// A step of a plan with its slowest attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowestStep {
    pub plan: String,
    pub plan_name: String,
    pub step: String,
    pub tool: Option<String>,
    pub agent: bool,
    /// Public id of the execution with the slowest attempt.
    pub execution: String,
    pub took_ms: i64,
    /// Attempts that were seen to end.
    pub attempts: u64,
}

/// The steps with the slowest attempts, slowest first.
pub fn slowest_steps(tenant: TenantId, filter: &StatsRowFilter, limit: u64) -> Select<SlowestStep> {
    let mut params = filter.params(tenant);
    params.push(limit.into());
    Select::new(
        concat!(
            "SELECT ranked.plan, plan_name, step, tool, agent, public_id, took_ms, attempts FROM (\
             SELECT stream, plan, step, tool, agent, took_ms, COUNT(*) OVER (PARTITION BY plan, step) AS attempts, \
             ROW_NUMBER() OVER (PARTITION BY plan, step ORDER BY took_ms DESC, stream, number) AS nth \
             FROM calls WHERE kind = 'run' AND sent = 1 AND took_ms IS NOT NULL AND ",
            row_filter!("started_at"),
            ") AS ranked JOIN executions ON executions.tenant = $1 AND executions.id = ranked.stream \
             WHERE nth = 1 ORDER BY took_ms DESC, stream, step LIMIT $7"
        ),
        params,
        |mut row| {
            Ok(SlowestStep {
                plan: row.take_text(0)?,
                plan_name: row.take_text(1)?,
                step: row.take_text(2)?,
                tool: row.optional_text(3)?.map(str::to_owned),
                agent: row.flag(4)?,
                execution: row.take_text(5)?,
                took_ms: row.int(6)?,
                attempts: row.uint(7)?,
            })
        },
    )
}

/// Claims in one confidence band whose step succeeded or failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimCount {
    /// The band: 0 is below 0.1, 9 is 0.9 and more.
    pub tenth: u64,
    pub claims: u64,
    pub succeeded: u64,
    /// Sum of the confidences, in millionths.
    pub confidence_sum: i64,
}

/// Counts agents' claims by confidence band.
pub fn claim_counts(tenant: TenantId, filter: &StatsRowFilter) -> Select<ClaimCount> {
    Select::new(
        concat!(
            "SELECT CASE WHEN confidence >= 900000 THEN 9 ELSE confidence / 100000 END, COUNT(*), \
             COUNT(*) FILTER (WHERE outcome = 'succeeded'), CAST(SUM(confidence) AS BIGINT) FROM claims \
             WHERE outcome IN ('succeeded', 'failed') AND ",
            row_filter!("at"),
            " GROUP BY 1 ORDER BY 1"
        ),
        filter.params(tenant),
        |row| {
            Ok(ClaimCount {
                tenth: row.uint(0)?,
                claims: row.uint(1)?,
                succeeded: row.uint(2)?,
                confidence_sum: row.int(3)?,
            })
        },
    )
}
