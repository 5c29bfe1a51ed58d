//! Text from outside (what tools, plans, notes, reasons and callers say) as it may stand inside Actbook's own
//! text. Every function here returns text of which no line can be taken for one of ours: a quotation stays
//! on its line, or each of its lines is marked.

use std::borrow::Cow;

use actbook_engine::analysis;
use serde_json::Value;

use crate::error::Error;
use crate::tools::visible;

/// A longer name is cut.
const NAME_CHARS_MAX: usize = 120;
/// Begins every line of a block. None of Actbook's own lines begins so.
const MARK: &str = "\n  | ";

/// The text on one line: line ends and hidden characters are written out, and what is longer than
/// `chars_max` is cut, with its size.
pub fn line(text: &str, chars_max: usize) -> String {
    let (kept, cut) = cut(text, chars_max);
    one_line(kept) + &cut
}

/// The text on one line between double quotes; quotes inside are escaped.
pub fn quoted(text: &str, chars_max: usize) -> String {
    let (kept, cut) = cut(text, chars_max);
    format!("\"{}\"{cut}", one_line(kept).replace('"', "\\\""))
}

/// A name between backticks, none of which can be its own.
pub fn name(text: &str) -> String {
    format!("`{}`", line(text, NAME_CHARS_MAX).replace('`', "'"))
}

/// Refuses a name or title, given as `field`, that could pass for other words where it is shown.
pub(super) fn plain_name(field: &str, name: &str) -> Result<(), Error> {
    let Some(trouble) = analysis::name_trouble(name) else { return Ok(()) };
    let message = format!("`{field}` holds {trouble}");
    let error = Error::new("invalid_name", message, "use one line of plain text");
    Err(Error { path: Some(field.to_owned()), ..error })
}

/// The text as lines of its own, each of them marked; the first begins with a line end.
pub fn block(text: &str, chars_max: usize) -> String {
    let (kept, cut) = cut(text, chars_max);
    let lines = kept.split('\n').map(|line| visible(&line.replace('\r', "\\r")));
    let mut block: String = lines.flat_map(|line| [MARK.to_owned(), line]).collect();
    block.push_str(&cut);
    block
}

/// What a value says: text as it is, anything else as JSON.
pub fn readable(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        // A tool that has no structured output gives its text so.
        Value::Object(fields) if fields.len() == 1 && fields.get("text").is_some_and(Value::is_string) => {
            Cow::Borrowed(fields["text"].as_str().unwrap_or_default())
        }
        other => Cow::Owned(other.to_string()),
    }
}

/// The first `chars_max` characters, and a remark on what was cut off.
fn cut(text: &str, chars_max: usize) -> (&str, String) {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => {
            (&text[..end], format!("… (cut: {chars_max} of {} characters)", text.chars().count()))
        }
        None => (text, String::new()),
    }
}

fn one_line(text: &str) -> String {
    visible(text).replace('\n', "\\n").replace('\r', "\\r").replace('\t', " ")
}
