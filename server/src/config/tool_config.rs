//! What the operator's config says of one tool, and how settings for the same tool combine.

use std::collections::BTreeSet;
use std::time::Duration;

use actbook_engine::policy::ErrorCategory;

use super::CallTemplate;

/// The operator's settings for one tool; None: not set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolConfig {
    pub timeout: Option<Duration>,
    pub idempotent: Option<bool>,
    pub read_only: Option<bool>,
    /// Whether each call needs an approval.
    pub approval: Option<bool>,
    pub retry: Option<RetryConfig>,
    /// What a guard's rules call the tool, such as `egress`; those of a server hold for all its tools.
    pub labels: BTreeSet<String>,
    /// The labels that a guarded session gets with a call of the tool; those of a server hold for all its tools.
    pub adds: BTreeSet<String>,
    /// The call that reads the state around a guarded call, which its undo needs.
    pub before: Option<CallTemplate>,
    /// The call that takes a guarded call back.
    pub undo: Option<CallTemplate>,
}

impl ToolConfig {
    /// These settings, overridden by those that are set in `specific`.
    pub(crate) fn overridden_by(self, specific: Self) -> Self {
        Self {
            timeout: specific.timeout.or(self.timeout),
            idempotent: specific.idempotent.or(self.idempotent),
            read_only: specific.read_only.or(self.read_only),
            approval: specific.approval.or(self.approval),
            retry: specific.retry.or(self.retry),
            labels: self.labels.union(&specific.labels).cloned().collect(),
            adds: self.adds.union(&specific.adds).cloned().collect(),
            before: specific.before.or(self.before),
            undo: specific.undo.or(self.undo),
        }
    }
}

impl ToolConfig {
    /// What holds for a tool that may be either of two: all that one of them demands, and nothing that only one permits.
    pub(crate) fn strictest(self, other: Self) -> Self {
        let permitted = |one: Option<bool>, other| if one == other { one } else { Some(false) };
        Self {
            timeout: self.timeout.or(other.timeout),
            idempotent: permitted(self.idempotent, other.idempotent),
            read_only: permitted(self.read_only, other.read_only),
            approval: self.approval.max(other.approval),
            retry: self.retry.or(other.retry),
            labels: self.labels.union(&other.labels).cloned().collect(),
            adds: self.adds.union(&other.adds).cloned().collect(),
            before: self.before.filter(|before| other.before.as_ref() == Some(before)),
            undo: self.undo.filter(|undo| other.undo.as_ref() == Some(undo)),
        }
    }
}

/// The operator's retry policy for a tool; None: not set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RetryConfig {
    pub max_attempts: Option<u32>,
    pub backoff: Option<Duration>,
    pub factor: Option<f64>,
    pub max_backoff: Option<Duration>,
    /// The error categories that are retried.
    pub on: Option<BTreeSet<ErrorCategory>>,
}
