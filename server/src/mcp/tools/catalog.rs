//! The tool `list_tools`: the downstream tools that a plan can call.

use std::sync::Arc;

use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{AgentTool, RUN_AND_FULL, ToolEffect, ToolProfile};
use crate::error::Error;
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
    /// Words in the name or description
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
        let servers = match &self.server {
            Some(server) => vec![endpoint.service().catalog().list_server(server).await],
            None => endpoint.service().catalog().list().await,
        };
        let words: Vec<String> =
            self.search.iter().flat_map(|search| search.split_whitespace()).map(str::to_lowercase).collect();
        let found: Vec<&ToolInfo> = servers
            .iter()
            .flat_map(|server| &server.tools)
            .filter(|tool| matches_all_words(tool, &words))
            .take(LISTED_MAX)
            .collect();
        let with_schemas = found.len() <= SCHEMAS_MAX;
        let tools: Vec<Value> = found.iter().map(|tool| tool_json(tool, with_schemas)).collect();
        let unreachable: Vec<&ServerTools> = servers.iter().filter(|server| server.error.is_some()).collect();
        let has_tools = servers.iter().any(|server| !server.tools.is_empty());
        let none_matches = if has_tools || self.server.is_some() {
            "No tool matches. list_tools with fewer words, or none, shows more."
        } else {
            NO_SERVERS
        };
        let text = tools_text(&found, &unreachable, with_schemas, none_matches);
        let unreachable: Vec<Value> = unreachable
            .iter()
            .map(|server| json!({ "server": server.server, "error": server.error }))
            .collect();
        Ok(AgentAnswer::new(&json!({ "tools": tools, "unreachable": unreachable }), text))
    }
}

/// Whether all words, given in lower case, occur in the tool's name or description.
fn matches_all_words(tool: &ToolInfo, words: &[String]) -> bool {
    let text = format!("{} {}", tool.name, tool.description.as_deref().unwrap_or_default()).to_lowercase();
    words.iter().all(|word| text.contains(word))
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

/// The text of the answer; `none_matches` is the line if there is no tool. `unreachable`: servers with their
/// errors.
fn tools_text(
    tools: &[&ToolInfo],
    unreachable: &[&ServerTools],
    with_schemas: bool,
    none_matches: &str,
) -> String {
    let mut text = AnswerText::default();
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
    if tools.is_empty() {
        text.push_line(none_matches);
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
