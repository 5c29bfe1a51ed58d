//! `/`: the executions, with counts by status, filters in the URL and a row for each.

use actbook_engine::policy::ExecutionStatus;
use askama::Template;
use askama::filters::HtmlSafe;
use axum::extract::Query;
use axum::http::HeaderMap;
use axum::response::{Html, IntoResponse, Redirect, Response};

use super::execution_filters::{FilterName, ListQuery};
use super::execution_parts::ReaderRights;
use super::execution_row::ExecutionListRow;
use super::frame::{Area, Frame, shown_behind};
use super::markup::{StatusMark, grouped};
use super::render;
use super::saved_views::SavedViews;
use crate::caller::Right;
use crate::error::Error;
use crate::service::FilterAttribute;
use crate::web::WebState;
use crate::web::authentication::SignedIn;
use crate::web::problem::Problem;

pub use super::execution_filters::time_of;

/// Rows of a page.
const ROWS_PER_PAGE: usize = 25;
/// How many matching executions are counted.
const COUNTED_MAX: u64 = 10_000;
/// Values that a filter offers.
const VALUES_OFFERED_MAX: u64 = 20;

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
    /// `plan`, or `plan is not`.
    name: String,
    value: String,
    path_without: String,
    /// Turns include into exclude, and back.
    path_turned: Option<String>,
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
    /// The reader may act on several at once.
    may_select: bool,
    /// The filters of the list, for an action on all that match.
    filters: Vec<(String, String)>,
    next_path: Option<String>,
    first_path: Option<String>,
    position: String,
    /// How many entries of the journal the filters and counts lack; empty if none.
    behind: String,
    /// How many match, as far as they are counted.
    matching: String,
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
    names: &'static [FilterName],
    live_path: String,
    views: SavedViews,
    may_run: bool,
}

/// `GET /`. With `add`, the form's filter is put into the address first.
pub async fn list(
    state: WebState,
    signed_in: SignedIn,
    headers: HeaderMap,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let query = ListQuery::of(&pairs)?;
    if let Some(path) = query.path_with_added(&pairs) {
        return Ok(Redirect::to(&path).into_response());
    }
    let (counts, rows) = load_parts(&state, &query, ReaderRights::of(&signed_in)).await?;
    let frame = Frame::load(&state, &signed_in, &headers, Area::Executions, "Executions").await?;
    let page = ExecutionsPage {
        frame: frame.at(query.path()),
        counts,
        rows,
        chips: chips(&query),
        names: FilterName::ALL,
        live_path: query.live_path(),
        views: SavedViews::of(&headers, &query),
        may_run: signed_in.may(Right::Run),
        query,
    };
    Ok(render(&page)?.into_response())
}

/// `GET /filter-values?name=&value=`: the values of a filter that begin with what was typed, as options.
pub async fn filter_values(
    state: WebState,
    _signed_in: SignedIn,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Html<String>, Problem> {
    let text =
        |name: &str| pairs.iter().find(|(given, _)| given == name).map_or("", |(_, value)| value.as_str());
    let Some(name) = FilterName::parse(text("add")) else { return Ok(Html(String::new())) };
    let executions = state.service.executions();
    let values: Vec<String> = match attribute_of(name) {
        Some(attribute) => {
            let found = executions.filter_values(attribute, text("value"), VALUES_OFFERED_MAX).await?;
            found.into_iter().map(|value| value.value).collect()
        }
        None if name == FilterName::Task => task_ids(&state, text("value")).await?,
        None => name.fixed_values(),
    };
    let options = values.iter().map(|value| format!("<option value=\"{}\">", super::markup::escape(value)));
    Ok(Html(options.collect()))
}

/// The ids of tasks that begin with what was typed.
async fn task_ids(state: &WebState, prefix: &str) -> Result<Vec<String>, Problem> {
    let ids = state.service.tasks().list(None).await?.into_iter().map(|task| task.id);
    let matching = ids.filter(|id| id.to_lowercase().starts_with(&prefix.to_lowercase()));
    Ok(matching.take(VALUES_OFFERED_MAX as usize).collect())
}

/// The attribute whose values complete what is typed. `None`: the filter has few values, or they are not listed.
fn attribute_of(name: FilterName) -> Option<FilterAttribute> {
    match name {
        FilterName::Plan => Some(FilterAttribute::Plan),
        FilterName::Tool => Some(FilterAttribute::Tool),
        FilterName::Server => Some(FilterAttribute::Server),
        FilterName::Actor => Some(FilterAttribute::Actor),
        FilterName::Status | FilterName::Task | FilterName::Category => None,
    }
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
    let filter = query.filter()?;
    let behind = executions.behind().await?;
    let page = executions.page(&filter, ROWS_PER_PAGE).await?;
    let by_status = executions.count_by_status().await?;
    let total: u64 = by_status.values().sum();
    let (position, _) = state.service.journal().head().await?;
    let matching = if query.is_unfiltered() {
        grouped(total)
    } else {
        let unpositioned = crate::service::ExecutionFilter { before: None, ..filter };
        let counted = executions.count(&unpositioned, COUNTED_MAX).await?;
        if counted == COUNTED_MAX { format!("{} or more", grouped(counted)) } else { grouped(counted) }
    };
    let rows = RowsPart {
        rows: page.rows.into_iter().map(|listed| ExecutionListRow::of(listed, rights.values)).collect(),
        is_empty_book: total == 0,
        may_select: rights.operate,
        filters: query.pairs().into_iter().map(|(name, value)| (name, value.to_owned())).collect(),
        next_path: page.next.map(|next| query.path_at(&next.to_string())),
        first_path: Some(query.path_at("")).filter(|_| !query.cursor.is_empty()),
        position: grouped(position),
        behind: shown_behind(behind),
        matching,
    };
    Ok((CountsPart { counts: status_counts(query, &by_status, total) }, rows))
}

fn status_counts(
    query: &ListQuery,
    by_status: &std::collections::BTreeMap<ExecutionStatus, u64>,
    total: u64,
) -> Vec<StatusCount> {
    let chosen = query.only(FilterName::Status);
    let count_of = |status: &ExecutionStatus| {
        let count = by_status.get(status).copied().unwrap_or_default();
        let is_current = chosen == Some(status.as_str());
        // A second click on a status shows all again.
        let path = query.path_with_status(if is_current { None } else { Some(*status) });
        StatusCount { mark: Some(StatusMark::of_execution(*status)), count: grouped(count), path, is_current }
    };
    let all = StatusCount {
        mark: None,
        count: grouped(total),
        path: query.path_with_status(None),
        is_current: !query.has(FilterName::Status),
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
    std::iter::once(all).chain(shown.iter().map(count_of)).collect()
}

/// The filters that are set, but a single status, which the counts show, and the search, which its field shows.
fn chips(query: &ListQuery) -> Vec<FilterChip> {
    let single_status = query.only(FilterName::Status).is_some();
    let terms = query.terms.iter().enumerate();
    let shown = terms.filter(|(_, term)| !(term.name == FilterName::Status && single_status));
    let mut chips: Vec<FilterChip> = shown
        .map(|(index, term)| FilterChip {
            name: format!("{}{}", term.name.word(), if term.excludes { " is not" } else { "" }),
            value: term.value.clone(),
            path_without: query.path_without(index),
            path_turned: Some(query.path_turned(index)),
        })
        .collect();
    for (name, word, value) in
        [("since", "started since", &query.since), ("until", "started before", &query.until)]
    {
        if !value.is_empty() {
            let path_without = query.path_without_time(name);
            chips.push(FilterChip {
                name: word.to_owned(),
                value: value.clone(),
                path_without,
                path_turned: None,
            });
        }
    }
    chips
}

impl From<askama::Error> for Problem {
    fn from(error: askama::Error) -> Self {
        Self::from(Error::Bug(format!("a page was not rendered: {error}")))
    }
}
