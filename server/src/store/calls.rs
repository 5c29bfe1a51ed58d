//! What was seen of tools: one row per call, made from the journal when somebody asks and not before. The
//! rows hold no words of a tool, only where they lie.

use super::Statement;

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
