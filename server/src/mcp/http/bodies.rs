//! Request bodies, read whole before a request is handled: bounded in size and time for each request, and in
//! bytes for the whole process. Knows bytes and limits; not what a body says.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The largest body of one request.
pub const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// All larger bodies together that this process is reading or answering.
const BODIES_BYTES_MAX: usize = 32 * 1024 * 1024;
/// A body up to this size is not counted in the total: ordinary requests pass while large bodies use it up. The
/// number of connections bounds what such bodies take together.
const SMALL_BODY_BYTES: usize = 32 * 1024;
/// From the end of the headers to the end of the body.
const BODY_WITHIN: Duration = Duration::from_secs(30);

/// The bytes that large request bodies may take in this process. Clones share one budget.
#[derive(Clone, Debug)]
pub struct BodyBudget(Arc<Semaphore>);

/// The part of the budget that one body takes, until it is dropped; none for a small body.
#[derive(Debug, Default)]
pub struct Reservation(Option<OwnedSemaphorePermit>);

/// Why a request was not read.
#[derive(Debug)]
pub enum Unread {
    TooLarge,
    TooSlow,
    /// The budget is used up by other requests.
    Busy,
    /// The client went away, or what it sent is no body.
    Broken,
}

impl Default for BodyBudget {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(BODIES_BYTES_MAX)))
    }
}

impl BodyBudget {
    /// The request with its whole body, and what that body takes of the budget.
    pub async fn read(&self, request: Request) -> Result<(Request, Reservation), Unread> {
        let (parts, body) = request.into_parts();
        let read = tokio::time::timeout(BODY_WITHIN, self.collect(body));
        let (body, reserved) = read.await.map_err(|_| Unread::TooSlow)??;
        Ok((Request::from_parts(parts, body.into()), reserved))
    }

    async fn collect(&self, body: Body) -> Result<(Bytes, Reservation), Unread> {
        let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if declared > BODY_BYTES_MAX {
            return Err(Unread::TooLarge);
        }
        let (mut whole, mut reserved) = (Vec::new(), Reservation::default());
        let mut chunks = body.into_data_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|_| Unread::Broken)?;
            let size = whole.len() + chunk.len();
            if size > BODY_BYTES_MAX {
                return Err(Unread::TooLarge);
            }
            if size > SMALL_BODY_BYTES {
                self.grow(&mut reserved, size)?;
            }
            whole.extend_from_slice(&chunk);
        }
        Ok((whole.into(), reserved))
    }

    /// Takes from the budget as bytes arrive: a client that only announces a large body takes nothing.
    fn grow(&self, reserved: &mut Reservation, size: usize) -> Result<(), Unread> {
        let held = reserved.0.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let more = u32::try_from(size.saturating_sub(held)).map_err(|_| Unread::TooLarge)?;
        let more = self.0.clone().try_acquire_many_owned(more).map_err(|_| Unread::Busy)?;
        match &mut reserved.0 {
            Some(permit) => permit.merge(more),
            None => reserved.0 = Some(more),
        }
        Ok(())
    }
}

impl IntoResponse for Unread {
    fn into_response(self) -> Response {
        match self {
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "the body is too large\n").into_response(),
            Self::TooSlow => (StatusCode::REQUEST_TIMEOUT, "the body did not come in time\n").into_response(),
            Self::Broken => (StatusCode::BAD_REQUEST, "the body broke off\n").into_response(),
            Self::Busy => busy("other requests with large bodies are being read; try again\n"),
        }
    }
}

/// The answer to a request for which there is no room now.
pub fn busy(why: &'static str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")], why).into_response()
}
