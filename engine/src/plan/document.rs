//! Reads a plan's text, YAML or JSON, into one JSON value, and writes that value in canonical form. Strict:
//! ambiguous text is refused. Knows nothing of the fields of a plan.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::UserMessageFormatter;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::DuplicateKeyPolicy;

use super::finding::{DocumentPath, Finding};
use super::inexact_number::{InexactNumber, find_inexact_in_json, find_inexact_in_yaml};
use crate::chain::with_sorted_keys;

/// Longest plan, in bytes, as written and in canonical form.
pub const DOCUMENT_BYTES_MAX: usize = 4 << 20;
/// Deepest nesting of values in a plan.
pub const DOCUMENT_DEPTH_MAX: usize = 64;
/// Most YAML nodes in one document.
const NODES_MAX: usize = 1_000_000;
/// Most YAML aliases in one document.
const ALIASES_MAX: usize = 1_000;

/// Parses a YAML or JSON document; `Err` says what is wrong with its text.
pub fn read_document(text: &str) -> Result<Value, Finding> {
    if text.len() > DOCUMENT_BYTES_MAX {
        return Err(too_long_error());
    }
    if looks_like_json(text) { read_json(text) } else { read_yaml(text) }
}

/// Whether the text is JSON rather than a YAML flow map, whose keys are usually not quoted.
fn looks_like_json(text: &str) -> bool {
    text.trim_start().strip_prefix('{').is_some_and(|inside| inside.trim_start().starts_with(['"', '}']))
}

/// The document as it is stored and digested: compact JSON with sorted keys. `Err`: too deep or too long.
pub(super) fn canonical_json(value: &Value) -> Result<String, Finding> {
    check_depth(value, DOCUMENT_DEPTH_MAX)?;
    let text = with_sorted_keys(value).to_string();
    if text.len() <= DOCUMENT_BYTES_MAX { Ok(text) } else { Err(too_long_error()) }
}

fn too_long_error() -> Finding {
    let message = format!("the plan is longer than {} MiB", DOCUMENT_BYTES_MAX >> 20);
    Finding::error("too_long", DocumentPath::Plan, message, "keep large values in files and pass their names")
}

fn read_json(text: &str) -> Result<Value, Finding> {
    let StrictValue(value) = serde_json::from_str(text).map_err(|error| {
        unreadable_error(error.line() as u64, error.column() as u64, without_location(&error.to_string()))
    })?;
    refuse_inexact(value, find_inexact_in_json(text))
}

/// Returns `value`, or the error about an integer that parsing did not keep exactly.
fn refuse_inexact(value: Value, inexact: Option<InexactNumber>) -> Result<Value, Finding> {
    inexact.map_or(Ok(value), |number| Err(number.into_finding()))
}

fn read_yaml(text: &str) -> Result<Value, Finding> {
    let budget = serde_saphyr::budget! {
        max_depth: DOCUMENT_DEPTH_MAX,
        flow_nesting_limit: DOCUMENT_DEPTH_MAX,
        max_nodes: NODES_MAX,
        max_events: NODES_MAX * 2,
        max_aliases: ALIASES_MAX,
        max_documents: 1,
    };
    let options = serde_saphyr::options! {
        budget: budget,
        duplicate_keys: DuplicateKeyPolicy::Error,
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    let StrictValue(value) = serde_saphyr::from_str_with_options(text, options.clone()).map_err(|error| {
        let (line, column) = error.location().map_or((0, 0), |at| (at.line(), at.column()));
        unreadable_error(line, column, yaml_message(&error))
    })?;
    let inexact = find_inexact_in_yaml(text, options, &value);
    refuse_inexact(value, inexact)
}

/// The error's message in this program's words, without the line and column.
pub fn yaml_message(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error;
    let mut error = error.without_snippet();
    // An error behind an alias is wrapped together with the locations of alias and anchor.
    while let Error::AliasError { error: inner, .. } = error {
        error = inner;
    }
    match error {
        Error::DuplicateMappingKey { key, .. } => {
            format!("the key `{}` is given twice", key.as_deref().unwrap_or("?"))
        }
        Error::NullIntoString { .. } => "a key is empty".to_owned(),
        Error::Budget { breach, .. } => budget_breach_message(breach),
        other => without_location(&other.render_with_formatter(&UserMessageFormatter)),
    }
}

/// The message for a document that exceeds one of the parser's limits.
fn budget_breach_message(breach: &BudgetBreach) -> String {
    use BudgetBreach as Breach;
    match breach {
        Breach::Depth { .. } => format!("values nest deeper than {DOCUMENT_DEPTH_MAX}"),
        Breach::Documents { .. } => "there is more than one document".to_owned(),
        Breach::Aliases { .. }
        | Breach::Anchors { .. }
        | Breach::AliasAnchorRatio { .. }
        | Breach::RecordedAnchorEvents { .. }
        | Breach::RecordedAnchorBytes { .. } => {
            "there are too many anchors (&) and aliases (*), or they expand to too much".to_owned()
        }
        _ => "the document is too large or too complex".to_owned(),
    }
}

/// Cuts the location off a parser's message: the finding's path has it already.
fn without_location(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    line.split(" at line ").next().unwrap_or_default().to_owned()
}

/// The error for a text that does not parse; line 0 means that the location is unknown.
fn unreadable_error(line: u64, column: u64, message: String) -> Finding {
    let path =
        if line == 0 { DocumentPath::Plan.to_string() } else { format!("line {line}, column {column}") };
    Finding::error("unreadable", path, message, "write a plan in YAML or JSON: a map with `name` and `steps`")
}

/// Refuses values that nest deeper than `depth`.
fn check_depth(value: &Value, depth: usize) -> Result<(), Finding> {
    let Some(depth) = depth.checked_sub(1) else {
        let message = format!("values nest deeper than {DOCUMENT_DEPTH_MAX}");
        return Err(Finding::error("too_deep", DocumentPath::Plan, message, "flatten the deepest values"));
    };
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| check_depth(item, depth)),
        Value::Object(fields) => fields.values().try_for_each(|field| check_depth(field, depth)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// A JSON value that deserializes only if no map has the same key twice.
struct StrictValue(Value);

impl<'de> Deserialize<'de> for StrictValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom(format!("{value} is not a JSON number")))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(StrictValue(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            let StrictValue(value) = entries.next_value()?;
            if map.contains_key(&name) {
                return Err(A::Error::custom(format!("the key `{name}` is given twice")));
            }
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}
