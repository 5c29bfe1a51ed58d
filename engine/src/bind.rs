//! `${…}` in a plan's values, and `when`: CEL, compiled once, with types kept.
//! Text that comes from a tool is data: an expression inside it is never evaluated.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

/// What an expression reads; tells the plan its dependencies and the ledger which values to load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    pub inputs: bool,
    /// `steps.<id>.output`
    pub outputs: BTreeSet<String>,
    /// `steps.<id>.status`
    pub statuses: BTreeSet<String>,
    /// The step's own `arguments` and `output`, in scope in compensations and probes only.
    pub own_arguments: bool,
    pub own_output: bool,
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

/// Why an expression gave no value. `path` is where in the template it stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct Unbound {
    pub path: String,
    pub message: String,
}
