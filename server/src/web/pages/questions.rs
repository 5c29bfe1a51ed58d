//! `/questions`: the inbox, everything that waits for a person, oldest first.

use askama::Template;
use askama::filters::HtmlSafe;
use axum::http::HeaderMap;
use axum::response::Html;

use super::execution_parts::ReaderRights;
use super::frame::{Area, Frame};
use super::question_card::QuestionCard;
use super::render;
use super::times::PageDuration;
use crate::web::WebState;
use crate::web::authentication::SignedIn;
use crate::web::problem::Problem;

/// Questions that the inbox shows at once.
const CARDS_MAX: usize = 50;

/// The cards and the counts beside them: a part that the live stream replaces.
#[derive(Debug, Template)]
#[template(path = "question_cards.html")]
struct CardsPart {
    /// The oldest ones.
    cards: Vec<QuestionCard>,
    /// Questions that come up as these are answered.
    more: usize,
    /// Kinds of questions and how many there are of each.
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
}

/// `GET /questions`.
pub async fn list(state: WebState, signed_in: SignedIn, headers: HeaderMap) -> Result<Html<String>, Problem> {
    let cards = load(&state, ReaderRights::of(&signed_in)).await?;
    let frame = Frame::load(&state, &signed_in, &headers, Area::Questions, "Questions").await?;
    render(&QuestionsPage { frame: frame.at("/questions"), cards })
}

/// The parts of the inbox that change while it is read, each with the id of its element.
pub async fn live_parts(
    state: &WebState,
    rights: ReaderRights,
) -> Result<Vec<(&'static str, String)>, Problem> {
    Ok(vec![("questions", render(&load(state, rights).await?)?.0)])
}

async fn load(state: &WebState, rights: ReaderRights) -> Result<CardsPart, Problem> {
    let inbox = state.service.executions().open_questions().await?;
    let card =
        |one: &crate::service::OpenQuestion| QuestionCard::of(&one.execution, &one.question, rights.values);
    let mut cards: Vec<QuestionCard> = inbox.iter().map(card).collect();
    let mut kinds: Vec<(&'static str, usize)> = Vec::new();
    for card in &cards {
        match kinds.iter_mut().find(|(kind, _)| *kind == card.kind) {
            Some((_, count)) => *count += 1,
            None => kinds.push((card.kind, 1)),
        }
    }
    let more = cards.len().saturating_sub(CARDS_MAX);
    cards.truncate(CARDS_MAX);
    Ok(CardsPart { cards, more, kinds, may_answer: rights.operate || rights.approve })
}
