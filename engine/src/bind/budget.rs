//! The limits and the values of an evaluation. Every operation is charged to the work limit, and every new
//! value to the byte limit before it is created; exceeding a limit ends the evaluation with a fatal error.

use std::ops::Deref;
use std::rc::Rc;

use serde_json::Value;

use super::{BOUND_BYTES_MAX, WORK_MAX};

/// Why an evaluation gave no value.
#[derive(Debug)]
pub(super) enum EvaluationError {
    /// An error that `&&` and `||` absorb, as in CEL: `true || error` is true and `false && error` is false.
    Recoverable(String),
    /// A read of a secret, or an exceeded limit: no operator absorbs it.
    Fatal(String),
}

/// An error that `&&` and `||` absorb.
pub(super) fn recoverable(message: impl Into<String>) -> EvaluationError {
    EvaluationError::Recoverable(message.into())
}

/// The operations and bytes that one binding may still use.
#[derive(Debug)]
pub(super) struct EvaluationBudget {
    /// Operations left for the current expression.
    work_left: u64,
    /// Bytes left for the whole template.
    bytes_left: usize,
}

impl EvaluationBudget {
    pub fn new() -> Self {
        Self { work_left: WORK_MAX, bytes_left: BOUND_BYTES_MAX }
    }

    /// Resets the work limit for the next expression of the same template; the byte limit is shared by all.
    pub fn reset_work(&mut self) {
        self.work_left = WORK_MAX;
    }

    /// Charges `cost` operations; fatal error when the limit is exceeded.
    pub fn charge_work(&mut self, cost: u64) -> Result<(), EvaluationError> {
        let left = self.work_left.checked_sub(cost);
        self.work_left = left.unwrap_or(0);
        left.map(drop).ok_or_else(|| {
            EvaluationError::Fatal(format!(
                "takes more than {WORK_MAX} operations; split it over several steps"
            ))
        })
    }

    /// Checks that `bytes` are left, without charging them; fatal error if not.
    pub fn check_bytes(&self, bytes: usize) -> Result<(), EvaluationError> {
        if bytes <= self.bytes_left {
            Ok(())
        } else {
            Err(EvaluationError::Fatal(format!("makes more than {} MiB of values", BOUND_BYTES_MAX >> 20)))
        }
    }

    /// Charges `bytes`; fatal error when the limit is exceeded.
    pub fn charge_bytes(&mut self, bytes: usize) -> Result<(), EvaluationError> {
        self.check_bytes(bytes)?;
        self.bytes_left -= bytes;
        Ok(())
    }

    /// Charges a newly computed value and wraps it.
    pub fn charge_value<'a>(&mut self, value: Value) -> Result<EvaluatedValue<'a>, EvaluationError> {
        self.charge_bytes(approximate_bytes(&value))?;
        Ok(EvaluatedValue::Shared(Rc::new(value)))
    }

    /// Charges a copy of the value and makes it.
    pub fn charge_copy(&mut self, value: &Value) -> Result<Value, EvaluationError> {
        self.charge_bytes(approximate_bytes(value))?;
        Ok(value.clone())
    }
}

/// The approximate size of a value in memory, in bytes.
pub(super) fn approximate_bytes(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(approximate_bytes).sum(),
            Value::Object(fields) => fields
                .iter()
                .map(|(name, value)| size_of::<String>() + name.len() + approximate_bytes(value))
                .sum(),
        }
}

/// A value during evaluation: borrowed from the scope or the expression, or computed and shared.
#[derive(Clone, Debug)]
pub(super) enum EvaluatedValue<'a> {
    Borrowed(&'a Value),
    Shared(Rc<Value>),
}

impl Deref for EvaluatedValue<'_> {
    type Target = Value;

    fn deref(&self) -> &Value {
        match self {
            Self::Borrowed(value) => value,
            Self::Shared(value) => value,
        }
    }
}

impl<'a> EvaluatedValue<'a> {
    /// A boolean, borrowed from a static.
    pub fn from_bool(flag: bool) -> Self {
        static FLAGS: [Value; 2] = [Value::Bool(false), Value::Bool(true)];
        Self::Borrowed(&FLAGS[usize::from(flag)])
    }

    /// The part of the value that `pick` chooses: borrowed if the whole is, else copied. `None` if `pick`
    /// finds nothing.
    pub fn select(
        &self,
        pick: impl Fn(&Value) -> Option<&Value>,
        budget: &mut EvaluationBudget,
    ) -> Result<Option<EvaluatedValue<'a>>, EvaluationError> {
        match self {
            Self::Borrowed(value) => Ok(pick(value).map(EvaluatedValue::Borrowed)),
            Self::Shared(value) => pick(value)
                .map(|part| budget.charge_copy(part).map(|part| EvaluatedValue::Shared(Rc::new(part))))
                .transpose(),
        }
    }

    /// The value itself, copied (and charged) unless this is its only owner.
    pub fn into_value(self, budget: &mut EvaluationBudget) -> Result<Value, EvaluationError> {
        match self {
            Self::Borrowed(value) => budget.charge_copy(value),
            Self::Shared(value) => match Rc::try_unwrap(value) {
                Ok(value) => Ok(value),
                Err(shared) => budget.charge_copy(&shared),
            },
        }
    }
}
