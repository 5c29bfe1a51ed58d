//! Figures, taken by the database from the rows of executions and of what was seen of them. Percentiles
//! are nearest-rank: each is a value that was there.

use super::executions::within;
use super::{Error, Row, Select, Value};

/// What to take figures from: what began in a time, of a plan, of a task. Everything left out lets all
/// pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Of {
    pub since: Option<i64>,
    pub until: Option<i64>,
    /// A plan's id or name.
    pub plan: Option<String>,
    pub task: Option<String>,
    /// The boundary: only executions of this project, and those from before there were projects.
    pub within: Option<String>,
}

impl Of {
    /// `$1` to `$6`.
    fn params(&self, tenant: i64) -> Vec<Value> {
        let word = |word: &Option<String>| word.as_deref().unwrap_or_default().into();
        let (since, until) = (self.since.unwrap_or(i64::MIN), self.until.unwrap_or(i64::MAX));
        let words = [&self.plan, &self.task, &self.within].map(word);
        [tenant.into(), since.into(), until.into()].into_iter().chain(words).collect()
    }
}

macro_rules! of_executions {
    () => {
        concat!(
            "tenant = $1 AND started_at >= $2 AND started_at < $3 \
             AND ($4 = '' OR plan = $4 OR plan_name = $4) AND ($5 = '' OR task = $5) AND ",
            within!(6)
        )
    };
}

/// The same for rows that name their execution's stream and a time of their own.
macro_rules! of_rows {
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

/// Of rows with a name and a time that something took.
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

/// Of what was sent and whose end was seen, by nearest rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Percentiles {
    pub named: String,
    pub p50_ms: i64,
    pub p95_ms: i64,
    pub p99_ms: i64,
}

fn percentiles(mut row: Row) -> Result<Percentiles, Error> {
    Ok(Percentiles {
        named: row.take_text(0)?,
        p50_ms: row.int(1)?,
        p95_ms: row.int(2)?,
        p99_ms: row.int(3)?,
    })
}

/// When the first and the last execution began.
pub fn span(tenant: i64, of: &Of) -> Select<Option<(i64, i64)>> {
    Select::new(
        concat!("SELECT MIN(started_at), MAX(started_at) FROM executions WHERE ", of_executions!()),
        of.params(tenant),
        |row| Ok(row.maybe_int(0)?.zip(row.maybe_int(1)?)),
    )
}

/// How many executions that began in a period have this status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Began {
    /// Counted from the shifted epoch, in periods.
    pub period: i64,
    pub status: String,
    pub executions: u64,
}

/// By periods of so many milliseconds; `shift` moves their beginning.
pub fn began(tenant: i64, of: &Of, period_ms: i64, shift_ms: i64) -> Select<Began> {
    let mut params = of.params(tenant);
    params.extend([period_ms.into(), shift_ms.into()]);
    Select::new(
        concat!(
            "SELECT (started_at + $8) / $7, status, COUNT(*) FROM executions WHERE ",
            of_executions!(),
            " GROUP BY 1, 2 ORDER BY 1, 2"
        ),
        params,
        |mut row| Ok(Began { period: row.int(0)?, status: row.take_text(1)?, executions: row.count(2)? }),
    )
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanCount {
    pub plan: String,
    pub name: String,
    pub executions: u64,
    pub ended: u64,
    pub succeeded: u64,
}

/// The plans with the most executions first.
pub fn plans(tenant: i64, of: &Of) -> Select<PlanCount> {
    Select::new(
        concat!(
            "SELECT plan, plan_name, COUNT(*), COUNT(ended_at), \
             COUNT(*) FILTER (WHERE status = 'succeeded') FROM executions WHERE ",
            of_executions!(),
            " GROUP BY plan, plan_name ORDER BY 3 DESC, 2, 1"
        ),
        of.params(tenant),
        |mut row| {
            Ok(PlanCount {
                plan: row.take_text(0)?,
                name: row.take_text(1)?,
                executions: row.count(2)?,
                ended: row.count(3)?,
                succeeded: row.count(4)?,
            })
        },
    )
}

/// From the start to the end, waiting included, by plan.
pub fn percentiles_of_plans(tenant: i64, of: &Of) -> Select<Percentiles> {
    Select::new(
        percentiles!(
            "plan",
            "ended_at - started_at",
            "executions WHERE ended_at IS NOT NULL",
            of_executions!()
        ),
        of.params(tenant),
        percentiles,
    )
}

/// How often calls ended in one way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    pub server: String,
    pub tool: String,
    pub outcome: String,
    pub category: Option<String>,
    pub calls: u64,
}

/// Calls that Actbook made and that have ended.
pub fn tools(tenant: i64, of: &Of) -> Select<Count> {
    Select::new(
        concat!(
            "SELECT server, tool, outcome, category, COUNT(*) FROM calls \
             WHERE agent = 0 AND outcome IS NOT NULL AND ",
            of_rows!("started_at"),
            " GROUP BY server, tool, outcome, category ORDER BY tool, outcome, category"
        ),
        of.params(tenant),
        |mut row| {
            Ok(Count {
                server: row.take_text(0)?,
                tool: row.take_text(1)?,
                outcome: row.take_text(2)?,
                category: row.maybe_text(3)?.map(str::to_owned),
                calls: row.count(4)?,
            })
        },
    )
}

pub fn percentiles_of_tools(tenant: i64, of: &Of) -> Select<Percentiles> {
    Select::new(
        percentiles!(
            "tool",
            "took_ms",
            "calls WHERE agent = 0 AND sent = 1 AND took_ms IS NOT NULL",
            of_rows!("started_at")
        ),
        of.params(tenant),
        percentiles,
    )
}

pub fn percentiles_of_servers(tenant: i64, of: &Of) -> Select<Percentiles> {
    Select::new(
        percentiles!(
            "server",
            "took_ms",
            "calls WHERE agent = 0 AND sent = 1 AND took_ms IS NOT NULL",
            of_rows!("started_at")
        ),
        of.params(tenant),
        percentiles,
    )
}

/// A tool's most recent end that was no success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastError {
    pub tool: String,
    pub started_at: i64,
    pub outcome: String,
    pub category: Option<String>,
    pub said: Option<u64>,
}

pub fn last_errors(tenant: i64, of: &Of) -> Select<LastError> {
    Select::new(
        concat!(
            "SELECT tool, started_at, outcome, category, said FROM (\
             SELECT tool, started_at, outcome, category, said, ROW_NUMBER() OVER \
             (PARTITION BY tool ORDER BY started_at DESC, stream DESC, step DESC, kind DESC, number DESC) \
             AS nth FROM calls WHERE agent = 0 AND outcome IN ('failed', 'unknown') AND ",
            of_rows!("started_at"),
            ") AS ranked WHERE nth = 1 ORDER BY tool"
        ),
        of.params(tenant),
        |mut row| {
            Ok(LastError {
                tool: row.take_text(0)?,
                started_at: row.int(1)?,
                outcome: row.take_text(2)?,
                category: row.maybe_text(3)?.map(str::to_owned),
                said: row.maybe_int(4)?.and_then(|position| u64::try_from(position).ok()),
            })
        },
    )
}

/// Steps that were tried more than once: how many, the tries beyond the first, and those that came right.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retries {
    pub steps: u64,
    pub attempts: u64,
    pub succeeded: u64,
}

pub fn retries(tenant: i64, of: &Of) -> Select<Retries> {
    Select::new(
        concat!(
            "SELECT COUNT(*), CAST(COALESCE(SUM(tries - 1), 0) AS BIGINT), \
             CAST(COALESCE(SUM(good), 0) AS BIGINT) FROM (SELECT COUNT(*) AS tries, \
             MAX(CASE WHEN outcome = 'succeeded' THEN 1 ELSE 0 END) AS good FROM calls WHERE kind = 'run' AND ",
            of_rows!("started_at"),
            " GROUP BY stream, step) AS steps WHERE tries > 1"
        ),
        of.params(tenant),
        |row| Ok(Retries { steps: row.count(0)?, attempts: row.count(1)?, succeeded: row.count(2)? }),
    )
}

/// How often steps were left in this trouble.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TroubleCount {
    pub category: String,
    pub failed: u64,
    pub unknown: u64,
}

pub fn troubles(tenant: i64, of: &Of) -> Select<TroubleCount> {
    Select::new(
        concat!(
            "SELECT category, COUNT(*) FILTER (WHERE outcome = 'failed'), \
             COUNT(*) FILTER (WHERE outcome = 'unknown') FROM troubles WHERE ",
            of_rows!("at"),
            " GROUP BY category ORDER BY COUNT(*) DESC, category"
        ),
        of.params(tenant),
        |mut row| {
            Ok(TroubleCount { category: row.take_text(0)?, failed: row.count(1)?, unknown: row.count(2)? })
        },
    )
}

/// Questions of one kind to people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitCount {
    pub kind: String,
    pub answered: u64,
    pub open: u64,
    pub total_ms: i64,
    /// Of those that still wait, the first.
    pub open_since: Option<i64>,
}

pub fn waits(tenant: i64, of: &Of) -> Select<WaitCount> {
    Select::new(
        concat!(
            "SELECT kind, COUNT(took_ms), COUNT(*) FILTER (WHERE took_ms IS NULL), \
             CAST(COALESCE(SUM(took_ms), 0) AS BIGINT), MIN(asked_at) FILTER (WHERE took_ms IS NULL) \
             FROM waits WHERE ",
            of_rows!("asked_at"),
            " GROUP BY kind ORDER BY kind"
        ),
        of.params(tenant),
        |mut row| {
            Ok(WaitCount {
                kind: row.take_text(0)?,
                answered: row.count(1)?,
                open: row.count(2)?,
                total_ms: row.int(3)?,
                open_since: row.maybe_int(4)?,
            })
        },
    )
}

pub fn percentiles_of_waits(tenant: i64, of: &Of) -> Select<Percentiles> {
    Select::new(
        percentiles!("kind", "took_ms", "waits WHERE took_ms IS NOT NULL", of_rows!("asked_at")),
        of.params(tenant),
        percentiles,
    )
}

/// A step of a plan, by the attempt that took longest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Longest {
    pub plan: String,
    pub plan_name: String,
    pub step: String,
    pub tool: Option<String>,
    pub agent: bool,
    pub execution: String,
    pub took_ms: i64,
    /// Attempts whose end was seen.
    pub attempts: u64,
}

pub fn longest(tenant: i64, of: &Of, limit: u64) -> Select<Longest> {
    let mut params = of.params(tenant);
    params.push(limit.into());
    Select::new(
        concat!(
            "SELECT ranked.plan, plan_name, step, tool, agent, public_id, took_ms, attempts FROM (\
             SELECT stream, plan, step, tool, agent, took_ms, COUNT(*) OVER (PARTITION BY plan, step) AS attempts, \
             ROW_NUMBER() OVER (PARTITION BY plan, step ORDER BY took_ms DESC, stream, number) AS nth \
             FROM calls WHERE kind = 'run' AND sent = 1 AND took_ms IS NOT NULL AND ",
            of_rows!("started_at"),
            ") AS ranked JOIN executions ON executions.tenant = $1 AND executions.id = ranked.stream \
             WHERE nth = 1 ORDER BY took_ms DESC, stream, step LIMIT $7"
        ),
        params,
        |mut row| {
            Ok(Longest {
                plan: row.take_text(0)?,
                plan_name: row.take_text(1)?,
                step: row.take_text(2)?,
                tool: row.maybe_text(3)?.map(str::to_owned),
                agent: row.flag(4)?,
                execution: row.take_text(5)?,
                took_ms: row.int(6)?,
                attempts: row.count(7)?,
            })
        },
    )
}

/// Claims of about the same confidence whose step came to a definite end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimCount {
    /// Tenths: 0 is below 0.1, 9 is 0.9 and more.
    pub tenth: u64,
    pub claims: u64,
    pub succeeded: u64,
    /// In millionths.
    pub confidence_sum: i64,
}

pub fn claims(tenant: i64, of: &Of) -> Select<ClaimCount> {
    Select::new(
        concat!(
            "SELECT CASE WHEN confidence >= 900000 THEN 9 ELSE confidence / 100000 END, COUNT(*), \
             COUNT(*) FILTER (WHERE outcome = 'succeeded'), CAST(SUM(confidence) AS BIGINT) FROM claims \
             WHERE outcome IN ('succeeded', 'failed') AND ",
            of_rows!("at"),
            " GROUP BY 1 ORDER BY 1"
        ),
        of.params(tenant),
        |row| {
            Ok(ClaimCount {
                tenth: row.count(0)?,
                claims: row.count(1)?,
                succeeded: row.count(2)?,
                confidence_sum: row.int(3)?,
            })
        },
    )
}
