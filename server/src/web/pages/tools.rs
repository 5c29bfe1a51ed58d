//! `/tools`: the servers of this project and their tools, with how their calls went and which of them have changed.

use askama::Template;
use axum::extract::Query;
use axum::http::HeaderMap;
use axum::response::Html;
use serde::Deserialize;

use super::execution_parts::ReaderRights;
use super::frame::{Area, Frame};
use super::markup::{StatusMark, count, grouped, url_part};
use super::render;
use super::times::{PageTime, duration, page_time};
use crate::caller::Right;
use crate::service::{ToolCallStats, ToolChange};
use crate::tools::{CircuitState, ServerState, ServerTools};
use crate::web::WebState;
use crate::web::authentication::SignedIn;
use crate::web::problem::Problem;

/// The query of the list. An empty value does not filter.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ToolsPageQuery {
    search: String,
}

/// A server with its tools.
#[derive(Debug)]
struct ServerCard {
    name: String,
    mark: StatusMark,
    /// Process, protocol, restarts and calls, in words.
    facts: Vec<String>,
    /// Why calls are rejected at the moment.
    breaker: Option<String>,
    error: Option<String>,
    last_error: Option<LastErrorLine>,
    executions_path: String,
    tools: Vec<ToolListRow>,
}

/// The newest call that failed.
#[derive(Debug)]
pub struct LastErrorLine {
    pub at: PageTime,
    /// Category and text.
    pub what: String,
}

/// One tool, and how its calls went.
#[derive(Debug)]
struct ToolListRow {
    name: String,
    path: String,
    description: String,
    needs_approval: bool,
    has_hidden_characters: bool,
    has_changed: bool,
    figures: CallFigures,
}

/// The figures of calls as a page shows them; empty without a call.
#[derive(Debug, Default)]
pub struct CallFigures {
    pub calls: u64,
    /// Of all calls, in percent.
    pub success: String,
    pub p50: String,
    pub p95: String,
    pub last_error: Option<LastErrorLine>,
}

/// A tool that has changed, with what differs.
#[derive(Debug)]
struct ChangeCard {
    tool: String,
    path: String,
    summary: String,
    plans: String,
}

#[derive(Debug, Template)]
#[template(path = "tools.html")]
struct ToolsPage {
    frame: Frame,
    servers: Vec<ServerCard>,
    changes: Vec<ChangeCard>,
    may_accept: bool,
    search: String,
    has_servers: bool,
}

/// `GET /tools`.
pub async fn list(
    state: WebState,
    signed_in: SignedIn,
    headers: HeaderMap,
    Query(query): Query<ToolsPageQuery>,
) -> Result<Html<String>, Problem> {
    let stats = state.service.journal().tool_call_stats(None).await?;
    let shows_values = ReaderRights::of(&signed_in).values;
    let catalog = state.service.catalog();
    let listed = catalog.list().await;
    let changes = catalog.changes(&listed).await?;
    let words: Vec<String> = query.search.to_lowercase().split_whitespace().map(str::to_owned).collect();
    let has_servers = !listed.is_empty();
    let servers = listed.into_iter().map(|server| {
        let of_server = stats.servers.get(&server.server);
        let figures = |name: &str| CallFigures::of(stats.tools.get(name), shows_values);
        let server_state = catalog.server_state(&server.server);
        let mut card = ServerCard::of(&server, server_state.as_ref(), of_server, shows_values);
        let is_wanted = |row: &ToolListRow| {
            let text = format!("{} {}", row.name, row.description).to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        card.tools = server
            .tools
            .into_iter()
            .map(|tool| ToolListRow {
                path: format!("/tools/{}", tool_path(&tool.name)),
                description: tool.description.or(tool.title).unwrap_or_default(),
                needs_approval: tool.needs_approval,
                has_hidden_characters: !tool.hidden.is_empty(),
                has_changed: changes.iter().any(|change| change.tool == tool.name),
                figures: figures(&tool.name),
                name: tool.name,
            })
            .filter(is_wanted)
            .collect();
        card
    });
    let servers = servers.filter(|card| words.is_empty() || !card.tools.is_empty()).collect();
    let frame = Frame::load(&state, &signed_in, &headers, Area::Tools, "Tools").await?;
    render(&ToolsPage {
        frame: frame.at("/tools"),
        servers,
        changes: changes.into_iter().map(ChangeCard::of).collect(),
        may_accept: signed_in.may(Right::Admin),
        search: query.search,
        has_servers,
    })
}

/// The path of a tool written `server/tool`, below `/tools`.
pub fn tool_path(name: &str) -> String {
    let (server, tool) = name.split_once('/').unwrap_or((name, ""));
    format!("{}/{}", url_part(server), url_part(tool))
}

impl ServerCard {
    /// The card without its tools.
    fn of(
        server: &ServerTools,
        state: Option<&ServerState>,
        stats: Option<&ToolCallStats>,
        shows_values: bool,
    ) -> Self {
        let figures = CallFigures::of(stats, shows_values);
        let mut facts = Vec::new();
        if let Some(state) = state {
            facts.extend(state.process.map(|pid| format!("process {pid}")));
            facts.extend(state.protocol.as_ref().map(|protocol| format!("MCP {protocol}")));
            facts.push(match state.falls {
                0 => "no restart".to_owned(),
                falls => format!("{} in a row", count(falls as usize, "failed start")),
            });
        }
        facts.push(count(server.tools.len(), "tool"));
        if figures.calls > 0 {
            let noun = if figures.calls == 1 { "call" } else { "calls" };
            facts.push(format!("{} {noun}, {} succeeded", grouped(figures.calls), figures.success));
        }
        Self {
            name: server.server.clone(),
            mark: server_mark(server, state),
            facts,
            breaker: state.and_then(|state| breaker_words(&state.circuit)),
            error: server.error.clone(),
            last_error: figures.last_error,
            executions_path: format!("/?server={}", url_part(&server.server)),
            tools: Vec::new(),
        }
    }
}

/// The state of a server as a mark.
fn server_mark(server: &ServerTools, state: Option<&ServerState>) -> StatusMark {
    let (class, word) = match (state.map(|state| state.state), &server.error) {
        (_, Some(_)) => ("failed", "cannot be reached"),
        (Some("up"), None) => ("succeeded", "up"),
        (Some("down"), None) => ("failed", "down"),
        (Some("coming up"), None) => ("running", "coming up"),
        (Some(_), None) => ("pending", "not started"),
        (None, None) => ("succeeded", "ready"),
    };
    StatusMark::new(class, word)
}

/// What an open circuit breaker means. `None`: calls are sent.
fn breaker_words(circuit: &CircuitState) -> Option<String> {
    match circuit {
        CircuitState::Closed => None,
        CircuitState::Open { for_ms } => Some(format!(
            "Its breaker is open: calls are rejected for {}, because too many failed.",
            duration(i64::try_from(*for_ms).unwrap_or(i64::MAX))
        )),
        CircuitState::HalfOpen => {
            Some("Its breaker lets one call through, to see whether it answers.".to_owned())
        }
    }
}

impl CallFigures {
    pub fn of(stats: Option<&ToolCallStats>, shows_values: bool) -> Self {
        let Some(stats) = stats.filter(|stats| stats.calls > 0) else { return Self::default() };
        let time = |ms: Option<i64>| ms.map(duration).unwrap_or_default();
        Self {
            calls: stats.calls,
            success: format!("{} %", stats.succeeded * 100 / stats.calls),
            p50: time(stats.took.p50_ms),
            p95: time(stats.took.p95_ms),
            last_error: stats.last_error.as_ref().map(|last| LastErrorLine {
                at: page_time(&last.at),
                what: [
                    last.category.map(|category| category.to_string()),
                    last.message.clone().filter(|_| shows_values),
                ]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(": "),
            }),
        }
    }
}

impl ChangeCard {
    fn of(change: ToolChange) -> Self {
        Self {
            path: format!("/tools/{}#change", tool_path(&change.tool)),
            tool: change.tool,
            summary: change.summary,
            plans: change.plans.join(", "),
        }
    }
}
