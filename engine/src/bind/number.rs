//! CEL's arithmetic, equality and ordering on JSON values: integers stay integers, and comparison is by
//! value, so that 1 equals 1.0.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::budget::{EvaluationBudget, EvaluationError, recoverable};
use super::expression::BinaryOperator;
use super::function::cel_type_name;

/// A float as a JSON number; `Err` for NaN and infinities.
pub(super) fn float_value(number: f64) -> Result<Value, String> {
    Number::from_f64(number).map(Value::Number).ok_or_else(|| format!("{number} is not a JSON number"))
}

/// The negative of a number; `None` where it is out of range.
pub(super) fn negate(number: &Number) -> Option<Number> {
    match as_integer(number) {
        Some(whole) => integer_number(-whole),
        None => number.as_f64().and_then(|float| Number::from_f64(-float)),
    }
}

/// The number as an integer; `None` for a float.
fn as_integer(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

/// An integer as a JSON number; `None` where it fits neither `i64` nor `u64`.
fn integer_number(whole: i128) -> Option<Number> {
    i64::try_from(whole).ok().map(Number::from).or_else(|| u64::try_from(whole).ok().map(Number::from))
}

/// Computes an arithmetic operator. As in CEL, an integer and a float do not mix without a conversion:
/// `double(n) * 1.5`.
pub(super) fn arithmetic(
    operator: BinaryOperator,
    left: &Value,
    right: &Value,
) -> Result<Value, EvaluationError> {
    let mixed = || {
        recoverable(format!(
            "{} and {} cannot be calculated together",
            cel_type_name(left),
            cel_type_name(right)
        ))
    };
    let (Value::Number(one), Value::Number(other)) = (left, right) else { return Err(mixed()) };
    let out_of_range = || recoverable("the result is out of range");
    match (as_integer(one), as_integer(other), one.as_f64(), other.as_f64()) {
        (Some(one), Some(other), ..) => {
            let result = integer_arithmetic(operator, one, other).ok_or_else(|| match other {
                0 => recoverable("division by zero"),
                _ => out_of_range(),
            })?;
            integer_number(result).map(Value::Number).ok_or_else(out_of_range)
        }
        (None, None, Some(one), Some(other)) => {
            float_value(float_arithmetic(operator, one, other)).map_err(EvaluationError::Recoverable)
        }
        _ => Err(mixed()),
    }
}

/// Integer arithmetic; `None` on overflow, division by zero or an operator that is not arithmetic.
fn integer_arithmetic(operator: BinaryOperator, one: i128, other: i128) -> Option<i128> {
    match operator {
        BinaryOperator::Add => one.checked_add(other),
        BinaryOperator::Subtract => one.checked_sub(other),
        BinaryOperator::Multiply => one.checked_mul(other),
        BinaryOperator::Divide => one.checked_div(other),
        BinaryOperator::Remainder => one.checked_rem(other),
        BinaryOperator::Equal | BinaryOperator::NotEqual | BinaryOperator::In => None,
        BinaryOperator::Less
        | BinaryOperator::LessEqual
        | BinaryOperator::Greater
        | BinaryOperator::GreaterEqual => None,
    }
}

/// Float arithmetic; NaN, which the caller refuses, for operators that do not apply.
fn float_arithmetic(operator: BinaryOperator, one: f64, other: f64) -> f64 {
    match operator {
        BinaryOperator::Add => one + other,
        BinaryOperator::Subtract => one - other,
        BinaryOperator::Multiply => one * other,
        BinaryOperator::Divide => one / other,
        // CEL defines the remainder for integers only.
        BinaryOperator::Remainder | BinaryOperator::Equal | BinaryOperator::NotEqual | BinaryOperator::In => {
            f64::NAN
        }
        BinaryOperator::Less
        | BinaryOperator::LessEqual
        | BinaryOperator::Greater
        | BinaryOperator::GreaterEqual => f64::NAN,
    }
}

/// Whether two values are equal, charging the work of the comparison.
pub(super) fn values_equal(
    left: &Value,
    right: &Value,
    budget: &mut EvaluationBudget,
) -> Result<bool, EvaluationError> {
    budget.charge_work(1)?;
    match (left, right) {
        (Value::Number(one), Value::Number(other)) => {
            Ok(compare_numbers(one, other) == Some(Ordering::Equal))
        }
        (Value::String(one), Value::String(other)) => {
            budget.charge_work(one.len().min(other.len()) as u64 / 64)?;
            Ok(one == other)
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (one, other) in one.iter().zip(other) {
                if !values_equal(one, other, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Object(one), Value::Object(other)) if one.len() == other.len() => {
            for (name, one) in one {
                match other.get(name) {
                    Some(other) if values_equal(one, other, budget)? => {}
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

/// Compares two numbers by value, integer or float.
fn compare_numbers(one: &Number, other: &Number) -> Option<Ordering> {
    match (as_integer(one), as_integer(other)) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        _ => one.as_f64()?.partial_cmp(&other.as_f64()?),
    }
}

/// Orders two numbers, texts or booleans; an error for other types, `None` for numbers that do not compare.
pub(super) fn compare_values(
    left: &Value,
    right: &Value,
    budget: &mut EvaluationBudget,
) -> Result<Option<Ordering>, EvaluationError> {
    match (left, right) {
        (Value::Number(one), Value::Number(other)) => Ok(compare_numbers(one, other)),
        (Value::String(one), Value::String(other)) => {
            budget.charge_work(one.len().min(other.len()) as u64 / 64)?;
            Ok(Some(one.cmp(other)))
        }
        (Value::Bool(one), Value::Bool(other)) => Ok(Some(one.cmp(other))),
        _ => Err(recoverable(format!(
            "{} and {} cannot be ordered",
            cel_type_name(left),
            cel_type_name(right)
        ))),
    }
}

/// A number as a list index; `None` where it is negative or has a fraction. `1.0` is an index.
pub(super) fn list_index(number: &Number) -> Option<usize> {
    let whole = number.as_u64().or_else(|| {
        let float = number
            .as_f64()
            .filter(|float| float.fract() == 0.0 && (0.0..=u32::MAX.into()).contains(float))?;
        Some(float as u64)
    });
    usize::try_from(whole?).ok()
}
