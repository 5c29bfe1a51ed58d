//! What can be asked of an execution, and how it says no.

use std::collections::BTreeSet;

use serde_json::Value;

use super::due::CallId;
use crate::chain::Digest;
use crate::id::{Epoch, SeatId};
use crate::policy::{Answer, Category};

#[derive(Clone, Debug)]
pub enum Command {
    /// Become the driver. Open calls of the driver before are unknown, but for those proven unsent.
    /// `after` is the epoch whose driver was found gone: what was proven of it says nothing of another.
    Claim {
        seat: SeatId,
        after: Epoch,
        unsent: BTreeSet<CallId>,
    },
    /// Go on with whatever follows by itself.
    Drive {
        epoch: Epoch,
    },
    /// What became of a call. A fact from whoever made it; only the current driver goes on from there.
    Report {
        epoch: Epoch,
        call: CallId,
        ended: Ended,
    },
    Adopt {
        place: Digest,
    },
    /// Go by the definition of a tool that an operator has accepted since.
    MovePin {
        tool: String,
        digest: Digest,
    },
    Pause {
        reason: Option<String>,
    },
    Resume,
    Cancel {
        reason: Option<String>,
    },
    Undo {
        reason: Option<String>,
    },
    /// Without a step: the plan, or a proposed undo.
    Approve {
        step: Option<String>,
        reason: Option<String>,
    },
    Reject {
        step: Option<String>,
        reason: Option<String>,
    },
    Decide {
        step: String,
        answer: Answer,
        reason: Option<String>,
        output: Option<Value>,
    },
    Record {
        step: String,
        report: Report,
    },
    Erase,
}

/// How a call ended, as `tools` classified it.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    Succeeded { output: Value },
    Failed { category: Category, said: Value, unsent: bool, retry_after_ms: Option<u64> },
    Unknown { category: Category, said: Value, retry_after_ms: Option<u64> },
}

/// What an agent or a person reports of its own step.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    Started,
    Succeeded { output: Option<Value> },
    Failed { reason: Option<String>, category: Category },
    Compensated { output: Option<Value> },
}

impl Command {
    /// The driver's own commands go on with what follows; all others append facts and ring.
    pub fn epoch(&self) -> Option<Epoch> {
        match self {
            Self::Drive { epoch } | Self::Report { epoch, .. } => Some(*epoch),
            Self::Claim { .. }
            | Self::Adopt { .. }
            | Self::MovePin { .. }
            | Self::Pause { .. }
            | Self::Resume
            | Self::Cancel { .. }
            | Self::Undo { .. }
            | Self::Approve { .. }
            | Self::Reject { .. }
            | Self::Decide { .. }
            | Self::Record { .. }
            | Self::Erase => None,
        }
    }
}

/// A no: a value with a code, a sentence, and what to do instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub code: &'static str,
    pub message: String,
    pub cure: String,
}

impl Refusal {
    pub fn new(code: &'static str, message: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { code, message: message.into(), cure: cure.into() }
    }
}
