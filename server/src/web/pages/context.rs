//! `/context`: the notes that agents and people keep, with a search.

use askama::Template;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::Html;
use serde::Deserialize;

use super::execution_parts::ReaderRights;
use super::frame::{Area, Frame};
use super::json_tree::{TreeExtent, json_tree};
use super::markup::{Markup, url_part};
use super::render;
use super::times::{PageTime, page_time};
use crate::service::{NoteFilter, NoteView};
use crate::web::WebState;
use crate::web::authentication::SignedIn;
use crate::web::problem::Problem;

/// Notes of a page.
const NOTES_PER_PAGE: u64 = 50;

/// The query of the notes. An empty value does not filter.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ContextQuery {
    search: String,
    cursor: Option<u64>,
}

/// One note.
#[derive(Debug)]
struct NoteCard {
    key: String,
    kind: String,
    /// What it belongs to.
    owner: String,
    author: String,
    at: PageTime,
    /// The value; without the right to see values, none.
    value: Option<Markup>,
    excerpt: Option<String>,
}

#[derive(Debug, Template)]
#[template(path = "context.html")]
struct ContextPage {
    frame: Frame,
    notes: Vec<NoteCard>,
    search: String,
    next_path: Option<String>,
}

/// `GET /context`.
pub async fn list(
    State(state): State<WebState>,
    signed_in: SignedIn,
    headers: HeaderMap,
    Query(query): Query<ContextQuery>,
) -> Result<Html<String>, Problem> {
    let shows_values = ReaderRights::of(&signed_in).values;
    let search = Some(query.search.clone()).filter(|search| !search.trim().is_empty());
    let filter = NoteFilter { search, cursor: query.cursor, ..NoteFilter::default() };
    let page = state.service.notes().list(&filter, NOTES_PER_PAGE).await?;
    let frame = Frame::load(&state, &signed_in, &headers, Area::Context, "Context").await?;
    let next =
        page.cursor.map(|cursor| format!("/context?search={}&cursor={cursor}", url_part(&query.search)));
    render(&ContextPage {
        frame: frame.at("/context"),
        notes: page.notes.into_iter().map(|note| NoteCard::of(note, shows_values)).collect(),
        search: query.search,
        next_path: next,
    })
}

impl NoteCard {
    fn of(note: NoteView, shows_values: bool) -> Self {
        let owner = match (&note.owner.task, &note.owner.plan_id, &note.owner.execution_id) {
            (_, _, Some(execution)) => format!("execution {execution}"),
            (_, Some(plan), None) => format!("plan {plan}"),
            (Some(task), None, None) => format!("task {task}"),
            (None, None, None) => "the project".to_owned(),
        };
        Self {
            owner,
            author: note.author,
            at: page_time(&note.at),
            value: shows_values.then(|| json_tree(&note.value, None, TreeExtent::Part).html),
            excerpt: note.excerpt.filter(|_| shows_values).map(|text| text.replace("**", "")),
            key: note.key,
            kind: note.r#type,
        }
    }
}
