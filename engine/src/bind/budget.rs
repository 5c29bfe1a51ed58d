//! What an evaluation holds, and what it may still cost. Every operation costs work and every value
//! made costs its bytes before it is made; what is spent ends the evaluation for good.

use std::ops::Deref;
use std::rc::Rc;

use serde_json::Value;

use super::{BOUND_BYTES_MAX, WORK_MAX};

/// Why there is no value.
#[derive(Debug)]
pub(super) enum Fault {
    /// As CEL has it, `true || fault` is true and `false && fault` is false.
    Plain(String),
    /// A secret or a spent budget: no operator makes it good.
    Final(String),
}

pub(super) fn plain(message: impl Into<String>) -> Fault {
    Fault::Plain(message.into())
}

/// What one binding may still cost.
#[derive(Debug)]
pub(super) struct Budget {
    work: u64,
    bytes: usize,
}

impl Budget {
    pub fn new() -> Self {
        Self { work: WORK_MAX, bytes: BOUND_BYTES_MAX }
    }

    /// The next expression of the same template: its work is counted afresh, its bytes are not.
    pub fn next_expression(&mut self) {
        self.work = WORK_MAX;
    }

    pub fn work(&mut self, cost: u64) -> Result<(), Fault> {
        let left = self.work.checked_sub(cost);
        self.work = left.unwrap_or(0);
        left.map(drop).ok_or_else(|| {
            Fault::Final(format!("takes more than {WORK_MAX} operations; split it over several steps"))
        })
    }

    pub fn fits(&self, bytes: usize) -> Result<(), Fault> {
        match bytes <= self.bytes {
            true => Ok(()),
            false => Err(Fault::Final(format!("makes more than {} MiB of values", BOUND_BYTES_MAX >> 20))),
        }
    }

    pub fn spend(&mut self, bytes: usize) -> Result<(), Fault> {
        self.fits(bytes)?;
        self.bytes -= bytes;
        Ok(())
    }

    pub fn made<'a>(&mut self, value: Value) -> Result<Held<'a>, Fault> {
        self.spend(weight(&value))?;
        Ok(Held::Own(Rc::new(value)))
    }

    pub fn copied(&mut self, value: &Value) -> Result<Value, Fault> {
        self.spend(weight(value))?;
        Ok(value.clone())
    }
}

/// Roughly the bytes a value takes in memory.
pub(super) fn weight(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(weight).sum(),
            Value::Object(fields) => {
                fields.iter().map(|(name, value)| size_of::<String>() + name.len() + weight(value)).sum()
            }
        }
}

/// A value of the scope, or one made on the way.
#[derive(Clone, Debug)]
pub(super) enum Held<'a> {
    Ref(&'a Value),
    Own(Rc<Value>),
}

impl Deref for Held<'_> {
    type Target = Value;

    fn deref(&self) -> &Value {
        match self {
            Self::Ref(value) => value,
            Self::Own(value) => value,
        }
    }
}

impl<'a> Held<'a> {
    pub fn flag(flag: bool) -> Self {
        static FLAGS: [Value; 2] = [Value::Bool(false), Value::Bool(true)];
        Self::Ref(&FLAGS[usize::from(flag)])
    }

    /// A part of the value: borrowed where the whole is, else copied.
    pub fn part(
        &self,
        pick: impl Fn(&Value) -> Option<&Value>,
        budget: &mut Budget,
    ) -> Result<Option<Held<'a>>, Fault> {
        match self {
            Self::Ref(value) => Ok(pick(value).map(Held::Ref)),
            Self::Own(value) => {
                pick(value).map(|part| budget.copied(part).map(|part| Held::Own(Rc::new(part)))).transpose()
            }
        }
    }

    pub fn into_value(self, budget: &mut Budget) -> Result<Value, Fault> {
        match self {
            Self::Ref(value) => budget.copied(value),
            Self::Own(value) => match Rc::try_unwrap(value) {
                Ok(value) => Ok(value),
                Err(shared) => budget.copied(&shared),
            },
        }
    }
}
