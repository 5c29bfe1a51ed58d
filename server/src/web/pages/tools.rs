//! `/tools`: the servers of this project and their tools, with how their calls went.

use askama::Template;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Html;

use super::execution_parts::ReaderRights;
use super::frame::{Area, Frame};
use super::render;
use super::times::duration;
use crate::service::ToolCallStats;
use crate::web::WebState;
use crate::web::authentication::SignedIn;
use crate::web::problem::Problem;

/// A server with its tools.
#[derive(Debug)]
struct ServerCard {
    name: String,
    error: Option<String>,
    tools: Vec<ToolListRow>,
}

/// One tool, and how its calls went.
#[derive(Debug)]
struct ToolListRow {
    name: String,
    description: String,
    needs_approval: bool,
    has_hidden_characters: bool,
    calls: u64,
    /// Of all calls, in percent; empty without a call.
    success: String,
    p50: String,
    p95: String,
    last_error: String,
}

#[derive(Debug, Template)]
#[template(path = "tools.html")]
struct ToolsPage {
    frame: Frame,
    servers: Vec<ServerCard>,
}

/// `GET /tools`.
pub async fn list(
    State(state): State<WebState>,
    signed_in: SignedIn,
    headers: HeaderMap,
) -> Result<Html<String>, Problem> {
    let stats = state.service.journal().tool_call_stats(None).await?;
    let shows_values = ReaderRights::of(&signed_in).values;
    let servers = state.service.catalog().list().await.into_iter().map(|server| ServerCard {
        tools: server
            .tools
            .into_iter()
            .map(|tool| {
                let row = ToolListRow::of(stats.tools.get(&tool.name), shows_values);
                ToolListRow {
                    description: tool.description.or(tool.title).unwrap_or_default(),
                    needs_approval: tool.needs_approval,
                    has_hidden_characters: !tool.hidden.is_empty(),
                    name: tool.name,
                    ..row
                }
            })
            .collect(),
        name: server.server,
        error: server.error,
    });
    let servers = servers.collect();
    let frame = Frame::load(&state, &signed_in, &headers, Area::Tools, "Tools").await?;
    render(&ToolsPage { frame: frame.at("/tools"), servers })
}

impl ToolListRow {
    /// The figures of a tool's calls; the tool itself is filled in by the caller.
    fn of(stats: Option<&ToolCallStats>, shows_values: bool) -> Self {
        let time = |ms: Option<i64>| ms.map(duration).unwrap_or_default();
        let stats = stats.filter(|stats| stats.calls > 0);
        Self {
            name: String::new(),
            description: String::new(),
            needs_approval: false,
            has_hidden_characters: false,
            calls: stats.map_or(0, |stats| stats.calls),
            success: stats
                .map(|stats| format!("{} %", stats.succeeded * 100 / stats.calls))
                .unwrap_or_default(),
            p50: stats.map(|stats| time(stats.took.p50_ms)).unwrap_or_default(),
            p95: stats.map(|stats| time(stats.took.p95_ms)).unwrap_or_default(),
            last_error: stats
                .and_then(|stats| stats.last_error.as_ref().filter(|_| shows_values))
                .and_then(|last| last.message.clone())
                .unwrap_or_default(),
        }
    }
}
