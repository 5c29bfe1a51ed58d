//! Which field fits a JSON Schema, and how its limits read.

use serde_json::Value;

use super::{FieldControl, text_of};

/// A text that may be longer than this gets several lines.
const ONE_LINE_CHARS_MAX: u64 = 200;
/// More values than this are not offered as boxes to tick.
const CHOICES_MAX: usize = 40;

/// The field for a value of this schema.
pub fn control_of(schema: &Value, is_required: bool) -> FieldControl {
    if let Some(choices) = choices(schema) {
        return FieldControl::Choice(choices);
    }
    match types(schema).as_slice() {
        ["string"] => text_control(schema),
        ["integer"] => FieldControl::Number { whole: true },
        ["number"] | ["integer", "number"] | ["number", "integer"] => FieldControl::Number { whole: false },
        ["boolean"] if is_required || schema.get("default").is_some() => FieldControl::Flag,
        ["boolean"] => FieldControl::Choice(vec![
            ("true".to_owned(), "yes".to_owned()),
            ("false".to_owned(), "no".to_owned()),
        ]),
        ["array"] => list_control(schema),
        _ => FieldControl::Json,
    }
}

/// The types that a schema allows beside null, which an empty field stands for.
fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(one)) => vec![one.as_str()],
        Some(Value::Array(several)) => {
            several.iter().filter_map(Value::as_str).filter(|word| *word != "null").collect()
        }
        Some(_) | None => Vec::new(),
    }
}

fn text_control(schema: &Value) -> FieldControl {
    let length = schema.get("maxLength").and_then(Value::as_u64);
    match text_of(schema, "format") {
        Some("email") => FieldControl::Text("email"),
        Some("uri" | "url") => FieldControl::Text("url"),
        Some("date") => FieldControl::Text("date"),
        Some("textarea" | "markdown") => FieldControl::LongText,
        _ if length.is_some_and(|length| length > ONE_LINE_CHARS_MAX) => FieldControl::LongText,
        _ if schema.get("contentMediaType").is_some() => FieldControl::LongText,
        _ => FieldControl::Text("text"),
    }
}

/// A list of given values is boxes to tick, a list of texts one text a line; any other list is JSON.
fn list_control(schema: &Value) -> FieldControl {
    let Some(items) = schema.get("items") else { return FieldControl::Json };
    if let Some(choices) = choices(items).filter(|choices| choices.len() <= CHOICES_MAX) {
        return FieldControl::Choices(choices);
    }
    match types(items).as_slice() {
        ["string"] => FieldControl::Lines,
        _ => FieldControl::Json,
    }
}

/// The values that a schema lists, each as JSON and as it is shown. `None`: it lists none.
fn choices(schema: &Value) -> Option<Vec<(String, String)>> {
    let shown = |value: &Value| (value.to_string(), choice_labels(value));
    if let Some(value) = schema.get("const") {
        return Some(vec![shown(value)]);
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return Some(values.iter().map(shown).collect());
    }
    let alternatives = schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Value::as_array)?;
    let labelled = |one: &Value| {
        let value = one.get("const")?;
        Some((value.to_string(), text_of(one, "title").map_or_else(|| choice_labels(value), str::to_owned)))
    };
    alternatives.iter().map(labelled).collect()
}

/// A value as it is shown among others: a text without quotes, anything else as JSON.
pub fn choice_labels(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The limits of a value in words: `at least 1, at most 10`.
pub fn limits(schema: &Value) -> String {
    let words = [
        ("minimum", "at least"),
        ("exclusiveMinimum", "more than"),
        ("maximum", "at most"),
        ("exclusiveMaximum", "less than"),
        ("multipleOf", "a multiple of"),
        ("minLength", "characters at least"),
        ("maxLength", "characters at most"),
        ("minItems", "items at least"),
        ("maxItems", "items at most"),
        ("pattern", "matches"),
    ];
    let told = words.iter().filter_map(|(keyword, word)| {
        let limit = schema.get(*keyword).filter(|limit| limit.is_number() || limit.is_string())?;
        Some(format!("{word} {}", choice_labels(limit)))
    });
    told.collect::<Vec<_>>().join(", ")
}
