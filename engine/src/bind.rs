//! `${…}` in a plan's values, and `when`: CEL, compiled once, with types kept.
//! Text that comes from a tool is data: an expression inside it is never evaluated.
//!
//! The `cel` crate parses; what it parsed is lowered into a small tree of our own (`node`) and
//! evaluated here (`evaluate`). Its own evaluator knows no budget, walks maps in hash order and
//! needs a stack that grows with the author's text; ours is bounded in depth, work and bytes.

mod budget;
mod condition;
mod evaluate;
mod function;
mod lower;
mod node;
mod number;
mod outline;
mod source;
mod template;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

pub use condition::Condition;
pub(crate) use node::{Path, Root, Segment};
pub(crate) use outline::{Outline, kind_of};
pub(crate) use source::with_room;
pub use template::Template;

/// Longest expression, in bytes.
pub const SOURCE_MAX: usize = 4_096;
/// Words, numbers, strings, operators and brackets in one expression.
pub const TOKENS_MAX: usize = 400;
/// Brackets inside brackets in one expression.
pub const BRACKETS_MAX: usize = 24;
/// Operations inside operations in one expression; also bounds the stack of evaluation and drop.
pub const DEPTH_MAX: usize = 64;
/// `map`, `filter`, `all`, `exists`, `exists_one` inside one another.
pub const LOOPS_MAX: usize = 2;
/// Operations that evaluating one expression may take, loops and long strings included.
pub const WORK_MAX: u64 = 1_000_000;
/// Bytes that binding one template, or testing one condition, may produce on its way.
pub const BOUND_BYTES_MAX: usize = 8 << 20;

/// The key of the object that stands where a secret stood.
pub const REDACTED: &str = "actbook:redacted";

/// What is kept instead of the secret `name`.
pub fn redacted(name: &str) -> Value {
    json!({ REDACTED: name })
}

/// The name of the first secret that was taken out of `value`, if there is one.
pub fn redacted_in(value: &Value) -> Option<&str> {
    match value {
        Value::Object(fields) => match fields.get(REDACTED) {
            Some(name) => Some(name.as_str().unwrap_or("a value")),
            None => fields.values().find_map(redacted_in),
        },
        Value::Array(items) => items.iter().find_map(redacted_in),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// What an expression reads; tells the plan its dependencies and the ledger which values to load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    pub inputs: bool,
    /// The fields of `inputs` by name, outermost first, as far as they are spelled out; an empty
    /// one reads them all.
    pub input_fields: BTreeSet<Vec<String>>,
    /// `steps.<id>.output`
    pub outputs: BTreeSet<String>,
    /// `steps.<id>.status`
    pub statuses: BTreeSet<String>,
    /// The step's own `arguments` and `output`, in scope in compensations and probes only.
    pub own_arguments: bool,
    pub own_output: bool,
}

impl Reads {
    pub(crate) fn add(&mut self, other: &Self) {
        self.inputs |= other.inputs;
        self.own_arguments |= other.own_arguments;
        self.own_output |= other.own_output;
        self.input_fields.extend(other.input_fields.iter().cloned());
        self.outputs.extend(other.outputs.iter().cloned());
        self.statuses.extend(other.statuses.iter().cloned());
    }
}

/// The values in scope.
#[derive(Debug, Default)]
pub struct Scope {
    pub inputs: Option<Arc<Value>>,
    pub outputs: BTreeMap<String, Arc<Value>>,
    pub statuses: BTreeMap<String, &'static str>,
    pub execution_id: String,
    pub arguments: Option<Arc<Value>>,
    pub output: Option<Arc<Value>>,
}

/// Why an expression gave no value. `path` is where in the template it stands; empty at its root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unbound {
    pub path: String,
    pub message: String,
}

impl fmt::Display for Unbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

impl std::error::Error for Unbound {}
