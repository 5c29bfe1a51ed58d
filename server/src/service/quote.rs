//! Quotes text from outside (from tools, plans, notes, reasons and callers) inside Actbook's own text. No
//! line of what a function here returns can pass for a line of Actbook: a quotation stays on one line, or
//! each of its lines is marked.

use std::borrow::Cow;

use actbook_engine::analysis;
use serde_json::Value;

use crate::error::Error;
use crate::tools::escape_hidden;

/// A longer name is truncated.
const NAME_CHARS_MAX: usize = 120;
const ACTOR_CHARS_MAX: usize = 400;
/// Begins every line of a block. None of Actbook's own lines begins with it.
const MARK: &str = "\n  | ";

/// The text on one line: line breaks and hidden characters are escaped, and a text longer than `chars_max` is
/// truncated and its size stated.
pub fn line(text: &str, chars_max: usize) -> String {
    let (kept, cut) = truncate(text, chars_max);
    one_line(kept) + &cut
}

/// Like `line`, between double quotes; quotes inside are escaped.
pub fn quoted(text: &str, chars_max: usize) -> String {
    let (kept, cut) = truncate(text, chars_max);
    format!("\"{}\"{cut}", one_line(kept).replace('"', "\\\""))
}

/// A name on one line between backticks; backticks inside are replaced.
pub fn name(text: &str) -> String {
    format!("`{}`", line(text, NAME_CHARS_MAX).replace('`', "'"))
}

/// A tool's name: as it is if it has only the characters that most names have, else between double quotes. A client
/// names the tools of its session, and such a name could go on as our own sentence.
pub fn tool(name: &str) -> String {
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "/_-.:".contains(c));
    if is_plain { line(name, NAME_CHARS_MAX) } else { quoted(name, NAME_CHARS_MAX) }
}

/// An actor, written `agent:x`, as its kind and its quoted name: `agent "x"`. The name is the client's own
/// word.
pub fn actor(actor: &str) -> String {
    match actor.split_once(':') {
        Some((kind, name)) => format!("{} {}", line(kind, NAME_CHARS_MAX), quoted(name, ACTOR_CHARS_MAX)),
        None => quoted(actor, ACTOR_CHARS_MAX),
    }
}

/// Refuses a name or title, given as `field`, that could pass for Actbook's own text where it is shown.
pub(super) fn require_plain_name(field: &'static str, name: &str) -> Result<(), Error> {
    match analysis::forbidden_character(name) {
        Some(trouble) => Err(Error::InvalidName { field, trouble }),
        None => Ok(()),
    }
}

/// The text as separate lines, each of them marked with `MARK`; begins with a line break. A text longer than
/// `chars_max` is truncated.
pub fn block(text: &str, chars_max: usize) -> String {
    let (kept, cut) = truncate(text, chars_max);
    let lines = kept.split('\n').map(|line| escape_hidden(&line.replace('\r', "\\r")));
    let mut block: String = lines.flat_map(|line| [MARK.to_owned(), line]).collect();
    block.push_str(&cut);
    block
}

/// A value as text: a string, or the string in `{"text": …}` (the output of a tool without structured
/// content), as it is; anything else as JSON.
pub fn readable(value: &Value) -> Cow<'_, str> {
    only_text(value).map_or_else(|| Cow::Owned(value.to_string()), Cow::Borrowed)
}

/// The text of a value that is a string or `{"text": …}`; `None` for any other value.
pub fn only_text(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => Some(text),
        Value::Object(fields) if fields.len() == 1 => fields.get("text")?.as_str(),
        Value::Object(_) | Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// The first `chars_max` characters, and a remark on what was cut off; the remark is empty if nothing was.
fn truncate(text: &str, chars_max: usize) -> (&str, String) {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => {
            (&text[..end], format!("… (cut: {chars_max} of {} characters)", text.chars().count()))
        }
        None => (text, String::new()),
    }
}

/// The text with line breaks and hidden characters escaped, and tabs as spaces.
fn one_line(text: &str) -> String {
    escape_hidden(text).replace('\n', "\\n").replace('\r', "\\r").replace('\t', " ")
}
