//! The functions an expression may call: CEL's standard ones on JSON values, and the usual ones on
//! texts. Each knows its name, how many values it takes (its target first), and what it does.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::budget::{Budget, Fault, Held, weight};
use super::number::float;
use crate::chain::in_order;
use crate::policy::words;
use crate::spelling::nearest;

words!(
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

/// The functions that lowering knows itself.
const OTHERS: [&str; 7] = ["has", "all", "exists", "exists_one", "existsOne", "filter", "map"];

impl Function {
    pub fn named(name: &str) -> Result<Self, String> {
        let known = || Self::ALL.iter().map(|function| function.as_str()).chain(OTHERS);
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

    /// How many values it takes, its target counted first.
    pub fn takes(self, given: usize) -> Result<(), String> {
        let wanted = match self {
            Self::Bool | Self::Double | Self::Dyn | Self::Int | Self::Json | Self::LowerAscii => 1..=1,
            Self::Size | Self::String | Self::Trim | Self::Type | Self::UpperAscii => 1..=1,
            Self::Contains | Self::EndsWith | Self::Matches | Self::Split | Self::StartsWith => 2..=2,
            Self::Join => 1..=2,
            Self::Replace => 3..=3,
        };
        match wanted.contains(&given) {
            true => Ok(()),
            false => Err(format!("{self}(…) takes {} values, its target counted, not {given}", wanted.end())),
        }
    }

    pub fn never_boolean(self) -> Option<&'static str> {
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

    pub fn call<'a>(self, given: &[Held<'a>], budget: &mut Budget) -> Result<Held<'a>, Fault> {
        let wrong = || self.wrong(given);
        let [first, rest @ ..] = given else { return Err(wrong()) };
        budget.work(given.iter().map(|value| length(value)).sum())?;
        let texts: Option<Vec<&str>> = given.iter().map(|value| value.as_str()).collect();
        let result = match (self, texts.as_deref()) {
            (Self::Dyn, _) => return Ok(first.clone()),
            (Self::Size, _) => Value::from(size(first).ok_or_else(wrong)?),
            (Self::Type, _) => Value::from(type_name(first)),
            (Self::Json, _) => Value::from(json_text(first, budget)?),
            (Self::String, _) => Value::from(text(first).ok_or_else(wrong)?),
            (Self::Int, _) => Value::from(integer(first).ok_or_else(wrong)?),
            (Self::Double, _) => float(double(first).ok_or_else(wrong)?).map_err(Fault::Plain)?,
            (Self::Bool, _) => Value::from(boolean(first).ok_or_else(wrong)?),
            (Self::Join, _) => Value::from(join(first, rest, budget)?.ok_or_else(wrong)?),
            (Self::Contains, Some([text, part])) => Value::from(text.contains(part)),
            (Self::StartsWith, Some([text, part])) => Value::from(text.starts_with(part)),
            (Self::EndsWith, Some([text, part])) => Value::from(text.ends_with(part)),
            (Self::LowerAscii, Some([text])) => Value::from(text.to_ascii_lowercase()),
            (Self::UpperAscii, Some([text])) => Value::from(text.to_ascii_uppercase()),
            (Self::Trim, Some([text])) => Value::from(text.trim()),
            (Self::Split, Some([text, by])) => split(text, by, budget)?,
            (Self::Replace, Some([text, old, new])) => Value::from(replace(text, old, new, budget)?),
            (Self::Contains | Self::StartsWith | Self::EndsWith | Self::LowerAscii | Self::UpperAscii, _)
            | (Self::Trim | Self::Split | Self::Replace | Self::Matches, _) => return Err(wrong()),
        };
        budget.made(result)
    }

    fn wrong(self, given: &[Held<'_>]) -> Fault {
        let types: Vec<_> = given.iter().map(|value| type_name(value)).collect();
        Fault::Plain(format!("{self}(…) does not take {}", types.join(", ")))
    }
}

/// CEL's name for a JSON value's type.
pub(super) fn type_name(value: &Value) -> &'static str {
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

fn length(value: &Value) -> u64 {
    value.as_str().map_or(1, |text| 1 + text.len() as u64 / 64)
}

fn size(value: &Value) -> Option<usize> {
    match value {
        Value::String(text) => Some(text.chars().count()),
        Value::Array(items) => Some(items.len()),
        Value::Object(fields) => Some(fields.len()),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn text(value: &Value) -> Option<String> {
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

/// The value's JSON text, compact, keys in order.
fn json_text(value: &Value, budget: &mut Budget) -> Result<String, Fault> {
    let bytes = weight(value);
    budget.work(bytes as u64 / 64)?;
    budget.fits(bytes)?;
    Ok(in_order(value).to_string())
}

fn integer(value: &Value) -> Option<i64> {
    /// Beyond this a double no longer tells whole numbers apart, and its edge does not fit.
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

fn double(value: &Value) -> Option<f64> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.as_f64(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn boolean(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => text.parse().ok(),
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn join(list: &Value, by: &[Held<'_>], budget: &mut Budget) -> Result<Option<String>, Fault> {
    let by = match by {
        [] => Some(""),
        [by, ..] => by.as_str(),
    };
    let (Some(items), Some(by)) = (list.as_array(), by) else { return Ok(None) };
    let Some(texts) = items.iter().map(Value::as_str).collect::<Option<Vec<_>>>() else { return Ok(None) };
    budget.fits(texts.iter().map(|text| text.len() + by.len()).sum())?;
    Ok(Some(texts.join(by)))
}

fn split(text: &str, by: &str, budget: &mut Budget) -> Result<Value, Fault> {
    let parts = if by.is_empty() { text.chars().count() } else { text.matches(by).count() + 1 };
    budget.fits(text.len() + parts.saturating_mul(size_of::<Value>()))?;
    let split: Vec<Value> = match by {
        "" => text.chars().map(|c| Value::from(c.to_string())).collect(),
        by => text.split(by).map(Value::from).collect(),
    };
    Ok(Value::Array(split))
}

fn replace(text: &str, old: &str, new: &str, budget: &mut Budget) -> Result<String, Fault> {
    let times = text.matches(old).count();
    budget.fits(text.len() + times.saturating_mul(new.len()))?;
    Ok(text.replace(old, new))
}
