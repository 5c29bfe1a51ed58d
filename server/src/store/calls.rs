//! What was seen of tools: one row per call, made from the journal when somebody asks and not before, and
//! the figures taken from them. The rows hold no words of a tool, only where they lie.

use super::{Db, Error, Row, Select, Statement};

/// One call: an attempt at a step, a probe, or a try at undoing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub stream: u64,
    pub step: String,
    /// `run`, `probe` or `compensation`.
    pub kind: &'static str,
    pub number: u64,
    pub plan: String,
    pub plan_version: u64,
    /// `server/tool`; none where a person or an agent acts.
    pub tool: Option<String>,
    pub agent: bool,
    pub started_at: i64,
    pub took_ms: Option<i64>,
    pub outcome: Option<&'static str>,
    pub category: Option<&'static str>,
    pub sent: bool,
    /// The position of the payload with the error's words.
    pub said: Option<u64>,
}

pub fn insert(tenant: i64, call: &Call) -> Statement {
    let server = call.tool.as_deref().and_then(|tool| tool.split_once('/')).map(|(server, _)| server);
    Statement::new(
        "INSERT INTO calls (tenant, stream, step, kind, number, plan, plan_version, server, tool, agent, \
         started_at, took_ms, outcome, category, sent, said) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)",
        vec![
            tenant.into(),
            call.stream.into(),
            call.step.as_str().into(),
            call.kind.into(),
            call.number.into(),
            call.plan.as_str().into(),
            call.plan_version.into(),
            server.into(),
            call.tool.as_deref().into(),
            call.agent.into(),
            call.started_at.into(),
            call.took_ms.into(),
            call.outcome.into(),
            call.category.into(),
            call.sent.into(),
            call.said.into(),
        ],
    )
}

pub fn erase_of_stream(tenant: i64, stream: u64) -> Statement {
    Statement::new("DELETE FROM calls WHERE tenant = $1 AND stream = $2", vec![tenant.into(), stream.into()])
}

/// What `rebuild` does with them: the next who asks makes them anew.
pub fn erase_all(tenant: i64) -> [Statement; 2] {
    [
        Statement::new("DELETE FROM calls WHERE tenant = $1", vec![tenant.into()]),
        Statement::new("DELETE FROM caught_up WHERE tenant = $1 AND name = 'calls'", vec![tenant.into()]),
    ]
}

/// The position up to which the journal is in the rows.
pub fn caught_up(tenant: i64) -> Select<u64> {
    Select::new(
        "SELECT position FROM caught_up WHERE tenant = $1 AND name = 'calls'",
        vec![tenant.into()],
        |row| row.count(0),
    )
}

/// Moves the cursor, first of all statements of its transaction: it takes the row, so that two who catch
/// up at once do so one after the other, and the constraint ends whoever began from another position.
pub fn move_cursor(tenant: i64, from: u64, to: u64) -> [Statement; 2] {
    [
        Statement::new(
            "INSERT INTO caught_up (tenant, name, position) VALUES ($1, 'calls', 0) ON CONFLICT DO NOTHING",
            vec![tenant.into()],
        ),
        Statement::new(
            "UPDATE caught_up SET position = \
             CASE WHEN position = $2 THEN CAST($3 AS BIGINT) ELSE CAST(-1 AS BIGINT) END \
             WHERE tenant = $1 AND name = 'calls'",
            vec![tenant.into(), from.into(), to.into()],
        ),
    ]
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

/// Calls that Actbook made and that have ended, since a time.
pub fn counts(tenant: i64, since: i64) -> Select<Count> {
    Select::new(
        "SELECT server, tool, outcome, category, COUNT(*) FROM calls \
         WHERE tenant = $1 AND started_at >= $2 AND agent = 0 AND outcome IS NOT NULL \
         GROUP BY server, tool, outcome, category ORDER BY tool, outcome, category",
        vec![tenant.into(), since.into()],
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

/// Of calls that were sent and whose end was seen, by nearest rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Percentiles {
    pub named: String,
    pub p50_ms: i64,
    pub p95_ms: i64,
    pub p99_ms: i64,
}

macro_rules! percentiles {
    ($of:literal) => {
        concat!(
            "SELECT named, MIN(took_ms) FILTER (WHERE nth * 100 >= size * 50), \
             MIN(took_ms) FILTER (WHERE nth * 100 >= size * 95), \
             MIN(took_ms) FILTER (WHERE nth * 100 >= size * 99) FROM (SELECT ",
            $of,
            " AS named, took_ms, ROW_NUMBER() OVER (PARTITION BY ",
            $of,
            " ORDER BY took_ms) AS nth, COUNT(*) OVER (PARTITION BY ",
            $of,
            ") AS size FROM calls WHERE tenant = $1 AND started_at >= $2 AND agent = 0 AND sent = 1 \
             AND took_ms IS NOT NULL) AS ranked GROUP BY named ORDER BY named"
        )
    };
}

pub fn percentiles_of_tools(tenant: i64, since: i64) -> Select<Percentiles> {
    Select::new(percentiles!("tool"), vec![tenant.into(), since.into()], percentiles)
}

pub fn percentiles_of_servers(tenant: i64, since: i64) -> Select<Percentiles> {
    Select::new(percentiles!("server"), vec![tenant.into(), since.into()], percentiles)
}

fn percentiles(mut row: Row) -> Result<Percentiles, Error> {
    Ok(Percentiles {
        named: row.take_text(0)?,
        p50_ms: row.int(1)?,
        p95_ms: row.int(2)?,
        p99_ms: row.int(3)?,
    })
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

pub fn last_errors(tenant: i64, since: i64) -> Select<LastError> {
    Select::new(
        "SELECT tool, started_at, outcome, category, said FROM (\
         SELECT tool, started_at, outcome, category, said, ROW_NUMBER() OVER \
         (PARTITION BY tool ORDER BY started_at DESC, stream DESC, step DESC, kind DESC, number DESC) AS nth \
         FROM calls WHERE tenant = $1 AND started_at >= $2 AND agent = 0 \
         AND outcome IN ('failed', 'unknown')) AS ranked WHERE nth = 1 ORDER BY tool",
        vec![tenant.into(), since.into()],
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

/// Replaces the rows of whole streams and moves the cursor, in one transaction. `Constraint`: somebody
/// else moved the cursor first.
pub async fn replace(
    db: &Db,
    tenant: i64,
    (from, to): (u64, u64),
    streams: &[u64],
    calls: &[Call],
) -> Result<(), Error> {
    let mut statements = Vec::from(move_cursor(tenant, from, to));
    statements.extend(streams.iter().map(|stream| erase_of_stream(tenant, *stream)));
    statements.extend(calls.iter().map(|call| insert(tenant, call)));
    db.transact(statements).await.map(drop)
}
