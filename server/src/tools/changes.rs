//! What has become of a tool's description: the old one beside the new, place by place, in one line.

use std::collections::BTreeSet;

use serde_json::Value;

use super::hidden::visible;
use crate::config::{COMMAND_SERVER, HTTP_SERVER};

/// Places told at most; the count tells of the rest.
const SHOWN_MAX: usize = 8;
const VALUE_CHARS_MAX: usize = 80;

/// `description: "a" → "b"; inputSchema.properties.to: added {…}`.
pub fn changes(old: &Value, new: &Value) -> String {
    let mut found = Vec::new();
    compare(old, new, String::new(), &mut found);
    let more = found.len().saturating_sub(SHOWN_MAX);
    found.truncate(SHOWN_MAX);
    if more > 0 {
        found.push(format!("and {more} more"));
    }
    match found.is_empty() {
        true => "in parts that are not shown".to_owned(),
        false => found.join("; "),
    }
}

/// The same for one tool. Of a tool of the config only the names of what changed: agents read it, too, and command lines and
/// addresses are the operator's business.
pub fn changes_of(tool: &str, old: &Value, new: &Value) -> String {
    let server = tool.split('/').next().unwrap_or(tool);
    let (Value::Object(before), Value::Object(after), COMMAND_SERVER | HTTP_SERVER) = (old, new, server)
    else {
        return changes(old, new);
    };
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let changed = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
    let changed: Vec<&str> = changed.map(String::as_str).collect();
    format!("in its {}", changed.join(", "))
}

fn compare(old: &Value, new: &Value, path: String, found: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(before), Value::Object(after)) => {
            let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let inner = if path.is_empty() { visible(name) } else { format!("{path}.{}", visible(name)) };
                match (before.get(name), after.get(name)) {
                    (Some(old), Some(new)) => compare(old, new, inner, found),
                    (Some(old), None) => found.push(format!("{inner}: was {}, is gone", shown(old))),
                    (None, Some(new)) => found.push(format!("{inner}: added {}", shown(new))),
                    (None, None) => {}
                }
            }
        }
        (old, new) if old != new => found.push(format!("{path}: {} → {}", shown(old), shown(new))),
        (_, _) => {}
    }
}

fn shown(value: &Value) -> String {
    let text = visible(&value.to_string());
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
