//! Limits the size of a JSON Schema, of a plan's inputs or of a tool's arguments, before a validator uses it.
//! References that double one another, or refer to themselves, could make a validator run for ever: 2^n
//! values from n lines. So references must stay within the schema, form no cycle, and expand to a bounded
//! size.

use std::collections::BTreeMap;

use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;

use crate::bind::with_large_stack;

/// Most values in a schema, each counted as often as it is referred to.
const SCHEMA_VALUES_MAX: usize = 100_000;
/// Longest chain of references that lead to one another.
const REFERENCES_MAX: usize = 32;
/// Keywords for other kinds of references, which the count does not follow; they are refused.
const REFUSED_KEYWORDS: [&str; 5] =
    ["$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef", "$vocabulary"];

/// Compiles an untrusted schema of whichever draft it names; `Err` says why it cannot be used. Nothing is
/// fetched.
pub fn compile(schema: &Value) -> Result<Validator, String> {
    check_size(schema)?;
    let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
    with_large_stack(|| options.build(schema)).map_err(|error| error.to_string())
}

/// Compiles a schema of draft 2020-12 whose size was checked. Patterns run in linear time, so that no input
/// can stall validation.
pub(crate) fn compile_checked(schema: &Value) -> Result<Validator, ValidationError<'static>> {
    jsonschema::draft202012::options().with_pattern_options(PatternOptions::regex()).build(schema)
}

/// Checks the schema's size and references; `Err` is the message and, after the last semicolon, the cure.
pub(crate) fn check_size(schema: &Value) -> Result<(), String> {
    let mut measure = SchemaSizeCounter { schema, counted: BTreeMap::new(), reference_chain: Vec::new() };
    measure.count_values(schema, true).map(drop)
}

/// Counts the values of a schema with its references expanded.
struct SchemaSizeCounter<'a> {
    schema: &'a Value,
    /// The number of values behind each reference that was counted.
    counted: BTreeMap<&'a str, usize>,
    /// The chain of references that is being followed.
    reference_chain: Vec<&'a str>,
}

impl<'a> SchemaSizeCounter<'a> {
    /// The number of values in `value`, references expanded; `Err` where a limit is exceeded.
    fn count_values(&mut self, value: &'a Value, outermost: bool) -> Result<usize, String> {
        let mut count = 1;
        match value {
            Value::Array(items) => {
                for item in items {
                    count += self.count_values(item, false)?;
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    let anchored = REFUSED_KEYWORDS.contains(&name.as_str()) || (name == "$id" && !outermost);
                    if anchored && field.is_string() {
                        return Err(format!(
                            "`{name}` is not supported in inputs; refer with `$ref: \"#/$defs/…\"`"
                        ));
                    }
                    count += match field.as_str() {
                        Some(reference) if name == "$ref" => self.count_reference(reference)?,
                        Some(_) | None => self.count_values(field, false)?,
                    };
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        if count <= SCHEMA_VALUES_MAX {
            Ok(count)
        } else {
            Err(format!("its references add up to more than {SCHEMA_VALUES_MAX} values; refer less often"))
        }
    }

    /// The number of values behind a reference, counted once for each target.
    fn count_reference(&mut self, reference: &'a str) -> Result<usize, String> {
        if let Some(count) = self.counted.get(reference) {
            return Ok(*count);
        }
        if self.reference_chain.contains(&reference) {
            return Err(format!("`{reference}` refers to itself; write the levels out"));
        }
        if self.reference_chain.len() >= REFERENCES_MAX {
            return Err(format!("more than {REFERENCES_MAX} references form one chain; refer directly"));
        }
        let pointer = reference.strip_prefix('#').filter(|pointer| !pointer.contains('%'));
        let target = pointer.and_then(|pointer| self.schema.pointer(pointer));
        let Some(target) = target else {
            return Err(format!("`{reference}` is not in the schema; refer with `#/$defs/…`"));
        };
        self.reference_chain.push(reference);
        let count = self.count_values(target, std::ptr::eq(target, self.schema));
        self.reference_chain.pop();
        self.counted.insert(reference, count.clone()?);
        count
    }
}
