//! The streams that keep pages current. Each event carries the parts of a page that have changed since the last
//! one, for htmx to put into their elements, and the journal's position as its id. At most four events a second.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use axum::extract::{Path, Query};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::watch;

use super::execution::{self, PageQuery};
use super::execution_filters::ListQuery;
use super::execution_parts::ReaderRights;
use super::executions::live_parts;
use super::questions;
use crate::service::RemoteListener;
use crate::web::WebState;
use crate::web::authentication::SignedIn;
use crate::web::problem::Problem;

/// Shortest time between two events of one stream.
const EVENT_INTERVAL: Duration = Duration::from_millis(250);
/// A comment is sent this often, so that proxies keep the connection and a lost one is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A part of a page: the id of its element, and its HTML.
type PagePart = (&'static str, String);

/// What a stream renders again and again.
enum LivePage {
    Executions(ListQuery),
    Questions,
    Execution { id: String, query: PageQuery },
}

/// The state of one stream.
struct LiveStream {
    state: WebState,
    rights: ReaderRights,
    page: LivePage,
    /// Changes when the tenant's journal has grown.
    journal_head: watch::Receiver<u64>,
    /// Keeps notifications from other processes coming.
    _listening: RemoteListener,
    /// The digest of each part as the page has it.
    sent: BTreeMap<&'static str, u64>,
    /// The position at which the page was rendered. `None`: it must be rendered at once.
    rendered_at: Option<u64>,
}

/// A response that streams events.
type LiveResponse = Sse<
    axum::response::sse::KeepAliveStream<
        std::pin::Pin<Box<dyn Stream<Item = Result<Event, Infallible>> + Send>>,
    >,
>;

/// `GET /live`: the list of executions.
pub async fn executions(
    state: WebState,
    signed_in: SignedIn,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<LiveResponse, Problem> {
    let query = ListQuery::of(&pairs)?;
    stream(state, &signed_in, LivePage::Executions(query), None).await
}

/// `GET /questions/live`: the inbox.
pub async fn questions(state: WebState, signed_in: SignedIn) -> Result<LiveResponse, Problem> {
    stream(state, &signed_in, LivePage::Questions, None).await
}

/// `GET /executions/{id}/live`: the page of one execution.
pub async fn execution(
    state: WebState,
    signed_in: SignedIn,
    headers: HeaderMap,
    Path(id): Path<String>,
    Query(query): Query<PageQuery>,
) -> Result<LiveResponse, Problem> {
    let resumed = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let after = resumed.or(query.after);
    stream(state, &signed_in, LivePage::Execution { id, query }, after).await
}

/// Opens a stream for a page that was rendered at `after`.
async fn stream(
    state: WebState,
    signed_in: &SignedIn,
    page: LivePage,
    after: Option<u64>,
) -> Result<LiveResponse, Problem> {
    let (listening, journal_head) = state.service.journal().subscribe()?;
    let mut live = LiveStream {
        rights: ReaderRights::of(signed_in),
        state,
        page,
        journal_head,
        _listening: listening,
        sent: BTreeMap::new(),
        rendered_at: after,
    };
    // What the page shows already is rendered once, to tell later what has changed.
    let (position, parts) = live.render().await?;
    if after == Some(position) {
        live.changed_parts(&parts);
    } else {
        live.rendered_at = None;
    }
    let events = unfold(live, |mut live| async move {
        let event = live.next_event().await?;
        Some((Ok(event), live))
    });
    let boxed: std::pin::Pin<Box<dyn Stream<Item = Result<Event, Infallible>> + Send>> = Box::pin(events);
    Ok(Sse::new(boxed).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

impl LiveStream {
    /// The next event: waits until the journal has grown and something on the page has changed by it. `None`: the
    /// stream has ended.
    async fn next_event(&mut self) -> Option<Event> {
        loop {
            if self.rendered_at.is_some() {
                tokio::time::sleep(EVENT_INTERVAL).await;
                self.journal_head.changed().await.ok()?;
            }
            let (position, parts) = match self.render().await {
                Ok(rendered) => rendered,
                Err(problem) => {
                    tracing::debug!("a live page ended: {}", problem.detail);
                    return None;
                }
            };
            self.rendered_at = Some(position);
            let changed = self.changed_parts(&parts);
            if !changed.is_empty() {
                return Some(Event::default().id(position.to_string()).data(changed));
            }
        }
    }

    /// The parts of the page as they are now, and the position that they show.
    async fn render(&mut self) -> Result<(u64, Vec<PagePart>), Problem> {
        // Marked as seen before the read, so that what is appended meanwhile wakes the stream again.
        self.journal_head.borrow_and_update();
        match &self.page {
            LivePage::Executions(query) => {
                let (position, _) = self.state.service.journal().head().await?;
                Ok((position, live_parts(&self.state, query, self.rights).await?))
            }
            LivePage::Questions => {
                let (position, _) = self.state.service.journal().head().await?;
                Ok((position, questions::live_parts(&self.state, self.rights).await?))
            }
            LivePage::Execution { id, query } => {
                let inspected = self.state.service.executions().inspect(id).await?;
                let parts = execution::parts(&self.state, &inspected, query, self.rights).await?;
                let parts = parts.named().map(|(name, html)| (name, html.to_string()));
                Ok((inspected.view.position, parts.into()))
            }
        }
    }

    /// The parts that differ from what the page has, as htmx takes them; and remembers them as sent.
    fn changed_parts(&mut self, parts: &[PagePart]) -> String {
        let mut changed = String::new();
        for (name, html) in parts.iter().filter(|(_, html)| !html.is_empty()) {
            let mut hasher = DefaultHasher::new();
            html.hash(&mut hasher);
            let digest = hasher.finish();
            if self.sent.insert(name, digest) != Some(digest) {
                // An event's data has no carriage return; a line feed becomes a line of its own.
                let html = html.replace('\r', "");
                changed.push_str(&format!(
                    "<hx-partial hx-target=\"#{name}\" hx-swap=\"outerMorph\">{html}</hx-partial>"
                ));
            }
        }
        changed
    }
}
