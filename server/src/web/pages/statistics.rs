//! `/stats`: how executions, plans, tools and people's answers went over a time.

use actbook_engine::policy::ExecutionStatus;
use askama::Template;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::Html;
use jiff::tz::TimeZone;
use serde::Deserialize;

use super::frame::{Area, Frame};
use super::markup::{StatusMark, grouped, url_part};
use super::render;
use super::times::duration;
use crate::service::{DayEdge, Stats, StatsFilter, parse_time};
use crate::web::WebState;
use crate::web::authentication::SignedIn;
use crate::web::problem::Problem;

/// Rows of each table.
const ROWS_MAX: usize = 20;
/// The time that is shown if none is chosen.
const DEFAULT_SINCE: &str = "30d";

/// The query of the statistics.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct StatisticsQuery {
    since: String,
}

/// A row of a table: a name, the path that shows its executions, and its figures.
#[derive(Debug)]
struct FigureRow {
    name: String,
    path: String,
    figures: Vec<String>,
}

#[derive(Debug, Template)]
#[template(path = "statistics.html")]
struct StatisticsPage {
    frame: Frame,
    since: String,
    spans: [(&'static str, &'static str); 4],
    total: String,
    success: String,
    /// Each with its count and the path that shows its executions.
    statuses: Vec<(StatusMark, String, String)>,
    plans: Vec<FigureRow>,
    tools: Vec<FigureRow>,
    failures: Vec<FigureRow>,
    waits: Vec<FigureRow>,
    longest: Vec<FigureRow>,
    retries: String,
}

/// `GET /stats`.
pub async fn show(
    State(state): State<WebState>,
    signed_in: SignedIn,
    headers: HeaderMap,
    Query(query): Query<StatisticsQuery>,
) -> Result<Html<String>, Problem> {
    let since = if query.since.is_empty() { DEFAULT_SINCE.to_owned() } else { query.since };
    let since_ms = parse_time(&since, DayEdge::Start, &TimeZone::UTC)
        .ok_or_else(|| Problem::bad_parameter("since", format!("`{since}` is no time")))?;
    let filter = StatsFilter { since: Some(since_ms), ..StatsFilter::default() };
    let stats = state.service.journal().stats(&filter).await?;
    let frame = Frame::load(&state, &signed_in, &headers, Area::Statistics, "Statistics").await?;
    render(&page(stats, since, frame.at("/stats")))
}

fn page(stats: Stats, since: String, frame: Frame) -> StatisticsPage {
    let status = |(word, count): (&String, &u64)| {
        let status = word.parse::<ExecutionStatus>().ok()?;
        let path = format!("/?status={word}&since={}", url_part(&since));
        Some((StatusMark::of_execution(status), grouped(*count), path))
    };
    let by_query =
        |name: &str, value: &str| format!("/?{name}={}&since={}", url_part(value), url_part(&since));
    StatisticsPage {
        frame,
        total: grouped(stats.executions.total),
        success: share(stats.executions.success_rate),
        statuses: stats.executions.by_status.iter().filter_map(status).collect(),
        plans: rows(&stats.plans, |plan| FigureRow {
            name: plan.name.clone(),
            path: by_query("plan", &plan.id),
            figures: vec![
                grouped(plan.executions),
                share(plan.success_rate),
                time(plan.took.p50_ms),
                time(plan.took.p95_ms),
            ],
        }),
        tools: rows(&stats.tools, |tool| FigureRow {
            name: tool.tool.clone(),
            path: "/tools".to_owned(),
            figures: vec![
                grouped(tool.stats.calls),
                share(tool.success_rate),
                time(tool.stats.took.p50_ms),
                time(tool.stats.took.p95_ms),
            ],
        }),
        failures: rows(&stats.failures, |one| FigureRow {
            name: one.category.to_string(),
            path: by_query("category", one.category.as_str()),
            figures: vec![grouped(one.failed), grouped(one.unknown)],
        }),
        waits: rows(&stats.waiting, |one| FigureRow {
            name: format!("{}s", one.r#for),
            path: "/questions".to_owned(),
            figures: vec![
                grouped(one.answered),
                grouped(one.open),
                time(one.took.p50_ms),
                time(one.took.p95_ms),
            ],
        }),
        longest: rows(&stats.longest_steps, |one| FigureRow {
            name: format!("{} {}", one.plan, one.step),
            path: format!("/executions/{}?view=timeline&step={}", one.execution, url_part(&one.step)),
            figures: vec![duration(one.took_ms), grouped(one.attempts)],
        }),
        retries: format!(
            "{} steps were retried, {} attempts in all; {} of them succeeded in the end.",
            stats.retries.steps, stats.retries.attempts, stats.retries.succeeded
        ),
        spans: [("24h", "24 hours"), ("7d", "7 days"), ("30d", "30 days"), ("365d", "a year")],
        since,
    }
}

/// The first rows of a table.
fn rows<T>(figures: &[T], row: impl Fn(&T) -> FigureRow) -> Vec<FigureRow> {
    figures.iter().take(ROWS_MAX).map(row).collect()
}

fn share(rate: Option<f64>) -> String {
    rate.map_or("–".to_owned(), |rate| format!("{:.0} %", rate * 100.0))
}

fn time(ms: Option<i64>) -> String {
    ms.map_or("–".to_owned(), duration)
}
