//! Reads a map of the document field by field. Each field that is unknown, of the wrong type or out of range
//! is reported with its path and the nearest valid name or value.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde_json::{Map, Value};

use super::duration::{duration_text, parse_duration_ms};
use super::finding::{DocumentPath, FindingCollector};
use crate::bind::{ConditionExpression, ValueTemplate};
use crate::spelling::nearest;

/// Longest text field, in bytes.
pub(super) const TEXT_BYTES_MAX: usize = 16 << 10;
/// Longest duration, in milliseconds: 31 days.
pub(super) const DURATION_MS_MAX: u64 = 31 * 24 * 3_600_000;

/// Typed access to the fields of one map. A method returns `None` or a default where the field is absent or
/// wrong, and reports the latter.
pub(super) struct FieldReader<'v, 'a> {
    map: &'v Map<String, Value>,
    /// The map's location in the document.
    pub at: &'a DocumentPath<'a>,
    /// The known fields that unknown ones are probably meant to be.
    misspelt: Vec<String>,
}

impl<'v, 'a> FieldReader<'v, 'a> {
    /// A reader of the map at `at`. Reports fields that are not in `known`; `None` where `value` is no map.
    pub fn open(
        value: &'v Value,
        at: &'a DocumentPath<'a>,
        known: &[&str],
        found: &mut FindingCollector,
    ) -> Option<Self> {
        let Value::Object(map) = value else {
            report_wrong_type(at, value, "a map", found);
            return None;
        };
        let mut misspelt = Vec::new();
        for name in map.keys().filter(|name| !known.contains(&name.as_str())) {
            let meant = nearest(name, known.iter().copied());
            misspelt.extend(meant.map(str::to_owned));
            let cure = match meant {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("known are {}", known.join(", ")),
            };
            found.error("unknown_field", at.field(name), format!("there is no field `{name}`"), cure);
        }
        Some(Self { map, at, misspelt })
    }

    pub fn has(&self, name: &str) -> bool {
        self.map.contains_key(name)
    }

    /// Whether the field is absent, and no unknown field is probably meant to be it: that one was reported.
    pub fn lacks(&self, name: &str) -> bool {
        !self.has(name) && !self.misspelt.iter().any(|meant| meant == name)
    }

    /// The field's value. Null is reported as an error, because its meaning would be ambiguous.
    pub fn value(&self, name: &str, found: &mut FindingCollector) -> Option<&'v Value> {
        match self.map.get(name) {
            Some(Value::Null) => {
                found.error(
                    "wrong_type",
                    self.at.field(name),
                    "is empty",
                    "give it a value, or leave the field out",
                );
                None
            }
            other => other,
        }
    }

    /// The field's value, reported where it is missing or null.
    pub fn required(&self, name: &str, found: &mut FindingCollector) -> Option<&'v Value> {
        if self.lacks(name) {
            found.error(
                "missing_field",
                self.at.field(name),
                format!("`{name}` is missing"),
                format!("add `{name}`"),
            );
        }
        self.value(name, found)
    }

    /// An optional text field.
    pub fn text(&self, name: &str, found: &mut FindingCollector) -> Option<&'v str> {
        let value = self.value(name, found)?;
        self.check_text(name, value, found)
    }

    /// A text field, reported where it is missing.
    pub fn required_text(&self, name: &str, found: &mut FindingCollector) -> Option<&'v str> {
        let value = self.required(name, found)?;
        self.check_text(name, value, found)
    }

    /// The value as a text that is not blank and at most `TEXT_BYTES_MAX` long.
    fn check_text(&self, name: &str, value: &'v Value, found: &mut FindingCollector) -> Option<&'v str> {
        let at = self.at.field(name);
        let Value::String(text) = value else {
            report_wrong_type(&at, value, "a text", found);
            return None;
        };
        match text.trim().len() {
            0 => found.error("wrong_type", at, "is an empty text", "write something"),
            1..=TEXT_BYTES_MAX => return Some(text),
            _ => found.error(
                "out_of_range",
                at,
                format!("is longer than {TEXT_BYTES_MAX} bytes"),
                "shorten it",
            ),
        }
        None
    }

    pub fn owned_text(&self, name: &str, found: &mut FindingCollector) -> Option<String> {
        self.text(name, found).map(str::to_owned)
    }

    /// A boolean field; false where it is absent.
    pub fn bool_or_false(&self, name: &str, found: &mut FindingCollector) -> bool {
        match self.value(name, found) {
            None => false,
            Some(Value::Bool(flag)) => *flag,
            Some(other) => {
                report_wrong_type(&self.at.field(name), other, "true or false", found);
                false
            }
        }
    }

    /// An integer field within `range`.
    pub fn integer(
        &self,
        name: &str,
        range: RangeInclusive<i64>,
        found: &mut FindingCollector,
    ) -> Option<i64> {
        let value = self.value(name, found)?;
        let at = self.at.field(name);
        let Some(number) = value.as_number().filter(|number| !number.is_f64()) else {
            report_wrong_type(&at, value, "a whole number", found);
            return None;
        };
        let inside = number.as_i64().filter(|number| range.contains(number));
        if inside.is_none() {
            report_out_of_range(&at, number, range.start(), range.end(), found);
        }
        inside
    }

    /// A number field within `range`.
    pub fn number(
        &self,
        name: &str,
        range: RangeInclusive<f64>,
        found: &mut FindingCollector,
    ) -> Option<f64> {
        let value = self.value(name, found)?;
        let at = self.at.field(name);
        let Some(number) = value.as_f64() else {
            report_wrong_type(&at, value, "a number", found);
            return None;
        };
        let inside = Some(number).filter(|number| range.contains(number));
        if inside.is_none() {
            report_out_of_range(&at, number, range.start(), range.end(), found);
        }
        inside
    }

    /// A duration field such as `30s`, as milliseconds from `least_ms` to `DURATION_MS_MAX`. `None`: it is missing,
    /// or invalid and reported in `found`.
    pub fn duration_ms(&self, name: &str, least_ms: u64, found: &mut FindingCollector) -> Option<u64> {
        let value = self.value(name, found)?;
        let at = self.at.field(name);
        let Some(ms) = value.as_str().and_then(parse_duration_ms) else {
            let cure = match value {
                Value::Number(number) => format!("add the unit: {number}s, or {number}ms"),
                _ => "write a whole number and its unit: 250ms, 30s, 5m, 2h".to_owned(),
            };
            found.error("bad_duration", at, format!("{value} is not a duration"), cure);
            return None;
        };
        if !(least_ms..=DURATION_MS_MAX).contains(&ms) {
            report_out_of_range(
                &at,
                duration_text(ms),
                duration_text(least_ms),
                duration_text(DURATION_MS_MAX),
                found,
            );
            return None;
        }
        Some(ms)
    }

    /// A field whose value is one of the `known` keywords.
    pub fn keyword<T: FromStr + Copy + Display>(
        &self,
        name: &str,
        known: &[T],
        found: &mut FindingCollector,
    ) -> Option<T> {
        let value = self.value(name, found)?;
        parse_keyword(value, &self.at.field(name), known, found)
    }

    /// A list field; empty where it is absent.
    pub fn list(&self, name: &str, found: &mut FindingCollector) -> &'v [Value] {
        match self.value(name, found) {
            None => &[],
            Some(Value::Array(items)) => items,
            Some(other) => {
                report_wrong_type(&self.at.field(name), other, "a list", found);
                &[]
            }
        }
    }

    /// A list of step ids, each with its index in the document's list.
    pub fn step_ids(&self, name: &str, found: &mut FindingCollector) -> Vec<(usize, String)> {
        let mut ids = Vec::new();
        for (index, item) in self.list(name, found).iter().enumerate() {
            match item {
                Value::String(id) => ids.push((index, id.clone())),
                other => report_wrong_type(&self.at.field(name).item(index), other, "a step's id", found),
            }
        }
        ids
    }

    /// A tool's arguments: a map whose texts may hold expressions; an empty map where absent or wrong.
    pub fn arguments(&self, name: &str, found: &mut FindingCollector) -> ValueTemplate {
        let none = || ValueTemplate::from_literal(Value::Object(Map::new()));
        let Some(value) = self.value(name, found) else { return none() };
        let at = self.at.field(name);
        if !value.is_object() {
            report_wrong_type(&at, value, "a map", found);
            return none();
        }
        parse_template(value, &at, found)
    }

    /// A condition: an expression, or `true` or `false`.
    pub fn condition(&self, name: &str, found: &mut FindingCollector) -> Option<ConditionExpression> {
        let value = self.value(name, found)?;
        let at = self.at.field(name);
        let parsed = match value {
            Value::String(text) => ConditionExpression::parse(text),
            Value::Bool(flag) => ConditionExpression::parse(&flag.to_string()),
            other => {
                report_wrong_type(&at, other, "an expression", found);
                return None;
            }
        };
        parsed.map_err(|error| report_bad_expression(&at.to_string(), &error.message, found)).ok()
    }
}

/// Reports an expression that does not parse. Its message may hold the cure, after the last semicolon.
fn report_bad_expression(path: &str, message: &str, found: &mut FindingCollector) {
    const CURE: &str = "in scope are inputs, steps.<id>.output, steps.<id>.status and execution.id";
    let (message, cure) = message.rsplit_once("; ").unwrap_or((message, CURE));
    found.error("bad_expression", path, message, cure);
}

/// Parses a value whose texts may hold expressions, and reports every one that does not parse.
pub(super) fn parse_template(
    value: &Value,
    at: &DocumentPath<'_>,
    found: &mut FindingCollector,
) -> ValueTemplate {
    let (template, errors) = ValueTemplate::parse_draft(value);
    for error in errors {
        report_bad_expression(&at.join(&error.path), &error.message, found);
    }
    template
}

/// Parses one of the `known` keywords; `None` for anything else, which is reported.
pub(super) fn parse_keyword<T: FromStr + Copy + Display>(
    value: &Value,
    at: &DocumentPath<'_>,
    known: &[T],
    found: &mut FindingCollector,
) -> Option<T> {
    let word = value.as_str().and_then(|text| text.parse().ok());
    if word.is_none() {
        let known: Vec<String> = known.iter().map(T::to_string).collect();
        let meant = value.as_str().and_then(|text| nearest(text, known.iter().map(String::as_str)));
        let cure = match meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("write {}", known.join(", or ")),
        };
        found.error("unknown_word", at, format!("{value} is not a known value"), cure);
    }
    word
}

/// Reports a value of the wrong type. `wanted` names the right one, as in `a map`.
pub(super) fn report_wrong_type(
    at: &DocumentPath<'_>,
    value: &Value,
    wanted: &str,
    found: &mut FindingCollector,
) {
    let given = match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    };
    found.error("wrong_type", at, format!("is {given}, not {wanted}"), format!("write {wanted}"));
}

fn report_out_of_range(
    at: &DocumentPath<'_>,
    given: impl Display,
    least: impl Display,
    most: impl Display,
    found: &mut FindingCollector,
) {
    found.error("out_of_range", at, format!("{given} is out of range"), format!("write {least} to {most}"));
}
