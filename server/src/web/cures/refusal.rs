//! Maps refusals to HTTP: the status, and the request to make instead.

use actbook_engine::refusal::{AllowedAnswers, AwaitedReport, ExecutionStage, Refusal, UndoByHandProblem};
use axum::http::StatusCode;

use crate::error::command_line::refusal_cure;

/// The status of a refusal: 404 for what is not there, 422 for what cannot be right, 409 for what does not fit the
/// state.
pub fn status(refusal: &Refusal) -> StatusCode {
    match refusal {
        Refusal::NoSuchExecution
        | Refusal::NoSuchPlan { .. }
        | Refusal::NoSuchTask { .. }
        | Refusal::NoSuchStep { .. }
        | Refusal::NoSuchNote { .. } => StatusCode::NOT_FOUND,
        Refusal::KeyReused { .. }
        | Refusal::OutputNotAllowed { .. }
        | Refusal::ArgumentsNotAllowed(_)
        | Refusal::UnclearDecision { .. }
        | Refusal::InvalidConfidence
        | Refusal::InvalidName { .. }
        | Refusal::OwnParent
        | Refusal::TooManyLabels { .. }
        | Refusal::FactsTooLarge { .. }
        | Refusal::DecisionTooLarge { .. }
        | Refusal::NoteTooLarge { .. }
        | Refusal::TaskFieldsTooLarge { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        Refusal::OtherToolset { .. }
        | Refusal::NotTheDriver
        | Refusal::ClaimedByAnother
        | Refusal::WrongStatus { .. }
        | Refusal::AnswerNotAllowed { .. }
        | Refusal::StaleQuestion
        | Refusal::NothingToApprove { .. }
        | Refusal::NothingToUndo { .. }
        | Refusal::AlreadyUndoing
        | Refusal::UndoOfErased
        | Refusal::UndoByHandNotAllowed(_)
        | Refusal::NotAwaited { .. }
        | Refusal::Claimed { .. }
        | Refusal::RecordInErased
        | Refusal::TaskExists { .. }
        | Refusal::EraseBeforeEnd
        | Refusal::EraseBeforeUndoApproval => StatusCode::CONFLICT,
    }
}

/// The cure for a refusal, for a caller of the API: the request to make.
pub fn cure(refusal: &Refusal) -> String {
    let view = "GET /api/v1/executions/{id} says what can be done";
    let cure = match refusal {
        Refusal::OtherToolset { .. } => {
            "it continues where it was started; to continue it with this server's tools, run `actbook resume EXECUTION --here` on its machine"
        }
        Refusal::NoSuchExecution => "GET /api/v1/executions lists them",
        Refusal::NoSuchPlan { .. } => "GET /api/v1/plans lists the saved ones",
        Refusal::NoSuchTask { .. } => "GET /api/v1/tasks lists them",
        Refusal::WrongStatus { stage, .. } => stage_cure(*stage),
        Refusal::AnswerNotAllowed { allowed: AllowedAnswers::None, .. } => view,
        Refusal::AnswerNotAllowed { allowed: AllowedAnswers::AfterReport, .. } => {
            "its agent reports it first: after POST /api/v1/executions/{id}/steps/{step}/record with `failed` it can be retried or skipped"
        }
        Refusal::StaleQuestion => "nothing was decided; GET /api/v1/executions/{id} says what it asks now",
        Refusal::NothingToApprove { awaiting } if awaiting.is_empty() => view,
        Refusal::NothingToUndo { has_ended: true } => {
            "GET /api/v1/executions/{id}: the brief names what cannot be undone"
        }
        Refusal::NothingToUndo { has_ended: false } => "POST /api/v1/executions/{id}/cancel stops it",
        Refusal::AlreadyUndoing => "GET /api/v1/executions/{id}?wait_s= waits for it; or answer what it asks",
        Refusal::UndoOfErased => "undo by hand what GET /api/v1/executions/{id}/journal shows",
        Refusal::UndoByHandNotAllowed(UndoByHandProblem::GoesForward { .. }) => {
            "stop it first: POST /api/v1/executions/{id}/cancel, or undo it all with …/undo"
        }
        Refusal::NotAwaited { awaited: AwaitedReport::None, .. } => view,
        Refusal::EraseBeforeUndoApproval => "POST /api/v1/executions/{id}/approve or …/reject first",
        // Their cures name no command, and are the same for every reader.
        Refusal::AnswerNotAllowed { .. }
        | Refusal::ArgumentsNotAllowed(_)
        | Refusal::NothingToApprove { .. }
        | Refusal::UndoByHandNotAllowed(_)
        | Refusal::NotAwaited { .. }
        | Refusal::NotTheDriver
        | Refusal::ClaimedByAnother
        | Refusal::NoSuchStep { .. }
        | Refusal::NoSuchNote { .. }
        | Refusal::TaskExists { .. }
        | Refusal::KeyReused { .. }
        | Refusal::OutputNotAllowed { .. }
        | Refusal::Claimed { .. }
        | Refusal::RecordInErased
        | Refusal::UnclearDecision { .. }
        | Refusal::InvalidConfidence
        | Refusal::EraseBeforeEnd
        | Refusal::InvalidName { .. }
        | Refusal::OwnParent
        | Refusal::TooManyLabels { .. }
        | Refusal::FactsTooLarge { .. }
        | Refusal::DecisionTooLarge { .. }
        | Refusal::NoteTooLarge { .. }
        | Refusal::TaskFieldsTooLarge { .. } => return refusal_cure(refusal),
    };
    cure.to_owned()
}

fn stage_cure(stage: ExecutionStage) -> &'static str {
    match stage {
        ExecutionStage::Ended { can_undo: true } => {
            "start a new one, or undo this one: POST /api/v1/executions/{id}/undo"
        }
        ExecutionStage::Ended { can_undo: false } => "start a new one: POST /api/v1/executions",
        ExecutionStage::Unwinding => "POST /api/v1/executions/{id}/pause halts it, or answer what it asks",
        ExecutionStage::Unfinished => "GET /api/v1/executions/{id} says what can be done",
    }
}
