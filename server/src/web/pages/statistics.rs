//! `/stats`: how executions, plans, tools and people's answers went over a time. Each figure leads to its rows.

mod chart;

use actbook_engine::policy::{ExecutionStatus, WaitKind};
use askama::Template;
use axum::extract::Query;
use axum::http::HeaderMap;
use axum::response::Html;
use jiff::tz::TimeZone;
use serde::Deserialize;

use super::execution_parts::ReaderRights;
use super::frame::{Area, Frame};
use super::markup::{Markup, StatusMark, grouped, url_part};
use super::render;
use super::times::{duration, page_time};
use crate::service::{DayEdge, FailureGroup, Stats, StatsFilter, ToolFigures, WaitFigures, parse_time};
use crate::web::WebState;
use crate::web::authentication::SignedIn;
use crate::web::problem::Problem;
use chart::StatusChart;

/// Rows of each table.
const ROWS_MAX: usize = 20;
/// The time that is shown if none is chosen.
const DEFAULT_SINCE: &str = "30d";

/// The query of the statistics. An empty value does not filter.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct StatisticsQuery {
    since: String,
    plan: String,
    task: String,
}

/// A table of figures.
#[derive(Debug)]
struct FigureTable {
    /// The id of its element.
    id: &'static str,
    title: &'static str,
    about: &'static str,
    /// The names of its columns, that of the first one before those of the figures.
    columns: Vec<&'static str>,
    rows: Vec<FigureRow>,
    /// Said below the table.
    note: String,
}

/// A row of a table: what it is about, and its figures, each with the path of the rows that it counts.
#[derive(Debug)]
struct FigureRow {
    name: Markup,
    figures: Vec<(String, String)>,
}

#[derive(Debug, Template)]
#[template(path = "statistics.html")]
struct StatisticsPage {
    frame: Frame,
    query: StatisticsQuery,
    spans: [(&'static str, &'static str); 4],
    total: (String, String),
    success: (String, String),
    /// Each with its count and the path that shows its executions.
    statuses: Vec<(StatusMark, String, String)>,
    chart: Option<StatusChart>,
    tables: Vec<FigureTable>,
}

/// `GET /stats`.
pub async fn show(
    state: WebState,
    signed_in: SignedIn,
    headers: HeaderMap,
    Query(mut query): Query<StatisticsQuery>,
) -> Result<Html<String>, Problem> {
    if query.since.is_empty() {
        query.since = DEFAULT_SINCE.to_owned();
    }
    let since_ms = parse_time(&query.since, DayEdge::Start, &TimeZone::UTC)
        .ok_or_else(|| Problem::bad_parameter("since", format!("`{}` is no time", query.since)))?;
    let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let filter = StatsFilter {
        since: Some(since_ms),
        plan: given(&query.plan),
        task: given(&query.task),
        ..StatsFilter::default()
    };
    let stats = state.service.journal().stats(&filter).await?;
    let failures = state.service.journal().failures(&filter, ROWS_MAX as u64).await?;
    let frame = Frame::load(&state, &signed_in, &headers, Area::Statistics, "Statistics").await?;
    let links = RowLinks { query: &query };
    let shows_values = ReaderRights::of(&signed_in).values;
    let tables = tables(&stats, &failures, &links, shows_values);
    let status = |(word, count): (&String, &u64)| {
        let status = word.parse::<ExecutionStatus>().ok()?;
        Some((StatusMark::of_execution(status), grouped(*count), links.executions(&[("status", word)])))
    };
    render(&StatisticsPage {
        total: (grouped(stats.executions.total), links.executions(&[])),
        success: (share(stats.executions.success_rate), links.executions(&[("status", "succeeded")])),
        statuses: stats.executions.by_status.iter().filter_map(status).collect(),
        chart: StatusChart::of(&stats.executions, &links),
        tables,
        spans: [("24h", "24 hours"), ("7d", "7 days"), ("30d", "30 days"), ("365d", "a year")],
        frame: frame.at(format!("/stats?{}", links.kept())),
        query,
    })
}

/// Paths of the rows behind figures, within the time, the plan and the task of the page.
struct RowLinks<'a> {
    query: &'a StatisticsQuery,
}

impl RowLinks<'_> {
    fn kept(&self) -> String {
        let all = [("since", &self.query.since), ("plan", &self.query.plan), ("task", &self.query.task)];
        let given = all.into_iter().filter(|(_, value)| !value.is_empty());
        given.map(|(name, value)| format!("{name}={}", url_part(value))).collect::<Vec<_>>().join("&")
    }

    /// The executions of the page that also pass these filters.
    fn executions(&self, filters: &[(&str, &str)]) -> String {
        let is_replaced = |name: &str| filters.iter().any(|(given, _)| *given == name);
        let kept = [("since", &self.query.since), ("plan", &self.query.plan), ("task", &self.query.task)];
        let kept = kept.into_iter().filter(|(name, value)| !value.is_empty() && !is_replaced(name));
        let all = filters.iter().copied().chain(kept.map(|(name, value)| (name, value.as_str())));
        let query: Vec<String> = all.map(|(name, value)| format!("{name}={}", url_part(value))).collect();
        format!("/?{}", query.join("&"))
    }
}

fn tables(
    stats: &Stats,
    failures: &[FailureGroup],
    links: &RowLinks<'_>,
    shows_values: bool,
) -> Vec<FigureTable> {
    let all = [
        failure_groups(failures, links, shows_values),
        plans(stats, links),
        tools(stats, links),
        categories(stats, links),
        waits(stats),
        slowest(stats),
        calibration(stats),
    ];
    all.into_iter().filter(|table| !table.rows.is_empty()).collect()
}

fn failure_groups(groups: &[FailureGroup], links: &RowLinks<'_>, shows_values: bool) -> FigureTable {
    let row = |group: &FailureGroup| {
        let mut filters = vec![("tool", group.tool.as_str())];
        filters.extend(group.category.as_deref().map(|category| ("category", category)));
        let path = links.executions(&filters);
        let text = group.message.as_deref().filter(|_| shows_values);
        let text = text.or(group.category.as_deref()).unwrap_or("without a text");
        let newest = group.execution.as_deref().map(|id| format!("/executions/{id}"));
        let mut name = Markup::link(newest.as_deref().unwrap_or(&path), text, "link clamp");
        let about = format!("{}, {}, last ", group.tool, group.category.as_deref().unwrap_or("no category"));
        name.push(Markup::from_rendered(format!(
            "<span class=\"sub muted\">{}{}</span>",
            Markup::text(&about),
            page_time(&group.last)
        )));
        FigureRow { name, figures: vec![(grouped(group.calls), path)] }
    };
    FigureTable {
        id: "failures",
        title: "Failures",
        about: "alike but for numbers, ids and quoted parts",
        columns: vec!["What went wrong", "Calls"],
        rows: groups.iter().map(row).collect(),
        note: String::new(),
    }
}

fn plans(stats: &Stats, links: &RowLinks<'_>) -> FigureTable {
    let row = |plan: &crate::service::PlanFigures| {
        let runs = links.executions(&[("plan", &plan.id)]);
        let succeeded = links.executions(&[("plan", &plan.id), ("status", "succeeded")]);
        let path = if plan.is_session() { runs.clone() } else { format!("/plans/{}", url_part(&plan.id)) };
        FigureRow {
            name: Markup::link(&path, &plan.name, "link"),
            figures: vec![
                (grouped(plan.executions), runs.clone()),
                (share(plan.success_rate), succeeded),
                (time(plan.took.p50_ms), runs.clone()),
                (time(plan.took.p95_ms), runs.clone()),
                (time(plan.took.p99_ms), runs),
            ],
        }
    };
    FigureTable {
        id: "plans",
        title: "Plans",
        about: "most executions first",
        columns: vec!["Plan", "Runs", "Success", "p50", "p95", "p99"],
        rows: stats.plans.iter().take(ROWS_MAX).map(row).collect(),
        note: String::new(),
    }
}

/// Calls that did not succeed, by how much they weigh: many failures of a tool that is called often come first.
fn flakiness(tool: &ToolFigures) -> (u64, u64) {
    (tool.stats.calls - tool.stats.succeeded.min(tool.stats.calls), tool.stats.calls)
}

fn tools(stats: &Stats, links: &RowLinks<'_>) -> FigureTable {
    let mut tools: Vec<&ToolFigures> = stats.tools.iter().collect();
    tools.sort_by_key(|tool| std::cmp::Reverse(flakiness(tool)));
    let row = |tool: &&ToolFigures| {
        let path = links.executions(&[("tool", &tool.tool)]);
        let (bad, _) = flakiness(tool);
        let mut name = Markup::from_rendered("<code>".to_owned());
        name.push(Markup::link(
            &format!("/tools/{}", super::tools::tool_path(&tool.tool)),
            &tool.tool,
            "link",
        ));
        name.push(Markup::from_rendered("</code>".to_owned()));
        FigureRow {
            name,
            figures: vec![
                (grouped(bad), path.clone()),
                (grouped(tool.stats.calls), path.clone()),
                (share(tool.success_rate), path.clone()),
                (time(tool.stats.took.p50_ms), path.clone()),
                (time(tool.stats.took.p95_ms), path),
            ],
        }
    };
    FigureTable {
        id: "tools",
        title: "Tools",
        about: "flakiest first",
        columns: vec!["Tool", "Not well", "Calls", "Success", "p50", "p95"],
        rows: tools.iter().take(ROWS_MAX).map(row).collect(),
        note: String::new(),
    }
}

fn categories(stats: &Stats, links: &RowLinks<'_>) -> FigureTable {
    let row = |one: &crate::service::FailureFigures| {
        let path = links.executions(&[("category", one.category.as_str())]);
        FigureRow {
            name: Markup::link(&path, one.category.as_str(), "link"),
            figures: vec![(grouped(one.failed), path.clone()), (grouped(one.unknown), path)],
        }
    };
    let retries = &stats.retries;
    FigureTable {
        id: "categories",
        title: "Steps that failed",
        about: "by category",
        columns: vec!["Category", "Failed", "Unknown"],
        rows: stats.failures.iter().take(ROWS_MAX).map(row).collect(),
        note: format!(
            "Retried: {}, {} beyond the first; {} succeeded in the end.",
            super::markup::count(retries.steps as usize, "step"),
            super::markup::count(retries.attempts as usize, "attempt"),
            grouped(retries.succeeded)
        ),
    }
}

fn waits(stats: &Stats) -> FigureTable {
    let row = |one: &WaitFigures| {
        let (word, answers) = match one.r#for {
            WaitKind::Approval => ("approvals", "/journal?kind=step_approved"),
            WaitKind::Decision => ("decisions", "/journal?kind=decided"),
        };
        let answers = answers.to_owned();
        FigureRow {
            name: Markup::text(word),
            figures: vec![
                (grouped(one.answered), answers.clone()),
                (grouped(one.open), "/questions".to_owned()),
                (time(one.took.p50_ms), answers.clone()),
                (time(one.took.p95_ms), answers),
            ],
        }
    };
    FigureTable {
        id: "waits",
        title: "Waiting for people",
        about: "until the answer",
        columns: vec!["For", "Answered", "Open", "p50", "p95"],
        rows: stats.waiting.iter().map(row).collect(),
        note: String::new(),
    }
}

fn slowest(stats: &Stats) -> FigureTable {
    let row = |one: &crate::service::LongestStep| {
        let path = format!("/executions/{}?view=timeline&step={}", one.execution, url_part(&one.step));
        FigureRow {
            name: Markup::link(&path, &format!("{} {}", one.plan, one.step), "link"),
            figures: vec![(duration(one.took_ms), path.clone()), (grouped(one.attempts), path)],
        }
    };
    FigureTable {
        id: "slowest",
        title: "Slowest steps",
        about: "by their longest attempt",
        columns: vec!["Plan and step", "Took", "Attempts"],
        rows: stats.longest_steps.iter().take(ROWS_MAX).map(row).collect(),
        note: String::new(),
    }
}

fn calibration(stats: &Stats) -> FigureTable {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let path = || "/journal?kind=action_recorded".to_owned();
    let row = |one: &crate::service::CalibrationBucket| FigureRow {
        name: Markup::text(&format!("{} to {}", percent(one.from), percent(one.to))),
        figures: vec![
            (grouped(one.claims), path()),
            (percent(one.confidence), path()),
            (percent(one.success_rate), path()),
        ],
    };
    FigureTable {
        id: "calibration",
        title: "Calibration",
        about: "agents’ stated confidence against what came true",
        columns: vec!["Confidence", "Steps", "Stated", "Succeeded"],
        rows: stats.calibration.iter().map(row).collect(),
        note: String::new(),
    }
}

fn share(rate: Option<f64>) -> String {
    rate.map_or("–".to_owned(), |rate| format!("{:.0} %", rate * 100.0))
}

fn time(ms: Option<i64>) -> String {
    ms.map_or("–".to_owned(), duration)
}
