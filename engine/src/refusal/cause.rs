//! The parts of refusals that have several cases of their own.

use serde::{Deserialize, Serialize};

use crate::id::StepId;
use crate::policy::{ExecutionStatus, StepAnswer, StepStatus, string_enum};

string_enum!(
    /// What an execution's status does not allow.
    StatusAction {
        Pause = "pause",
        Resume = "resume",
        Continue = "continue",
        Cancel = "cancel",
        Approve = "approve or reject",
        Decide = "decide",
        Call = "start a call",
        Close = "close",
    }
);

/// How far an execution is whose status does not allow an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutionStage {
    Ended {
        /// Something that ran has a compensation and is not undone.
        can_undo: bool,
    },
    /// Undoes its steps, and is not paused.
    Unwinding,
    /// Runs forward, or is paused.
    Unfinished,
}

/// The steps that a refusal names when the plan has no step of the given id: the most similar one, else the
/// plan's first steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepSuggestion {
    /// The step with the most similar id.
    Nearest(StepId),
    /// No id is similar: the plan's first steps.
    Known(Vec<StepId>),
}

/// The answers about a step that its status allows instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedAnswers {
    /// At least one.
    Listed(Vec<StepAnswer>),
    /// None yet: the step's agent works on it, and reports first.
    AfterReport,
    None,
}

/// Why corrected arguments are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentsProblem {
    /// The answer sends no call.
    #[error("arguments do not go with `{answer}`")]
    AnswerTakesNone { answer: StepAnswer },
    #[error("arguments and an output do not go together")]
    GivenWithOutput,
    #[error("step `{step}` is being undone, and its compensation's arguments are the plan's")]
    StepIsUndone { step: StepId },
    #[error("step `{step}` is an action and has no arguments")]
    StepHasNone { step: StepId },
    /// An earlier attempt may have had an effect, which a call with other arguments could repeat.
    #[error("it is unknown whether step `{step}` took effect with the arguments that were sent")]
    EffectUnknown { step: StepId },
    #[error("a call's arguments are a JSON object")]
    NotAnObject,
    /// `path`: where in the arguments, as in `.to[0]`.
    #[error("`arguments{path}` holds `${{…}}`, and nothing is evaluated here")]
    HoldExpression { path: String },
}

/// Why a step cannot be recorded as undone by hand.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UndoByHandProblem {
    /// `others`: the first steps that may have an effect.
    #[error("step `{step}` has no effect to undo: it is {status}")]
    NoEffect { step: StepId, status: StepStatus, others: Vec<StepId> },
    #[error("the execution is {status} and has not been stopped")]
    GoesForward { status: ExecutionStatus },
    #[error("actbook itself is undoing step `{step}`")]
    UndoneByActbook { step: StepId },
    #[error("step `{step}` has not ended")]
    InProgress { step: StepId },
    /// `dependents`: the steps that are to be undone first.
    #[error("step `{step}` is undone after what depends on it")]
    DependentsFirst { step: StepId, dependents: Vec<StepId> },
}

/// The report that is awaited instead of a refused one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AwaitedReport {
    /// How the agent's work on the step ended.
    Outcome,
    /// How the agent's undo of the step ended.
    Compensation,
    /// Reports on other steps, at least one.
    OtherSteps(Vec<StepId>),
    None,
}

/// When the claim of the agent that holds a step ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimExpiry {
    /// It has ended with the connection of its holder.
    HolderDeparted,
    Lapsed,
    LapsesIn {
        seconds: i64,
    },
}

string_enum!(
    /// The part of a decision that is too large.
    DecisionPart { Text = "a decision and its reason", Details = "the details" }
);
string_enum!(
    /// A field of a task or a note that holds a short name.
    NamedField {
        TaskId = "a task's id",
        Title = "a title",
        Type = "a type",
        Label = "a label",
        Key = "a key",
    }
);
