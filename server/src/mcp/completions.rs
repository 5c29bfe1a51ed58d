//! Ids and words, completed while somebody types them.

use rmcp::model::{CompleteRequestParams, CompleteResult, CompletionInfo, ErrorData, Reference};

use super::resources;
use crate::service::Service;

/// What an argument is: the id of something, or one of a few words.
enum Wanted {
    Plan,
    Execution,
    Words(&'static [&'static str]),
    Anything,
}

pub async fn complete(
    service: &Service,
    request: &CompleteRequestParams,
) -> Result<CompleteResult, ErrorData> {
    let begun = request.argument.value.as_str();
    let failed = |error: crate::error::Error| ErrorData::internal_error(error.message, None);
    let values = match wanted(&request.r#ref, &request.argument.name) {
        Wanted::Plan => resources::completions(service, true, begun).await.map_err(failed)?,
        Wanted::Execution => resources::completions(service, false, begun).await.map_err(failed)?,
        Wanted::Words(words) => {
            words.iter().filter(|word| word.starts_with(begun)).map(|word| (*word).to_owned()).collect()
        }
        Wanted::Anything => Vec::new(),
    };
    let completion = CompletionInfo::new(values).map_err(|error| ErrorData::internal_error(error, None))?;
    Ok(CompleteResult::new(completion))
}

fn wanted(of: &Reference, argument: &str) -> Wanted {
    match (of, argument) {
        (Reference::Resource(template), "id") if template.uri.starts_with("actbook://plans/") => Wanted::Plan,
        (Reference::Resource(template), "id") if template.uri.starts_with("actbook://executions/") => {
            Wanted::Execution
        }
        (Reference::Prompt(_), "plan_id") => Wanted::Plan,
        (Reference::Prompt(_), "execution_id") => Wanted::Execution,
        (Reference::Prompt(_), "complexity") => Wanted::Words(&["simple", "moderate", "complex"]),
        _ => Wanted::Anything,
    }
}
