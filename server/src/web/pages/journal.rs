//! `/journal`: the entries of the whole journal, newest first, with filters and a search.

use askama::Template;
use axum::extract::Query;
use axum::http::HeaderMap;
use axum::response::{Html, Redirect};
use serde::Deserialize;

use super::executions::time_of;
use super::frame::{Area, Frame};
use super::journal_table::JournalTable;
use super::markup::{count, grouped, url_part};
use super::render;
use super::times::{PageTime, page_time};
use crate::service::{DayEdge, JournalFilter, LastVerification};
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
    since: String,
    until: String,
    before: Option<u64>,
    /// Entries up to this position, which is marked.
    at: Option<u64>,
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
    verification: Option<VerificationPart>,
    newest_path: Option<String>,
    is_filtered: bool,
}

/// The newest verification.
#[derive(Debug)]
struct VerificationPart {
    at: PageTime,
    /// What was found, in a sentence.
    told: String,
    /// The position of the first entry that fails. `None`: everything holds.
    bad: Option<u64>,
    /// Entries that were appended since.
    since: u64,
}

impl VerificationPart {
    fn of(last: &LastVerification, head: u64) -> Self {
        let report = &last.report;
        let told = match &report.bad {
            Some(bad) => format!("position {} fails: {}", grouped(bad.position), bad.why),
            None => format!(
                "{} {} and {} hold, up to position {}",
                grouped(report.entries),
                if report.entries == 1 { "entry" } else { "entries" },
                count(report.payloads as usize, "payload"),
                grouped(report.position)
            ),
        };
        Self {
            at: page_time(&last.at),
            told,
            bad: report.bad.as_ref().map(|bad| bad.position),
            since: head.saturating_sub(report.position),
        }
    }
}

/// `POST /journal/verify`: verifies the whole journal and leads back to its page, which shows the result.
pub async fn verify(state: WebState, _signed_in: SignedIn) -> Result<Redirect, Problem> {
    state.service.journal().verify().await?;
    Ok(Redirect::to("/journal#verification"))
}

/// `GET /journal`.
pub async fn list(
    state: WebState,
    signed_in: SignedIn,
    headers: HeaderMap,
    Query(query): Query<JournalQuery>,
) -> Result<Html<String>, Problem> {
    let given = |value: &str| Some(value.to_owned()).filter(|value| !value.is_empty());
    let filter = JournalFilter {
        kind: given(&query.kind),
        actor: given(&query.actor),
        words: query.search.split_whitespace().map(str::to_owned).collect(),
        since: time_of("since", &query.since, DayEdge::Start)?,
        until: time_of("until", &query.until, DayEdge::End)?,
        ..JournalFilter::default()
    };
    let before = query.at.map(|at| at.saturating_add(1)).or(query.before);
    let entries = state.service.journal().list_newest(&filter, before, ENTRIES_PER_PAGE as u64).await?;
    let (position, hash) = state.service.journal().head().await?;
    let kept = format!(
        "&kind={}&actor={}&search={}&since={}&until={}",
        url_part(&query.kind),
        url_part(&query.actor),
        url_part(&query.search),
        url_part(&query.since),
        url_part(&query.until)
    );
    let texts = [&query.kind, &query.actor, &query.search, &query.since, &query.until];
    let is_filtered = texts.iter().any(|text| !text.is_empty());
    let frame = Frame::load(&state, &signed_in, &headers, Area::Journal, "Journal").await?;
    render(&JournalPage {
        frame: frame.at("/journal"),
        table: JournalTable::of(&entries, ENTRIES_PER_PAGE, false, "/journal", &kept),
        newest_path: before.map(|_| format!("/journal?{}", kept.trim_start_matches('&'))),
        is_filtered,
        verification: state
            .service
            .journal()
            .last_verification()
            .map(|last| VerificationPart::of(&last, position)),
        query,
        kinds: actbook_engine::event::Event::KINDS_READ,
        position: grouped(position),
        hash: hash.chars().take(16).collect(),
    })
}
