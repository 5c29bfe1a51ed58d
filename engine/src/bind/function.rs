//! The functions an expression may call: CEL's standard ones on JSON values, and common ones on texts. A
//! method's target counts as its first argument.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::budget::{EvaluatedValue, EvaluationBudget, EvaluationError, approximate_bytes};
use super::number::float_value;
use crate::chain::with_sorted_keys;
use crate::policy::string_enum;
use crate::spelling::nearest;

string_enum!(
    /// A function that an expression may call, under its CEL name.
    Function {
        Bool = "bool",
        Contains = "contains",
        Double = "double",
        Dyn = "dyn",
        EndsWith = "endsWith",
        Int = "int",
        Join = "join",
        Json = "json",
        LowerAscii = "lowerAscii",
        Matches = "matches",
        Replace = "replace",
        Size = "size",
        Split = "split",
        StartsWith = "startsWith",
        String = "string",
        Trim = "trim",
        Type = "type",
        UpperAscii = "upperAscii",
    }
);

/// CEL's macros, which lowering handles itself.
const MACRO_NAMES: [&str; 7] = ["has", "all", "exists", "exists_one", "existsOne", "filter", "map"];

impl Function {
    /// The function of this name; `Err` suggests the nearest one.
    pub fn from_name(name: &str) -> Result<Self, String> {
        let known = || Self::ALL.iter().map(|function| function.as_str()).chain(MACRO_NAMES);
        Self::ALL.iter().copied().find(|function| function.as_str() == name).ok_or_else(|| {
            match nearest(name, known()) {
                Some(meant) if meant == name => {
                    format!("{name}(…) is called on a list, as in inputs.files.{name}(file, …)")
                }
                Some(meant) => format!("there is no function {name}(…); did you mean {meant}(…)?"),
                None => format!(
                    "there is no function {name}(…); there are {}",
                    known().collect::<Vec<_>>().join(", ")
                ),
            }
        })
    }

    /// Checks the number of arguments, the target included.
    pub fn check_argument_count(self, given: usize) -> Result<(), String> {
        let wanted = match self {
            Self::Bool | Self::Double | Self::Dyn | Self::Int | Self::Json | Self::LowerAscii => 1..=1,
            Self::Size | Self::String | Self::Trim | Self::Type | Self::UpperAscii => 1..=1,
            Self::Contains | Self::EndsWith | Self::Matches | Self::Split | Self::StartsWith => 2..=2,
            Self::Join => 1..=2,
            Self::Replace => 3..=3,
        };
        if wanted.contains(&given) {
            Ok(())
        } else {
            Err(format!("{self}(…) takes {} values, its target counted, not {given}", wanted.end()))
        }
    }

    /// The kind of result, as in `a number`, if it is never a boolean; `None` if it may be one.
    pub fn non_boolean_kind(self) -> Option<&'static str> {
        match self {
            Self::Double | Self::Int | Self::Size => Some("a number"),
            Self::Join | Self::Json | Self::LowerAscii | Self::Replace | Self::String => Some("a text"),
            Self::Trim | Self::Type | Self::UpperAscii => Some("a text"),
            Self::Split => Some("a list"),
            Self::Bool | Self::Contains | Self::Dyn | Self::EndsWith | Self::Matches | Self::StartsWith => {
                None
            }
        }
    }

    /// Calls the function, charging `budget`. `given`: the arguments, a method's target first.
    pub fn call<'a>(
        self,
        given: &[EvaluatedValue<'a>],
        budget: &mut EvaluationBudget,
    ) -> Result<EvaluatedValue<'a>, EvaluationError> {
        let type_error = || self.type_error(given);
        let [first, rest @ ..] = given else { return Err(type_error()) };
        budget.charge_work(given.iter().map(|value| argument_work(value)).sum())?;
        let texts: Option<Vec<&str>> = given.iter().map(|value| value.as_str()).collect();
        let result = match (self, texts.as_deref()) {
            (Self::Dyn, _) => return Ok(first.clone()),
            (Self::Size, _) => Value::from(size_of_value(first).ok_or_else(type_error)?),
            (Self::Type, _) => Value::from(cel_type_name(first)),
            (Self::Json, _) => Value::from(to_json_text(first, budget)?),
            (Self::String, _) => Value::from(to_text(first).ok_or_else(type_error)?),
            (Self::Int, _) => Value::from(to_integer(first).ok_or_else(type_error)?),
            (Self::Double, _) => {
                float_value(to_double(first).ok_or_else(type_error)?).map_err(EvaluationError::Recoverable)?
            }
            (Self::Bool, _) => Value::from(to_boolean(first).ok_or_else(type_error)?),
            (Self::Join, _) => Value::from(join(first, rest, budget)?.ok_or_else(type_error)?),
            (Self::Contains, Some([text, part])) => Value::from(text.contains(part)),
            (Self::StartsWith, Some([text, part])) => Value::from(text.starts_with(part)),
            (Self::EndsWith, Some([text, part])) => Value::from(text.ends_with(part)),
            (Self::LowerAscii, Some([text])) => Value::from(text.to_ascii_lowercase()),
            (Self::UpperAscii, Some([text])) => Value::from(text.to_ascii_uppercase()),
            (Self::Trim, Some([text])) => Value::from(text.trim()),
            (Self::Split, Some([text, by])) => split(text, by, budget)?,
            (Self::Replace, Some([text, old, new])) => Value::from(replace(text, old, new, budget)?),
            (Self::Contains | Self::StartsWith | Self::EndsWith | Self::LowerAscii | Self::UpperAscii, _)
            | (Self::Trim | Self::Split | Self::Replace | Self::Matches, _) => return Err(type_error()),
        };
        budget.charge_value(result)
    }

    /// The error for arguments of the wrong types.
    fn type_error(self, given: &[EvaluatedValue<'_>]) -> EvaluationError {
        let types: Vec<_> = given.iter().map(|value| cel_type_name(value)).collect();
        EvaluationError::Recoverable(format!("{self}(…) does not take {}", types.join(", ")))
    }
}

/// CEL's name for a JSON value's type.
pub(super) fn cel_type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null_type",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "double",
        Value::Number(_) => "int",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "map",
    }
}

/// The work of passing a value to a function, in operations: one, plus more for a long text.
fn argument_work(value: &Value) -> u64 {
    value.as_str().map_or(1, |text| 1 + text.len() as u64 / 64)
}

/// Characters of a text, items of a list or keys of a map; `None` for other types.
fn size_of_value(value: &Value) -> Option<usize> {
    match value {
        Value::String(text) => Some(text.chars().count()),
        Value::Array(items) => Some(items.len()),
        Value::Object(fields) => Some(fields.len()),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// A text, boolean or number as text; `None` for other types.
fn to_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => Some(match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) => float.to_string(),
            None => number.to_string(),
        }),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The value as compact JSON with sorted keys.
fn to_json_text(value: &Value, budget: &mut EvaluationBudget) -> Result<String, EvaluationError> {
    let bytes = approximate_bytes(value);
    budget.charge_work(bytes as u64 / 64)?;
    budget.check_bytes(bytes)?;
    Ok(with_sorted_keys(value).to_string())
}

/// A number, truncated, or the integer that a text holds; `None` where it is out of range or no number.
fn to_integer(value: &Value) -> Option<i64> {
    /// The largest double that converts to an `i64` without overflow.
    const FLOAT_MAX: f64 = 9_223_372_036_854_774_784.0;
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) if number.is_f64() => {
            number.as_f64().filter(|float| float.abs() <= FLOAT_MAX).map(|float| float as i64)
        }
        Value::Number(number) => number.as_i64(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A number, or the number that a text holds; `None` for anything else.
fn to_double(value: &Value) -> Option<f64> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.as_f64(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A boolean, or the text `true` or `false`; `None` for anything else.
fn to_boolean(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => text.parse().ok(),
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Joins a list of texts; `None` where an item or the separator is no text.
fn join(
    list: &Value,
    by: &[EvaluatedValue<'_>],
    budget: &mut EvaluationBudget,
) -> Result<Option<String>, EvaluationError> {
    let by = match by {
        [] => Some(""),
        [by, ..] => by.as_str(),
    };
    let (Some(items), Some(by)) = (list.as_array(), by) else { return Ok(None) };
    let Some(texts) = items.iter().map(Value::as_str).collect::<Option<Vec<_>>>() else { return Ok(None) };
    budget.check_bytes(texts.iter().map(|text| text.len() + by.len()).sum())?;
    Ok(Some(texts.join(by)))
}

/// Splits a text at each separator, or into characters at an empty one.
fn split(text: &str, by: &str, budget: &mut EvaluationBudget) -> Result<Value, EvaluationError> {
    let parts = if by.is_empty() { text.chars().count() } else { text.matches(by).count() + 1 };
    budget.check_bytes(text.len() + parts.saturating_mul(size_of::<Value>()))?;
    let split: Vec<Value> = match by {
        "" => text.chars().map(|c| Value::from(c.to_string())).collect(),
        by => text.split(by).map(Value::from).collect(),
    };
    Ok(Value::Array(split))
}

/// Replaces every `old` by `new`; the size of the result is checked against the budget first.
fn replace(
    text: &str,
    old: &str,
    new: &str,
    budget: &mut EvaluationBudget,
) -> Result<String, EvaluationError> {
    let times = text.matches(old).count();
    budget.check_bytes(text.len() + times.saturating_mul(new.len()))?;
    Ok(text.replace(old, new))
}
