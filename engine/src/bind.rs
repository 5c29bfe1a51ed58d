//! Expressions in plans: `${…}` in values, and conditions such as `when`. A subset of CEL over JSON values,
//! compiled once. Text that comes from a tool is data: an expression inside it is never evaluated.
//!
//! The `cel` crate parses; `lowering` turns its syntax tree into a smaller one (`expression`), which
//! `evaluator` evaluates. The crate's own evaluator has no budget, walks maps in hash order and needs a stack
//! that grows with the author's text; this one is bounded in depth, work and bytes.

mod budget;
mod condition;
mod evaluator;
mod expression;
mod function;
mod lowering;
mod number;
mod outline;
mod source;
mod value_template;
mod vocabulary;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

pub use condition::ConditionExpression;
pub(crate) use expression::{PathSegment, ReferencePath, ReferenceRoot};
pub(crate) use outline::{TemplateOutline, json_type_of};
pub(crate) use source::with_large_stack;
pub use value_template::ValueTemplate;
pub use vocabulary::ExpressionVocabulary;

/// Longest expression, in bytes.
pub const SOURCE_BYTES_MAX: usize = 4_096;
/// Most tokens in one expression: words, numbers, strings, operators and brackets.
pub const TOKENS_MAX: usize = 400;
/// Deepest nesting of brackets in one expression.
pub const BRACKET_DEPTH_MAX: usize = 24;
/// Deepest nesting of operations in one expression; also bounds the stack of evaluation and drop.
pub const DEPTH_MAX: usize = 64;
/// Deepest nesting of the loops `map`, `filter`, `all`, `exists` and `exists_one`.
pub const LOOP_DEPTH_MAX: usize = 2;
/// Most operations that evaluating one expression may take; loops and long strings count.
pub const WORK_MAX: u64 = 1_000_000;
/// Most bytes of values that binding one template, or testing one condition, may create.
pub const BOUND_BYTES_MAX: usize = 8 << 20;

/// The only key of the object that replaces a secret value.
pub const REDACTED_KEY: &str = "actbook:redacted";

/// The object that is stored in place of the secret `name`.
pub fn redaction_marker(name: &str) -> Value {
    json!({ REDACTED_KEY: name })
}

/// The name of the first redacted secret inside `value`; `None` if there is none.
pub fn find_redacted(value: &Value) -> Option<&str> {
    match value {
        Value::Object(fields) => match fields.get(REDACTED_KEY) {
            Some(name) => Some(name.as_str().unwrap_or("a value")),
            None => fields.values().find_map(find_redacted),
        },
        Value::Array(items) => items.iter().find_map(find_redacted),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// Where the first object with the marker's key stands inside `value`, such as `.to[0]`, whatever else it has;
/// `None` if there is none.
pub fn redaction_marker_path(value: &Value) -> Option<String> {
    match value {
        Value::Object(fields) if fields.contains_key(REDACTED_KEY) => Some(String::new()),
        Value::Object(fields) => {
            fields.iter().find_map(|(name, field)| Some(format!(".{name}{}", redaction_marker_path(field)?)))
        }
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(index, item)| Some(format!("[{index}]{}", redaction_marker_path(item)?)))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// The name in a value that is exactly the object which stands for a secret; `None` for any other value.
pub fn redacted_name(value: &Value) -> Option<&str> {
    let fields = value.as_object().filter(|fields| fields.len() == 1)?;
    fields.get(REDACTED_KEY)?.as_str()
}

/// What an expression, template or condition reads. The plan derives its dependencies from it, and the ledger
/// the values to load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadSet {
    /// Whether any input is read.
    pub inputs: bool,
    /// Paths into `inputs`, outermost name first, as far as their names are literal; an empty path reads all
    /// inputs.
    pub input_fields: BTreeSet<Vec<String>>,
    /// Ids of the steps whose `steps.<id>.output` is read.
    pub outputs: BTreeSet<String>,
    /// Ids of the steps whose `steps.<id>.status` is read.
    pub statuses: BTreeSet<String>,
    /// The step's own `arguments` are read: allowed in compensations and probes only.
    pub own_arguments: bool,
    /// The step's own `output` is read: allowed in compensations and probes only.
    pub own_output: bool,
    /// The state before the step's call is read: allowed in the undo of a session's call only.
    pub own_before: bool,
}

impl ReadSet {
    /// Adds everything that `other` reads.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.inputs |= other.inputs;
        self.own_arguments |= other.own_arguments;
        self.own_output |= other.own_output;
        self.own_before |= other.own_before;
        self.input_fields.extend(other.input_fields.iter().cloned());
        self.outputs.extend(other.outputs.iter().cloned());
        self.statuses.extend(other.statuses.iter().cloned());
    }
}

/// The values that an expression can read. A value that is absent makes a read of it fail.
#[derive(Debug, Default)]
pub struct ExpressionScope {
    pub inputs: Option<Arc<Value>>,
    /// Outputs by step id.
    pub outputs: BTreeMap<String, Arc<Value>>,
    /// Statuses by step id.
    pub statuses: BTreeMap<String, &'static str>,
    pub execution_id: String,
    /// The step's own arguments, in compensations and probes.
    pub arguments: Option<Arc<Value>>,
    /// The step's own output, in compensations and probes; in `happened`, the probe's.
    pub output: Option<Arc<Value>>,
    /// The values of the names that only an undo of a session's call or a rule can read, by name.
    pub facts: BTreeMap<&'static str, Arc<Value>>,
}

/// Why an expression did not parse or gave no value. `path` is its location in the template; empty at the
/// root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindError {
    pub path: String,
    pub message: String,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

impl std::error::Error for BindError {}
