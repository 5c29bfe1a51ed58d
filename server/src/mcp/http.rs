//! MCP over Streamable HTTP at `/mcp`, beside `/healthz` and `/readyz`. Every route checks Host and Origin
//! against the allowed names. Headers, bodies, connections, sessions and read times are all bounded.

mod bodies;
mod connection_slots;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::message;
use crate::error::{CommandLineCode, Error};
use crate::service::{CLAIM_DURATION, Service};
use bodies::{BODY_BYTES_MAX, BodyBudget, busy_response};
use connection_slots::{ConnectionSlot, ConnectionSlots, RESERVED_SLOT_TIMEOUT};

const HEADERS_MAX: usize = 64;
/// Most bytes that a connection buffers, so the most that a request's headers may have.
const HEADER_BYTES_MAX: usize = 64 * 1024;
/// Limit from the first byte of a request to the end of its headers.
const HEADERS_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a session of the older protocol revisions is kept without a message.
const SESSION_IDLE_TIMEOUT: Duration = Duration::from_secs(20 * 60);
// A claim ends with its session, so an idle session must outlast the claims of its agent.
const _: () = assert!(SESSION_IDLE_TIMEOUT.as_secs() > CLAIM_DURATION.as_secs());
/// Most open sessions of the older protocol revisions.
const SESSIONS_MAX: usize = 1_024;
/// How long requests in flight may take after shutdown was requested.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
const SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
/// A header that only requests of the sessionless protocol carry.
const METHOD_HEADER: HeaderName = HeaderName::from_static("mcp-method");
const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Where to listen, and which host names requests may use.
#[derive(Clone, Debug)]
pub struct ListenConfig {
    pub address: SocketAddr,
    /// Allowed host names beside the loopback ones: `host` or `host:port`.
    pub host_names: Vec<String>,
    /// Allows to listen on an address that other machines can reach.
    pub allow_non_loopback: bool,
}

impl ListenConfig {
    /// Binds the socket. Err: the address is not loopback and that was not allowed, or it cannot be bound.
    pub async fn bind(&self) -> Result<TcpListener, Error> {
        if !self.address.ip().is_loopback() && !self.allow_non_loopback {
            let message =
                format!("{} can be reached from other machines, and has no authentication", self.address);
            let cure =
                "listen on 127.0.0.1, or add --without-tokens if something in front of it keeps others out";
            return Err(Error::command_line(CommandLineCode::NotLoopback, message, cure));
        }
        let failed = |error: std::io::Error| {
            let message = format!("{}: {error}", self.address);
            Error::command_line(CommandLineCode::Listen, message, "choose another --listen")
        };
        TcpListener::bind(self.address).await.map_err(failed)
    }

    /// All names that a Host or Origin header may have.
    fn allowed_hosts(&self) -> Vec<String> {
        let own = match self.address.ip() {
            ip if ip.is_unspecified() => None,
            IpAddr::V4(ip) => Some(ip.to_string()),
            IpAddr::V6(ip) => Some(format!("[{ip}]")),
        };
        LOOPBACK_NAMES
            .iter()
            .map(|name| (*name).to_owned())
            .chain(own)
            .chain(self.host_names.iter().cloned())
            .collect()
    }
}

/// Serves `/mcp`, with a handler from `new_handler` for each session, and the health routes until `shutdown`
/// resolves. Then accepts nothing more and gives requests in flight `SHUTDOWN_GRACE` to finish. `service` is
/// what `/readyz` checks; `None`: always ready.
pub async fn serve<H: ServerHandler>(
    listener: TcpListener,
    listen: &ListenConfig,
    new_handler: impl Fn() -> H + Send + Sync + 'static,
    service: Option<Service>,
    shutdown: impl Future<Output = ()>,
) {
    let ending = CancellationToken::new();
    let routers = Routers::new(listen, new_handler, service, &ending);
    let graceful = GracefulShutdown::new();
    let slots = ConnectionSlots::new();
    tokio::pin!(shutdown);
    loop {
        // Accept first: which slots are free has to be seen when the client is there, not before.
        let accepted = async {
            let accepted = listener.accept().await;
            (slots.acquire().await, accepted)
        };
        tokio::select! {
            (slot, accepted) = accepted => match accepted {
                Ok((stream, _)) => serve_connection(stream, &routers, slot, &graceful),
                // Such as being out of file descriptors, which passes.
                Err(error) => {
                    tracing::warn!("accepting a connection failed: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            () = &mut shutdown => break,
        }
    }
    drop(listener);
    ending.cancel();
    if tokio::time::timeout(SHUTDOWN_GRACE, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not finish before shutdown; their connections were closed");
    }
}

/// One HTTP/1 connection that serves a router.
type ServerHttpConnection = http1::Connection<TokioIo<TcpStream>, TowerToHyperService<Router>>;

/// Spawns a task that serves one connection and releases its slot at the end. A connection in a reserved slot
/// reaches the health routes only, for `RESERVED_SLOT_TIMEOUT`.
fn serve_connection(stream: TcpStream, routers: &Routers, slot: ConnectionSlot, graceful: &GracefulShutdown) {
    let router = if slot.is_reserved { &routers.health_only } else { &routers.all_routes };
    let connection = graceful.watch(http_connection(stream, router.clone(), &slot));
    tokio::spawn(async move {
        let limit = if slot.is_reserved { RESERVED_SLOT_TIMEOUT } else { Duration::MAX };
        match tokio::time::timeout(limit, connection).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!("a connection ended with an error: {error}"),
            Err(_) => tracing::debug!("a connection in a reserved slot was closed after its time limit"),
        }
        drop(slot);
    });
}

/// The connection with all limits on headers; one in a reserved slot serves a single request.
fn http_connection(stream: TcpStream, router: Router, slot: &ConnectionSlot) -> ServerHttpConnection {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!("TCP_NODELAY could not be set: {error}");
    }
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_TIMEOUT)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEADER_BYTES_MAX)
        .keep_alive(!slot.is_reserved)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
}

/// The routers that connections are served with.
struct Routers {
    /// `/mcp` and the health routes.
    all_routes: Router,
    /// The health routes alone, for connections in a reserved slot.
    health_only: Router,
}

impl Routers {
    /// The routers, with Host and Origin checked on every route. `ending`: cancels the sessions.
    fn new<H: ServerHandler>(
        listen: &ListenConfig,
        new_handler: impl Fn() -> H + Send + Sync + 'static,
        service: Option<Service>,
        ending: &CancellationToken,
    ) -> Self {
        let names: Arc<[String]> = listen.allowed_hosts().into();
        let health = || {
            let routes =
                Router::new().route("/healthz", get(|| async { "ok\n" })).route("/readyz", get(readiness));
            routes.with_state(service.clone())
        };
        let guarded = |routes: Router| {
            let guard = HttpGuard { host_names: names.clone(), body_budget: BodyBudget::default() };
            routes.layer(middleware::from_fn_with_state(guard, guard_request))
        };
        let full = || async { busy_response("all connections are in use; try again\n") };
        let whole = health().merge(mcp_router(new_handler, ending));
        Self { all_routes: guarded(whole), health_only: guarded(health().fallback(full)) }
    }
}

/// The route `/mcp`: limits the number of sessions, and answers a body that does not parse with a JSON-RPC
/// error. `ending`: cancels the sessions.
fn mcp_router<H: ServerHandler>(
    new_handler: impl Fn() -> H + Send + Sync + 'static,
    ending: &CancellationToken,
) -> Router {
    // `guard_request` checks Host and Origin for every route, so the library does not have to.
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
        .layer(middleware::from_fn_with_state(sessions, limit_sessions))
        .layer(middleware::from_fn(answer_with_jsonrpc_errors))
}

/// Answers 503 to a request that would open a session beyond the limit. Requests of open sessions and of the
/// sessionless protocol pass.
async fn limit_sessions(
    State(sessions): State<Arc<LocalSessionManager>>,
    request: Request,
    next: Next,
) -> Response {
    let opens =
        !request.headers().contains_key(SESSION_HEADER) && !request.headers().contains_key(METHOD_HEADER);
    if opens && sessions.sessions.read().await.len() >= SESSIONS_MAX {
        return busy_response("too many sessions are open; try again\n");
    }
    next.run(request).await
}

/// `/readyz`: 200 if the journal can be read, else 503. Always 200 without a service.
async fn readiness(State(service): State<Option<Service>>) -> Response {
    match service {
        None => "ok\n".into_response(),
        Some(service) => match service.journal().head().await {
            Ok(_) => "ok\n".into_response(),
            Err(error) => {
                tracing::warn!("not ready: {error}");
                (StatusCode::SERVICE_UNAVAILABLE, "the journal cannot be read\n").into_response()
            }
        },
    }
}

/// The state of `guard_request`: allowed host names and the budget for bodies.
#[derive(Clone)]
struct HttpGuard {
    host_names: Arc<[String]>,
    body_budget: BodyBudget,
}

/// Checks Host and Origin, against DNS rebinding from a browser, and reads the body within the budget.
/// Answers 403 to another host or origin.
async fn guard_request(State(guard): State<HttpGuard>, request: Request, next: Next) -> Response {
    let HttpGuard { host_names: names, body_budget: bodies } = guard;
    let host = request_host(request.uri(), request.headers());
    if !host.as_deref().is_some_and(|host| is_allowed_host(host, &names)) {
        return (StatusCode::FORBIDDEN, "the Host header names another server\n").into_response();
    }
    if !origins_are_allowed(request.headers(), &names) {
        return (StatusCode::FORBIDDEN, "requests from that origin are not answered (Origin)\n")
            .into_response();
    }
    match bodies.read(request).await {
        // The reservation lasts until the response: the handler holds the body, or what was parsed from it.
        Ok((request, reserved)) => {
            let response = next.run(request).await;
            drop(reserved);
            response
        }
        Err(error) => error.into_response(),
    }
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

/// The host that a request names; None: no Host header, several, or the URI names another host.
fn request_host(uri: &Uri, headers: &HeaderMap) -> Option<String> {
    let mut given = headers.get_all(header::HOST).iter();
    let host = given.next().and_then(|host| host.to_str().ok()).map(str::to_owned);
    let single = given.next().is_none();
    let agrees = uri.authority().is_none_or(|authority| Some(authority.as_str()) == host.as_deref());
    host.filter(|_| single && agrees)
}

/// Whether every Origin header is an http(s) origin with an allowed host; true if there is none.
fn origins_are_allowed(headers: &HeaderMap, names: &[String]) -> bool {
    headers.get_all(header::ORIGIN).iter().all(|origin| {
        let origin = origin.to_str().ok();
        let host = origin
            .and_then(|origin| origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")));
        host.is_some_and(|host| is_allowed_host(host, names))
    })
}

/// Whether `host` is an allowed name with any port, or an allowed `name:port`.
fn is_allowed_host(host: &str, names: &[String]) -> bool {
    let host = host.to_ascii_lowercase();
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (host.as_str(), None),
    };
    let numeric = port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    numeric && names.iter().any(|known| known.eq_ignore_ascii_case(name) || known.eq_ignore_ascii_case(&host))
}
