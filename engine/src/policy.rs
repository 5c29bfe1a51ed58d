//! The words in which a plan states how careful to be. Closed sets, each with its one spelling.

use serde::{Deserialize, Serialize};

/// A closed set of words with one spelling each, used in plans, the journal and every view.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name { $(#[serde(rename = $text)] $variant),+ }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
        impl std::str::FromStr for $name {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL.iter().copied().find(|word| word.as_str() == text).ok_or_else(|| {
                    let known: Vec<_> = Self::ALL.iter().map(|word| word.as_str()).collect();
                    format!("`{text}` is none of {}", known.join(", "))
                })
            }
        }
    };
}
pub(crate) use words;

words!(
    /// What becomes of effects when a step fails.
    OnFailure { Manual = "manual", Propose = "propose", Auto = "auto" }
);
words!(
    /// Which approvals a plan's policy asks for by itself.
    PlanApproval {
        None = "none",
        Plan = "plan",
        AtPointOfNoReturn = "at_point_of_no_return",
        EveryWrite = "every_write",
    }
);
words!(
    /// What becomes of other steps when one fails.
    FailureAction {
        CancelAll = "cancel_all",
        CancelDependent = "cancel_dependent",
        ContinueOthers = "continue_others",
        ManualDecision = "manual_decision",
    }
);
words!(
    /// How far a step's effect can be taken back.
    Cancellable {
        Reversible = "reversible",
        PartiallyReversible = "partially-reversible",
        Irreversible = "irreversible",
    }
);
words!(
    /// Why a call failed, or why nobody knows.
    Category {
        InvalidArguments = "invalid_arguments",
        NotFound = "not_found",
        Permission = "permission",
        RateLimited = "rate_limited",
        Unavailable = "unavailable",
        Timeout = "timeout",
        ToolError = "tool_error",
        Protocol = "protocol",
        Policy = "policy",
        Internal = "internal",
    }
);
words!(
    /// How an attempt ended. `Unknown` is never rounded to `Failed`.
    Outcome { Succeeded = "succeeded", Failed = "failed", Unknown = "unknown" }
);
words!(
    StepStatus {
        Pending = "pending",
        Running = "running",
        AwaitingApproval = "awaiting_approval",
        AwaitingAgent = "awaiting_agent",
        Succeeded = "succeeded",
        Failed = "failed",
        Unknown = "unknown",
        Skipped = "skipped",
        Cancelled = "cancelled",
        Compensating = "compensating",
        Compensated = "compensated",
        CompensationFailed = "compensation_failed",
    }
);
words!(
    Status {
        Running = "running",
        Paused = "paused",
        Blocked = "blocked",
        Compensating = "compensating",
        Succeeded = "succeeded",
        Failed = "failed",
        Cancelled = "cancelled",
        Compensated = "compensated",
    }
);
words!(
    /// How an execution ended.
    End { Succeeded = "succeeded", Failed = "failed", Cancelled = "cancelled", Compensated = "compensated" }
);
words!(
    /// What a person or an agent may answer to a failed, unknown or half-undone step.
    Answer {
        Retry = "retry",
        Skip = "skip",
        Happened = "happened",
        DidNotHappen = "did-not-happen",
        Compensate = "compensate",
        Abandon = "abandon",
    }
);

impl From<End> for Status {
    fn from(end: End) -> Self {
        match end {
            End::Succeeded => Self::Succeeded,
            End::Failed => Self::Failed,
            End::Cancelled => Self::Cancelled,
            End::Compensated => Self::Compensated,
        }
    }
}

impl From<Outcome> for StepStatus {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Succeeded => Self::Succeeded,
            Outcome::Failed => Self::Failed,
            Outcome::Unknown => Self::Unknown,
        }
    }
}
