//! What counts for a tool beyond the plan's own words: the operator's policies, and the definition that
//! it is pinned to. Settled when an execution starts and written in its first entry, so that replay
//! needs no config. Knows plans and nothing of where the terms come from.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::chain::Digest;
use crate::plan::{Compensation, Retry, Step};
use crate::policy::{Cancellable, Category};

/// By tool, written `server/tool`. A tool of which nothing is said has no entry.
pub type Terms = BTreeMap<String, ToolTerms>;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolTerms {
    /// The digest of the definition that may be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pin: Option<Digest>,
    /// No call is given longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryTerms>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// A trusted server says that sending it twice does no harm.
    #[serde(skip_serializing_if = "no")]
    pub hinted: bool,
    /// A yes is asked for, whatever the plan says.
    #[serde(skip_serializing_if = "no")]
    pub approval: bool,
}

/// How often and how soon a plan may try again at most.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetryTerms {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_backoff_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<BTreeSet<Category>>,
}

fn no(flag: &bool) -> bool {
    !*flag
}

/// What counts for a step once its plan and the operator have both spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    pub idempotent: bool,
    pub read_only: bool,
    /// It may be sent again by itself though nobody knows what became of it.
    pub repeatable: bool,
    pub cancellable: Cancellable,
    pub approval: bool,
    /// Its probe may be called: the config neither says that the tool writes nor asks for a yes to it.
    pub may_probe: bool,
    /// Its probe may be sent again after its process was lost: the config or a trusted server says so.
    pub probe_repeatable: bool,
    /// Its compensation is a call that the config asks for a yes to.
    pub undo_approval: bool,
}

impl Rules {
    pub fn of(step: &Step, terms: &Terms) -> Self {
        let none = ToolTerms::default();
        let said = step.tool().and_then(|tool| terms.get(tool)).unwrap_or(&none);
        let probe = step.probe.as_ref().and_then(|probe| terms.get(&probe.tool)).unwrap_or(&none);
        let undo = step.compensation.as_ref().and_then(Compensation::tool).and_then(|tool| terms.get(tool));
        let idempotent = said.idempotent.unwrap_or(step.idempotent);
        let read_only = said.read_only.unwrap_or(step.read_only);
        Self {
            idempotent,
            read_only,
            repeatable: idempotent || read_only || said.hinted,
            cancellable: match (step.read_only, read_only) {
                // It was reversible only for having nothing to undo.
                (true, false) => Cancellable::Irreversible,
                (false, true) => Cancellable::Reversible,
                (true, true) | (false, false) => step.cancellable,
            },
            approval: step.approval || said.approval,
            may_probe: probe.may_probe(),
            probe_repeatable: probe.read_only == Some(true) || probe.hinted,
            undo_approval: undo.is_some_and(|terms| terms.approval),
        }
    }

    pub fn irreversible(self) -> bool {
        self.cancellable == Cancellable::Irreversible
    }

    /// Once it may have run, something stays that undo does not take back.
    pub fn leaves_behind(self) -> bool {
        !self.read_only && self.cancellable != Cancellable::Reversible
    }
}

impl ToolTerms {
    /// A probe only reads and is never asked about, so a tool that the config says otherwise of is none.
    pub fn may_probe(&self) -> bool {
        !self.approval && self.read_only != Some(false)
    }

    pub fn timeout_ms(&self, own: u64) -> u64 {
        self.timeout_ms.map_or(own, |ceiling| own.min(ceiling))
    }

    /// Fewer attempts, longer waits, fewer categories: never more than the plan asks for.
    pub fn retry(&self, own: &Retry) -> Retry {
        let Some(most) = &self.retry else { return own.clone() };
        let backoff_ms = own.backoff_ms.max(most.backoff_ms.unwrap_or(0));
        let max_backoff_ms = own.max_backoff_ms.max(most.max_backoff_ms.unwrap_or(0)).max(backoff_ms);
        Retry {
            max_attempts: own.max_attempts.min(most.max_attempts.unwrap_or(u32::MAX)),
            backoff_ms,
            factor: own.factor.max(most.factor.unwrap_or(1.0)),
            max_backoff_ms,
            on: match &most.on {
                Some(allowed) => own.on.intersection(allowed).copied().collect(),
                None => own.on.clone(),
            },
        }
    }
}
