//! Maps errors to HTTP, once: the status, and what to do about it for readers who call the API or look at a page.
//! Knows errors, and no state.

mod refusal;

use axum::http::StatusCode;

use crate::error::{CatalogError, Corruption, ErasedUse, Error, PersonAct, StoreError, command_line};

/// The status of an error.
pub fn status(error: &Error) -> StatusCode {
    match error {
        Error::Refused(refusal) => refusal::status(refusal),
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
        | StoreError::ReadOnly { .. }
        | StoreError::ForeignDatabase { .. }
        | StoreError::Constraint(_)
        | StoreError::Failed(_)
        | StoreError::WrongColumn { .. }
        | StoreError::Backup { .. }
        | StoreError::BackupUnsupported => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The cure for an error, for a caller of the API: the request to make.
pub fn cure(error: &Error) -> String {
    let cure = match error {
        Error::Refused(refusal) => return refusal::cure(refusal),
        Error::NoSuchExecution { .. } => "GET /api/v1/executions lists them",
        Error::NoSuchPlan { nearest: None, .. } => "GET /api/v1/plans lists the saved ones",
        Error::NoSuchTemplate { nearest: None, .. } => "GET /api/v1/templates lists them",
        Error::NoSuchNote { .. } => "GET /api/v1/context?search= finds notes",
        Error::NoSuchToken { .. } => "GET /api/v1/tokens lists them",
        Error::NoSuchSession { .. } => "GET /api/v1/sessions lists them",
        Error::InvalidArguments { .. } => "GET /api/v1/tools shows what the tool takes",
        Error::ToolChanged { .. } => {
            "read its new definition (GET /api/v1/tools), then save the plan again or accept the tool"
        }
        Error::Erased { needed_for: ErasedUse::Rerun { .. } } => {
            "start it again with its inputs: POST /api/v1/executions"
        }
        Error::NeedsPerson(PersonAct::Approve { .. }) => "a credential with the right `approve` answers it",
        Error::NotAnExport { .. } => "GET /api/v1/executions/{id}/export makes one",
        Error::Corrupt(Corruption::Fold(_) | Corruption::Entry(_)) => {
            "POST /api/v1/journal:verify names the first bad position"
        }
        // Their cures name nothing that depends on the reader, or what only the server's operator can do.
        Error::Invalid(_)
        | Error::Config(_)
        | Error::UntrustedConfig(_)
        | Error::Store(_)
        | Error::Corrupt(Corruption::Row(_) | Corruption::NoHead)
        | Error::Closed(_)
        | Error::NodeLock(_)
        | Error::KeyFile { .. }
        | Error::Bug(_)
        | Error::NoSuchStep { .. }
        | Error::NoSuchPlan { nearest: Some(_), .. }
        | Error::NoSuchVersion { .. }
        | Error::NoSuchTemplate { nearest: Some(_), .. }
        | Error::ToolUnavailable { .. }
        | Error::ServerNotConfigured { .. }
        | Error::NoSuchKind { .. }
        | Error::NoSuchStatus(_)
        | Error::NoSuchCategory(_)
        | Error::Ambiguous(_)
        | Error::NothingToAccept { .. }
        | Error::InvalidExecutor { .. }
        | Error::InvalidName { .. }
        | Error::InvalidKey { .. }
        | Error::NoWords { .. }
        | Error::ForeignCursor
        | Error::SeveralOwners
        | Error::StepWithoutExecution
        | Error::OutputNotAllowed { .. }
        | Error::ReplyDoesNotFit(_)
        | Error::ShippedTemplate { .. }
        | Error::Erased { needed_for: ErasedUse::Template }
        | Error::Secret(_)
        | Error::NeedsPerson(
            PersonAct::DeleteForeignPlan | PersonAct::DeleteForeignTemplate | PersonAct::Share,
        )
        | Error::Forbidden { .. }
        | Error::ExportNotWritten(_)
        | Error::CommandLine(_)
        | Error::Agent(_) => return command_line::cure(error),
    };
    cure.to_owned()
}
