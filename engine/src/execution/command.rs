//! What can be asked of an execution, and how it says no.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use super::claim::Reporter;
use super::due::CallId;
use crate::chain::Digest;
use crate::event::Reported;
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
    /// Stay the driver, under a new epoch: whoever has found this one gone comes too late with its claim.
    ClaimAgain {
        seat: SeatId,
        epoch: Epoch,
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
        /// Whether the caller's word is also the yes that calls under approval wait for.
        approves: bool,
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
        /// The failed call's arguments, corrected.
        arguments: Option<Value>,
        /// With `compensate`: as in `Undo`.
        approves: bool,
    },
    /// How an agent's step or compensation goes, with what else the agent tells of it.
    Record {
        step: String,
        report: Report,
        facts: Box<Facts>,
        /// None: whoever may report on any step.
        by: Option<Reporter>,
    },
    /// An act that is no report: outside the plan, or a remark about a step.
    Note {
        step: Option<String>,
        status: Option<Reported>,
        facts: Box<Facts>,
    },
    /// `stop` and `continue` act; anything else is only kept.
    RecordDecision {
        decision: String,
        reason: Option<String>,
        step: Option<String>,
        details: Option<Value>,
    },
    /// The agent undid a step itself, or tried to.
    RecordCompensation {
        step: String,
        done: bool,
        facts: Box<Facts>,
    },
    /// The server goes on with a call by itself. A fact from whoever made the call.
    Accept {
        call: CallId,
        task: String,
    },
    Erase,
}

/// How a call ended, as `tools` classified it.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    Succeeded {
        output: Value,
    },
    Failed {
        category: Category,
        said: Value,
        unsent: bool,
        retry_after_ms: Option<u64>,
    },
    Unknown {
        category: Category,
        said: Value,
        retry_after_ms: Option<u64>,
    },
    /// The tool wants to know something before it goes on. `began`: it may have done something already.
    Asks {
        question: Value,
        began: bool,
    },
}

/// What an agent or a person reports of its own step.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    Started,
    Succeeded { output: Option<Value> },
    Failed { reason: Option<String>, category: Category },
    Compensated { output: Option<Value> },
}

impl Report {
    pub fn word(&self) -> Reported {
        match self {
            Self::Started => Reported::Started,
            Self::Succeeded { .. } => Reported::Succeeded,
            Self::Failed { .. } => Reported::Failed,
            Self::Compensated { .. } => Reported::Compensated,
        }
    }
}

/// What an agent tells of its act besides how it ended. Kept as the payload of an entry, field by field.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Facts {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// What it was about: a file, a record, a ticket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_state: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_state: Option<Value>,
    /// Of an act outside the plan; a step's output is its own payload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// How sure the agent is, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What was done to undo a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action_taken: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// What one entry keeps of an agent's words at most.
pub const FACTS_BYTES_MAX: usize = 1024 * 1024;

impl Facts {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The payload, where it can be kept.
    pub fn written(&self) -> Result<Vec<u8>, Refusal> {
        if self.confidence.is_some_and(|sure| !(0.0..=1.0).contains(&sure)) {
            let message = "the confidence is a number from 0 to 1";
            return Err(Refusal::new("invalid_confidence", message, "0 is a guess, 1 is certain"));
        }
        let written = serde_json::to_vec(self).expect("texts, numbers and JSON values always serialise");
        if written.len() > FACTS_BYTES_MAX {
            let message = format!("{} bytes are too much to record at once", written.len());
            let cure = format!("keep it below {FACTS_BYTES_MAX} bytes; name a file instead of quoting it");
            return Err(Refusal::new("too_large", message, cure));
        }
        Ok(written)
    }
}

impl Command {
    /// The driver's own commands go on with what follows; all others append facts and ring.
    pub fn epoch(&self) -> Option<Epoch> {
        match self {
            Self::Drive { epoch } | Self::Report { epoch, .. } => Some(*epoch),
            Self::Claim { .. }
            | Self::ClaimAgain { .. }
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
            | Self::Note { .. }
            | Self::RecordDecision { .. }
            | Self::RecordCompensation { .. }
            | Self::Accept { .. }
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
