//! Tool policies: what the operator's config says of each tool, and the definition that the tool is pinned
//! to. They are fixed when an execution starts and written in its first entry (as `terms`), so that replay
//! needs no config. This module knows plans, and nothing of where the policies come from.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::chain::Digest;
use crate::plan::{Compensation, RetryPolicy, Step};
use crate::policy::{ErrorCategory, RESTORE_TOOL, Reversibility};

/// The policy of each tool, by `server/tool`. A tool without a policy has no entry.
pub type ToolPolicies = BTreeMap<String, ToolPolicy>;

/// The operator's policy for one tool, and its pin. `None`: the plan decides.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolPolicy {
    /// The digest of the only tool definition that may be called.
    pub pin: Option<Digest>,
    /// Upper limit on the timeout of each call.
    pub timeout_ms: Option<u64>,
    pub retry: Option<RetryLimits>,
    pub idempotent: Option<bool>,
    pub read_only: Option<bool>,
    /// A trusted server's annotations say that calling the tool twice does no harm.
    #[serde(skip_serializing_if = "is_false")]
    pub hinted: bool,
    /// Every call needs an approval, whatever the plan says.
    #[serde(skip_serializing_if = "is_false")]
    pub approval: bool,
}

/// Limits on a plan's own retries. `None`: no limit.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetryLimits {
    pub max_attempts: Option<u32>,
    pub backoff_ms: Option<u64>,
    pub factor: Option<f64>,
    pub max_backoff_ms: Option<u64>,
    pub on: Option<BTreeSet<ErrorCategory>>,
}

fn is_false(flag: &bool) -> bool {
    !*flag
}

/// The rules for one step: its plan's fields combined with the policies of the tools that it calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepRules {
    pub idempotent: bool,
    pub read_only: bool,
    /// An attempt with unknown outcome may be sent again without asking.
    pub repeatable: bool,
    pub cancellable: Reversibility,
    /// The step waits for an approval before it runs.
    pub needs_approval: bool,
    /// The probe may be called: the config neither says that its tool writes nor demands an approval for it.
    pub may_probe: bool,
    /// A probe whose process was lost may be sent again: the config or a trusted server says that it is safe.
    pub probe_repeatable: bool,
    /// The config demands an approval for the tool that the compensation calls.
    pub undo_needs_approval: bool,
    /// A call that failed may have left files changed, which its undo restores.
    pub failure_leaves_effect: bool,
}

impl StepRules {
    /// Combines a step's own fields with the policies of its tool, probe and compensation.
    pub fn resolve(step: &Step, terms: &ToolPolicies) -> Self {
        let none = ToolPolicy::default();
        let policy = step.tool().and_then(|tool| terms.get(tool)).unwrap_or(&none);
        let probe = step.probe.as_ref().and_then(|probe| terms.get(&probe.tool)).unwrap_or(&none);
        let undo_tool = step.compensation.as_ref().and_then(Compensation::tool);
        let undo = undo_tool.and_then(|tool| terms.get(tool));
        let idempotent = policy.idempotent.unwrap_or(step.idempotent);
        let read_only = policy.read_only.unwrap_or(step.read_only);
        Self {
            idempotent,
            read_only,
            repeatable: idempotent || read_only || policy.hinted,
            cancellable: match (step.read_only, read_only) {
                // The plan calls it reversible only because a read has nothing to undo, but the tool writes.
                (true, false) => Reversibility::Irreversible,
                (false, true) => Reversibility::Reversible,
                (true, true) | (false, false) => step.cancellable,
            },
            needs_approval: step.approval || policy.approval,
            may_probe: probe.allows_probe(),
            probe_repeatable: probe.read_only == Some(true) || probe.hinted,
            undo_needs_approval: undo.is_some_and(|policy| policy.approval),
            failure_leaves_effect: undo_tool == Some(RESTORE_TOOL),
        }
    }

    /// Whether the effect cannot be undone at all; such a step runs alone.
    pub fn is_irreversible(self) -> bool {
        self.cancellable == Reversibility::Irreversible
    }

    /// Whether some effect remains after undo, once the step may have run.
    pub fn leaves_effect_after_undo(self) -> bool {
        !self.read_only && self.cancellable != Reversibility::Reversible
    }
}

impl ToolPolicy {
    /// Whether the tool may serve as a probe: a probe only reads, and needs no approval.
    pub fn allows_probe(&self) -> bool {
        !self.approval && self.read_only != Some(false)
    }

    /// The plan's own timeout, cut to the policy's limit.
    pub fn cap_timeout_ms(&self, own: u64) -> u64 {
        self.timeout_ms.map_or(own, |ceiling| own.min(ceiling))
    }

    /// The plan's own retries within the limits: fewer attempts, longer waits, fewer categories, never more.
    pub fn restrict_retry(&self, own: &RetryPolicy) -> RetryPolicy {
        let Some(limits) = &self.retry else { return own.clone() };
        let backoff_ms = own.backoff_ms.max(limits.backoff_ms.unwrap_or(0));
        let max_backoff_ms = own.max_backoff_ms.max(limits.max_backoff_ms.unwrap_or(0)).max(backoff_ms);
        RetryPolicy {
            max_attempts: own.max_attempts.min(limits.max_attempts.unwrap_or(u32::MAX)),
            backoff_ms,
            factor: own.factor.max(limits.factor.unwrap_or(1.0)),
            max_backoff_ms,
            on: match &limits.on {
                Some(allowed) => own.on.intersection(allowed).copied().collect(),
                None => own.on.clone(),
            },
        }
    }
}
