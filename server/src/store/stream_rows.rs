//! Rows that the projector derives from whole executions and replaces together: questions that wait for a
//! person, agents' confidences, and calls that failed. They hold no text from a tool or an agent.

use actbook_engine::id::{StreamId, TenantId};
use actbook_engine::policy::{Outcome, WaitKind};

use super::executions::within;
use super::{Error, Row, Select, Statement};

/// The rows of one execution.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamRows {
    /// Open questions only.
    pub questions: Vec<WaitRow>,
    pub claims: Vec<ClaimRow>,
    pub errors: Vec<ErrorRow>,
}

/// A question to people, asked by the entry at `position`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitRow {
    pub stream: StreamId,
    pub position: u64,
    pub kind: WaitKind,
    pub step: Option<String>,
    pub asked_at: i64,
    /// None while the question is open.
    pub took_ms: Option<i64>,
}

/// An agent's confidence that a step will succeed, with the step's outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRow {
    pub stream: StreamId,
    pub position: u64,
    pub step: String,
    /// In millionths.
    pub confidence: i64,
    /// None while no attempt has ended.
    pub outcome: Option<Outcome>,
    pub at: i64,
}

/// A call that failed or is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorRow {
    pub stream: StreamId,
    /// Of the entry that ended the call; its payload is the error.
    pub position: u64,
    pub at: i64,
    /// Empty if no tool was called.
    pub tool: String,
    /// Empty if the journal states none.
    pub category: String,
    /// Of the error's text; empty if there is none or it was erased.
    pub fingerprint: String,
}

/// A step that ended failed or unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TroubleRow {
    pub stream: StreamId,
    pub position: u64,
    pub step: String,
    pub outcome: Outcome,
    pub category: actbook_engine::policy::ErrorCategory,
    pub at: i64,
}

const DELETE_OF_STREAM: [&str; 3] = [
    "DELETE FROM questions WHERE tenant = $1 AND stream = $2",
    "DELETE FROM confidences WHERE tenant = $1 AND stream = $2",
    "DELETE FROM errors WHERE tenant = $1 AND stream = $2",
];

/// The statements that replace an execution's rows; `is_new`: the execution has none yet.
pub fn replace(tenant: TenantId, stream: StreamId, rows: &StreamRows, is_new: bool) -> Vec<Statement> {
    let erase = |sql| Statement::new(sql, vec![tenant.into(), stream.into()]);
    let mut statements: Vec<Statement> =
        if is_new { Vec::new() } else { DELETE_OF_STREAM.map(erase).into_iter().collect() };
    statements.extend(rows.questions.iter().map(|question| insert_question(tenant, question)));
    statements.extend(rows.claims.iter().map(|claim| insert_claim(tenant, claim)));
    statements.extend(rows.errors.iter().map(|error| insert_error(tenant, error)));
    statements
}

fn insert_question(tenant: TenantId, question: &WaitRow) -> Statement {
    Statement::new(
        "INSERT INTO questions (tenant, stream, position, kind, step, asked_at) \
         VALUES ($1, $2, $3, $4, $5, $6)",
        vec![
            tenant.into(),
            question.stream.into(),
            question.position.into(),
            question.kind.as_str().into(),
            question.step.as_deref().into(),
            question.asked_at.into(),
        ],
    )
}

fn insert_claim(tenant: TenantId, claim: &ClaimRow) -> Statement {
    Statement::new(
        "INSERT INTO confidences (tenant, stream, position, step, confidence, outcome, at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        vec![
            tenant.into(),
            claim.stream.into(),
            claim.position.into(),
            claim.step.as_str().into(),
            claim.confidence.into(),
            claim.outcome.map(Outcome::as_str).into(),
            claim.at.into(),
        ],
    )
}

fn insert_error(tenant: TenantId, error: &ErrorRow) -> Statement {
    Statement::new(
        "INSERT INTO errors (tenant, stream, position, at, tool, category, fingerprint) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        vec![
            tenant.into(),
            error.stream.into(),
            error.position.into(),
            error.at.into(),
            error.tool.as_str().into(),
            error.category.as_str().into(),
            error.fingerprint.as_str().into(),
        ],
    )
}

/// Restricts the executions to which rows belong: `$2` a plan's id or name, `$3` a task, `$4` the project
/// boundary; empty does not restrict.
macro_rules! of_executions {
    () => {
        concat!(
            "($2 = '' OR executions.plan = $2 OR executions.plan_name = $2) \
             AND ($3 = '' OR executions.task = $3) AND ",
            within!(4)
        )
    };
}
pub(super) use of_executions;

/// Questions that wait, the oldest first; `after` is the time and the position of the last one shown.
pub fn open_questions(
    tenant: TenantId,
    within: Option<&str>,
    after: (i64, u64),
    limit: u64,
) -> Select<WaitRow> {
    let text = |text: Option<&str>| text.unwrap_or_default().into();
    Select::new(
        concat!(
            "SELECT stream, position, kind, step, asked_at FROM questions JOIN executions \
             ON executions.tenant = $1 AND executions.id = questions.stream WHERE questions.tenant = $1 AND ",
            of_executions!(),
            " AND (asked_at > $5 OR asked_at = $5 AND position > $6) ORDER BY asked_at, position LIMIT $7"
        ),
        vec![
            tenant.into(),
            text(None),
            text(None),
            text(within),
            after.0.into(),
            after.1.into(),
            limit.into(),
        ],
        decode_question,
    )
}

/// How many questions wait, counted up to `limit`.
pub fn count_open_questions(tenant: TenantId, within: Option<&str>, limit: u64) -> Select<u64> {
    let text = |text: Option<&str>| text.unwrap_or_default().into();
    Select::new(
        concat!(
            "SELECT COUNT(*) FROM (SELECT questions.position FROM questions JOIN executions \
             ON executions.tenant = $1 AND executions.id = questions.stream WHERE questions.tenant = $1 AND ",
            of_executions!(),
            " LIMIT $5) AS open"
        ),
        vec![tenant.into(), text(None), text(None), text(within), limit.into()],
        |row| row.uint(0),
    )
}

/// Decodes a row of `open_questions`.
fn decode_question(row: Row) -> Result<WaitRow, Error> {
    Ok(WaitRow {
        stream: row.stream(0)?,
        position: row.uint(1)?,
        kind: row.parsed(2)?,
        step: row.optional_text(3)?.map(str::to_owned),
        asked_at: row.int(4)?,
        took_ms: None,
    })
}

/// All tables that the projector writes.
const DELETE_ALL: [&str; 10] = [
    "DELETE FROM facets WHERE tenant = $1",
    "DELETE FROM marks WHERE tenant = $1",
    "DELETE FROM totals WHERE tenant = $1",
    "DELETE FROM counts WHERE tenant = $1",
    "DELETE FROM hours WHERE tenant = $1",
    "DELETE FROM starts WHERE tenant = $1",
    "DELETE FROM questions WHERE tenant = $1",
    "DELETE FROM confidences WHERE tenant = $1",
    "DELETE FROM errors WHERE tenant = $1",
    "DELETE FROM stretches WHERE tenant = $1",
];

/// Deletes everything that a projector or a reader builds from the journal later on, for `rebuild`.
pub fn erase_all(tenant: TenantId) -> impl Iterator<Item = Statement> {
    let rows = DELETE_ALL.into_iter().map(move |sql| Statement::new(sql, vec![tenant.into()]));
    rows.chain([super::projection_cursor::reset(tenant)])
}
