//! `GET /metrics`: what Prometheus reads. Counts come from the projections that lists and statistics read. No label
//! holds an id, so that the number of series stays small.

use actbook_engine::policy::ExecutionStatus;
use axum::Router;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::authentication::{METRICS_PATH, SignedIn};
use super::problem::Problem;
use super::{RouterState, WebState};
use crate::service::{Service, ToolCallStats};

/// The text format of Prometheus.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Questions are counted up to this number.
const QUESTIONS_COUNTED_MAX: u64 = 10_000;

pub fn router() -> Router<RouterState> {
    Router::new().route(METRICS_PATH, get(metrics))
}

async fn metrics(state: WebState, _signed_in: SignedIn) -> Result<Response, Problem> {
    let text = render(&state.service).await?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response())
}

/// All metrics in the text format.
async fn render(service: &Service) -> Result<String, Problem> {
    let mut text = MetricsText::default();
    let (open, ended): (Vec<_>, Vec<_>) =
        service.executions().count_by_status().await?.into_iter().partition(|(status, _)| is_open(*status));
    text.begin("actbook_executions_open", "gauge", "Executions that have not ended, by status.");
    for (status, count) in open {
        text.sample("actbook_executions_open", &[("status", status.as_str())], count);
    }
    text.begin("actbook_executions_total", "counter", "Executions that have ended, by how.");
    for (status, count) in ended {
        text.sample("actbook_executions_total", &[("status", status.as_str())], count);
    }
    text.begin("actbook_calls_total", "counter", "Calls of tools by how they ended.");
    for (name, stats) in service.journal().tool_call_stats(None).await?.tools {
        let (server, tool) = name.split_once('/').unwrap_or(("", &name));
        for (outcome, count) in outcomes(&stats) {
            text.sample(
                "actbook_calls_total",
                &[("server", server), ("tool", tool), ("outcome", outcome)],
                count,
            );
        }
    }
    let waiting = service.executions().count_questions(QUESTIONS_COUNTED_MAX).await?;
    text.begin("actbook_questions_waiting", "gauge", "Questions that wait for a person.");
    text.sample("actbook_questions_waiting", &[], waiting);
    text.begin("actbook_journal_position", "counter", "Position of the journal's last entry.");
    text.sample("actbook_journal_position", &[], service.journal().head().await?.0);
    Ok(text.0)
}

/// Whether an execution with this status has not ended.
fn is_open(status: ExecutionStatus) -> bool {
    use ExecutionStatus::{Blocked, Compensating, Paused, Running};
    matches!(status, Running | Paused | Blocked | Compensating)
}

/// How the calls of a tool ended, with their numbers.
fn outcomes(stats: &ToolCallStats) -> [(&'static str, u64); 3] {
    let (failed, unknown) = (stats.failed.values().sum(), stats.unknown.values().sum());
    [("succeeded", stats.succeeded), ("failed", failed), ("unknown", unknown)]
}

/// Metrics in the text format of Prometheus.
#[derive(Debug, Default)]
struct MetricsText(String);

impl MetricsText {
    /// Begins a metric.
    fn begin(&mut self, name: &str, kind: &str, help: &str) {
        self.0.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    /// Adds a sample of the metric.
    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        let labels: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escape_label(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        self.0.push_str(&format!("{name}{labels} {value}\n"));
    }
}

/// A label's value without what would end it.
fn escape_label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
