//! Numbers and order, as CEL has them on JSON: whole numbers stay whole, comparisons look at the
//! value and not at how it is written.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::budget::{Budget, Fault, plain};
use super::function::type_name;
use super::node::Binary;

pub(super) fn float(number: f64) -> Result<Value, String> {
    Number::from_f64(number).map(Value::Number).ok_or_else(|| format!("{number} is no JSON number"))
}

pub(super) fn negated(number: &Number) -> Option<Number> {
    match whole(number) {
        Some(whole) => integer(-whole),
        None => number.as_f64().and_then(|float| Number::from_f64(-float)),
    }
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

fn integer(whole: i128) -> Option<Number> {
    i64::try_from(whole).ok().map(Number::from).or_else(|| u64::try_from(whole).ok().map(Number::from))
}

/// As in CEL, whole numbers and others do not mix in arithmetic: `double(n) * 1.5`.
pub(super) fn arithmetic(operator: Binary, left: &Value, right: &Value) -> Result<Value, Fault> {
    let mixed =
        || plain(format!("{} and {} cannot be calculated together", type_name(left), type_name(right)));
    let (Value::Number(one), Value::Number(other)) = (left, right) else { return Err(mixed()) };
    let outside = || plain("the result is out of range");
    match (whole(one), whole(other), one.as_f64(), other.as_f64()) {
        (Some(one), Some(other), ..) => {
            let result = whole_result(operator, one, other).ok_or_else(|| match other {
                0 => plain("division by zero"),
                _ => outside(),
            })?;
            integer(result).map(Value::Number).ok_or_else(outside)
        }
        (None, None, Some(one), Some(other)) => {
            float(float_result(operator, one, other)).map_err(Fault::Plain)
        }
        _ => Err(mixed()),
    }
}

fn whole_result(operator: Binary, one: i128, other: i128) -> Option<i128> {
    match operator {
        Binary::Add => one.checked_add(other),
        Binary::Subtract => one.checked_sub(other),
        Binary::Multiply => one.checked_mul(other),
        Binary::Divide => one.checked_div(other),
        Binary::Remainder => one.checked_rem(other),
        Binary::Equal | Binary::NotEqual | Binary::In => None,
        Binary::Less | Binary::LessEqual | Binary::Greater | Binary::GreaterEqual => None,
    }
}

fn float_result(operator: Binary, one: f64, other: f64) -> f64 {
    match operator {
        Binary::Add => one + other,
        Binary::Subtract => one - other,
        Binary::Multiply => one * other,
        Binary::Divide => one / other,
        // CEL knows the remainder of whole numbers only.
        Binary::Remainder | Binary::Equal | Binary::NotEqual | Binary::In => f64::NAN,
        Binary::Less | Binary::LessEqual | Binary::Greater | Binary::GreaterEqual => f64::NAN,
    }
}

pub(super) fn equal(left: &Value, right: &Value, budget: &mut Budget) -> Result<bool, Fault> {
    budget.work(1)?;
    match (left, right) {
        (Value::Number(one), Value::Number(other)) => Ok(number_order(one, other) == Some(Ordering::Equal)),
        (Value::String(one), Value::String(other)) => {
            budget.work(one.len().min(other.len()) as u64 / 64)?;
            Ok(one == other)
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (one, other) in one.iter().zip(other) {
                if !equal(one, other, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Object(one), Value::Object(other)) if one.len() == other.len() => {
            for (name, one) in one {
                match other.get(name) {
                    Some(other) if equal(one, other, budget)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        (Value::Bool(one), Value::Bool(other)) => Ok(one == other),
        (Value::Null, Value::Null) => Ok(true),
        _ => Ok(false),
    }
}

fn number_order(one: &Number, other: &Number) -> Option<Ordering> {
    match (whole(one), whole(other)) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        _ => one.as_f64()?.partial_cmp(&other.as_f64()?),
    }
}

pub(super) fn ordering(left: &Value, right: &Value, budget: &mut Budget) -> Result<Option<Ordering>, Fault> {
    match (left, right) {
        (Value::Number(one), Value::Number(other)) => Ok(number_order(one, other)),
        (Value::String(one), Value::String(other)) => {
            budget.work(one.len().min(other.len()) as u64 / 64)?;
            Ok(Some(one.cmp(other)))
        }
        (Value::Bool(one), Value::Bool(other)) => Ok(Some(one.cmp(other))),
        _ => Err(plain(format!("{} and {} cannot be ordered", type_name(left), type_name(right)))),
    }
}

/// A place in a list: a whole number, also one that is written `1.0`.
pub(super) fn place(number: &Number) -> Option<usize> {
    let whole = number.as_u64().or_else(|| {
        let float = number
            .as_f64()
            .filter(|float| float.fract() == 0.0 && (0.0..=u32::MAX.into()).contains(float))?;
        Some(float as u64)
    });
    usize::try_from(whole?).ok()
}
