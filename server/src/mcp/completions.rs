//! Completion of ids and enum values in arguments of prompts and resource templates.

use rmcp::model::{CompleteRequestParams, CompleteResult, CompletionInfo, ErrorData, Reference};

use super::{prompts, resources};
use crate::service::Service;

/// What an argument can be completed with.
enum CompletionKind {
    PlanId,
    ExecutionId,
    /// One of these values.
    OneOf(&'static [&'static str]),
    /// Nothing: the argument is free text or unknown.
    NoCompletion,
}

/// Whether the argument is of one of Actbook's own prompts or templates.
pub fn is_own(request: &CompleteRequestParams) -> bool {
    match &request.r#ref {
        Reference::Prompt(prompt) => prompts::is_own(&prompt.name),
        Reference::Resource(resource) => resource.uri.starts_with(resources::OWN_SCHEME),
        _ => false,
    }
}

/// Answers `completion/complete` with the values that begin with what was typed. Err: the database failed.
pub async fn complete(
    service: &Service,
    request: &CompleteRequestParams,
) -> Result<CompleteResult, ErrorData> {
    let prefix = request.argument.value.as_str();
    let failed = |error: crate::error::Error| ErrorData::internal_error(error.to_string(), None);
    let values = match completion_kind(&request.r#ref, &request.argument.name) {
        CompletionKind::PlanId => resources::complete_id(service, true, prefix).await.map_err(failed)?,
        CompletionKind::ExecutionId => {
            resources::complete_id(service, false, prefix).await.map_err(failed)?
        }
        CompletionKind::OneOf(values) => {
            values.iter().filter(|value| value.starts_with(prefix)).map(|value| (*value).to_owned()).collect()
        }
        CompletionKind::NoCompletion => Vec::new(),
    };
    let completion = CompletionInfo::new(values).map_err(|error| ErrorData::internal_error(error, None))?;
    Ok(CompleteResult::new(completion))
}

/// What an argument of this prompt or resource template can be completed with.
fn completion_kind(reference: &Reference, argument: &str) -> CompletionKind {
    match (reference, argument) {
        (Reference::Resource(template), "id") if template.uri.starts_with("actbook://plans/") => {
            CompletionKind::PlanId
        }
        (Reference::Resource(template), "id") if template.uri.starts_with("actbook://executions/") => {
            CompletionKind::ExecutionId
        }
        (Reference::Prompt(_), "plan_id") => CompletionKind::PlanId,
        (Reference::Prompt(_), "execution_id") => CompletionKind::ExecutionId,
        (Reference::Prompt(_), "complexity") => CompletionKind::OneOf(&["simple", "moderate", "complex"]),
        _ => CompletionKind::NoCompletion,
    }
}
