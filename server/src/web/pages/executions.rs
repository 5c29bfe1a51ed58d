//! `/`: the executions, with counts by status, filters in the URL and a row for each.

use actbook_engine::policy::{ErrorCategory, ExecutionStatus};
use askama::Template;
use askama::filters::HtmlSafe;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::Html;
use jiff::tz::TimeZone;
use serde::Deserialize;

use super::execution_parts::ReaderRights;
use super::execution_row::ExecutionListRow;
use super::frame::{Area, Frame};
use super::markup::{StatusMark, grouped, url_part};
use super::render;
use crate::error::Error;
use crate::service::{DayEdge, ExecutionFilter, parse_time};
use crate::web::WebState;
use crate::web::authentication::SignedIn;
use crate::web::problem::Problem;

/// Rows of a page.
const ROWS_PER_PAGE: usize = 25;
/// Most plans that the filter offers.
const PLANS_OFFERED_MAX: usize = 200;

/// The query of the list. An empty value does not filter.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ListQuery {
    pub status: String,
    pub plan: String,
    pub task: String,
    pub actor: String,
    pub category: String,
    pub search: String,
    pub since: String,
    pub until: String,
    /// The stream of the last execution of the page before.
    pub cursor: String,
}

impl ListQuery {
    /// The filters with their names and values, those without a value left out.
    fn pairs(&self) -> Vec<(&'static str, &str)> {
        let all = [
            ("status", &self.status),
            ("plan", &self.plan),
            ("task", &self.task),
            ("actor", &self.actor),
            ("category", &self.category),
            ("search", &self.search),
            ("since", &self.since),
            ("until", &self.until),
        ];
        all.into_iter()
            .map(|(name, value)| (name, value.as_str()))
            .filter(|(_, value)| !value.is_empty())
            .collect()
    }

    /// The path of the list with these filters, one of them replaced; an empty value removes it.
    fn path_with(&self, replaced: &str, value: &str) -> String {
        let kept = self.pairs().into_iter().filter(|(name, _)| *name != replaced);
        let added = Some((replaced, value)).filter(|(_, value)| !value.is_empty());
        let query: Vec<String> =
            kept.chain(added).map(|(name, value)| format!("{name}={}", url_part(value))).collect();
        if query.is_empty() { "/".to_owned() } else { format!("/?{}", query.join("&")) }
    }

    /// The query of the stream that keeps this page current.
    fn live_path(&self) -> String {
        let path = self.path_with("cursor", &self.cursor);
        format!("/live{}", path.trim_start_matches('/'))
    }

    /// The filter that the query means. Err: a value is no status, category, time or cursor.
    fn filter(&self) -> Result<ExecutionFilter, Problem> {
        let given = |value: &str| Some(value.to_owned()).filter(|value| !value.is_empty());
        let time = |name: &str, value: &str, edge| match given(value) {
            None => Ok(None),
            Some(text) => parse_time(&text, edge, &TimeZone::UTC)
                .map(Some)
                .ok_or_else(|| Problem::bad_parameter(name, format!("`{text}` is no time"))),
        };
        let status = given(&self.status).map(|word| word.parse::<ExecutionStatus>()).transpose();
        let category = given(&self.category).map(|word| word.parse::<ErrorCategory>()).transpose();
        let before = given(&self.cursor).map(|cursor| cursor.parse::<u64>()).transpose();
        Ok(ExecutionFilter {
            status: status.map_err(|why| Problem::bad_parameter("status", why))?.into(),
            category: category.map_err(|why| Problem::bad_parameter("category", why))?.into(),
            plan: given(&self.plan).into(),
            task: given(&self.task).into(),
            actor: given(&self.actor).into(),
            since: time("since", &self.since, DayEdge::Start)?,
            until: time("until", &self.until, DayEdge::End)?,
            words: self.search.split_whitespace().map(str::to_owned).collect(),
            before: before.map_err(|_| Problem::bad_parameter("cursor", "the cursor is no number"))?,
            ..ExecutionFilter::default()
        })
    }
}

/// A link that shows the executions of one status.
#[derive(Debug)]
struct StatusCount {
    /// `None`: all.
    mark: Option<StatusMark>,
    count: String,
    path: String,
    is_current: bool,
}

/// A filter that is set.
#[derive(Debug)]
struct FilterChip {
    name: &'static str,
    value: String,
    path_without: String,
}

/// The counts by status: a part that the live stream replaces.
#[derive(Debug, Template)]
#[template(path = "execution_counts.html")]
struct CountsPart {
    counts: Vec<StatusCount>,
}

impl HtmlSafe for CountsPart {}

/// The rows: a part that the live stream replaces.
#[derive(Debug, Template)]
#[template(path = "execution_rows.html")]
struct RowsPart {
    rows: Vec<ExecutionListRow>,
    /// There is no execution at all, whatever the filter.
    is_empty_book: bool,
    next_path: Option<String>,
    first_path: Option<String>,
    position: String,
}

impl HtmlSafe for RowsPart {}

#[derive(Debug, Template)]
#[template(path = "executions.html")]
struct ExecutionsPage {
    frame: Frame,
    counts: CountsPart,
    rows: RowsPart,
    query: ListQuery,
    chips: Vec<FilterChip>,
    plans: Vec<String>,
    categories: &'static [ErrorCategory],
    live_path: String,
}

/// `GET /`.
pub async fn list(
    State(state): State<WebState>,
    signed_in: SignedIn,
    headers: HeaderMap,
    Query(query): Query<ListQuery>,
) -> Result<Html<String>, Problem> {
    let (counts, rows) = load_parts(&state, &query, ReaderRights::of(&signed_in)).await?;
    let mut plans: Vec<String> =
        state.service.plans().list().await?.into_iter().map(|plan| plan.name).collect();
    plans.sort();
    plans.dedup();
    plans.truncate(PLANS_OFFERED_MAX);
    let frame = Frame::load(&state, &signed_in, &headers, Area::Executions, "Executions").await?;
    render(&ExecutionsPage {
        frame: frame.at(query.path_with("cursor", &query.cursor)),
        counts,
        rows,
        chips: chips(&query),
        plans,
        categories: ErrorCategory::ALL,
        live_path: query.live_path(),
        query,
    })
}

/// The parts of the list that change while it is read, each with the id of its element.
pub async fn live_parts(
    state: &WebState,
    query: &ListQuery,
    rights: ReaderRights,
) -> Result<Vec<(&'static str, String)>, Problem> {
    let (counts, rows) = load_parts(state, query, rights).await?;
    Ok(vec![("counts", render(&counts)?.0), ("rows", render(&rows)?.0)])
}

async fn load_parts(
    state: &WebState,
    query: &ListQuery,
    rights: ReaderRights,
) -> Result<(CountsPart, RowsPart), Problem> {
    let executions = state.service.executions();
    let page = executions.page(&query.filter()?, ROWS_PER_PAGE).await?;
    let by_status = executions.count_by_status().await?;
    let total: u64 = by_status.values().sum();
    let (position, _) = state.service.journal().head().await?;
    let count_of = |status: &ExecutionStatus| {
        let count = by_status.get(status).copied().unwrap_or_default();
        let word = status.as_str();
        let is_current = query.status == word;
        // A second click on a status shows all again.
        let path = query.path_with("status", if is_current { "" } else { word });
        StatusCount { mark: Some(StatusMark::of_execution(*status)), count: grouped(count), path, is_current }
    };
    let all = StatusCount {
        mark: None,
        count: grouped(total),
        path: query.path_with("status", ""),
        is_current: query.status.is_empty(),
    };
    let shown = [
        ExecutionStatus::Running,
        ExecutionStatus::Blocked,
        ExecutionStatus::Paused,
        ExecutionStatus::Compensating,
        ExecutionStatus::Failed,
        ExecutionStatus::Succeeded,
        ExecutionStatus::Compensated,
        ExecutionStatus::Cancelled,
    ];
    let counts = std::iter::once(all).chain(shown.iter().map(count_of)).collect();
    let rows = RowsPart {
        rows: page.rows.into_iter().map(|listed| ExecutionListRow::of(listed, rights.values)).collect(),
        is_empty_book: total == 0,
        next_path: page.next.map(|next| query.path_with("cursor", &next.to_string())),
        first_path: Some(query.path_with("cursor", "")).filter(|_| !query.cursor.is_empty()),
        position: grouped(position),
    };
    Ok((CountsPart { counts }, rows))
}

/// The filters that are set, but the status, which the counts show, and the search, which its field shows.
fn chips(query: &ListQuery) -> Vec<FilterChip> {
    let words = |name: &'static str| match name {
        "actor" => "who",
        "category" => "error",
        "since" => "started since",
        "until" => "started before",
        other => other,
    };
    let is_chip = |(name, _): &(&'static str, &str)| !["status", "search"].contains(name);
    let chip = |(name, value): (&'static str, &str)| FilterChip {
        name: words(name),
        value: value.to_owned(),
        path_without: query.path_with(name, ""),
    };
    query.pairs().into_iter().filter(is_chip).map(chip).collect()
}

impl From<askama::Error> for Problem {
    fn from(error: askama::Error) -> Self {
        Self::from(Error::Bug(format!("a page was not rendered: {error}")))
    }
}
