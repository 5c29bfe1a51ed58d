//! `/context`: the notes that agents and people keep, with a search.

use askama::Template;
use axum::extract::Query;
use axum::http::HeaderMap;
use axum::response::Html;
use serde::Deserialize;

use super::execution_parts::ReaderRights;
use super::frame::{Area, Frame};
use super::json_tree::{TreeExtent, json_tree};
use super::markup::{Markup, grouped, short_id, url_part};
use super::render;
use super::times::{PageTime, page_time};
use crate::service::{NoteFilter, NoteOwnerRef, NoteView};
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
    /// The notes' type.
    #[serde(rename = "type")]
    kind: String,
    task: String,
    cursor: Option<u64>,
}

/// One note.
#[derive(Debug)]
struct NoteCard {
    key: String,
    kind: String,
    /// What it belongs to, and the path of that.
    owner: (String, Option<String>),
    author: String,
    /// Leads to the entry that holds the value.
    entry: String,
    position: String,
    at: PageTime,
    /// The value; without the right to see values, none.
    value: Option<Markup>,
    /// The text around the first match, with the matches marked.
    excerpt: Option<Markup>,
    /// The value is folded away below its excerpt.
    is_folded: bool,
}

#[derive(Debug, Template)]
#[template(path = "context.html")]
struct ContextPage {
    frame: Frame,
    notes: Vec<NoteCard>,
    query: ContextQuery,
    is_filtered: bool,
    next_path: Option<String>,
}

/// `GET /context`.
pub async fn list(
    state: WebState,
    signed_in: SignedIn,
    headers: HeaderMap,
    Query(query): Query<ContextQuery>,
) -> Result<Html<String>, Problem> {
    let shows_values = ReaderRights::of(&signed_in).values;
    let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let owner = NoteOwnerRef { task: given(&query.task), ..NoteOwnerRef::default() };
    let (search, r#type) = (given(&query.search), given(&query.kind));
    let is_filtered = search.is_some() || r#type.is_some() || owner.task.is_some();
    let filter = NoteFilter { search, r#type, owner, cursor: query.cursor, ..NoteFilter::default() };
    let page = state.service.notes().list(&filter, NOTES_PER_PAGE).await?;
    let frame = Frame::load(&state, &signed_in, &headers, Area::Context, "Context").await?;
    let kept = format!(
        "search={}&type={}&task={}",
        url_part(&query.search),
        url_part(&query.kind),
        url_part(&query.task)
    );
    let next = page.cursor.map(|cursor| format!("/context?{kept}&cursor={cursor}"));
    render(&ContextPage {
        frame: frame.at("/context"),
        notes: page.notes.into_iter().map(|note| NoteCard::of(note, shows_values)).collect(),
        is_filtered,
        query,
        next_path: next,
    })
}

impl NoteCard {
    fn of(note: NoteView, shows_values: bool) -> Self {
        let owner = match (&note.owner.task, &note.owner.plan_id, &note.owner.execution_id) {
            (_, _, Some(id)) => (format!("execution {}", short_id(id)), Some(format!("/executions/{id}"))),
            (_, Some(id), None) => {
                (format!("plan {}", short_id(id)), Some(format!("/plans/{}", url_part(id))))
            }
            (Some(task), None, None) => (format!("task {task}"), Some(format!("/tasks/{}", url_part(task)))),
            (None, None, None) if note.everywhere => ("every project".to_owned(), None),
            (None, None, None) => ("the project".to_owned(), None),
        };
        let excerpt = note.excerpt.filter(|_| shows_values).map(|text| marked(&text));
        Self {
            owner,
            author: note.author,
            at: page_time(&note.at),
            entry: format!("/journal?at={0}#p-{0}", note.position),
            position: grouped(note.position),
            value: shows_values.then(|| json_tree(&note.value, None, TreeExtent::Part).html),
            is_folded: excerpt.is_some(),
            excerpt,
            key: note.key,
            kind: note.r#type,
        }
    }
}

/// An excerpt with what stands between `**` marked.
fn marked(excerpt: &str) -> Markup {
    let mut text = Markup::default();
    for (index, part) in excerpt.split("**").enumerate() {
        if index % 2 == 1 {
            text.push(Markup::from_rendered(format!("<mark>{}</mark>", Markup::text(part))));
        } else {
            text.push_text(part);
        }
    }
    text
}
