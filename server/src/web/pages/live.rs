//! The streams that keep pages current. Each event carries the parts of a page that have changed since the last
//! one, for htmx to put into their elements, and a position of the journal as its id. A page is rendered once for
//! all streams that show it to readers with the same rights.
//!
//!   journal ─► one renderer per page and set of rights ─► parts, encoded once ─► streams, each from what it has sent

mod shared_page;

use axum::extract::{Path, Query};
use axum::http::HeaderMap;
use axum::response::Response;

use super::execution::{self, PageQuery};
use super::execution_filters::ListQuery;
use super::execution_parts::ReaderRights;
use super::executions;
use super::questions::{self, InboxQuery};
use crate::web::WebState;
use crate::web::authentication::SignedIn;
use crate::web::event_stream::event_response;
use crate::web::problem::Problem;

pub use shared_page::LivePages;

/// A part of a page: the id of its element, and its HTML; empty if the page has no such element.
type PagePart = (&'static str, String);

/// What is rendered again and again. Equal ones are rendered once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum LivePage {
    Executions(ListQuery),
    Questions(InboxQuery),
    /// `id` is whole, and the query has nothing that does not change the page.
    Execution {
        id: String,
        query: PageQuery,
    },
}

impl LivePage {
    /// The parts as they are now, and the position that they show.
    async fn render(&self, state: &WebState, rights: ReaderRights) -> Result<(u64, Vec<PagePart>), Problem> {
        let (head, _) = state.service.journal().head().await?;
        match self {
            Self::Executions(query) => Ok((head, executions::live_parts(state, query, rights).await?)),
            Self::Questions(query) => Ok((head, questions::live_parts(state, query, rights).await?)),
            Self::Execution { id, query } => {
                let inspected = state.service.executions().inspect(id).await?;
                let parts = execution::parts(state, &inspected, query, rights).await?;
                let parts = parts.named().map(|(name, html)| (name, html.to_string()));
                Ok((inspected.view.position, parts.into()))
            }
        }
    }
}

/// `GET /live`: the list of executions.
pub async fn executions(
    state: WebState,
    signed_in: SignedIn,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let query = ListQuery::of(&pairs)?;
    respond(state, signed_in, LivePage::Executions(query), None).await
}

/// `GET /questions/live`: the inbox.
pub async fn questions(
    state: WebState,
    signed_in: SignedIn,
    Query(query): Query<InboxQuery>,
) -> Result<Response, Problem> {
    respond(state, signed_in, LivePage::Questions(query), None).await
}

/// `GET /executions/{id}/live`: the page of one execution.
pub async fn execution(
    state: WebState,
    signed_in: SignedIn,
    headers: HeaderMap,
    Path(id): Path<String>,
    Query(query): Query<PageQuery>,
) -> Result<Response, Problem> {
    let resumed = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let after = resumed.or(query.after);
    let id = state.service.executions().find(&id).await?.id.to_string();
    let query = PageQuery { after: None, note: String::new(), ..query };
    respond(state, signed_in, LivePage::Execution { id, query }, after).await
}

/// Opens a stream for a page. `has`: the position that the page shows which the client has; if that is not the
/// newest, the stream begins with all parts.
async fn respond(
    state: WebState,
    signed_in: SignedIn,
    page: LivePage,
    has: Option<u64>,
) -> Result<Response, Problem> {
    let stream = state.live.join(&state, page, ReaderRights::of(&signed_in), has).await?;
    Ok(event_response(&state, signed_in.credential, stream))
}
