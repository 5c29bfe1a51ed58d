//! What the agent did itself: reports of its steps, acts outside the plan, decisions, compensations.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{EVERYWHERE, Effect, Offered, ToolUse};
use crate::error::Error;
use crate::mcp::Door;
use crate::mcp::answer::{self, Answer};
use crate::mcp::ask::Ask;
use crate::service::{self, Decision, Facts, Found, Noted};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordAction {
    /// Without it: an act that belongs to no execution
    execution_id: Option<String>,
    /// Without it: an act outside the plan
    step_id: Option<String>,
    /// Of the step, or of an act of no execution; a step without it: only a remark
    status: Option<Reported>,
    /// What was done, in a sentence
    description: String,
    /// A label, such as file_edit
    r#type: Option<String>,
    /// What it was done to
    entity: Option<String>,
    before_state: Option<Value>,
    after_state: Option<Value>,
    /// What it gave; later steps can refer to it
    output: Option<Value>,
    /// 0 to 1
    confidence: Option<f64>,
    /// With failed: what went wrong
    error: Option<String>,
    /// Of a lapsed claim
    take_over: Option<bool>,
    #[expect(dead_code, reason = "read where the call comes in")]
    idempotency_key: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Reported {
    Started,
    Succeeded,
    Failed,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordDecision {
    execution_id: String,
    /// stop (cancels it), continue (lifts a pause), or free text
    decision: String,
    reason: String,
    step_id: Option<String>,
    details: Option<Value>,
    #[expect(dead_code, reason = "read where the call comes in")]
    idempotency_key: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordCompensation {
    execution_id: String,
    step_id: String,
    /// What you did to take the step's effect back
    action_taken: String,
    reason: Option<String>,
    /// Default succeeded
    outcome: Option<Undone>,
    details: Option<Value>,
    #[expect(dead_code, reason = "read where the call comes in")]
    idempotency_key: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Undone {
    Succeeded,
    Failed,
}

pub fn record_action() -> Offered {
    Offered::new::<RecordAction>(
        "record_action",
        "Report work you did yourself: an agent step (`action`, or `by: agent`) as it starts and ends, or an act outside the plan. The answer names what is due next.",
        Effect::Writes,
        answer::execution_or(&[], &["position"]),
        EVERYWHERE,
    )
    .with_uses(ACTION_USES)
}

/// An act outside the plan has no status: a report without its step would only be a remark.
const ACTION_USES: &[ToolUse] = &[
    ToolUse::given(
        "step_id",
        &["execution_id", "description"],
        &[
            "status",
            "type",
            "entity",
            "before_state",
            "after_state",
            "output",
            "confidence",
            "error",
            "take_over",
        ],
    ),
    ToolUse::given(
        "execution_id",
        &["description"],
        &["type", "entity", "before_state", "after_state", "output", "confidence", "error"],
    ),
    ToolUse::otherwise(
        "record_action without an execution",
        &[
            "description",
            "status",
            "type",
            "entity",
            "before_state",
            "after_state",
            "output",
            "confidence",
            "error",
        ],
    ),
];

pub fn record_decision() -> Offered {
    Offered::new::<RecordDecision>(
        "record_decision",
        "Journal a decision and why. stop and continue also act on the execution.",
        Effect::Acts,
        answer::execution_schema(),
        EVERYWHERE,
    )
}

pub fn record_compensation() -> Offered {
    Offered::new::<RecordCompensation>(
        "record_compensation",
        "Report that you took a step's effect back yourself, what depends on it first.",
        Effect::Writes,
        answer::execution_schema(),
        EVERYWHERE,
    )
}

pub async fn action(door: &Door, ask: &Ask, asked: RecordAction) -> Result<Answer, Error> {
    let status = asked.status.map(|status| match status {
        Reported::Started => service::Reported::Started,
        Reported::Succeeded => service::Reported::Succeeded,
        Reported::Failed => service::Reported::Failed,
    });
    let facts = Facts {
        description: Some(asked.description),
        kind: asked.r#type,
        entity: asked.entity,
        before_state: asked.before_state,
        after_state: asked.after_state,
        confidence: asked.confidence,
        error: asked.error,
        ..Facts::default()
    };
    let (execution, step, output) = (asked.execution_id, asked.step_id, asked.output);
    let take_over = asked.take_over.unwrap_or_default();
    let action = service::Action { execution, step, status, output, facts, take_over };
    match door.service().record_action(&ask.caller, action).await? {
        Noted::In(found, _) => after(door, ask, &found).await,
        Noted::Alone(position) => {
            let text = format!("Recorded at position {}, outside of any execution.", position.0);
            Ok(Answer::new(&json!({ "position": position.0 }), text))
        }
    }
}

pub async fn decision(door: &Door, ask: &Ask, asked: RecordDecision) -> Result<Answer, Error> {
    let decision = Decision {
        decision: asked.decision,
        reason: Some(asked.reason),
        step: asked.step_id,
        details: asked.details,
    };
    let (found, _) = door.service().record_decision(&ask.caller, &asked.execution_id, decision).await?;
    after(door, ask, &found).await
}

pub async fn compensation(door: &Door, ask: &Ask, asked: RecordCompensation) -> Result<Answer, Error> {
    let facts = Facts {
        action_taken: Some(asked.action_taken),
        reason: asked.reason,
        details: asked.details,
        ..Facts::default()
    };
    let (id, step, done) = (asked.execution_id, asked.step_id, asked.outcome != Some(Undone::Failed));
    let (found, _) = door.service().record_compensation(&ask.caller, &id, step, done, facts).await?;
    after(door, ask, &found).await
}

async fn after(door: &Door, ask: &Ask, found: &Found) -> Result<Answer, Error> {
    let (view, _) = door.background().answered(found).await?;
    Ok(answer::execution(&view, door.doors(ask)))
}
