//! `GET /events`: the journal as Server-Sent Events. The id of an event is the entry's position, so that a stream that
//! was cut resumes without a gap or a repetition.
//!
//!   journal → one tail reader per process → ring of encoded entries → streams, each with its filter
//!                                               └ a stream that fell behind the ring reads pages of the journal

mod stream;
mod tail_ring;

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::get;
use schemars::JsonSchema;
use serde::Deserialize;

use super::operation::Operation;
use super::params::Params;
use crate::web::event_stream::event_response;
use crate::web::{Problem, SignedIn, WebState};
use stream::{EventFilter, JournalStream};

pub use tail_ring::EventTail;

pub fn operations() -> Vec<Operation> {
    vec![
        Operation::new("GET", "/events", "stream_events", get(events))
            .summary("The journal's entries as they are appended; Last-Event-ID or `after` resumes")
            .query::<EventsQuery>()
            .gives_media("text/event-stream"),
    ]
}

/// The query of `GET /events`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EventsQuery {
    /// An execution's whole id
    execution: Option<String>,
    /// A plan's id or name
    plan: Option<String>,
    task: Option<String>,
    /// A kind without its version, or the beginning of one
    kind: Option<String>,
    /// Entries after this position; those after the newest one unless given
    after: Option<u64>,
}

async fn events(
    state: WebState,
    signed_in: SignedIn,
    headers: HeaderMap,
    Params(query): Params<EventsQuery>,
) -> Result<Response, Problem> {
    let (head, _) = state.service.journal().head().await?;
    let ring = state.tail.open(head, &state.ending)?;
    let after = last_event_id(&headers)?.or(query.after).unwrap_or(head);
    if after > head {
        return Err(beyond_head(after, head));
    }
    let filter = EventFilter {
        execution: query.execution,
        plan: query.plan,
        task: query.task,
        kind: query.kind,
        within: state.service.owned_boundary(),
    };
    let stream = JournalStream::new(ring, filter, after);
    Ok(event_response(&state, signed_in.credential, stream))
}

/// The problem of a stream after a position that the journal has not reached: a reader of another journal, or of this
/// one before it was restored from a copy, would wait for entries that it never sees.
fn beyond_head(after: u64, head: u64) -> Problem {
    let detail = format!("the stream is to begin after position {after}, and the journal ends at {head}");
    let cure =
        "read the journal anew: `after=0` sends all of it, without `after` the stream begins at its end";
    Problem::new(StatusCode::CONFLICT, "beyond_head", detail, cure)
}

/// The position in the header with which a browser resumes. Err: it is no position.
fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(given) = headers.get("last-event-id") else { return Ok(None) };
    let position = given.to_str().ok().and_then(|text| text.trim().parse().ok());
    position.map(Some).ok_or_else(|| Problem::bad_parameter("Last-Event-ID", "it is no position"))
}
