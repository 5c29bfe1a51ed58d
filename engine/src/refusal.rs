//! Why a command is refused: one variant for each case, with the data that an interface needs to word a cure.
//! The message (`Display`) says what is wrong and names no command of any interface. What to do instead is
//! worded by each interface for its own readers.

mod cause;

pub use cause::{
    AllowedAnswers, ArgumentsProblem, AwaitedReport, ClaimExpiry, DecisionPart, ExecutionStage, NamedField,
    StatusAction, StepSuggestion, UndoByHandProblem,
};

use crate::id::{PlanId, StepId};
use crate::policy::{ActingDecision, ExecutionStatus, StepAnswer, StepStatus};

/// Why a command is refused. The ledger and the runner refuse with the same type what the state of a single
/// stream cannot tell.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The command's epoch is not the current one.
    #[error("another process drives this execution")]
    NotTheDriver,
    /// The claim expects an epoch that is not the current one, or the execution has ended.
    #[error("another process claimed it first")]
    ClaimedByAnother,
    /// The execution's toolset is not this process's. `project`: that of the execution.
    #[error("this execution was started with other definitions of its servers{}", in_project(.project))]
    OtherToolset { project: Option<String> },

    #[error("there is no such execution")]
    NoSuchExecution,
    #[error("there is no plan `{id}`")]
    NoSuchPlan { id: PlanId },
    #[error("the plan has no step `{step}`")]
    NoSuchStep { step: String, suggestion: StepSuggestion },
    #[error("there is no task `{id}`")]
    NoSuchTask { id: String },
    #[error("there is no note `{key}` here")]
    NoSuchNote { key: String },
    #[error("there is a task `{id}` already")]
    TaskExists { id: String },
    /// An idempotency key came with another request than the first time.
    #[error("the key `{key}` was used for another request")]
    KeyReused { key: String },

    /// The execution's status does not allow the action.
    #[error("cannot {action}: the execution is {status}")]
    WrongStatus { action: StatusAction, status: ExecutionStatus, stage: ExecutionStage },
    /// The step's status does not allow the answer.
    #[error("`{answer}` does not fit: step `{step}` is {status}")]
    AnswerNotAllowed { answer: StepAnswer, step: StepId, status: StepStatus, allowed: AllowedAnswers },
    /// The answer takes no output.
    #[error("an output does not go with `{answer}`")]
    OutputNotAllowed { answer: StepAnswer },
    #[error("{0}")]
    ArgumentsNotAllowed(ArgumentsProblem),
    /// The reply would be sent in a call for which the config demands an approval, by a caller who may give none.
    #[error("the call of step `{step}` is under approval, so its reply is a person's")]
    ReplyNeedsApproval { step: StepId },

    /// The answer is to a question that is no longer open.
    #[error("the question was answered or replaced meanwhile")]
    StaleQuestion,
    /// `awaiting`: the steps that do wait for an approval.
    #[error("that does not wait for an approval")]
    NothingToApprove { awaiting: Vec<StepId> },
    #[error("nothing that ran is left to undo")]
    NothingToUndo { has_ended: bool },
    #[error("it is being undone already")]
    AlreadyUndoing,
    #[error("its arguments and outputs were erased, so nothing can be undone")]
    UndoOfErased,
    #[error("{0}")]
    UndoByHandNotAllowed(UndoByHandProblem),

    /// The step waits for no such report.
    #[error("nothing to record for step `{step}`: it is {status}")]
    NotAwaited { step: StepId, status: StepStatus, awaited: AwaitedReport },
    /// Another agent holds the step.
    #[error("step `{step}` was started by {holder}, not by you ({reporter})")]
    Claimed { step: StepId, holder: String, reporter: String, expiry: ClaimExpiry },
    #[error("this execution was erased, and nothing is kept of it any more")]
    RecordInErased,
    /// A single word that is nearly a decision with an effect.
    #[error("`{decision}` would only be recorded, and would change nothing")]
    UnclearDecision { decision: String, nearest: ActingDecision },
    #[error("the confidence is a number from 0 to 1")]
    InvalidConfidence,

    /// The command is for sessions only.
    #[error("this execution runs a plan: it is no session")]
    NotASession,
    /// The session's part has ended or is full: the next call starts its successor.
    #[error("this part of the session takes no more calls")]
    SessionPartOver,
    /// The session's labels are not those with which the call was judged.
    #[error("the session's labels have changed since the call was judged")]
    LabelsMoved,
    #[error("the session has no label `{label}`")]
    NoSuchLabel { label: String },
    #[error("step `{step}` has no call in flight")]
    NoOpenCall { step: StepId, status: StepStatus },
    #[error("step `{step}` does not wait to start")]
    NotWaiting { step: StepId, status: StepStatus },
    /// Something happened in the session after it was found idle.
    #[error("the session is not idle any more")]
    NotIdle,
    #[error("only a yes to a call of a session can cover more than one call")]
    ScopeNotAllowed,

    #[error("only ended executions can be erased")]
    EraseBeforeEnd,
    #[error("its undo waits for approval, and needs what would be erased")]
    EraseBeforeUndoApproval,

    #[error("{field} has 1 to {bytes_max} bytes and no control characters")]
    InvalidName { field: NamedField, bytes_max: usize },
    #[error("a task is not its own parent")]
    OwnParent,
    #[error("a task has {labels_max} labels at most")]
    TooManyLabels { labels_max: usize },
    #[error("{bytes} bytes are too much to record at once")]
    FactsTooLarge { bytes: usize, bytes_max: usize },
    #[error("{part} may have {bytes_max} bytes at most")]
    DecisionTooLarge { part: DecisionPart, bytes_max: usize },
    #[error("{bytes} bytes are too much for a note")]
    NoteTooLarge { bytes: usize, bytes_max: usize },
    #[error("a task's fields have {bytes_max} bytes at most")]
    TaskFieldsTooLarge { bytes_max: usize },
}

impl Refusal {
    /// One word for programs. It never changes, and several variants may share it.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotTheDriver => "not_the_driver",
            Self::ClaimedByAnother => "claimed_by_another",
            Self::OtherToolset { .. } => "other_place",
            Self::NoSuchExecution => "no_such_execution",
            Self::NoSuchPlan { .. } => "no_such_plan",
            Self::NoSuchStep { .. } => "no_such_step",
            Self::NoSuchTask { .. } => "no_such_task",
            Self::NoSuchNote { .. } => "no_such_note",
            Self::TaskExists { .. } => "task_exists",
            Self::KeyReused { .. } => "key_reused",
            Self::WrongStatus { .. }
            | Self::AnswerNotAllowed { .. }
            | Self::OutputNotAllowed { .. }
            | Self::ArgumentsNotAllowed(_) => "does_not_fit",
            Self::ReplyNeedsApproval { .. } => "needs_a_person",
            Self::StaleQuestion => "stale_question",
            Self::NothingToApprove { .. } => "nothing_to_approve",
            Self::NothingToUndo { .. } => "nothing_to_undo",
            Self::AlreadyUndoing => "already_undoing",
            Self::UndoOfErased | Self::RecordInErased => "erased",
            Self::UndoByHandNotAllowed(_) => "out_of_order",
            Self::NotAwaited { .. } => "not_awaited",
            Self::Claimed { .. } => "claimed",
            Self::UnclearDecision { .. } => "unclear_decision",
            Self::InvalidConfidence => "invalid_confidence",
            Self::NotASession | Self::ScopeNotAllowed => "not_a_session",
            Self::SessionPartOver => "session_over",
            Self::LabelsMoved => "labels_moved",
            Self::NoSuchLabel { .. } => "no_such_label",
            Self::NoOpenCall { .. } | Self::NotWaiting { .. } => "not_awaited",
            Self::NotIdle => "not_idle",
            Self::EraseBeforeEnd => "not_ended",
            Self::EraseBeforeUndoApproval => "awaits_approval",
            Self::InvalidName { .. } => "invalid_name",
            Self::OwnParent => "own_parent",
            Self::TooManyLabels { .. } => "too_many",
            Self::FactsTooLarge { .. }
            | Self::DecisionTooLarge { .. }
            | Self::NoteTooLarge { .. }
            | Self::TaskFieldsTooLarge { .. } => "too_large",
        }
    }
}

/// The part of a message that names a project; empty where there is none.
fn in_project(project: &Option<String>) -> String {
    project.as_ref().map(|project| format!(", in the project {project}")).unwrap_or_default()
}
