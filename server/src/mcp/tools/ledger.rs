//! The tool `query_ledger`: journal entries or executions by filters.

use std::str::FromStr;
use std::sync::Arc;

use jiff::tz::TimeZone;
use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ALL_PROFILES, AgentTool, ToolEffect, ToolProfile};
use crate::error::{AgentError, AgentErrorCode, Error};
use crate::mcp::McpEndpoint;
use crate::mcp::answer::{self, AgentAnswer, truncate_chars};
use crate::mcp::request::AgentRequest;
use crate::mcp::text::{AnswerText, Suggestion};
use crate::service::view::{EntryView, ExecutionSummary};
use crate::service::{DayEdge, ExecutionFilter, JournalFilter, parse_time, quote};

/// Items on a page if the agent gives no `limit`.
const LIMIT_DEFAULT: u64 = 20;
const LIMIT_MAX: u64 = 200;
/// Most characters of an entry's body in the text, and as many again of what was recorded.
const BODY_CHARS_MAX: usize = 160;
/// Hint for a filter by actor that finds nothing.
const ACTOR_HINT: &str =
    " An actor is written agent:NAME or person:NAME, as the entries show it; a bare name is a person's.";

// Arguments of `query_ledger`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueryLedgerInput {
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
    /// Entries newest first
    newest: Option<bool>,
}

impl AgentTool for QueryLedgerInput {
    const NAME: &str = "query_ledger";
    const DESCRIPTION: &str = "The journal's entries, oldest first (or newest); or, with nothing but status, plan_id, task and times, executions, newest first.";
    const EFFECT: ToolEffect = ToolEffect::ReadOnly;
    const PROFILES: &[ToolProfile] = ALL_PROFILES;
    type Answer = AgentAnswer;

    fn output_schema() -> Arc<JsonObject> {
        let objects = || json!({ "type": "array", "items": { "type": "object" } });
        let properties = json!({
            "entries": objects(),
            "executions": objects(),
            "reports": { "type": "object" },
            "cursor": { "type": "integer" },
        });
        answer::answer_schema(properties, &[])
    }

    /// Executions if only filters of executions are given, else entries.
    async fn handle(self, endpoint: &McpEndpoint, _request: &AgentRequest) -> Result<AgentAnswer, Error> {
        let limit = page_limit(self.limit)?;
        let entry_filters = [&self.execution_id, &self.kind, &self.actor, &self.category, &self.search];
        let execution_filters = [&self.status, &self.plan_id, &self.task];
        let any_given = |filters: &[&Option<String>]| filters.iter().any(|filter| filter.is_some());
        if any_given(&execution_filters) && !any_given(&entry_filters) && self.newest != Some(true) {
            list_executions(endpoint, self, limit).await
        } else {
            list_entries(endpoint, self, limit).await
        }
    }
}

/// One page of journal entries, oldest first, or newest first.
async fn list_entries(
    endpoint: &McpEndpoint,
    input: QueryLedgerInput,
    limit: u64,
) -> Result<AgentAnswer, Error> {
    let filter = JournalFilter {
        execution: input.execution_id,
        plan: input.plan_id,
        task: input.task,
        status: parse_word(Error::NoSuchStatus, input.status)?,
        kind: input.kind,
        actor: input.actor,
        category: parse_word(Error::NoSuchCategory, input.category)?,
        since: parse_time_argument("since", input.since)?,
        until: parse_time_argument("until", input.until)?,
        words: search_words(input.search),
        after: input.cursor.filter(|_| input.newest != Some(true)).unwrap_or(0),
        payloads: false,
    };
    let hint = filter.actor.as_ref().map_or("", |_| ACTOR_HINT);
    let journal = endpoint.service().journal();
    let mut entries = match input.newest {
        Some(true) => journal.list_newest(&filter, input.cursor, limit).await?,
        Some(false) | None => journal.list(&filter, limit).await?,
    };
    let reports = match filter.execution.as_deref().filter(|_| input.cursor.is_none()) {
        Some(id) => endpoint.service().executions().report_checks_of(id).await?,
        None => None,
    };
    let cursor = entries.last().filter(|_| entries.len() as u64 == limit).map(|entry| entry.position);
    let none = format!("No entry matches.{hint}");
    let mut lines: Vec<String> = entries.iter().map(entry_line).collect();
    entries.iter_mut().filter_map(|entry| entry.recorded.as_mut()).for_each(answer::clip_value);
    let mut document = json!({ "entries": entries });
    if let Some(reports) = reports {
        if lines.is_empty() {
            lines.push(none.clone());
        }
        lines.extend(answer::report_lines(&reports));
        document["reports"] = json!(reports);
    }
    Ok(list_answer(document, lines, &none, cursor))
}

/// Parses a filter that is one of a closed set of words. Err, from `unknown_word`: no such word; it would
/// silently match nothing.
pub(super) fn parse_word<T: FromStr<Err = String>>(
    unknown_word: fn(String) -> Error,
    word: Option<String>,
) -> Result<Option<T>, Error> {
    word.map(|word| word.parse()).transpose().map_err(unknown_word)
}

/// The words of a search; empty if there is none.
pub(super) fn search_words(search: Option<String>) -> Vec<String> {
    search.iter().flat_map(|words| words.split_whitespace()).map(str::to_owned).collect()
}

/// A journal entry on one line: position, time, kind, execution, actor, and the beginning of its body.
fn entry_line(entry: &EntryView) -> String {
    let recorded = entry.recorded.as_ref().map(|value| format!(" {value}")).unwrap_or_default();
    let body = truncate_chars(
        &format!("{}{recorded}", entry.body),
        BODY_CHARS_MAX + recorded.len().min(BODY_CHARS_MAX),
    );
    let execution = entry.execution.as_deref().unwrap_or("-");
    format!("{} {} {} {execution} {} {body}", entry.position, entry.at, entry.kind, entry.actor)
}

/// One page of executions, newest first.
async fn list_executions(
    endpoint: &McpEndpoint,
    input: QueryLedgerInput,
    limit: u64,
) -> Result<AgentAnswer, Error> {
    let filter = ExecutionFilter {
        status: parse_word(Error::NoSuchStatus, input.status)?.into(),
        plan: input.plan_id.into(),
        task: input.task.into(),
        since: parse_time_argument("since", input.since)?,
        until: parse_time_argument("until", input.until)?,
        before: input.cursor,
        ..ExecutionFilter::default()
    };
    executions_answer(endpoint, &filter, limit).await
}

/// The answer that lists the executions that match a filter, newest first, with the cursor of the next page.
pub(super) async fn executions_answer(
    endpoint: &McpEndpoint,
    filter: &ExecutionFilter,
    limit: u64,
) -> Result<AgentAnswer, Error> {
    let rows = endpoint.service().executions().list(filter, limit).await?;
    let cursor = rows.last().filter(|_| rows.len() as u64 == limit).map(|row| row.stream.0);
    let line = |row: &ExecutionSummary| {
        let (plan, version) = (quote::name(&row.plan.name), row.plan.version);
        format!("{} {} {plan} v{version} started {}", row.status, row.id, row.started_at)
    };
    let lines: Vec<String> = rows.iter().map(line).collect();
    let hint = if filter.actor.is_unrestricted() { "" } else { ACTOR_HINT };
    Ok(list_answer(json!({ "executions": rows }), lines, &format!("No execution matches.{hint}"), cursor))
}

/// The answer of a list; `none` is its text if there are no lines, `cursor` leads to the next page.
fn list_answer(mut structured: Value, lines: Vec<String>, none: &str, cursor: Option<u64>) -> AgentAnswer {
    let mut text = AnswerText::default();
    if lines.is_empty() {
        text.push_line(none);
    }
    lines.iter().for_each(|line| text.push_line(line));
    if let Some(cursor) = cursor {
        structured["cursor"] = json!(cursor);
        text.push_suggestions(&[Suggestion::advice(format!(
            "the same query with \"cursor\": {cursor} for more"
        ))]);
    }
    AgentAnswer { structured, text: text.into_string() }
}

/// Parses the time of the argument `name` to Unix milliseconds; None if it is not given. A date means the end
/// of its day for `until`. Err: it is not a time.
pub(super) fn parse_time_argument(name: &str, text: Option<String>) -> Result<Option<i64>, Error> {
    let edge = if name == "until" { DayEdge::End } else { DayEdge::Start };
    let Some(text) = text else { return Ok(None) };
    match parse_time(&text, edge, &TimeZone::UTC) {
        Some(at_ms) => Ok(Some(at_ms)),
        None => {
            let message = format!("`{name}`: `{text}` is not a time");
            let cure =
                "write it as in 2030-01-31T12:00:00Z, as a date (2030-01-31, in UTC), or as an age (2h, 3d)";
            Err(AgentError::new(AgentErrorCode::InvalidArgument, message, cure).with_path(name).into())
        }
    }
}

/// The number of items on a page: the default or the given one. Err: the given one is out of range.
pub(super) fn page_limit(given: Option<u64>) -> Result<u64, Error> {
    let limit = given.unwrap_or(LIMIT_DEFAULT);
    if (1..=LIMIT_MAX).contains(&limit) {
        return Ok(limit);
    }
    let message = format!("`limit` is 1 to {LIMIT_MAX}, and {limit} was given");
    let cure = "give less, and the `cursor` of each answer for the next page";
    Err(AgentError::new(AgentErrorCode::InvalidArgument, message, cure).with_path("limit").into())
}
