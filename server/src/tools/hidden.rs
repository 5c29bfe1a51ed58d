//! Characters that a reader does not see, or that make text read otherwise than it stands: zero-width,
//! direction controls, tags, variation selectors away from emoji, control codes. A tool's description may
//! say one thing to a person and another to a model.

use serde_json::Value;

/// Places named in one warning.
const SHOWN_MAX: usize = 5;

/// Where in a tool's object such characters stand, each with its path: `description: U+202E at 12`.
pub fn hidden_in(object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk(object, "", &mut found);
    if found.len() > SHOWN_MAX {
        let more = found.len() - SHOWN_MAX;
        found.truncate(SHOWN_MAX);
        found.push(format!("and in {more} more places"));
    }
    found
}

fn walk(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.extend(told(text, path)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| walk(item, &format!("{path}[{index}]"), found));
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                let path = if path.is_empty() { visible(name) } else { format!("{path}.{}", visible(name)) };
                found.extend(told(name, &format!("{path} (its name)")));
                walk(field, &path, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn told(text: &str, path: &str) -> Option<String> {
    let (at, first) = hidden(text).next()?;
    Some(format!("{path}: U+{:04X} at {at}", first as u32))
}

/// The text with every such character written out, safe to print.
pub fn visible(text: &str) -> String {
    let places: Vec<usize> = hidden(text).map(|(at, _)| at).collect();
    if places.is_empty() {
        return text.to_owned();
    }
    let shown = |(at, c): (usize, char)| match places.binary_search(&at) {
        Ok(_) => format!("\\u{{{:x}}}", c as u32),
        Err(_) => c.to_string(),
    };
    text.chars().enumerate().map(shown).collect()
}

/// The hidden characters, each with its place counted in characters.
fn hidden(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut before = None;
    text.chars().enumerate().filter(move |(_, c)| {
        let suspect = is_hidden(*c) && !before.is_some_and(|before| belongs_to_emoji(before, *c));
        before = Some(*c);
        suspect
    })
}

fn is_hidden(c: char) -> bool {
    match c {
        '\n' | '\r' | '\t' => false,
        c if c.is_control() => true,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' => true,
        '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => true,
        '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' => true,
        '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' => true,
        '\u{e0000}'..='\u{e0fff}' => true,
        _ => false,
    }
}

/// A selector or a joiner behind an emoji draws it; anywhere else it only hides.
fn belongs_to_emoji(before: char, c: char) -> bool {
    let draws = matches!(c, '\u{fe0e}' | '\u{fe0f}' | '\u{200d}');
    let emoji = matches!(before, '\u{a9}' | '\u{ae}' | '\u{203c}'..='\u{3299}' | '\u{1f000}'..='\u{1faff}')
        && !is_hidden(before);
    draws
        && (emoji
            || (c == '\u{200d}' && before == '\u{fe0f}')
            || (before.is_ascii_digit() && c != '\u{200d}'))
}
