//! `query_ledger`: the journal's entries and the executions, filtered.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{EVERYWHERE, Effect, Offered};
use crate::error::Error;
use crate::mcp::Door;
use crate::mcp::answer::{self, Answer, cut};
use crate::mcp::text::{Next, Text};
use crate::service::view::{EntryView, ExecutionRow};
use crate::service::{ExecutionFilter, JournalFilter, quote};

pub(super) const LIMIT_DEFAULT: u64 = 20;
pub(super) const LIMIT_MAX: u64 = 200;
const BODY_CHARS_MAX: usize = 160;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueryLedger {
    execution_id: Option<String>,
    /// Id or name
    plan_id: Option<String>,
    task: Option<String>,
    status: Option<String>,
    /// Such as attempt_ended
    kind: Option<String>,
    actor: Option<String>,
    /// Such as timeout
    category: Option<String>,
    /// RFC 3339
    since: Option<String>,
    until: Option<String>,
    /// Words that must all occur
    search: Option<String>,
    /// Default 20, at most 200
    limit: Option<u64>,
    /// From the answer before
    cursor: Option<u64>,
}

pub fn query_ledger() -> Offered {
    let objects = || json!({ "type": "array", "items": { "type": "object" } });
    let properties = json!({
        "entries": objects(),
        "executions": objects(),
        "cursor": { "type": "integer" },
    });
    Offered::new::<QueryLedger>(
        "query_ledger",
        "The journal's entries, oldest first; or, with nothing but status, plan_id, task and times, executions, newest first.",
        Effect::Reads,
        answer::answer(properties, &[]),
        EVERYWHERE,
    )
}

pub async fn query(door: &Door, asked: QueryLedger) -> Result<Answer, Error> {
    let limit = asked.limit.unwrap_or(LIMIT_DEFAULT).clamp(1, LIMIT_MAX);
    let of_entries = [&asked.execution_id, &asked.kind, &asked.actor, &asked.category, &asked.search];
    let of_executions = [&asked.status, &asked.plan_id, &asked.task];
    let given = |fields: &[&Option<String>]| fields.iter().any(|field| field.is_some());
    match given(&of_executions) && !given(&of_entries) {
        true => executions(door, asked, limit).await,
        false => entries(door, asked, limit).await,
    }
}

async fn entries(door: &Door, asked: QueryLedger, limit: u64) -> Result<Answer, Error> {
    let filter = JournalFilter {
        execution: asked.execution_id,
        plan: asked.plan_id,
        task: asked.task,
        status: asked.status,
        kind: asked.kind,
        actor: asked.actor,
        category: asked.category,
        since: point("since", asked.since)?,
        until: point("until", asked.until)?,
        words: words(asked.search),
        after: asked.cursor.unwrap_or(0),
        payloads: false,
    };
    let mut entries = door.service().journal(&filter, limit).await?;
    let cursor = entries.last().filter(|_| entries.len() as u64 == limit).map(|entry| entry.position);
    let lines: Vec<String> = entries.iter().map(line).collect();
    entries.iter_mut().filter_map(|entry| entry.recorded.as_mut()).for_each(answer::clip);
    Ok(listed(json!({ "entries": entries }), lines, "entry", cursor))
}

pub(super) fn words(search: Option<String>) -> Vec<String> {
    search.iter().flat_map(|words| words.split_whitespace()).map(str::to_owned).collect()
}

fn line(entry: &EntryView) -> String {
    let said = entry.recorded.as_ref().map(|recorded| format!(" {recorded}")).unwrap_or_default();
    let body = cut(&format!("{}{said}", entry.body), BODY_CHARS_MAX + said.len().min(BODY_CHARS_MAX));
    let execution = entry.execution.as_deref().unwrap_or("-");
    format!("{} {} {} {execution} {} {body}", entry.position, entry.at, entry.kind, entry.actor)
}

async fn executions(door: &Door, asked: QueryLedger, limit: u64) -> Result<Answer, Error> {
    let filter = ExecutionFilter {
        status: asked.status,
        plan: asked.plan_id,
        task: asked.task,
        since: point("since", asked.since)?,
        until: point("until", asked.until)?,
        before: asked.cursor,
        ..ExecutionFilter::default()
    };
    listed_executions(door, &filter, limit).await
}

pub(super) async fn listed_executions(
    door: &Door,
    filter: &ExecutionFilter,
    limit: u64,
) -> Result<Answer, Error> {
    let rows = door.service().list(filter, limit).await?;
    let cursor = rows.last().filter(|_| rows.len() as u64 == limit).map(|row| row.stream);
    let line = |row: &ExecutionRow| {
        let (plan, version) = (quote::name(&row.plan.name), row.plan.version);
        format!("{} {} {plan} v{version} started {}", row.status, row.id, row.started_at)
    };
    let lines: Vec<String> = rows.iter().map(line).collect();
    Ok(listed(json!({ "executions": rows }), lines, "execution", cursor))
}

fn listed(mut structured: Value, lines: Vec<String>, what: &str, cursor: Option<u64>) -> Answer {
    let mut text = Text::default();
    if lines.is_empty() {
        text.line(format!("No {what} fits."));
    }
    lines.iter().for_each(|line| text.line(line));
    if let Some(cursor) = cursor {
        structured["cursor"] = json!(cursor);
        text.next(&[Next::say(format!("the same query with \"cursor\": {cursor} for more"))]);
    }
    Answer { structured, text: text.into_string() }
}

pub(super) fn point(name: &str, text: Option<String>) -> Result<Option<i64>, Error> {
    let Some(text) = text else { return Ok(None) };
    match text.parse::<Timestamp>() {
        Ok(at) => Ok(Some(at.as_millisecond())),
        Err(_) => {
            let message = format!("`{name}`: `{text}` is no time");
            Err(Error::new("invalid_argument", message, "write it as in 2030-01-31T12:00:00Z"))
        }
    }
}
