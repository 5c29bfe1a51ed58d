//! The HTTP status of each error. Knows errors, and no state.

use actbook_engine::refusal::Refusal;
use axum::http::StatusCode;

use crate::error::{CatalogError, Error, StoreError};

/// The status of an error.
pub fn error_status(error: &Error) -> StatusCode {
    match error {
        Error::Refused(refusal) => refusal_status(refusal),
        Error::NoSuchExecution { .. }
        | Error::NoSuchStep { .. }
        | Error::NoSuchPlan { .. }
        | Error::NoSuchVersion { .. }
        | Error::NoSuchTemplate { .. }
        | Error::NoSuchNote { .. }
        | Error::NoSuchToken { .. }
        | Error::NoSuchSession { .. } => StatusCode::NOT_FOUND,
        Error::NoSuchKind { .. }
        | Error::NoSuchStatus(_)
        | Error::NoSuchCategory(_)
        | Error::InvalidKey { .. }
        | Error::NoWords { .. }
        | Error::ForeignCursor => StatusCode::BAD_REQUEST,
        Error::Invalid(_)
        | Error::InvalidArguments { .. }
        | Error::InvalidName { .. }
        | Error::SeveralOwners
        | Error::StepWithoutExecution
        | Error::OutputNotAllowed { .. }
        | Error::ReplyDoesNotFit(_)
        | Error::Secret(_)
        | Error::NotAnExport { .. }
        | Error::CommandLine(_)
        | Error::Agent(_) => StatusCode::UNPROCESSABLE_ENTITY,
        Error::Ambiguous(_)
        | Error::ToolChanged { .. }
        | Error::NothingToAccept { .. }
        | Error::ShippedTemplate { .. }
        | Error::ServerNotConfigured { .. }
        | Error::UntrustedConfig(_)
        | Error::Erased { .. } => StatusCode::CONFLICT,
        Error::ToolUnavailable { error, .. } => tool_status(error),
        Error::NeedsPerson(_) | Error::Forbidden { .. } => StatusCode::FORBIDDEN,
        Error::Store(error) => store_status(error),
        Error::Closed(_) => StatusCode::SERVICE_UNAVAILABLE,
        Error::Config(_)
        | Error::Corrupt(_)
        | Error::NodeLock(_)
        | Error::KeyFile { .. }
        | Error::Bug(_)
        | Error::InvalidExecutor { .. }
        | Error::ExportNotWritten(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn tool_status(error: &CatalogError) -> StatusCode {
    match error {
        CatalogError::BadName(_) => StatusCode::BAD_REQUEST,
        CatalogError::UnknownServer { .. } | CatalogError::UnknownTool { .. } => StatusCode::NOT_FOUND,
        CatalogError::Unreachable { .. } => StatusCode::BAD_GATEWAY,
        CatalogError::Untrusted(_) | CatalogError::DisabledServer { .. } => StatusCode::CONFLICT,
    }
}

/// A database that is busy or gone may be back soon; other failures of it are the server's.
fn store_status(error: &StoreError) -> StatusCode {
    match error {
        StoreError::TooManyWords { .. } => StatusCode::BAD_REQUEST,
        StoreError::DiskFull { .. } => StatusCode::INSUFFICIENT_STORAGE,
        StoreError::Busy { .. }
        | StoreError::ConnectionLost(_)
        | StoreError::HeadMoved
        | StoreError::Open { .. } => StatusCode::SERVICE_UNAVAILABLE,
        StoreError::UnsafeDurability { .. }
        | StoreError::NewerSchema { .. }
        | StoreError::OlderSchema { .. }
        | StoreError::ReadOnly { .. }
        | StoreError::ForeignDatabase { .. }
        | StoreError::Constraint(_)
        | StoreError::Failed(_)
        | StoreError::WrongColumn { .. }
        | StoreError::Backup { .. }
        | StoreError::BackupUnsupported => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The status of a refusal: 404 for what is not there, 403 for what is another's to do, 422 for what cannot be right, 409
/// for what does not fit the state.
fn refusal_status(refusal: &Refusal) -> StatusCode {
    match refusal {
        Refusal::ReplyNeedsApproval { .. } => StatusCode::FORBIDDEN,
        Refusal::NoSuchExecution
        | Refusal::NoSuchPlan { .. }
        | Refusal::NoSuchTask { .. }
        | Refusal::NoSuchStep { .. }
        | Refusal::NoSuchNote { .. } => StatusCode::NOT_FOUND,
        Refusal::KeyReused { .. }
        | Refusal::OutputNotAllowed { .. }
        | Refusal::ArgumentsNotAllowed(_)
        | Refusal::NotASession
        | Refusal::ScopeNotAllowed
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
        | Refusal::SessionPartOver
        | Refusal::LabelsMoved
        | Refusal::NoSuchLabel { .. }
        | Refusal::NoOpenCall { .. }
        | Refusal::NotWaiting { .. }
        | Refusal::NotIdle
        | Refusal::EraseBeforeEnd
        | Refusal::EraseBeforeUndoApproval => StatusCode::CONFLICT,
    }
}
