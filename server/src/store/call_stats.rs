//! Tables that are derived from whole executions on demand: calls, failed and unknown steps, waits for
//! people, claims of agents, and actors. An execution's rows are replaced together; they hold no text from a
//! tool or an agent.

use actbook_engine::id::{StreamId, TenantId};
use actbook_engine::policy::{ErrorCategory, Outcome, WaitKind};

use super::calls::{self, CallRow};
use super::projection_cursor::{self, ProjectionCursor};
use super::{Db, Error, Statement};

/// The derived rows of some executions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallStats {
    pub calls: Vec<CallRow>,
    pub troubles: Vec<TroubleRow>,
    pub waits: Vec<WaitRow>,
    pub claims: Vec<ClaimRow>,
    pub actors: Vec<ActorRow>,
}

/// A step that ended failed or unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TroubleRow {
    pub stream: StreamId,
    pub position: u64,
    pub step: String,
    pub outcome: Outcome,
    pub category: ErrorCategory,
    pub at: i64,
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

/// An actor with entries in an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActorRow {
    pub stream: StreamId,
    pub actor: String,
}

impl CallStats {
    /// Adds the rows of other executions.
    pub fn extend(&mut self, other: CallStats) {
        let CallStats { calls, troubles, waits, claims, actors } = other;
        self.calls.extend(calls);
        self.troubles.extend(troubles);
        self.waits.extend(waits);
        self.claims.extend(claims);
        self.actors.extend(actors);
    }

    /// Statements that insert all rows.
    fn insert_statements(&self, tenant: TenantId) -> impl Iterator<Item = Statement> {
        let calls = self.calls.iter().map(move |call| calls::insert(tenant, call));
        let troubles = self.troubles.iter().map(move |trouble| insert_trouble(tenant, trouble));
        let waits = self.waits.iter().map(move |wait| insert_wait(tenant, wait));
        let claims = self.claims.iter().map(move |claim| insert_claim(tenant, claim));
        let actors = self.actors.iter().map(move |actor| insert_actor(tenant, actor));
        calls.chain(troubles).chain(waits).chain(claims).chain(actors)
    }
}

fn insert_trouble(tenant: TenantId, trouble: &TroubleRow) -> Statement {
    Statement::new(
        "INSERT INTO troubles (tenant, stream, position, step, outcome, category, at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        vec![
            tenant.into(),
            trouble.stream.into(),
            trouble.position.into(),
            trouble.step.as_str().into(),
            trouble.outcome.as_str().into(),
            trouble.category.as_str().into(),
            trouble.at.into(),
        ],
    )
}

/// Inserts a question to people and how long its answer took, which is null while it is open.
fn insert_wait(tenant: TenantId, wait: &WaitRow) -> Statement {
    Statement::new(
        "INSERT INTO waits (tenant, stream, position, kind, step, asked_at, took_ms) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        vec![
            tenant.into(),
            wait.stream.into(),
            wait.position.into(),
            wait.kind.as_str().into(),
            wait.step.as_deref().into(),
            wait.asked_at.into(),
            wait.took_ms.into(),
        ],
    )
}

fn insert_claim(tenant: TenantId, claim: &ClaimRow) -> Statement {
    Statement::new(
        "INSERT INTO claims (tenant, stream, position, step, confidence, outcome, at) \
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

fn insert_actor(tenant: TenantId, actor: &ActorRow) -> Statement {
    Statement::new(
        "INSERT INTO actors (tenant, actor, stream) VALUES ($1, $2, $3)",
        vec![tenant.into(), actor.actor.as_str().into(), actor.stream.into()],
    )
}

/// Delete the rows of one execution.
const DELETE_STREAM: [&str; 5] = [
    "DELETE FROM calls WHERE tenant = $1 AND stream = $2",
    "DELETE FROM troubles WHERE tenant = $1 AND stream = $2",
    "DELETE FROM waits WHERE tenant = $1 AND stream = $2",
    "DELETE FROM claims WHERE tenant = $1 AND stream = $2",
    "DELETE FROM actors WHERE tenant = $1 AND stream = $2",
];

/// Delete all rows of a tenant, including the journal index (`stretches`).
const DELETE_ALL: [&str; 6] = [
    "DELETE FROM calls WHERE tenant = $1",
    "DELETE FROM troubles WHERE tenant = $1",
    "DELETE FROM waits WHERE tenant = $1",
    "DELETE FROM claims WHERE tenant = $1",
    "DELETE FROM actors WHERE tenant = $1",
    "DELETE FROM stretches WHERE tenant = $1",
];

/// Deletes all projections that are built on demand and their cursors, for `rebuild`: the next reader builds
/// them again.
pub fn erase_all(tenant: TenantId) -> impl Iterator<Item = Statement> {
    let rows = DELETE_ALL.into_iter().map(move |sql| Statement::new(sql, vec![tenant.into()]));
    rows.chain([projection_cursor::reset(tenant)])
}

/// Replaces the rows of these streams and moves the cursor, in one transaction. `Error::Constraint`: another
/// process moved the cursor first.
pub async fn replace_streams(
    db: &Db,
    tenant: TenantId,
    (from, to): (u64, u64),
    streams: &[StreamId],
    stats: &CallStats,
) -> Result<(), Error> {
    let mut statements = Vec::from(projection_cursor::advance(tenant, ProjectionCursor::CallStats, from, to));
    // Streams that began after the cursor have no rows yet.
    for stream in streams.iter().filter(|stream| stream.0 <= from) {
        let erase = |sql| Statement::new(sql, vec![tenant.into(), (*stream).into()]);
        statements.extend(DELETE_STREAM.map(erase));
    }
    statements.extend(stats.insert_statements(tenant));
    db.transact(statements).await.map(drop)
}
