//! JSON texts from outside: of bodies and of forms.

use actbook_engine::plan::find_inexact_in_json;
use axum::http::StatusCode;
use serde_json::Value;

use super::problem::{Problem, RequestFault};

/// The value of a JSON text; `field` names where it stands in the request, empty for the whole body. Err: it is no
/// JSON, or has an integer that would lose digits.
pub fn parse_json(text: &[u8], field: &str) -> Result<Value, Problem> {
    let whole = |error: &dyn std::fmt::Display| {
        let what = if field.is_empty() { "the body" } else { field };
        Problem::new(
            StatusCode::BAD_REQUEST,
            "malformed_json",
            format!("{what} is no JSON: {error}"),
            "correct it",
        )
    };
    let text = std::str::from_utf8(text).map_err(|error| whole(&error))?;
    match find_inexact_in_json(text) {
        Some(number) => {
            let (message, cure) = number.message_and_cure();
            let pointer = format!("{field}/{}", number.path.replace('.', "/"));
            let faults = vec![RequestFault { pointer, detail: message.clone() }];
            let status = StatusCode::UNPROCESSABLE_ENTITY;
            Err(Problem { faults, ..Problem::new(status, "inexact_number", message, &cure) })
        }
        None => serde_json::from_str(text).map_err(|error| whole(&error)),
    }
}

/// The value of a JSON text in a field of a form. Err: why it has none.
pub fn read_field(text: &str) -> Result<Value, String> {
    if let Some(trouble) = inexact_number(text) {
        return Err(trouble);
    }
    serde_json::from_str(text).map_err(|error| format!("this is no JSON: {error}"))
}

/// What is wrong with the first integer of a JSON text that would lose digits, and what to write instead.
pub fn inexact_number(text: &str) -> Option<String> {
    let (message, cure) = find_inexact_in_json(text)?.message_and_cure();
    Some(format!("{message}; {cure}"))
}
