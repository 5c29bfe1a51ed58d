//! `before` and `undo` at a tool: how the state around a guarded call is read, and which call takes it back.

use actbook_engine::bind::{ExpressionVocabulary, ValueTemplate};
use serde_json::{Value, json};

use super::ConfigProblem;
use super::section::Section;

/// A call whose arguments may hold expressions, such as `${arguments.id}`.
#[derive(Clone, Debug, PartialEq)]
pub struct CallTemplate {
    /// `server/tool`.
    pub tool: String,
    pub arguments: Value,
}

/// Takes a call's template; `None` if the key is absent.
pub(super) fn take_call_template(
    entry: &mut Section,
    key: &'static str,
) -> Result<Option<CallTemplate>, ConfigProblem> {
    let Some(mut call) = entry.optional_section(key)? else { return Ok(None) };
    let tool = call.text("tool")?.ok_or_else(|| call.problem_at("tool", "is missing".into()))?;
    let is_named = tool.split_once('/').is_some_and(|(server, tool)| !server.is_empty() && !tool.is_empty());
    if !is_named {
        return Err(call.problem_at("tool", format!("`{tool}` is not of the form server/tool")));
    }
    let arguments = call.take_value("arguments").unwrap_or_else(|| json!({}));
    ValueTemplate::parse_in(&arguments, ExpressionVocabulary::Undo)
        .map_err(|error| call.problem_at("arguments", error.to_string()))?;
    call.finish()?;
    Ok(Some(CallTemplate { tool, arguments }))
}
