//! What is made from whole executions when somebody asks: calls, steps in trouble, questions to people,
//! claims of agents, and who took part. The rows of an execution are replaced together; they hold no
//! words of a tool or an agent.

use super::calls::{self, Call};
use super::caught_up::{self, Cursor};
use super::{Db, Error, Statement};

/// Everything that was seen of some executions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    pub calls: Vec<Call>,
    pub troubles: Vec<Trouble>,
    pub waits: Vec<Wait>,
    pub claims: Vec<Claim>,
    pub actors: Vec<Actor>,
}

/// A step was left failed or unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    pub stream: u64,
    pub position: u64,
    pub step: String,
    pub outcome: &'static str,
    pub category: &'static str,
    pub at: i64,
}

/// People were asked, at this position; `took_ms` is none while they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    pub stream: u64,
    pub position: u64,
    pub kind: WaitKind,
    pub step: Option<String>,
    pub asked_at: i64,
    pub took_ms: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitKind {
    Approval,
    Decision,
}

impl WaitKind {
    pub fn as_str(self) -> &'static str {
        match self {
            WaitKind::Approval => "approval",
            WaitKind::Decision => "decision",
        }
    }
}

/// How sure an agent said it was of a step, and what came of that step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub stream: u64,
    pub position: u64,
    pub step: String,
    /// In millionths.
    pub confidence: i64,
    pub outcome: Option<&'static str>,
    pub at: i64,
}

/// Somebody with entries in an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    pub stream: u64,
    pub actor: String,
}

impl Seen {
    pub fn extend(&mut self, other: Seen) {
        let Seen { calls, troubles, waits, claims, actors } = other;
        self.calls.extend(calls);
        self.troubles.extend(troubles);
        self.waits.extend(waits);
        self.claims.extend(claims);
        self.actors.extend(actors);
    }

    fn inserts(&self, tenant: i64) -> impl Iterator<Item = Statement> {
        let calls = self.calls.iter().map(move |call| calls::insert(tenant, call));
        let troubles = self.troubles.iter().map(move |trouble| insert_trouble(tenant, trouble));
        let waits = self.waits.iter().map(move |wait| insert_wait(tenant, wait));
        let claims = self.claims.iter().map(move |claim| insert_claim(tenant, claim));
        let actors = self.actors.iter().map(move |actor| insert_actor(tenant, actor));
        calls.chain(troubles).chain(waits).chain(claims).chain(actors)
    }
}

fn insert_trouble(tenant: i64, trouble: &Trouble) -> Statement {
    Statement::new(
        "INSERT INTO troubles (tenant, stream, position, step, outcome, category, at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        vec![
            tenant.into(),
            trouble.stream.into(),
            trouble.position.into(),
            trouble.step.as_str().into(),
            trouble.outcome.into(),
            trouble.category.into(),
            trouble.at.into(),
        ],
    )
}

fn insert_wait(tenant: i64, wait: &Wait) -> Statement {
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

fn insert_claim(tenant: i64, claim: &Claim) -> Statement {
    Statement::new(
        "INSERT INTO claims (tenant, stream, position, step, confidence, outcome, at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        vec![
            tenant.into(),
            claim.stream.into(),
            claim.position.into(),
            claim.step.as_str().into(),
            claim.confidence.into(),
            claim.outcome.into(),
            claim.at.into(),
        ],
    )
}

fn insert_actor(tenant: i64, actor: &Actor) -> Statement {
    Statement::new(
        "INSERT INTO actors (tenant, actor, stream) VALUES ($1, $2, $3)",
        vec![tenant.into(), actor.actor.as_str().into(), actor.stream.into()],
    )
}

const OF_STREAM: [&str; 5] = [
    "DELETE FROM calls WHERE tenant = $1 AND stream = $2",
    "DELETE FROM troubles WHERE tenant = $1 AND stream = $2",
    "DELETE FROM waits WHERE tenant = $1 AND stream = $2",
    "DELETE FROM claims WHERE tenant = $1 AND stream = $2",
    "DELETE FROM actors WHERE tenant = $1 AND stream = $2",
];

const ALL: [&str; 6] = [
    "DELETE FROM calls WHERE tenant = $1",
    "DELETE FROM troubles WHERE tenant = $1",
    "DELETE FROM waits WHERE tenant = $1",
    "DELETE FROM claims WHERE tenant = $1",
    "DELETE FROM actors WHERE tenant = $1",
    "DELETE FROM stretches WHERE tenant = $1",
];

/// What `rebuild` does with all that is caught up: the next who asks makes it anew.
pub fn erase_all(tenant: i64) -> impl Iterator<Item = Statement> {
    let rows = ALL.into_iter().map(move |sql| Statement::new(sql, vec![tenant.into()]));
    rows.chain([caught_up::forget(tenant)])
}

/// Replaces the rows of whole streams and moves the cursor, in one transaction. `Constraint`: somebody
/// else moved the cursor first.
pub async fn replace(
    db: &Db,
    tenant: i64,
    (from, to): (u64, u64),
    streams: &[u64],
    seen: &Seen,
) -> Result<(), Error> {
    let mut statements = Vec::from(caught_up::advance(tenant, Cursor::Seen, from, to));
    // What began behind the cursor has no rows yet.
    for stream in streams.iter().filter(|stream| **stream <= from) {
        let erase = |sql| Statement::new(sql, vec![tenant.into(), (*stream).into()]);
        statements.extend(OF_STREAM.map(erase));
    }
    statements.extend(seen.inserts(tenant));
    db.transact(statements).await.map(drop)
}
