//! The tool `list_tools`: the downstream tools that a plan can call.

use std::sync::Arc;

use actbook_engine::analysis::nearest;
use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{AgentTool, RUN_AND_FULL, ToolEffect, ToolProfile};
use crate::error::{AgentError, AgentErrorCode, Error};
use crate::mcp::McpEndpoint;
use crate::mcp::answer::{self, AgentAnswer, truncate_chars};
use crate::mcp::request::AgentRequest;
use crate::mcp::text::{AnswerText, Suggestion};
use crate::service::quote;
use crate::tools::{ServerTools, ToolInfo};

/// If more tools match, only their names and descriptions are shown, and a search narrows them down.
const SCHEMAS_MAX: usize = 15;
/// Up to this many tools are shown with their whole descriptions and output schemas.
const WHOLE_MAX: usize = 3;
/// Most tools in one answer of `list_tools`.
const LISTED_MAX: usize = 300;
const ABOUT_CHARS_MAX: usize = 200;
/// Most characters of a description that is shown whole.
const WHOLE_CHARS_MAX: usize = 10_000;
const ERROR_CHARS_MAX: usize = 500;
const NO_SERVERS: &str = "No tools are configured. Your user names servers in actbook.yaml (mcpServers); a plan of `action` steps, which you do yourself, needs none.";

// Arguments of `list_tools`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListToolsInput {
    /// Words in the name or description; tools that have all of them, else those with the most
    search: Option<String>,
    /// Only this server's
    server: Option<String>,
}

impl AgentTool for ListToolsInput {
    const NAME: &str = "list_tools";
    const DESCRIPTION: &str =
        "The downstream tools a plan's steps can call (as server/tool), with their schemas when few match.";
    const EFFECT: ToolEffect = ToolEffect::ReadOnly;
    const PROFILES: &[ToolProfile] = RUN_AND_FULL;
    type Answer = AgentAnswer;

    fn output_schema() -> Arc<JsonObject> {
        let properties =
            json!({ "tools": answer::object_array_schema(), "unreachable": answer::object_array_schema() });
        answer::answer_schema(properties, &["tools"])
    }

    /// Lists the tools that match; with their schemas if they are few. Err: the config is not trusted.
    async fn handle(self, endpoint: &McpEndpoint, _request: &AgentRequest) -> Result<AgentAnswer, Error> {
        if let Some(refused) = endpoint.service().catalog().untrusted_config() {
            return Err(refused);
        }
        let known = endpoint.service().catalog().server_names();
        let servers = match &self.server {
            Some(server) => vec![endpoint.service().catalog().list_server(server).await],
            None => endpoint.service().catalog().list().await,
        };
        if let Some(unknown) = servers.iter().find(|server| !known.contains(&server.server)) {
            return Err(unknown_server_error(unknown, &known));
        }
        let words: Vec<String> =
            self.search.iter().flat_map(|search| search.split_whitespace()).map(str::to_lowercase).collect();
        let all = || servers.iter().flat_map(|server| &server.tools);
        let matched = all().map(|tool| count_words(tool, &words)).max().unwrap_or(0);
        let is_found =
            |tool: &&ToolInfo| (matched > 0 || words.is_empty()) && count_words(tool, &words) == matched;
        let found: Vec<&ToolInfo> = all().filter(is_found).take(LISTED_MAX).collect();
        let with_schemas = found.len() <= SCHEMAS_MAX;
        let tools: Vec<Value> = found.iter().map(|tool| tool_json(tool, with_schemas)).collect();
        let unreachable: Vec<&ServerTools> = servers.iter().filter(|server| server.error.is_some()).collect();
        let near = words.iter().find_map(|word| {
            nearest(word, all().filter_map(|tool| tool.name.split_once('/')).map(|(_, tool)| tool))
        });
        let note = match near {
            Some(near) if found.is_empty() => format!("No tool matches. Did you mean {}?", quote::name(near)),
            Some(_) | None if found.is_empty() && (self.server.is_some() || all().next().is_some()) => {
                "No tool matches. list_tools with other words, or none, shows more.".to_owned()
            }
            Some(_) | None if found.is_empty() => NO_SERVERS.to_owned(),
            Some(_) | None if matched < words.len() => {
                format!("No tool has all of these words; these have {matched} of them:")
            }
            Some(_) | None => String::new(),
        };
        let text = tools_text(&note, &found, &unreachable, with_schemas);
        let unreachable: Vec<Value> = unreachable
            .iter()
            .map(|server| json!({ "server": server.server, "error": server.error }))
            .collect();
        Ok(AgentAnswer::new(&json!({ "tools": tools, "unreachable": unreachable }), text))
    }
}

/// How many of the words, given in lower case, occur in the tool's name or description.
fn count_words(tool: &ToolInfo, words: &[String]) -> usize {
    let text = format!("{} {}", tool.name, tool.description.as_deref().unwrap_or_default()).to_lowercase();
    words.iter().filter(|word| text.contains(*word)).count()
}

/// The error for a server that the config does not name, or that is disabled there.
fn unknown_server_error(unknown: &ServerTools, known: &[String]) -> Error {
    let near = nearest(&unknown.server, known.iter().map(String::as_str));
    let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
    let message = unknown.error.clone().unwrap_or_default();
    let cure = if known.is_empty() {
        NO_SERVERS.to_owned()
    } else {
        format!("{near}there are: {}", known.join(", "))
    };
    AgentError::new(AgentErrorCode::InvalidArgument, message, cure).with_path("server").into()
}

/// The tool as JSON; without its schema only the name and a shortened description.
fn tool_json(info: &ToolInfo, with_schema: bool) -> Value {
    let about = info.description.as_deref().map(|about| truncate_chars(about, ABOUT_CHARS_MAX));
    let mut shown =
        if with_schema { json!(info) } else { json!({ "name": info.name, "description": about }) };
    if info.needs_approval {
        shown["approval"] = json!("required");
    }
    shown
}

/// The text of the answer, with this note first unless it is empty. `unreachable`: servers with their errors.
fn tools_text(note: &str, tools: &[&ToolInfo], unreachable: &[&ServerTools], with_schemas: bool) -> String {
    let mut text = AnswerText::default();
    if !note.is_empty() {
        text.push_line(note);
    }
    let whole = tools.len() <= WHOLE_MAX;
    for info in tools {
        let chars_max = if whole { WHOLE_CHARS_MAX } else { ABOUT_CHARS_MAX };
        let about = quote::quoted(info.description.as_deref().unwrap_or_default(), chars_max);
        let approval = if info.needs_approval { " (each call needs a person's approval)" } else { "" };
        let schema = if with_schemas { format!(" arguments {}", info.input_schema) } else { String::new() };
        let output = info.output_schema.as_ref().filter(|_| whole);
        let output = output.map(|output| format!(" output {output}")).unwrap_or_default();
        text.push_item(format!("{}{approval}: {about}{schema}{output}", info.name));
    }
    for server in unreachable {
        let error = quote::quoted(server.error.as_deref().unwrap_or_default(), ERROR_CHARS_MAX);
        text.push_line(format!("The server {} cannot be reached: {error}", quote::name(&server.server)));
    }
    if !with_schemas {
        text.push_suggestions(&[Suggestion::advice(
            "list_tools with `search` or `server` shows the schemas",
        )]);
    } else if !whole {
        text.push_suggestions(&[Suggestion::advice(
            "list_tools with a tool's name as `search` shows its whole description and output schema",
        )]);
    }
    text.into_string()
}
