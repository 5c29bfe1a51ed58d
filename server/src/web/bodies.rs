//! Reads request bodies whole before a request is handled, bounded in size and time per request, and in total
//! bytes for the process. Knows bytes and limits, not the content.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::mcp::http::BODY_BYTES_MAX;

/// Total size of the large bodies that this process is reading or handling.
const LARGE_BODIES_BYTES_MAX: usize = 32 * 1024 * 1024;
/// A body up to this size is not counted in the total, so that ordinary requests pass while large bodies use
/// it up. The number of connections bounds the total of small bodies.
const SMALL_BODY_BYTES: usize = 32 * 1024;
/// Estimated memory of all bodies that are being handled, once they are parsed.
const PARSED_BYTES_MAX: usize = 160 * 1024 * 1024;
/// A body of which less than this is estimated is not counted, so that ordinary requests pass.
const SMALL_PARSED_BYTES: usize = 1024 * 1024;
/// Memory of an object, an array or a field once parsed, about as measured.
const NODE_BYTES: usize = 512;
/// Memory of an array's item once parsed.
const ITEM_BYTES: usize = 64;
/// Limit from the end of the headers to the end of the body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The budgets of large request bodies, in bytes as received and as parsed. Clones share them.
#[derive(Clone, Debug)]
pub struct BodyBudget {
    received: Arc<Semaphore>,
    parsed: Arc<Semaphore>,
}

/// The parts of the budgets that one body takes until this is dropped; None for a small body.
#[derive(Debug, Default)]
pub struct BodyReservation {
    received: Option<OwnedSemaphorePermit>,
    parsed: Option<OwnedSemaphorePermit>,
}

/// Why a body was not read.
#[derive(Debug)]
pub enum BodyError {
    TooLarge,
    /// It is small, but what it holds would take too much memory.
    TooDense,
    TooSlow,
    /// The budget is used up by other requests.
    Busy,
    /// The connection closed early, or the body is malformed.
    Broken,
}

impl Default for BodyBudget {
    fn default() -> Self {
        let budget = |bytes| Arc::new(Semaphore::new(bytes));
        Self { received: budget(LARGE_BODIES_BYTES_MAX), parsed: budget(PARSED_BYTES_MAX) }
    }
}

impl BodyBudget {
    /// Reads the body. Returns the request with its whole body, and the reservation to hold while it is
    /// handled.
    pub async fn read(&self, request: Request) -> Result<(Request, BodyReservation), BodyError> {
        let (parts, body) = request.into_parts();
        let read = tokio::time::timeout(BODY_TIMEOUT, self.collect(body));
        let (body, mut reserved) = read.await.map_err(|_| BodyError::TooSlow)??;
        reserved.parsed = self.reserve_parsed(&body)?;
        Ok((Request::from_parts(parts, body.into()), reserved))
    }

    /// Collects the chunks of a body, within the limits on its size and the budget; the caller limits the
    /// time.
    async fn collect(&self, body: Body) -> Result<(Bytes, BodyReservation), BodyError> {
        let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if declared > BODY_BYTES_MAX {
            return Err(BodyError::TooLarge);
        }
        let (mut whole, mut reserved) = (Vec::new(), BodyReservation::default());
        let mut chunks = body.into_data_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|_| BodyError::Broken)?;
            let size = whole.len() + chunk.len();
            if size > BODY_BYTES_MAX {
                return Err(BodyError::TooLarge);
            }
            if size > SMALL_BODY_BYTES {
                self.grow_reservation(&mut reserved, size)?;
            }
            whole.extend_from_slice(&chunk);
        }
        Ok((whole.into(), reserved))
    }

    /// Reserves what the body is estimated to take once parsed.
    fn reserve_parsed(&self, body: &[u8]) -> Result<Option<OwnedSemaphorePermit>, BodyError> {
        let estimated = parsed_bytes(body);
        if estimated < SMALL_PARSED_BYTES {
            return Ok(None);
        }
        let permits = u32::try_from(estimated).ok().filter(|_| estimated <= PARSED_BYTES_MAX);
        let permits = permits.ok_or(BodyError::TooDense)?;
        self.parsed.clone().try_acquire_many_owned(permits).map(Some).map_err(|_| BodyError::Busy)
    }

    /// Grows the reservation to `size` bytes as they arrive: a body that is only announced takes nothing. Err
    /// `Busy`: the budget is used up.
    fn grow_reservation(&self, reserved: &mut BodyReservation, size: usize) -> Result<(), BodyError> {
        let reserved_bytes = reserved.received.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let more = u32::try_from(size.saturating_sub(reserved_bytes)).map_err(|_| BodyError::TooLarge)?;
        let more = self.received.clone().try_acquire_many_owned(more).map_err(|_| BodyError::Busy)?;
        match &mut reserved.received {
            Some(permit) => permit.merge(more),
            None => reserved.received = Some(more),
        }
        Ok(())
    }
}

/// Estimates the memory of a body once it is parsed, also as JSON or YAML within a text or an encoded form: a few bytes
/// of text may be an object of hundreds.
fn parsed_bytes(body: &[u8]) -> usize {
    let at = |from: usize| match body.get(from..from + 3) {
        Some([b'%', high, low]) => [*high, low.to_ascii_uppercase()],
        Some(_) | None => [0, 0],
    };
    let of_byte = |(from, byte): (usize, &u8)| match byte {
        b'{' | b'[' | b':' => NODE_BYTES,
        b',' => ITEM_BYTES,
        b'%' if matches!(&at(from), b"7B" | b"5B" | b"3A") => NODE_BYTES,
        _ => 0,
    };
    body.iter().enumerate().map(of_byte).sum()
}

impl IntoResponse for BodyError {
    fn into_response(self) -> Response {
        match self {
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "the body is too large\n").into_response(),
            Self::TooDense => {
                (StatusCode::PAYLOAD_TOO_LARGE, "the body holds too many values\n").into_response()
            }
            Self::TooSlow => (StatusCode::REQUEST_TIMEOUT, "the body did not come in time\n").into_response(),
            Self::Broken => (StatusCode::BAD_REQUEST, "the body broke off\n").into_response(),
            Self::Busy => busy_response("other requests with large bodies are being read; try again\n"),
        }
    }
}

/// A 503 response that asks the client to retry after a second.
pub fn busy_response(why: &'static str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")], why).into_response()
}
