//! Differences between two versions of a tool's description, as one line of text.

use std::collections::BTreeSet;

use serde_json::Value;

use super::hidden_characters::escape_hidden;
use crate::config::{COMMAND_SERVER, HTTP_SERVER};

/// More differences are only counted.
const SHOWN_MAX: usize = 8;
/// A longer JSON value is truncated.
const VALUE_CHARS_MAX: usize = 80;

/// Lists the differences by path, as in `description: "a" → "b"; inputSchema.properties.to: added {…}`; at
/// most `SHOWN_MAX`.
pub fn diff_descriptions(old: &Value, new: &Value) -> String {
    let mut found = Vec::new();
    collect_differences(old, new, String::new(), &mut found);
    let more = found.len().saturating_sub(SHOWN_MAX);
    found.truncate(SHOWN_MAX);
    if more > 0 {
        found.push(format!("and {more} more"));
    }
    if found.is_empty() { "in parts that are not shown".to_owned() } else { found.join("; ") }
}

/// Like `diff_descriptions`, for a tool written `server/tool`. For a tool defined in the config only the
/// names of the changed fields: agents read the text too, and must not see command lines and URLs.
pub fn summarize_changes(tool: &str, old: &Value, new: &Value) -> String {
    let server = tool.split('/').next().unwrap_or(tool);
    let (Value::Object(before), Value::Object(after), COMMAND_SERVER | HTTP_SERVER) = (old, new, server)
    else {
        return diff_descriptions(old, new);
    };
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let changed = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
    let changed: Vec<&str> = changed.map(String::as_str).collect();
    format!("in its {}", changed.join(", "))
}

/// Appends one line to `found` for each path where `old` and `new` differ; `path` is theirs. Lists are
/// compared as a whole.
fn collect_differences(old: &Value, new: &Value, path: String, found: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(before), Value::Object(after)) => {
            let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let inner = if path.is_empty() {
                    escape_hidden(name)
                } else {
                    format!("{path}.{}", escape_hidden(name))
                };
                match (before.get(name), after.get(name)) {
                    (Some(old), Some(new)) => collect_differences(old, new, inner, found),
                    (Some(old), None) => found.push(format!("{inner}: was {}, is gone", excerpt(old))),
                    (None, Some(new)) => found.push(format!("{inner}: added {}", excerpt(new))),
                    (None, None) => {}
                }
            }
        }
        (old, new) if old != new => found.push(format!("{path}: {} → {}", excerpt(old), excerpt(new))),
        (_, _) => {}
    }
}

/// The value as JSON, truncated, with hidden characters escaped.
fn excerpt(value: &Value) -> String {
    let text = escape_hidden(&value.to_string());
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
