//! Hidden characters: those that are invisible or change how text is displayed. Zero-width characters,
//! direction controls, tags, control codes, and variation selectors that do not follow an emoji. With them a
//! tool's description could tell a model something that a person does not see.

use serde_json::Value;

/// More places are only counted.
const SHOWN_MAX: usize = 5;

/// The texts in a tool's object with hidden characters, each with its path and first hidden character:
/// `description: U+202E at 12`. At most `SHOWN_MAX`; a last line counts the others.
pub fn find_hidden_characters(object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect_hidden(object, "", &mut found);
    if found.len() > SHOWN_MAX {
        let more = found.len() - SHOWN_MAX;
        found.truncate(SHOWN_MAX);
        found.push(format!("and in {more} more places"));
    }
    found
}

/// Appends a line to `found` for each text or field name in `value` with hidden characters; `path` is that of
/// `value`.
fn collect_hidden(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.extend(describe_first_hidden(text, path)),
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, item)| collect_hidden(item, &format!("{path}[{index}]"), found));
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                let path = if path.is_empty() {
                    escape_hidden(name)
                } else {
                    format!("{path}.{}", escape_hidden(name))
                };
                found.extend(describe_first_hidden(name, &format!("{path} (its name)")));
                collect_hidden(field, &path, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The first hidden character of a text, as `path: U+202E at 12`, counted in characters. None: there is none.
fn describe_first_hidden(text: &str, path: &str) -> Option<String> {
    let (at, first) = hidden_characters(text).next()?;
    Some(format!("{path}: U+{:04X} at {at}", first as u32))
}

/// The text with every hidden character escaped as `\u{…}`, safe to print.
pub fn escape_hidden(text: &str) -> String {
    replace_hidden(text, |c| format!("\\u{{{:x}}}", c as u32))
}

/// A JSON text with every hidden character of its strings escaped as JSON escapes it: the same value, readable.
pub fn escape_hidden_in_json(json: &str) -> String {
    let escape =
        |c: char| c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>();
    replace_hidden(json, escape)
}

/// The text with every hidden character replaced.
fn replace_hidden(text: &str, replacement: impl Fn(char) -> String) -> String {
    let mut hidden = hidden_characters(text).peekable();
    if hidden.peek().is_none() {
        return text.to_owned();
    }
    let mut replaced = String::with_capacity(text.len() + 16);
    for (at, c) in text.chars().enumerate() {
        match hidden.next_if(|(hidden_at, _)| *hidden_at == at) {
            Some(_) => replaced.push_str(&replacement(c)),
            None => replaced.push(c),
        }
    }
    replaced
}

/// The hidden characters, each with its position counted in characters.
fn hidden_characters(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut before = None;
    text.chars().enumerate().filter(move |(_, c)| {
        let is_found = is_hidden(*c) && !before.is_some_and(|before| is_emoji_modifier(before, *c));
        before = Some(*c);
        is_found
    })
}

/// Whether the character is invisible or a control character; false for line breaks and tabs. True also for
/// what `is_emoji_modifier` permits after an emoji: callers exempt that.
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

/// Whether `c` is a variation selector or joiner that changes how the emoji or digit `before` is drawn.
fn is_emoji_modifier(before: char, c: char) -> bool {
    let is_modifier = matches!(c, '\u{fe0e}' | '\u{fe0f}' | '\u{200d}');
    let emoji = matches!(before, '\u{a9}' | '\u{ae}' | '\u{203c}'..='\u{3299}' | '\u{1f000}'..='\u{1faff}')
        && !is_hidden(before);
    is_modifier
        && (emoji
            || (c == '\u{200d}' && before == '\u{fe0f}')
            || (before.is_ascii_digit() && c != '\u{200d}'))
}
