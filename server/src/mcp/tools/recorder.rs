//! The tools of the recording profiles: record a plan of work that the agent does itself, start it, query and
//! count its history.

use std::sync::Arc;

use actbook_engine::event::PlanRef;
use actbook_engine::plan::Plan;
use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::ledger::{executions_answer, page_limit, parse_time_argument, parse_word, search_words};
use super::plans::{PlanDocument, both_given_error, plan_saved_answer};
use super::{AgentTool, RECORD_AND_FULL, ToolEffect, ToolProfile};
use crate::error::{AgentErrorCode, Error};
use crate::mcp::McpEndpoint;
use crate::mcp::answer::{self, AgentAnswer};
use crate::mcp::request::AgentRequest;
use crate::mcp::text::Suggestion;
use crate::service::ExecutionFilter;

const DAY_MS: i64 = 24 * 3600 * 1000;
/// Least `older_than_days`, so that a slip does not erase recent history.
const DAYS_MIN: u32 = 1;

// Arguments of `record_plan`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordPlanInput {
    /// {name, steps:[{id, action:"what you will do"} or {id, tool:"server/tool", arguments, by:"agent"}; depends_on?, compensation?:{action:"how to undo it"}], task?, reasoning?}
    plan: PlanDocument,
    #[expect(dead_code, reason = "`with_idempotency_key` reads it from the raw arguments")]
    idempotency_key: Option<String>,
}

// Arguments of `record_execution_start`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordExecutionStartInput {
    /// A saved plan's id or name
    plan_id: Option<String>,
    /// Instead of plan_id: the document; it is saved first
    plan: Option<PlanDocument>,
    inputs: Option<PlanDocument>,
    /// Same key + same request, from a client of your name = same execution
    #[expect(dead_code, reason = "`with_idempotency_key` reads it from the raw arguments")]
    idempotency_key: Option<String>,
}

// Arguments of `query_history`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueryHistoryInput {
    plan_id: Option<String>,
    task: Option<String>,
    status: Option<String>,
    /// agent:NAME or person:NAME
    actor: Option<String>,
    category: Option<String>,
    /// RFC 3339, a date, or an age such as 2h
    since: Option<String>,
    until: Option<String>,
    search: Option<String>,
    /// Default 20, at most 200
    limit: Option<u64>,
    /// From the answer before
    cursor: Option<u64>,
}

// Arguments of `cleanup_history`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CleanupHistoryInput {
    /// At least 1
    older_than_days: u32,
    /// Only true, the default: erasing is a person's act
    dry_run: Option<bool>,
}

impl AgentTool for RecordPlanInput {
    const NAME: &str = "record_plan";
    const DESCRIPTION: &str = "Record a plan of work that you do yourself. Nothing runs.";
    const EFFECT: ToolEffect = ToolEffect::WritesJournal;
    const PROFILES: &[ToolProfile] = RECORD_AND_FULL;
    type Answer = AgentAnswer;

    fn output_schema() -> Arc<JsonObject> {
        let properties = json!({
            "plan_id": { "type": "string" },
            "version": { "type": "integer" },
            "check": { "type": "object" },
            "next": answer::object_array_schema(),
        });
        answer::answer_schema(properties, &["check"])
    }

    /// Saves the plan and answers with its check. Err: the plan has a step that Actbook would call itself.
    async fn handle(self, endpoint: &McpEndpoint, request: &AgentRequest) -> Result<AgentAnswer, Error> {
        let text = self.plan.text();
        if let Some(plan) = endpoint.service().plans().check(&text, true).await.plan {
            endpoint.service().plans().check_recordable(&plan)?;
        }
        let saved = endpoint.service().plans().save(&request.caller, &text, false).await?;
        let next =
            vec![Suggestion::tool_call("record_execution_start", json!({ "plan_id": saved.plan_id }), "")];
        let verb = if saved.fresh { "Recorded" } else { "It was recorded already:" };
        Ok(plan_saved_answer(verb, &saved, next))
    }
}

impl AgentTool for RecordExecutionStartInput {
    const NAME: &str = "record_execution_start";
    const DESCRIPTION: &str =
        "Begin with a plan; the answer names the first step. Report each with record_action.";
    const EFFECT: ToolEffect = ToolEffect::WritesJournal;
    const PROFILES: &[ToolProfile] = RECORD_AND_FULL;
    type Answer = AgentAnswer;

    /// Starts the execution, or finds the one that a repeated idempotency key started, and answers with its
    /// view. Err: the plan has a step that Actbook would call itself.
    async fn handle(self, endpoint: &McpEndpoint, request: &AgentRequest) -> Result<AgentAnswer, Error> {
        let service = endpoint.service();
        let id = match service.executions().find_previous_start(&request.caller).await? {
            Some(started) => started.id,
            None => {
                let (reference, plan) = resolve_plan(endpoint, request, &self).await?;
                service.plans().check_recordable(&plan)?;
                let inputs =
                    self.inputs.map(|inputs| inputs.into_object("inputs")).transpose()?.map(Value::Object);
                let started =
                    service.executions().start(&request.caller, reference, plan, inputs, true).await?;
                if started.fresh {
                    endpoint.background().drive_claimed(started.progress);
                }
                started.id
            }
        };
        endpoint.execution_answer(request, service.executions().view(id.as_str()).await?).await
    }
}

impl AgentTool for QueryHistoryInput {
    const NAME: &str = "query_history";
    const DESCRIPTION: &str = "List executions, newest first.";
    const EFFECT: ToolEffect = ToolEffect::ReadOnly;
    const PROFILES: &[ToolProfile] = RECORD_AND_FULL;
    type Answer = AgentAnswer;

    fn output_schema() -> Arc<JsonObject> {
        let properties = json!({
            "executions": { "type": "array", "items": { "type": "object" } },
            "cursor": { "type": "integer" },
        });
        answer::answer_schema(properties, &["executions"])
    }

    async fn handle(self, endpoint: &McpEndpoint, _request: &AgentRequest) -> Result<AgentAnswer, Error> {
        let filter = ExecutionFilter {
            status: parse_word(Error::NoSuchStatus, self.status)?.into(),
            plan: self.plan_id.into(),
            task: self.task.into(),
            actor: self.actor.into(),
            category: parse_word(Error::NoSuchCategory, self.category)?.into(),
            since: parse_time_argument("since", self.since)?,
            until: parse_time_argument("until", self.until)?,
            words: search_words(self.search),
            before: self.cursor,
            ..ExecutionFilter::default()
        };
        executions_answer(endpoint, &filter, page_limit(self.limit)?).await
    }
}

impl AgentTool for CleanupHistoryInput {
    const NAME: &str = "cleanup_history";
    const DESCRIPTION: &str = "Count what a person could erase with `actbook cleanup`: arguments, outputs and facts of what ended long ago.";
    const EFFECT: ToolEffect = ToolEffect::ReadOnly;
    const PROFILES: &[ToolProfile] = RECORD_AND_FULL;
    type Answer = AgentAnswer;

    fn output_schema() -> Arc<JsonObject> {
        let properties = json!({
            "executions": { "type": "integer" },
            "acts": { "type": "integer" },
            "notes": { "type": "integer" },
            "dry_run": { "type": "boolean" },
        });
        answer::answer_schema(properties, &["executions", "dry_run"])
    }

    /// Counts what a cleanup would erase. Erasing cannot be undone, so an agent gets the command for a person
    /// instead: Err if `dry_run` is false.
    async fn handle(self, endpoint: &McpEndpoint, request: &AgentRequest) -> Result<AgentAnswer, Error> {
        let days = self.older_than_days;
        if days < DAYS_MIN {
            let message = "what ended less than a day ago is not erased";
            let cure = "give `older_than_days` of 1 or more";
            return Err(Error::agent(AgentErrorCode::InvalidArgument, message, cure));
        }
        if self.dry_run == Some(false) {
            let cure = format!(
                "ask your user to run `actbook cleanup --older-than {days}d`; with dry_run true this call counts what it would erase"
            );
            let message = "erasing history is a person's act; an agent cannot do it";
            return Err(Error::agent(AgentErrorCode::NeedsPerson, message, cure));
        }
        let before = jiff::Timestamp::now().as_millisecond() - i64::from(days) * DAY_MS;
        let cleaned = endpoint.service().journal().cleanup(&request.caller, before, true).await?;
        let (executions, acts, notes) = (cleaned.executions, cleaned.acts, cleaned.notes);
        let text = format!(
            "The data of {executions} executions, {acts} actions and {notes} notes would be erased. Nothing was.\n\
             Next: your user erases it with `actbook cleanup --older-than {days}d`"
        );
        Ok(AgentAnswer::new(&cleaned, text))
    }
}

/// The plan to start: a saved one, or the given document, which is saved first. Err: both or neither of them
/// is given, or the document's check finds an error.
async fn resolve_plan(
    endpoint: &McpEndpoint,
    request: &AgentRequest,
    input: &RecordExecutionStartInput,
) -> Result<(PlanRef, Arc<Plan>), Error> {
    match (&input.plan_id, &input.plan) {
        (Some(name), None) => endpoint.service().plans().load(name).await,
        (None, Some(document)) => {
            let saver = request.caller.clone().with_key(None);
            let saved = endpoint.service().plans().save(&saver, &document.text(), false).await?;
            Ok((saved.reference, saved.plan))
        }
        (Some(_), Some(_)) => Err(both_given_error("record_execution_start")),
        (None, None) => {
            let message = "record_execution_start needs either `plan_id` or `plan`";
            let cure = "give the id that record_plan answered, or the document";
            Err(Error::agent(AgentErrorCode::MissingArgument, message, cure))
        }
    }
}
