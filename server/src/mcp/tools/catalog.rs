//! `list_tools`: the downstream tools that a plan can call.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Effect, Offered, WHERE_PLANS_RUN};
use crate::error::Error;
use crate::mcp::Door;
use crate::mcp::answer::{self, Answer, cut};
use crate::mcp::text::{Next, Text};
use crate::service::{ServerTools, ToolInfo, quote};

/// Schemas are shown for so many tools at most; more are named, and a search narrows them down.
const SCHEMAS_MAX: usize = 15;
const LISTED_MAX: usize = 300;
const ABOUT_CHARS_MAX: usize = 200;
const ERROR_CHARS_MAX: usize = 500;
const NO_SERVERS: &str = "No tools are configured. Your user names servers in actbook.yaml (mcpServers); a plan of `action` steps, which you do yourself, needs none.";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListTools {
    /// Words in the name or description
    search: Option<String>,
    /// Only this server's
    server: Option<String>,
}

pub fn list_tools() -> Offered {
    let properties = json!({ "tools": answer::objects(), "unreachable": answer::objects() });
    Offered::new::<ListTools>(
        "list_tools",
        "The downstream tools a plan's steps can call (as server/tool), with their schemas when few match.",
        Effect::Reads,
        answer::answer(properties, &["tools"]),
        WHERE_PLANS_RUN,
    )
}

pub async fn list(door: &Door, asked: ListTools) -> Result<Answer, Error> {
    if let Some(refused) = door.service().untrusted_config() {
        return Err(refused);
    }
    let servers = match &asked.server {
        Some(server) => vec![door.service().list_tools_of(server).await],
        None => door.service().list_tools().await,
    };
    let words: Vec<String> =
        asked.search.iter().flat_map(|search| search.split_whitespace()).map(str::to_lowercase).collect();
    let found: Vec<&ToolInfo> = servers
        .iter()
        .flat_map(|server| &server.tools)
        .filter(|tool| fits(tool, &words))
        .take(LISTED_MAX)
        .collect();
    let whole = found.len() <= SCHEMAS_MAX;
    let tools: Vec<Value> = found.iter().map(|tool| shown(tool, whole)).collect();
    let unreachable: Vec<&ServerTools> = servers.iter().filter(|server| server.error.is_some()).collect();
    let none_fits = match servers.iter().any(|server| !server.tools.is_empty()) || asked.server.is_some() {
        true => "No tool fits. list_tools with fewer words, or none, shows more.",
        false => NO_SERVERS,
    };
    let text = told(&found, &unreachable, whole, none_fits);
    let unreachable: Vec<Value> =
        unreachable.iter().map(|server| json!({ "server": server.server, "error": server.error })).collect();
    Ok(Answer::new(&json!({ "tools": tools, "unreachable": unreachable }), text))
}

fn fits(tool: &ToolInfo, words: &[String]) -> bool {
    let text = format!("{} {}", tool.name, tool.description.as_deref().unwrap_or_default()).to_lowercase();
    words.iter().all(|word| text.contains(word))
}

fn shown(tool: &ToolInfo, whole: bool) -> Value {
    let about = tool.description.as_deref().map(|about| cut(about, ABOUT_CHARS_MAX));
    match whole {
        true => json!(tool),
        false => json!({ "name": tool.name, "description": about }),
    }
}

fn told(tools: &[&ToolInfo], unreachable: &[&ServerTools], whole: bool, none_fits: &str) -> String {
    let mut text = Text::default();
    for tool in tools {
        let about = quote::quoted(tool.description.as_deref().unwrap_or_default(), ABOUT_CHARS_MAX);
        let schema = if whole { format!(" arguments {}", tool.input_schema) } else { String::new() };
        text.item(format!("{}: {about}{schema}", tool.name));
    }
    if tools.is_empty() {
        text.line(none_fits);
    }
    for server in unreachable {
        let error = quote::quoted(server.error.as_deref().unwrap_or_default(), ERROR_CHARS_MAX);
        text.line(format!("The server {} cannot be reached: {error}", quote::name(&server.server)));
    }
    if !tools.is_empty() && !whole {
        text.next(&[Next::say("list_tools with `search` or `server` shows the schemas")]);
    }
    text.into_string()
}
