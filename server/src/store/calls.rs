//! The table of tool calls: one row per call, derived from the journal on demand. Rows hold no text that a
//! tool returned, only the position of its payload.

use actbook_engine::id::{StreamId, TenantId};
use actbook_engine::policy::{ErrorCategory, Outcome};

use super::Statement;

/// One call: an attempt at a step, a probe, or an attempt at its compensation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRow {
    pub stream: StreamId,
    pub step: String,
    /// `run`, `probe` or `compensation`.
    pub kind: &'static str,
    pub number: u64,
    pub plan: String,
    pub plan_version: u64,
    /// `server/tool`; None if a person or an agent acts without a tool.
    pub tool: Option<String>,
    /// An agent made the call, not Actbook.
    pub agent: bool,
    pub started_at: i64,
    /// None while the call runs, or if the time of its end is unknown.
    pub took_ms: Option<i64>,
    pub outcome: Option<Outcome>,
    pub category: Option<ErrorCategory>,
    /// False: the call is known not to have left this process.
    pub sent: bool,
    /// Position of the payload with the error text; None after a success or without a text.
    pub error_position: Option<u64>,
}

pub fn insert(tenant: TenantId, call: &CallRow) -> Statement {
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
            call.outcome.map(Outcome::as_str).into(),
            call.category.map(ErrorCategory::as_str).into(),
            call.sent.into(),
            call.error_position.into(),
        ],
    )
}
