//! The route `/mcp`: MCP over Streamable HTTP. Limits the sessions; the HTTP server of `web` limits headers,
//! bodies and connections, and checks Host, Origin and the credential.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use super::message;
use crate::caller::Credential;
use crate::service::CLAIM_DURATION;

/// The largest body of one request.
pub const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How long a session of the older protocol revisions is kept without a message.
const SESSION_IDLE_TIMEOUT: Duration = Duration::from_secs(20 * 60);
// A claim ends with its session, so an idle session must outlast the claims of its agent.
const _: () = assert!(SESSION_IDLE_TIMEOUT.as_secs() > CLAIM_DURATION.as_secs());
/// Most open sessions of the older protocol revisions.
const SESSIONS_MAX: usize = 1_024;
const SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
/// A header that only requests of the sessionless protocol carry.
const METHOD_HEADER: HeaderName = HeaderName::from_static("mcp-method");

/// The route `/mcp`, with a handler from `new_handler` for each session: limits the number of sessions, and answers
/// a body that does not parse with a JSON-RPC error. `ending` closes the streams.
pub fn router<H: ServerHandler>(
    new_handler: impl Fn() -> H + Send + Sync + 'static,
    ending: &CancellationToken,
) -> Router {
    // The HTTP server checks Host and Origin for every route, so the library does not have to.
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(BODY_BYTES_MAX)
        .with_cancellation_token(ending.clone());
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(SESSION_IDLE_TIMEOUT);
    let sessions = Arc::new(sessions);
    let mcp = StreamableHttpService::new(move || Ok(new_handler()), sessions.clone(), config);
    Router::new()
        .route_service("/mcp", mcp)
        .layer(middleware::from_fn_with_state(SessionTable::new(sessions), guard_sessions))
        .layer(middleware::from_fn(answer_with_jsonrpc_errors))
}

/// The open sessions, and the credential that opened each.
#[derive(Clone)]
struct SessionTable {
    sessions: Arc<LocalSessionManager>,
    /// The credential's id by the session's; `None`: `/mcp` needed none.
    owners: Arc<Mutex<HashMap<String, Option<String>>>>,
}

impl SessionTable {
    fn new(sessions: Arc<LocalSessionManager>) -> Self {
        Self { sessions, owners: Arc::default() }
    }

    /// Whether another credential opened the session; false for a session that is not in the table.
    fn is_foreign(&self, session: &str, credential: Option<&String>) -> bool {
        self.owners.lock().get(session).is_some_and(|owner| owner.as_ref() != credential)
    }

    /// Remembers who opened a session, and forgets those that have ended.
    async fn insert(&self, session: &str, credential: Option<String>) {
        let open = self.sessions.sessions.read().await;
        let mut owners = self.owners.lock();
        owners.retain(|id, _| open.contains_key(id.as_str()));
        owners.insert(session.to_owned(), credential);
    }
}

/// Answers 404 to a request for a session that another credential opened, and 503 to one that would open a session
/// beyond the limit. Requests of the sessionless protocol pass.
async fn guard_sessions(State(table): State<SessionTable>, request: Request, next: Next) -> Response {
    let credential = request.extensions().get::<Credential>().map(|credential| credential.id.clone());
    let session = session_id(request.headers());
    if session.as_deref().is_some_and(|session| table.is_foreign(session, credential.as_ref())) {
        return (StatusCode::NOT_FOUND, "Session not found\n").into_response();
    }
    let opens = session.is_none() && !request.headers().contains_key(METHOD_HEADER);
    if opens && table.sessions.sessions.read().await.len() >= SESSIONS_MAX {
        let why = "too many sessions are open; try again\n";
        return (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")], why).into_response();
    }
    let response = next.run(request).await;
    if let Some(opened) = session_id(response.headers()).filter(|_| opens) {
        table.insert(&opened, credential).await;
    }
    response
}

fn session_id(headers: &HeaderMap) -> Option<String> {
    headers.get(SESSION_HEADER)?.to_str().ok().map(str::to_owned)
}

/// Turns the library's refusals of a bad body into JSON-RPC errors: it answers a body that is no message with
/// a bare 415, and an `initialize` that does not parse with a text about sessions.
async fn answer_with_jsonrpc_errors(request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let content_type = parts.headers.get(header::CONTENT_TYPE);
    let is_json = content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/json"));
    let Ok(body) = axum::body::to_bytes(body, BODY_BYTES_MAX).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let response = next.run(Request::from_parts(parts, body.clone().into())).await;
    let refused = [StatusCode::UNSUPPORTED_MEDIA_TYPE, StatusCode::BAD_REQUEST].contains(&response.status());
    let is_bare = response.headers().get(header::CONTENT_TYPE).is_none();
    if !(is_json && refused && is_bare) {
        return response;
    }
    match message::parse_message(&body) {
        Err(fault) => (StatusCode::BAD_REQUEST, axum::Json(fault.error_reply())).into_response(),
        Ok(_) => response,
    }
}
