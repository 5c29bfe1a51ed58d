//! What the agent did itself: reports of its steps, decisions, compensations.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{EVERYWHERE, Effect, Offered};
use crate::error::Error;
use crate::mcp::Door;
use crate::mcp::answer::{self, Answer};
use crate::mcp::ask::Ask;
use crate::service::{Found, Report, failed};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordAction {
    execution_id: Option<String>,
    step_id: Option<String>,
    status: Option<Reported>,
    /// What was done, in a sentence
    #[expect(dead_code, reason = "kept with the acts outside of plans")]
    description: String,
    /// What the step gave
    output: Option<Value>,
    /// With failed: what went wrong
    error: Option<String>,
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
    /// stop (cancels it), continue (lifts a pause)
    decision: String,
    reason: String,
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
    /// What it gave
    details: Option<Value>,
    #[expect(dead_code, reason = "read where the call comes in")]
    idempotency_key: Option<String>,
}

pub fn record_action() -> Offered {
    Offered::new::<RecordAction>(
        "record_action",
        "Report work you did yourself: an agent step (`action`, or `by: agent`) of an execution.",
        Effect::Writes,
        answer::execution_schema(),
        EVERYWHERE,
    )
}

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
        "Report that you took a step's effect back yourself.",
        Effect::Writes,
        answer::execution_schema(),
        EVERYWHERE,
    )
}

pub async fn action(door: &Door, ask: &Ask, asked: RecordAction) -> Result<Answer, Error> {
    let (Some(id), Some(step)) = (asked.execution_id, asked.step_id) else {
        let message = "record_action needs `execution_id` and `step_id`";
        return Err(Error::new("missing_argument", message, "status names the steps that are yours"));
    };
    let report = match asked.status.unwrap_or(Reported::Succeeded) {
        Reported::Started => Report::Started,
        Reported::Succeeded => Report::Succeeded { output: asked.output },
        Reported::Failed => failed(asked.error),
    };
    let (found, _) = door.service().record(&ask.caller, &id, step, report).await?;
    after(door, ask, &found).await
}

pub async fn decision(door: &Door, ask: &Ask, asked: RecordDecision) -> Result<Answer, Error> {
    let (id, reason) = (asked.execution_id, Some(asked.reason));
    let (found, _) = match asked.decision.as_str() {
        "stop" => door.service().cancel(&ask.caller, &id, reason).await?,
        "continue" => door.service().resume(&ask.caller, &id).await?,
        _ => {
            let message = "record_decision knows `stop` and `continue`";
            return Err(Error::new("invalid_argument", message, "control has the other answers"));
        }
    };
    after(door, ask, &found).await
}

pub async fn compensation(door: &Door, ask: &Ask, asked: RecordCompensation) -> Result<Answer, Error> {
    let output = serde_json::json!({ "action_taken": asked.action_taken, "details": asked.details });
    let report = Report::Compensated { output: Some(output) };
    let (found, _) = door.service().record(&ask.caller, &asked.execution_id, asked.step_id, report).await?;
    after(door, ask, &found).await
}

async fn after(door: &Door, ask: &Ask, found: &Found) -> Result<Answer, Error> {
    match door.background().go_on(found.stream).await {
        Ok(_) => {}
        Err(error) if error.code == "other_place" => {}
        Err(error) => return Err(error),
    }
    let view = door.service().view(found.id.as_str()).await?;
    Ok(answer::execution(&view, door.doors(ask)))
}
