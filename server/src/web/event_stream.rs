//! One client's stream of Server-Sent Events: what a source sends, a comment when it is silent, and the end, when
//! the server shuts down or the client's credential ends. Knows no journal and no page.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures_util::stream::unfold;
use futures_util::{Stream, StreamExt};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::WebState;
use crate::caller::{Credential, CredentialKind};
use crate::service::Service;

/// A stream without events sends a comment this often, so that proxies and clients know that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How often a stream checks that its credential is still good.
const CREDENTIAL_CHECK: Duration = Duration::from_secs(5);

/// What a stream sends. It is asked for the next chunk only when the client has taken the ones before, so that a
/// slow client holds no queue.
pub trait EventSource: Send + 'static {
    /// The next whole events. None: there are no more. Losing the future loses no event.
    fn next_chunk(&mut self) -> impl Future<Output = Option<Bytes>> + Send;

    /// What is sent when there was no event for a while: a comment.
    fn heartbeat(&mut self) -> Bytes {
        Bytes::from_static(b": \n\n")
    }
}

/// The response that sends a source's events to the holder of this credential.
pub fn event_response(state: &WebState, credential: Credential, source: impl EventSource) -> Response {
    let now = Instant::now();
    let stream = SourceStream {
        source,
        credential: CredentialWatch { service: state.service.clone(), credential },
        ending: state.ending.clone(),
        heartbeat_at: now + HEARTBEAT,
        check_at: now + CREDENTIAL_CHECK,
    };
    let mut response = Response::new(Body::from_stream(stream.into_chunks()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// A source with the clocks of its stream.
struct SourceStream<S> {
    source: S,
    credential: CredentialWatch,
    ending: CancellationToken,
    heartbeat_at: Instant,
    check_at: Instant,
}

impl<S: EventSource> SourceStream<S> {
    fn into_chunks(self) -> impl Stream<Item = Result<Bytes, Infallible>> {
        unfold(self, |mut stream| async move { stream.next().await.map(|chunk| (Ok(chunk), stream)) })
    }

    /// The next chunk. None: the stream ends.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let chunk = tokio::select! {
                biased;
                () = self.ending.cancelled() => return None,
                () = sleep_until(self.check_at) => None,
                chunk = self.source.next_chunk() => Some(chunk?),
                () = sleep_until(self.heartbeat_at) => Some(self.source.heartbeat()),
            };
            let now = Instant::now();
            if let Some(chunk) = chunk {
                self.heartbeat_at = now + HEARTBEAT;
                return Some(chunk);
            }
            self.check_at = now + CREDENTIAL_CHECK;
            if !self.credential.is_good().await {
                return None;
            }
        }
    }
}

/// The same response; if it is a stream, it ends when the credential does.
pub fn end_with_credential(watch: CredentialWatch, response: Response) -> Response {
    let is_stream = |value: &HeaderValue| value.as_bytes().starts_with(b"text/event-stream");
    if !response.headers().get(header::CONTENT_TYPE).is_some_and(is_stream) {
        return response;
    }
    let ended = async move {
        tokio::time::sleep(CREDENTIAL_CHECK).await;
        while watch.is_good().await {
            tokio::time::sleep(CREDENTIAL_CHECK).await;
        }
    };
    response.map(|body| Body::from_stream(body.into_data_stream().take_until(Box::pin(ended))))
}

/// The credential that a stream was opened with.
#[derive(Debug)]
pub struct CredentialWatch {
    pub service: Service,
    pub credential: Credential,
}

impl CredentialWatch {
    /// Whether the credential still opens streams; false too if that cannot be found out.
    async fn is_good(&self) -> bool {
        let (access, id) = (self.service.access(), &self.credential.id);
        let found = match self.credential.kind {
            CredentialKind::ProgramToken | CredentialKind::PersonToken => access.is_token_active(id).await,
            CredentialKind::Session => access.is_session_open(id).await,
        };
        found.unwrap_or_else(|error| {
            tracing::warn!("a credential cannot be checked: {error}");
            false
        })
    }
}
