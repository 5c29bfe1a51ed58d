//! `/tools` and `/servers`: the downstream tools that plans can call.

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::change::{Change, changed};
use super::operation::Operation;
use super::page::{ListName, Page, PageParams};
use super::params::Params;
use crate::caller::Right;
use crate::service::{ToolCallStats, ToolPolicyView};
use crate::tools::{ServerTools, ToolInfo};
use crate::web::{Problem, SignedIn, WebState};

pub fn operations() -> Vec<Operation> {
    vec![
        Operation::new("GET", "/tools", "list_tools", get(list))
            .summary("List the tools with their schemas and how their calls ended")
            .query::<ToolsQuery>()
            .gives("ToolPage"),
        Operation::new("GET", "/tools/{server}/{tool}", "get_tool", get(show))
            .summary("One tool: its schema, what the config says of it, and the accepted definition")
            .gives("ToolDetail"),
        Operation::new("POST", "/tools/{server}/{tool}/accept", "accept_tool", post(accept))
            .summary("Accept a tool's current definition for every plan")
            .right(Right::Admin)
            .body::<AcceptBody>(json!({ "reason": "read the change" }))
            .gives("AcceptedTool"),
        Operation::new("GET", "/servers", "list_servers", get(servers))
            .summary("List the configured servers, and why one cannot be reached")
            .query::<PageParams>()
            .gives("ServerPage"),
    ]
}

/// The query of `GET /tools`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ToolsQuery {
    server: Option<String>,
    /// Words that must all occur in the name, the title or the description
    search: Option<String>,
    /// 1 to 500; 50 unless given
    #[schemars(range(min = 1, max = 500))]
    limit: Option<u64>,
    cursor: Option<String>,
}

/// The body of `POST /tools/{server}/{tool}/accept`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AcceptBody {
    /// Why; it is journaled
    reason: Option<String>,
}

/// A tool in a list.
#[derive(Debug, Serialize)]
struct ToolItem {
    #[serde(flatten)]
    tool: ToolInfo,
    /// How its calls ended; null: it was not called.
    seen: Option<ToolCallStats>,
}

/// A tool, and what the operator says about it.
#[derive(Debug, Serialize)]
struct ToolDetail {
    #[serde(flatten)]
    tool: ToolInfo,
    #[serde(flatten)]
    policy: ToolPolicyView,
    seen: Option<ToolCallStats>,
}

/// A configured server in a list.
#[derive(Debug, Serialize)]
struct ServerItem {
    server: String,
    tools: usize,
    /// Why its tools cannot be listed; null: they can.
    error: Option<String>,
    seen: Option<ToolCallStats>,
}

async fn list(
    state: WebState,
    _signed_in: SignedIn,
    Params(query): Params<ToolsQuery>,
) -> Result<Json<Page<ToolItem>>, Problem> {
    let stats = state.service.journal().tool_call_stats(None).await?;
    let ToolsQuery { server, search, limit, cursor } = query;
    let name = ListName::new("tools", &(&server, &search));
    let words: Vec<String> = super::params::words(search).iter().map(|word| word.to_lowercase()).collect();
    let is_wanted = |tool: &ToolInfo| {
        let texts = [Some(&tool.name), tool.title.as_ref(), tool.description.as_ref()];
        let text = texts.into_iter().flatten().map(|text| text.to_lowercase()).collect::<Vec<_>>().join("\n");
        words.iter().all(|word| text.contains(word))
    };
    let servers = listed_servers(&state, server.as_deref()).await;
    let tools = servers.into_iter().flat_map(|server| server.tools).filter(is_wanted);
    let listed = tools.map(|tool| ToolItem { seen: stats.tools.get(&tool.name).cloned(), tool });
    Page::of_all(listed.collect(), &PageParams { limit, cursor }, &name, |one| one.tool.name.clone())
}

/// The servers with their tools; one of them if it is named.
async fn listed_servers(state: &WebState, only: Option<&str>) -> Vec<ServerTools> {
    match only {
        Some(server) => vec![state.service.catalog().list_server(server).await],
        None => state.service.catalog().list().await,
    }
}

async fn show(
    state: WebState,
    _signed_in: SignedIn,
    Path((server, tool)): Path<(String, String)>,
) -> Result<Json<ToolDetail>, Problem> {
    let name = format!("{server}/{tool}");
    let tool = state.service.catalog().get(&name).await?;
    let policy = state.service.catalog().policy_view(&name, &tool)?;
    let seen = state.service.journal().tool_call_stats(None).await?.tools.get(&name).cloned();
    Ok(Json(ToolDetail { tool, policy, seen }))
}

async fn accept(
    state: WebState,
    Path((server, tool)): Path<(String, String)>,
    Change { caller, body, .. }: Change<AcceptBody>,
) -> Result<Response, Problem> {
    let name = format!("{server}/{tool}");
    let accepted = state.service.catalog().accept(&caller, &name, body.reason).await?;
    Ok(changed(&caller, StatusCode::OK, &accepted))
}

async fn servers(
    state: WebState,
    _signed_in: SignedIn,
    Params(query): Params<PageParams>,
) -> Result<Json<Page<ServerItem>>, Problem> {
    let stats = state.service.journal().tool_call_stats(None).await?;
    let servers = state.service.catalog().list().await.into_iter().map(|server| ServerItem {
        seen: stats.servers.get(&server.server).cloned(),
        tools: server.tools.len(),
        server: server.server,
        error: server.error,
    });
    let name = ListName::new("servers", &());
    Page::of_all(servers.collect(), &query, &name, |one| one.server.clone())
}
