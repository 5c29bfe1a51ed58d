//! `query_ledger`: the journal's entries and the executions, filtered.

use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{EVERYWHERE, Effect, Offered};
use crate::error::Error;
use crate::mcp::Door;
use crate::mcp::answer::{self, Answer, cut};
use crate::mcp::text::{Next, Text};
use crate::service::view::{EntryView, ExecutionRow};
use crate::service::{DayEdge, ExecutionFilter, JournalFilter, parse_time, quote};

const LIMIT_DEFAULT: u64 = 20;
const LIMIT_MAX: u64 = 200;
const BODY_CHARS_MAX: usize = 160;
/// Said where a filter by actor finds nothing.
const ACTORS: &str =
    " An actor is written agent:NAME or person:NAME, as the entries show it; a bare name is a person's.";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueryLedger {
    execution_id: Option<String>,
    /// Id or name
    plan_id: Option<String>,
    task: Option<String>,
    status: Option<String>,
    /// Such as attempt_ended, or its beginning
    kind: Option<String>,
    /// agent:NAME or person:NAME
    actor: Option<String>,
    /// Such as timeout
    category: Option<String>,
    /// RFC 3339, a date, or an age such as 2h
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
    let limit = page_limit(asked.limit)?;
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
    let hint = filter.actor.as_ref().map_or("", |_| ACTORS);
    let mut entries = door.service().journal(&filter, limit).await?;
    let cursor = entries.last().filter(|_| entries.len() as u64 == limit).map(|entry| entry.position);
    let lines: Vec<String> = entries.iter().map(line).collect();
    entries.iter_mut().filter_map(|entry| entry.recorded.as_mut()).for_each(answer::clip);
    Ok(listed(json!({ "entries": entries }), lines, &format!("No entry fits.{hint}"), cursor))
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
    let hint = filter.actor.as_ref().map_or("", |_| ACTORS);
    Ok(listed(json!({ "executions": rows }), lines, &format!("No execution fits.{hint}"), cursor))
}

/// `none` is said where there is no line.
fn listed(mut structured: Value, lines: Vec<String>, none: &str, cursor: Option<u64>) -> Answer {
    let mut text = Text::default();
    if lines.is_empty() {
        text.line(none);
    }
    lines.iter().for_each(|line| text.line(line));
    if let Some(cursor) = cursor {
        structured["cursor"] = json!(cursor);
        text.next(&[Next::say(format!("the same query with \"cursor\": {cursor} for more"))]);
    }
    Answer { structured, text: text.into_string() }
}

/// A time as the service reads it; the field is named in a refusal.
pub(super) fn point(name: &str, text: Option<String>) -> Result<Option<i64>, Error> {
    let edge = if name == "until" { DayEdge::End } else { DayEdge::Start };
    let Some(text) = text else { return Ok(None) };
    match parse_time(&text, edge, &TimeZone::UTC) {
        Some(at_ms) => Ok(Some(at_ms)),
        None => {
            let message = format!("`{name}`: `{text}` is no time");
            let cure =
                "write it as in 2030-01-31T12:00:00Z, as a date (2030-01-31, in UTC), or as an age (2h, 3d)";
            Err(Error { path: Some(name.to_owned()), ..Error::new("invalid_argument", message, cure) })
        }
    }
}

/// How many items a page has: the default, or what was given, which is refused beyond the limit.
pub(super) fn page_limit(given: Option<u64>) -> Result<u64, Error> {
    let limit = given.unwrap_or(LIMIT_DEFAULT);
    if (1..=LIMIT_MAX).contains(&limit) {
        return Ok(limit);
    }
    let message = format!("`limit` is 1 to {LIMIT_MAX}, and {limit} was given");
    let cure = "give less, and the `cursor` of each answer for the next page";
    Err(Error { path: Some("limit".to_owned()), ..Error::new("invalid_argument", message, cure) })
}
