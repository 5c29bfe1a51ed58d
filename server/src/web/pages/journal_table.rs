//! A table of journal entries, newest first.

use askama::Template;
use askama::filters::HtmlSafe;
use serde_json::Value;

use super::markup::{Markup, grouped, short_id, url_part};
use super::times::{PageTime, page_time_ms};
use crate::service::view::EntryView;

/// Most characters of what an entry says.
const SAYS_CHARS_MAX: usize = 240;
/// Fields of an entry's body that say nothing to a reader of the table.
const QUIET_FIELDS: [&str; 14] = [
    "step",
    "key",
    "salt",
    "digest",
    "arguments",
    "inputs",
    "output",
    "result",
    "payload",
    "terms",
    "toolset",
    "place",
    "seat",
    "id",
];

/// The table, and where the next page lies.
#[derive(Debug, Template)]
#[template(path = "journal_table.html")]
pub struct JournalTable {
    rows: Vec<EntryRow>,
    /// Entries of one execution: its column is left out.
    is_of_one: bool,
    next_path: Option<String>,
}

impl HtmlSafe for JournalTable {}

#[derive(Debug)]
struct EntryRow {
    position: u64,
    shown_position: String,
    hash: String,
    at: PageTime,
    actor: String,
    kind: String,
    step: Option<String>,
    says: String,
    is_bad: bool,
    /// Leads to the page that begins with the entry.
    link: String,
    /// Its execution's id and the beginning of that.
    execution: Option<(String, String)>,
}

impl JournalTable {
    /// The table of these entries, which lie on the page `path`; `kept` are the filters, as the end of a query.
    pub fn of(entries: &[EntryView], page: usize, is_of_one: bool, path: &str, kept: &str) -> Self {
        let separator = if path.contains('?') { '&' } else { '?' };
        let next = entries.last().filter(|_| entries.len() == page);
        let link = |position: u64| format!("{path}{separator}at={position}#p-{position}");
        Self {
            rows: entries.iter().map(|entry| entry_row(entry, link(entry.position))).collect(),
            is_of_one,
            next_path: next.map(|last| format!("{path}{separator}before={}{kept}", last.position)),
        }
    }
}

fn entry_row(entry: &EntryView, link: String) -> EntryRow {
    let step = entry.body.get("step").and_then(Value::as_str).map(str::to_owned);
    EntryRow {
        position: entry.position,
        shown_position: grouped(entry.position),
        hash: entry.hash.chars().take(6).collect(),
        at: page_time_ms(&entry.at),
        actor: entry.actor.clone(),
        kind: entry.kind.clone(),
        step,
        says: says(entry),
        is_bad: entry.is_failure(),
        link,
        execution: entry.execution.as_ref().map(|id| (url_part(id), short_id(id).to_owned())),
    }
}

/// What an entry says beyond its kind and step: its short fields.
fn says(entry: &EntryView) -> String {
    let Value::Object(fields) = &entry.body else { return String::new() };
    let told = fields.iter().filter(|(name, _)| !QUIET_FIELDS.contains(&name.as_str())).filter_map(
        |(name, value)| {
            if name.ends_with("_ms") {
                return None;
            }
            let value = match value {
                Value::String(text) => text.clone(),
                Value::Number(_) | Value::Bool(_) => value.to_string(),
                Value::Null | Value::Array(_) | Value::Object(_) => return None,
            };
            Some(format!("{} {value}", name.replace('_', " ")))
        },
    );
    let text = told.collect::<Vec<_>>().join(", ");
    text.chars().take(SAYS_CHARS_MAX).collect()
}

impl EntryRow {
    /// The link to the entry in the journal of its execution, if it has one.
    fn execution_link(&self) -> Markup {
        match &self.execution {
            Some((id, short)) => Markup::from_rendered(format!(
                "<a href=\"/executions/{id}?view=journal&amp;at={0}#p-{0}\"><code>{1}</code></a>",
                self.position,
                Markup::text(short)
            )),
            None => Markup::text("–"),
        }
    }
}
