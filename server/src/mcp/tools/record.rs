//! The tools `record_action`, `record_decision` and `record_compensation`: work of the agent itself.

use std::sync::Arc;

use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ALL_PROFILES, AgentTool, CallVariant, ToolEffect, ToolProfile};
use crate::error::Error;
use crate::mcp::McpEndpoint;
use crate::mcp::answer::{self, AgentAnswer};
use crate::mcp::request::AgentRequest;
use crate::service::{self, ActionFacts, Decision, FoundExecution, RecordResult};

// Arguments of `record_action`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordActionInput {
    /// Without it: an act that belongs to no execution
    execution_id: Option<String>,
    /// Without it: an act outside the plan
    step_id: Option<String>,
    /// Of the step, or of an act of no execution; a step without it: only a remark
    status: Option<StepStatusInput>,
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
    #[expect(dead_code, reason = "`with_idempotency_key` reads it from the raw arguments")]
    idempotency_key: Option<String>,
}

// The status that an agent reports for its step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum StepStatusInput {
    Started,
    Succeeded,
    Failed,
}

// Arguments of `record_decision`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordDecisionInput {
    execution_id: String,
    /// stop (cancels it), continue (lifts a pause), or free text
    decision: String,
    reason: String,
    step_id: Option<String>,
    details: Option<Value>,
    #[expect(dead_code, reason = "`with_idempotency_key` reads it from the raw arguments")]
    idempotency_key: Option<String>,
}

// Arguments of `record_compensation`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordCompensationInput {
    execution_id: String,
    step_id: String,
    /// What you did to take the step's effect back
    action_taken: String,
    reason: Option<String>,
    /// Default succeeded
    outcome: Option<CompensationOutcomeInput>,
    details: Option<Value>,
    #[expect(dead_code, reason = "`with_idempotency_key` reads it from the raw arguments")]
    idempotency_key: Option<String>,
}

// How a compensation that an agent did itself ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum CompensationOutcomeInput {
    Succeeded,
    Failed,
}

impl AgentTool for RecordActionInput {
    const NAME: &str = "record_action";
    const DESCRIPTION: &str = "Report work you did yourself: an agent step (`action`, or `by: agent`) as it starts and ends, or an act outside the plan. The answer names what is due next.";
    const EFFECT: ToolEffect = ToolEffect::WritesJournal;
    const PROFILES: &[ToolProfile] = ALL_PROFILES;
    const VARIANTS: &[CallVariant] = RECORD_ACTION_VARIANTS;
    type Answer = AgentAnswer;

    fn output_schema() -> Arc<JsonObject> {
        answer::execution_or_lists_schema(&[], &["position"])
    }

    /// Journals the report. In an execution, lets it continue and answers with its view; else answers with
    /// the position of the entry.
    async fn handle(self, endpoint: &McpEndpoint, request: &AgentRequest) -> Result<AgentAnswer, Error> {
        let status = self.status.map(|status| match status {
            StepStatusInput::Started => service::ReportedStatus::Started,
            StepStatusInput::Succeeded => service::ReportedStatus::Succeeded,
            StepStatusInput::Failed => service::ReportedStatus::Failed,
        });
        let facts = ActionFacts {
            description: Some(self.description),
            kind: self.r#type,
            entity: self.entity,
            before_state: self.before_state,
            after_state: self.after_state,
            confidence: self.confidence,
            error: self.error,
            ..ActionFacts::default()
        };
        let (execution, step, output) = (self.execution_id, self.step_id, self.output);
        let take_over = self.take_over.unwrap_or_default();
        let action =
            service::ActionRecord { execution, step, status, output, facts, take_over, replies_to: None };
        match endpoint.service().executions().record_action(&request.caller, action).await? {
            RecordResult::InExecution(found, _) => continue_and_answer(endpoint, request, &found).await,
            RecordResult::Standalone(position) => {
                let text = format!("Recorded at position {}, outside of any execution.", position.0);
                Ok(AgentAnswer::new(&json!({ "position": position.0 }), text))
            }
        }
    }
}

/// Which arguments go together. An act outside the plan has no status: only a step's report has one.
const RECORD_ACTION_VARIANTS: &[CallVariant] = &[
    CallVariant::when_given(
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
    CallVariant::when_given(
        "execution_id",
        &["description"],
        &["type", "entity", "before_state", "after_state", "output", "confidence", "error"],
    ),
    CallVariant::otherwise(
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

impl AgentTool for RecordDecisionInput {
    const NAME: &str = "record_decision";
    const DESCRIPTION: &str = "Journal a decision and why. stop and continue also act on the execution.";
    const EFFECT: ToolEffect = ToolEffect::ActsOutside;
    const PROFILES: &[ToolProfile] = ALL_PROFILES;
    type Answer = AgentAnswer;

    /// Journals the decision; `stop` cancels the execution, and `continue` resumes a paused one. Lets the
    /// execution continue, and answers with its view.
    async fn handle(self, endpoint: &McpEndpoint, request: &AgentRequest) -> Result<AgentAnswer, Error> {
        let decision = Decision {
            decision: self.decision,
            reason: Some(self.reason),
            step: self.step_id,
            details: self.details,
        };
        let (found, _) = endpoint
            .service()
            .executions()
            .record_decision(&request.caller, &self.execution_id, decision)
            .await?;
        continue_and_answer(endpoint, request, &found).await
    }
}

impl AgentTool for RecordCompensationInput {
    const NAME: &str = "record_compensation";
    const DESCRIPTION: &str = "Report that you took a step's effect back yourself, what depends on it first.";
    const EFFECT: ToolEffect = ToolEffect::WritesJournal;
    const PROFILES: &[ToolProfile] = ALL_PROFILES;
    type Answer = AgentAnswer;

    /// Journals that the agent compensated the step, or tried to. Lets the execution continue, and answers
    /// with its view.
    async fn handle(self, endpoint: &McpEndpoint, request: &AgentRequest) -> Result<AgentAnswer, Error> {
        let facts = ActionFacts {
            action_taken: Some(self.action_taken),
            reason: self.reason,
            details: self.details,
            ..ActionFacts::default()
        };
        let (id, step, succeeded) =
            (self.execution_id, self.step_id, self.outcome != Some(CompensationOutcomeInput::Failed));
        let (found, _) = endpoint
            .service()
            .executions()
            .record_compensation(&request.caller, &id, step, succeeded, facts)
            .await?;
        continue_and_answer(endpoint, request, &found).await
    }
}

/// Makes sure that the execution has a driver after a record, and answers with its view. Not an error if this
/// process cannot drive the execution because its toolset differs: the record is journaled already.
async fn continue_and_answer(
    endpoint: &McpEndpoint,
    request: &AgentRequest,
    found: &FoundExecution,
) -> Result<AgentAnswer, Error> {
    let (view, _) = endpoint.service().executions().continue_and_view(found).await?;
    endpoint.execution_answer(request, view).await
}
