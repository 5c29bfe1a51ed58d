//! Reading a map of the document field by field. Every field that is there is known, has its type
//! and its range, or is named in the findings with its place and the nearest thing that would do.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde_json::{Map, Value};

use super::duration::{duration_text, parse_duration_ms};
use super::finding::{At, Findings};
use crate::bind::{Condition, Template};
use crate::spelling::nearest;

pub(super) const TEXT_BYTES_MAX: usize = 16 << 10;
/// A month: longer than any call or any execution should hang.
pub(super) const DURATION_MS_MAX: u64 = 31 * 24 * 3_600_000;

pub(super) struct Fields<'v, 'a> {
    map: &'v Map<String, Value>,
    pub at: &'a At<'a>,
}

impl<'v, 'a> Fields<'v, 'a> {
    /// The map at `at`, its unknown fields reported; nothing where there is no map.
    pub fn open(value: &'v Value, at: &'a At<'a>, known: &[&str], found: &mut Findings) -> Option<Self> {
        let Value::Object(map) = value else {
            wrong_type(at, value, "a map", found);
            return None;
        };
        for name in map.keys().filter(|name| !known.contains(&name.as_str())) {
            let cure = match nearest(name, known.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("known are {}", known.join(", ")),
            };
            found.error("unknown_field", at.field(name), format!("there is no field `{name}`"), cure);
        }
        Some(Self { map, at })
    }

    pub fn has(&self, name: &str) -> bool {
        self.map.contains_key(name)
    }

    /// The field's value. An empty one is reported: nobody can tell what was meant.
    pub fn value(&self, name: &str, found: &mut Findings) -> Option<&'v Value> {
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

    pub fn required(&self, name: &str, found: &mut Findings) -> Option<&'v Value> {
        if !self.has(name) {
            found.error(
                "missing_field",
                self.at.field(name),
                format!("`{name}` is missing"),
                format!("add `{name}`"),
            );
        }
        self.value(name, found)
    }

    pub fn text(&self, name: &str, found: &mut Findings) -> Option<&'v str> {
        let value = self.value(name, found)?;
        self.text_of(name, value, found)
    }

    pub fn required_text(&self, name: &str, found: &mut Findings) -> Option<&'v str> {
        let value = self.required(name, found)?;
        self.text_of(name, value, found)
    }

    fn text_of(&self, name: &str, value: &'v Value, found: &mut Findings) -> Option<&'v str> {
        let at = self.at.field(name);
        let Value::String(text) = value else {
            wrong_type(&at, value, "a text", found);
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

    pub fn owned_text(&self, name: &str, found: &mut Findings) -> Option<String> {
        self.text(name, found).map(str::to_owned)
    }

    pub fn flag(&self, name: &str, found: &mut Findings) -> bool {
        match self.value(name, found) {
            None => false,
            Some(Value::Bool(flag)) => *flag,
            Some(other) => {
                wrong_type(&self.at.field(name), other, "true or false", found);
                false
            }
        }
    }

    pub fn whole(&self, name: &str, range: RangeInclusive<i64>, found: &mut Findings) -> Option<i64> {
        let value = self.value(name, found)?;
        let at = self.at.field(name);
        let Some(number) = value.as_number().filter(|number| !number.is_f64()) else {
            wrong_type(&at, value, "a whole number", found);
            return None;
        };
        let inside = number.as_i64().filter(|number| range.contains(number));
        if inside.is_none() {
            out_of_range(&at, number, range.start(), range.end(), found);
        }
        inside
    }

    pub fn number(&self, name: &str, range: RangeInclusive<f64>, found: &mut Findings) -> Option<f64> {
        let value = self.value(name, found)?;
        let at = self.at.field(name);
        let Some(number) = value.as_f64() else {
            wrong_type(&at, value, "a number", found);
            return None;
        };
        let inside = Some(number).filter(|number| range.contains(number));
        if inside.is_none() {
            out_of_range(&at, number, range.start(), range.end(), found);
        }
        inside
    }

    pub fn duration(&self, name: &str, least_ms: u64, found: &mut Findings) -> Option<u64> {
        let value = self.value(name, found)?;
        let at = self.at.field(name);
        let Some(ms) = value.as_str().and_then(parse_duration_ms) else {
            let cure = match value {
                Value::Number(number) => format!("add the unit: {number}s, or {number}ms"),
                _ => "write a whole number and its unit: 250ms, 30s, 5m, 2h".to_owned(),
            };
            found.error("bad_duration", at, format!("{value} is no duration"), cure);
            return None;
        };
        if !(least_ms..=DURATION_MS_MAX).contains(&ms) {
            out_of_range(
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

    /// One of a closed set of words.
    pub fn word<T: FromStr + Copy + Display>(
        &self,
        name: &str,
        known: &[T],
        found: &mut Findings,
    ) -> Option<T> {
        let value = self.value(name, found)?;
        word_of(value, &self.at.field(name), known, found)
    }

    pub fn list(&self, name: &str, found: &mut Findings) -> &'v [Value] {
        match self.value(name, found) {
            None => &[],
            Some(Value::Array(items)) => items,
            Some(other) => {
                wrong_type(&self.at.field(name), other, "a list", found);
                &[]
            }
        }
    }

    /// Step ids, each with its place in the list.
    pub fn ids(&self, name: &str, found: &mut Findings) -> Vec<(usize, String)> {
        let mut ids = Vec::new();
        for (index, item) in self.list(name, found).iter().enumerate() {
            match item {
                Value::String(id) => ids.push((index, id.clone())),
                other => wrong_type(&self.at.field(name).item(index), other, "a step's id", found),
            }
        }
        ids
    }

    /// A tool's arguments: a map whose texts may hold expressions.
    pub fn arguments(&self, name: &str, found: &mut Findings) -> Template {
        let none = || Template::of_literal(Value::Object(Map::new()));
        let Some(value) = self.value(name, found) else { return none() };
        let at = self.at.field(name);
        if !value.is_object() {
            wrong_type(&at, value, "a map", found);
            return none();
        }
        template(value, &at, found).unwrap_or_else(none)
    }

    pub fn condition(&self, name: &str, found: &mut Findings) -> Option<Condition> {
        let value = self.value(name, found)?;
        let at = self.at.field(name);
        let parsed = match value {
            Value::String(text) => Condition::parse(text),
            Value::Bool(flag) => Condition::parse(&flag.to_string()),
            other => {
                wrong_type(&at, other, "an expression", found);
                return None;
            }
        };
        parsed.map_err(|error| bad_expression(&at.to_string(), &error.message, found)).ok()
    }
}

/// A refused expression says what is wrong, and often after a semicolon what to do.
fn bad_expression(path: &str, message: &str, found: &mut Findings) {
    const CURE: &str = "in scope are inputs, steps.<id>.output, steps.<id>.status and execution.id";
    let (message, cure) = message.rsplit_once("; ").unwrap_or((message, CURE));
    found.error("bad_expression", path, message, cure);
}

pub(super) fn template(value: &Value, at: &At<'_>, found: &mut Findings) -> Option<Template> {
    match Template::parse(value) {
        Ok(template) => Some(template),
        Err(error) => {
            bad_expression(&at.within(&error.path), &error.message, found);
            None
        }
    }
}

pub(super) fn word_of<T: FromStr + Copy + Display>(
    value: &Value,
    at: &At<'_>,
    known: &[T],
    found: &mut Findings,
) -> Option<T> {
    let word = value.as_str().and_then(|text| text.parse().ok());
    if word.is_none() {
        let known: Vec<String> = known.iter().map(T::to_string).collect();
        let meant = value.as_str().and_then(|text| nearest(text, known.iter().map(String::as_str)));
        let cure = match meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("write {}", known.join(", or ")),
        };
        found.error("unknown_word", at, format!("{value} is no word known here"), cure);
    }
    word
}

pub(super) fn wrong_type(at: &At<'_>, value: &Value, wanted: &str, found: &mut Findings) {
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

fn out_of_range(
    at: &At<'_>,
    given: impl Display,
    least: impl Display,
    most: impl Display,
    found: &mut Findings,
) {
    found.error("out_of_range", at, format!("{given} is out of range"), format!("write {least} to {most}"));
}
