//! `/questions`: the inbox, everything that waits for a person, oldest first.

use askama::Template;
use askama::filters::HtmlSafe;
use axum::extract::Query;
use axum::http::HeaderMap;
use axum::response::Html;
use serde::Deserialize;

use super::execution_parts::ReaderRights;
use super::frame::{Area, Frame};
use super::markup::url_part;
use super::question_card::QuestionCard;
use super::render;
use super::times::PageDuration;
use crate::web::WebState;
use crate::web::authentication::SignedIn;
use crate::web::problem::Problem;

/// Questions on a page of the inbox.
const CARDS_PER_PAGE: u64 = 50;
/// Questions are counted up to this number.
const COUNTED_MAX: u64 = 10_000;

/// The query of the inbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct InboxQuery {
    /// The cursor after the page before.
    pub after: String,
}

impl InboxQuery {
    /// The path of the stream that keeps the page current.
    fn live_path(&self) -> String {
        if self.after.is_empty() {
            return "/questions/live".to_owned();
        }
        format!("/questions/live?after={}", url_part(&self.after))
    }
}

/// The cards and the counts beside them: a part that the live stream replaces.
#[derive(Debug, Template)]
#[template(path = "question_cards.html")]
struct CardsPart {
    /// The oldest ones, or those of a later page.
    cards: Vec<QuestionCard>,
    /// How many wait in all.
    total: u64,
    /// Leads from a later page to the oldest questions.
    is_later_page: bool,
    next_path: Option<String>,
    /// Kinds of questions and how many of each the page shows.
    kinds: Vec<(&'static str, usize)>,
    may_answer: bool,
}

impl HtmlSafe for CardsPart {}

impl CardsPart {
    /// Since when the oldest question waits.
    fn oldest(&self) -> Option<&PageDuration> {
        self.cards.iter().find_map(|card| card.asked.as_ref())
    }
}

#[derive(Debug, Template)]
#[template(path = "questions.html")]
struct QuestionsPage {
    frame: Frame,
    cards: CardsPart,
    live_path: String,
}

/// `GET /questions`.
pub async fn list(
    state: WebState,
    signed_in: SignedIn,
    headers: HeaderMap,
    Query(query): Query<InboxQuery>,
) -> Result<Html<String>, Problem> {
    let cards = load(&state, &query, ReaderRights::of(&signed_in)).await?;
    let frame = Frame::load(&state, &signed_in, &headers, Area::Questions, "Questions").await?;
    render(&QuestionsPage { frame: frame.at("/questions"), cards, live_path: query.live_path() })
}

/// The parts of the inbox that change while it is read, each with the id of its element.
pub async fn live_parts(
    state: &WebState,
    query: &InboxQuery,
    rights: ReaderRights,
) -> Result<Vec<(&'static str, String)>, Problem> {
    Ok(vec![("questions", render(&load(state, query, rights).await?)?.0)])
}

async fn load(state: &WebState, query: &InboxQuery, rights: ReaderRights) -> Result<CardsPart, Problem> {
    let executions = state.service.executions();
    let cursor = Some(query.after.as_str()).filter(|after| !after.is_empty());
    let inbox = executions.inbox(cursor, CARDS_PER_PAGE).await?;
    let card =
        |one: &crate::service::OpenQuestion| QuestionCard::of(&one.execution, &one.question, rights.values);
    let cards: Vec<QuestionCard> = inbox.questions.iter().map(card).collect();
    let mut kinds: Vec<(&'static str, usize)> = Vec::new();
    for card in &cards {
        match kinds.iter_mut().find(|(kind, _)| *kind == card.kind) {
            Some((_, count)) => *count += 1,
            None => kinds.push((card.kind, 1)),
        }
    }
    Ok(CardsPart {
        cards,
        total: executions.count_questions(COUNTED_MAX).await?,
        is_later_page: cursor.is_some(),
        next_path: inbox.next_cursor.map(|next| format!("/questions?after={}", url_part(&next))),
        kinds,
        may_answer: rights.operate || rights.approve,
    })
}
