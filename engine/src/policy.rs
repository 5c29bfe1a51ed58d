//! Enums with a fixed text for each variant: policies that a plan may name, outcomes, statuses and answers.

use serde::{Deserialize, Serialize};

/// Declares an enum whose variants each have one text, the same in plans, in the journal and in every view. Where it
/// is used, serde's `Serialize` and `Deserialize` are in scope.
#[macro_export]
macro_rules! string_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$mark:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$mark])* #[serde(rename = $text)] $variant),+ }

        impl $name {
            /// All variants, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// The variant's text, as serialised.
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
                    format!("`{text}` is not one of {}", known.join(", "))
                })
            }
        }
    };
}
pub use string_enum;

/// The built-in tool that restores files: the undo of a session's calls whose files were kept. No plan may call it.
pub const RESTORE_TOOL: &str = "actbook/restore_files";

string_enum!(
    /// What happens to the effects so far when a step fails: ask a person, propose to undo, or undo at once.
    OnFailure { Manual = "manual", Propose = "propose", Auto = "auto" }
);
string_enum!(
    /// Which approvals a plan's policy demands, besides those of single steps and of the config.
    PlanApproval {
        None = "none",
        Plan = "plan",
        AtPointOfNoReturn = "at_point_of_no_return",
        EveryWrite = "every_write",
    }
);
string_enum!(
    /// What a step's failure does to the other steps.
    FailureAction {
        CancelAll = "cancel_all",
        CancelDependent = "cancel_dependent",
        ContinueOthers = "continue_others",
        ManualDecision = "manual_decision",
    }
);
string_enum!(
    /// How far a step's effect can be undone; the plan's `cancellable`.
    Reversibility {
        Reversible = "reversible",
        PartiallyReversible = "partially-reversible",
        Irreversible = "irreversible",
    }
);
string_enum!(
    /// Why a call failed, or why its outcome is unknown.
    ErrorCategory {
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
string_enum!(
    /// How an attempt ended. `Unknown`: the call may have had its effect; it never counts as `Failed`.
    Outcome { Succeeded = "succeeded", Failed = "failed", Unknown = "unknown" }
);
string_enum!(
    /// The status of a step within an execution.
    #[derive(Default)]
    StepStatus {
        #[default]
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
string_enum!(
    /// The status of an execution, derived from its state. `Blocked`: it waits for a person or an agent.
    ExecutionStatus {
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
string_enum!(
    /// How an execution ended.
    EndStatus { Succeeded = "succeeded", Failed = "failed", Cancelled = "cancelled", Compensated = "compensated" }
);
string_enum!(
    /// What a person or an agent may answer about a step that failed, is unknown or could not be undone.
    StepAnswer {
        Retry = "retry",
        Skip = "skip",
        Happened = "happened",
        DidNotHappen = "did-not-happen",
        Compensate = "compensate",
        Abandon = "abandon",
    }
);
string_enum!(
    /// A recorded decision that has an effect: `Stop` cancels the execution, `Continue` resumes it.
    ActingDecision { Stop = "stop", Continue = "continue" }
);
string_enum!(
    /// What an execution waits for a person to give.
    WaitKind { Approval = "approval", Decision = "decision" }
);
string_enum!(
    /// The progress of a task.
    TaskStatus {
        Open = "open",
        InProgress = "in_progress",
        Blocked = "blocked",
        Done = "done",
        Cancelled = "cancelled",
    }
);

impl From<EndStatus> for ExecutionStatus {
    fn from(end: EndStatus) -> Self {
        match end {
            EndStatus::Succeeded => Self::Succeeded,
            EndStatus::Failed => Self::Failed,
            EndStatus::Cancelled => Self::Cancelled,
            EndStatus::Compensated => Self::Compensated,
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
