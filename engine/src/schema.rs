//! A JSON Schema, of a plan's inputs or of a tool's arguments, measured before anybody runs it. A few
//! references that double one another, or refer to themselves, make a validator work for ever: 2^n from
//! n lines. So a schema may refer only within itself, not in circles, and only as often as can be counted.

use std::collections::BTreeMap;

use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;

use crate::bind::with_room;

/// Values in the schema, each counted as often as it is referred to.
const SCHEMA_VALUES_MAX: usize = 100_000;
/// References that lead on to further references.
const REFERENCES_MAX: usize = 32;
/// Other ways to refer, which would escape the count.
const REFUSED: [&str; 5] = ["$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef", "$vocabulary"];

/// A validator of a schema that somebody else wrote, of whichever draft it names. Nothing is fetched.
pub fn compile(schema: &Value) -> Result<Validator, String> {
    measured(schema)?;
    let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
    with_room(|| options.build(schema)).map_err(|error| error.to_string())
}

/// Patterns run in linear time: a plan cannot hang its reader.
pub(crate) fn validator(schema: &Value) -> Result<Validator, ValidationError<'static>> {
    jsonschema::draft202012::options().with_pattern_options(PatternOptions::regex()).build(schema)
}

pub(crate) fn measured(schema: &Value) -> Result<(), String> {
    let mut measure = Measure { schema, known: BTreeMap::new(), trail: Vec::new() };
    measure.values(schema, true).map(drop)
}

struct Measure<'a> {
    schema: &'a Value,
    /// What each reference adds.
    known: BTreeMap<&'a str, usize>,
    /// The references being followed.
    trail: Vec<&'a str>,
}

impl<'a> Measure<'a> {
    fn values(&mut self, value: &'a Value, outermost: bool) -> Result<usize, String> {
        let mut count = 1;
        match value {
            Value::Array(items) => {
                for item in items {
                    count += self.values(item, false)?;
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    let anchored = REFUSED.contains(&name.as_str()) || (name == "$id" && !outermost);
                    if anchored && field.is_string() {
                        return Err(format!(
                            "`{name}` is not taken in inputs; refer with `$ref: \"#/$defs/…\"`"
                        ));
                    }
                    count += match field.as_str() {
                        Some(reference) if name == "$ref" => self.referred(reference)?,
                        Some(_) | None => self.values(field, false)?,
                    };
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        match count <= SCHEMA_VALUES_MAX {
            true => Ok(count),
            false => Err(format!(
                "its references add up to more than {SCHEMA_VALUES_MAX} values; refer less often"
            )),
        }
    }

    fn referred(&mut self, reference: &'a str) -> Result<usize, String> {
        if let Some(count) = self.known.get(reference) {
            return Ok(*count);
        }
        if self.trail.contains(&reference) {
            return Err(format!("`{reference}` refers to itself; write the levels out"));
        }
        if self.trail.len() >= REFERENCES_MAX {
            return Err(format!(
                "more than {REFERENCES_MAX} references lead on to one another; refer directly"
            ));
        }
        let pointer = reference.strip_prefix('#').filter(|pointer| !pointer.contains('%'));
        let target = pointer.and_then(|pointer| self.schema.pointer(pointer));
        let Some(target) = target else {
            return Err(format!("`{reference}` is not in the schema; refer with `#/$defs/…`"));
        };
        self.trail.push(reference);
        let count = self.values(target, std::ptr::eq(target, self.schema));
        self.trail.pop();
        self.known.insert(reference, count.clone()?);
        count
    }
}
