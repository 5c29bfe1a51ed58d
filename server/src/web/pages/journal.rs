//! `/journal`: the entries of the whole journal, newest first, with filters and a search.

use askama::Template;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::Html;
use serde::Deserialize;

use super::frame::{Area, Frame};
use super::journal_table::JournalTable;
use super::markup::{grouped, url_part};
use super::render;
use crate::service::JournalFilter;
use crate::web::WebState;
use crate::web::authentication::SignedIn;
use crate::web::problem::Problem;

/// Entries of a page.
const ENTRIES_PER_PAGE: usize = 100;

/// The query of the journal. An empty value does not filter.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct JournalQuery {
    kind: String,
    actor: String,
    search: String,
    before: Option<u64>,
}

#[derive(Debug, Template)]
#[template(path = "journal.html")]
struct JournalPage {
    frame: Frame,
    table: JournalTable,
    query: JournalQuery,
    kinds: &'static [&'static str],
    position: String,
    hash: String,
}

/// `GET /journal`.
pub async fn list(
    State(state): State<WebState>,
    signed_in: SignedIn,
    headers: HeaderMap,
    Query(query): Query<JournalQuery>,
) -> Result<Html<String>, Problem> {
    let given = |value: &str| Some(value.to_owned()).filter(|value| !value.is_empty());
    let filter = JournalFilter {
        kind: given(&query.kind),
        actor: given(&query.actor),
        words: query.search.split_whitespace().map(str::to_owned).collect(),
        ..JournalFilter::default()
    };
    let entries = state.service.journal().list_newest(&filter, query.before, ENTRIES_PER_PAGE as u64).await?;
    let (position, hash) = state.service.journal().head().await?;
    let path = format!(
        "/journal?kind={}&actor={}&search={}",
        url_part(&query.kind),
        url_part(&query.actor),
        url_part(&query.search)
    );
    let frame = Frame::load(&state, &signed_in, &headers, Area::Journal, "Journal").await?;
    render(&JournalPage {
        frame: frame.at("/journal"),
        table: JournalTable::of(&entries, ENTRIES_PER_PAGE, false, &path),
        query,
        kinds: actbook_engine::event::Event::KINDS_READ,
        position: grouped(position),
        hash: hash.chars().take(16).collect(),
    })
}
