//! Renders what a tool asks for as text: its messages and the fields of its forms.

use super::quote::{self, quoted};
use super::view::QUOTE_CHARS_MAX;
use crate::tools::{AskedInput, InputField, RequestedInput};

const NAME_CHARS_MAX: usize = 60;

/// What a tool asks for, as the end of a sentence that begins "Step `x` asks": a colon and the requests, or
/// that it asks to be called again if there are none.
pub fn tool_request_text(asked: Option<&AskedInput>) -> String {
    let texts: Vec<String> = asked.into_iter().flat_map(|asked| &asked.requests).map(request_text).collect();
    if texts.is_empty() { " to be called again.".to_owned() } else { format!(": {}", texts.join("; ")) }
}

/// One request of a tool: its message, its key, and the fields of its form or the address to open.
fn request_text(request: &RequestedInput) -> String {
    let message = request.message.as_deref();
    let message = message
        .map_or("something that only a model can answer".to_owned(), |text| quoted(text, QUOTE_CHARS_MAX));
    let key = quote::line(&request.key, NAME_CHARS_MAX);
    let fields: Vec<String> = request.fields.iter().map(field_text).collect();
    match (fields.is_empty(), &request.url) {
        (true, Some(url)) => format!("{message} [{key}: open {}]", quoted(url, QUOTE_CHARS_MAX)),
        (true, None) => format!("{message} [{key}]"),
        (false, _) => format!("{message} [{key}: {}]", quote::line(&fields.join(", "), QUOTE_CHARS_MAX)),
    }
}

/// A field of a form: `name (string, optional)`.
fn field_text(field: &InputField) -> String {
    let optional = if field.is_optional { ", optional" } else { "" };
    format!("{} ({}{optional})", field.name, field.kind)
}
