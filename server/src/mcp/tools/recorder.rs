//! The recorder's own names: plans whose steps the agent does itself, their start, and their history.

use std::sync::Arc;

use actbook_engine::event::PlanRef;
use actbook_engine::plan::Plan;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::ledger::{listed_executions, page_limit, point, words};
use super::plans::{Document, both, kept};
use super::{Effect, Offered, WHERE_AGENTS_RECORD};
use crate::error::Error;
use crate::mcp::Door;
use crate::mcp::answer::{self, Answer};
use crate::mcp::ask::Ask;
use crate::mcp::text::Next;
use crate::service::ExecutionFilter;

const DAY_MS: i64 = 24 * 3600 * 1000;
/// Younger history is nobody's to erase by a slip.
const DAYS_MIN: u32 = 1;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordPlan {
    /// {name, steps:[{id, action:"what you will do"} or {id, tool:"server/tool", arguments, by:"agent"}; depends_on?, compensation?:{action:"how to undo it"}], task?, reasoning?}
    plan: Document,
    #[expect(dead_code, reason = "read where the call comes in")]
    idempotency_key: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordExecutionStart {
    /// A saved plan's id or name
    plan_id: Option<String>,
    /// Instead of plan_id: the document; it is saved first
    plan: Option<Document>,
    inputs: Option<Map<String, Value>>,
    /// Same key + same request = same execution
    #[expect(dead_code, reason = "read where the call comes in")]
    idempotency_key: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueryHistory {
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

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CleanupHistory {
    /// At least 1
    older_than_days: u32,
    /// Only true, the default: erasing is a person's act
    dry_run: Option<bool>,
}

pub fn record_plan() -> Offered {
    let properties = json!({
        "plan_id": { "type": "string" },
        "version": { "type": "integer" },
        "check": { "type": "object" },
        "next": answer::objects(),
    });
    Offered::new::<RecordPlan>(
        "record_plan",
        "Put down a plan of work that you do yourself. Nothing runs.",
        Effect::Writes,
        answer::answer(properties, &["check"]),
        WHERE_AGENTS_RECORD,
    )
}

pub fn record_execution_start() -> Offered {
    Offered::new::<RecordExecutionStart>(
        "record_execution_start",
        "Begin with a plan; the answer names the first step. Report each with record_action.",
        Effect::Writes,
        answer::execution_schema(),
        WHERE_AGENTS_RECORD,
    )
}

pub fn query_history() -> Offered {
    let properties = json!({
        "executions": { "type": "array", "items": { "type": "object" } },
        "cursor": { "type": "integer" },
    });
    Offered::new::<QueryHistory>(
        "query_history",
        "List executions, newest first.",
        Effect::Reads,
        answer::answer(properties, &["executions"]),
        WHERE_AGENTS_RECORD,
    )
}

pub fn cleanup_history() -> Offered {
    let properties = json!({
        "executions": { "type": "integer" },
        "acts": { "type": "integer" },
        "notes": { "type": "integer" },
        "dry_run": { "type": "boolean" },
    });
    Offered::new::<CleanupHistory>(
        "cleanup_history",
        "Count what a person could erase with `actbook cleanup`: arguments, outputs and facts of what ended long ago.",
        Effect::Reads,
        answer::answer(properties, &["executions", "dry_run"]),
        WHERE_AGENTS_RECORD,
    )
}

pub async fn save(door: &Door, ask: &Ask, asked: RecordPlan) -> Result<Answer, Error> {
    let text = asked.plan.text();
    if let Some(plan) = door.service().check(&text, true).await.plan {
        door.service().check_recordable(&plan)?;
    }
    let saved = door.service().save_plan(&ask.caller, &text, false).await?;
    let next = vec![Next::call("record_execution_start", json!({ "plan_id": saved.plan_id }), "")];
    let word = if saved.fresh { "Recorded" } else { "It was recorded already:" };
    Ok(kept(word, &saved, next))
}

pub async fn start(door: &Door, ask: &Ask, asked: RecordExecutionStart) -> Result<Answer, Error> {
    let service = door.service();
    let id = match service.started_before(&ask.caller).await? {
        Some(started) => started.id,
        None => {
            let (reference, plan) = plan(door, ask, &asked).await?;
            service.check_recordable(&plan)?;
            let inputs = asked.inputs.map(Value::Object);
            let started = service.start(&ask.caller, reference, plan, inputs, true).await?;
            if started.fresh {
                door.background().keep(started.progress);
            }
            started.id
        }
    };
    Ok(answer::execution(&service.view(id.as_str()).await?, door.doors(ask)))
}

async fn plan(door: &Door, ask: &Ask, asked: &RecordExecutionStart) -> Result<(PlanRef, Arc<Plan>), Error> {
    match (&asked.plan_id, &asked.plan) {
        (Some(name), None) => door.service().saved_plan(name).await,
        (None, Some(document)) => {
            let saver = ask.caller.clone().with_key(None);
            let saved = door.service().save_plan(&saver, &document.text(), false).await?;
            Ok((saved.reference, saved.plan))
        }
        (Some(_), Some(_)) => Err(both("record_execution_start")),
        (None, None) => {
            let message = "record_execution_start needs either `plan_id` or `plan`";
            let cure = "give the id that record_plan answered, or the document";
            Err(Error::new("missing_argument", message, cure))
        }
    }
}

pub async fn history(door: &Door, asked: QueryHistory) -> Result<Answer, Error> {
    let filter = ExecutionFilter {
        status: asked.status,
        plan: asked.plan_id,
        task: asked.task,
        actor: asked.actor,
        category: asked.category,
        since: point("since", asked.since)?,
        until: point("until", asked.until)?,
        words: words(asked.search),
        before: asked.cursor,
        ..ExecutionFilter::default()
    };
    listed_executions(door, &filter, page_limit(asked.limit)?).await
}

/// What a cleanup would erase. Erasing history cannot be taken back, so an agent is given the command instead.
pub async fn count_old(door: &Door, ask: &Ask, asked: CleanupHistory) -> Result<Answer, Error> {
    let days = asked.older_than_days;
    if days < DAYS_MIN {
        let message = "what ended less than a day ago is not erased";
        return Err(Error::new("invalid_argument", message, "give `older_than_days` of 1 or more"));
    }
    if asked.dry_run == Some(false) {
        let cure = format!(
            "ask your user to run `actbook cleanup --older-than {days}d`; with dry_run true this call counts what it would erase"
        );
        let message = "erasing history is a person's act; an agent cannot do it";
        return Err(Error::new("needs_a_person", message, cure));
    }
    let before = jiff::Timestamp::now().as_millisecond() - i64::from(days) * DAY_MS;
    let cleaned = door.service().cleanup(&ask.caller, before, true).await?;
    let (executions, acts, notes) = (cleaned.executions, cleaned.acts, cleaned.notes);
    let text = format!(
        "What {executions} executions, {acts} acts and {notes} notes keep would be erased. Nothing was.\n\
         Next: your user erases it with `actbook cleanup --older-than {days}d`"
    );
    Ok(Answer::new(&cleaned, text))
}
