//! MCP over HTTP at `/mcp`, beside `/healthz` and `/readyz`. Every route answers only to the names and
//! origins that this machine goes by; headers, bodies, connections and patience all have limits.

mod bodies;
mod places;

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
use crate::error::Error;
use crate::service::Service;
use bodies::{BODY_BYTES_MAX, BodyBudget, busy};
use places::{Place, Places, RESERVE_WITHIN};

const HEADERS_MAX: usize = 64;
const HEADER_BYTES_MAX: usize = 64 * 1024;
/// From the first byte of a request to the end of its headers.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
/// Sessions of the older protocol that are open at a time; one that is not used for five minutes is closed.
const SESSIONS_MAX: usize = 1_024;
/// What is under way when the end is asked for may take this long.
const LEAVING: Duration = Duration::from_secs(5);
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// Requests of the newer protocol carry it.
const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");
const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Where to listen, and under which names this server may be spoken to.
#[derive(Clone, Debug)]
pub struct Listen {
    pub address: SocketAddr,
    /// Beside the loopback ones: `host` or `host:port`.
    pub names: Vec<String>,
    /// Without it only loopback addresses are listened on.
    pub anywhere: bool,
}

impl Listen {
    pub async fn open(&self) -> Result<TcpListener, Error> {
        if !self.address.ip().is_loopback() && !self.anywhere {
            let message =
                format!("{} can be reached from other machines, and there are no tokens yet", self.address);
            let cure =
                "listen on 127.0.0.1, or add --without-tokens if something in front of it keeps others out";
            return Err(Error::new("not_loopback", message, cure));
        }
        let failed = |error: std::io::Error| {
            Error::new("listen", format!("{}: {error}", self.address), "choose another --listen")
        };
        TcpListener::bind(self.address).await.map_err(failed)
    }

    fn all_names(&self) -> Vec<String> {
        let own = match self.address.ip() {
            ip if ip.is_unspecified() => None,
            IpAddr::V4(ip) => Some(ip.to_string()),
            IpAddr::V6(ip) => Some(format!("[{ip}]")),
        };
        LOOPBACK_NAMES
            .iter()
            .map(|name| (*name).to_owned())
            .chain(own)
            .chain(self.names.iter().cloned())
            .collect()
    }
}

/// Serves until `leave` resolves, each client with a handler of its own; then nothing new is taken, and what is under way may finish.
pub async fn serve<H: ServerHandler>(
    listener: TcpListener,
    listen: &Listen,
    client: impl Fn() -> H + Send + Sync + 'static,
    service: Option<Service>,
    leave: impl Future<Output = ()>,
) {
    let ending = CancellationToken::new();
    let routers = Routers::new(listen, client, service, &ending);
    let graceful = GracefulShutdown::new();
    let places = Places::new();
    tokio::pin!(leave);
    loop {
        // Accepted first: whether a place is free is known only when a client is there.
        let accepted = async {
            let accepted = listener.accept().await;
            (places.next().await, accepted)
        };
        tokio::select! {
            (place, accepted) = accepted => match accepted {
                Ok((stream, _)) => serve_connection(stream, &routers, place, &graceful),
                // Out of file descriptors: the next ones may fare better.
                Err(error) => {
                    tracing::warn!("a connection was not accepted: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            () = &mut leave => break,
        }
    }
    drop(listener);
    ending.cancel();
    if tokio::time::timeout(LEAVING, graceful.shutdown()).await.is_err() {
        tracing::warn!("some clients were still being answered; they were cut off");
    }
}

type Connection = http1::Connection<TokioIo<TcpStream>, TowerToHyperService<Router>>;

/// Serves one connection in a task of its own, which gives its place back at the end.
fn serve_connection(stream: TcpStream, routers: &Routers, place: Place, graceful: &GracefulShutdown) {
    let router = if place.reserved { &routers.health } else { &routers.whole };
    let connection = graceful.watch(connection(stream, router.clone(), &place));
    tokio::spawn(async move {
        let within = if place.reserved { RESERVE_WITHIN } else { Duration::MAX };
        match tokio::time::timeout(within, connection).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!("a connection ended: {error}"),
            Err(_) => tracing::debug!("a connection in a reserved place was closed"),
        }
        drop(place);
    });
}

fn connection(stream: TcpStream, router: Router, place: &Place) -> Connection {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!("a connection waits to fill its packets: {error}");
    }
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEADER_BYTES_MAX)
        .keep_alive(!place.reserved)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
}

/// What a connection may reach.
struct Routers {
    whole: Router,
    /// For connections in a reserved place.
    health: Router,
}

impl Routers {
    fn new<H: ServerHandler>(
        listen: &Listen,
        client: impl Fn() -> H + Send + Sync + 'static,
        service: Option<Service>,
        ending: &CancellationToken,
    ) -> Self {
        let names: Arc<[String]> = listen.all_names().into();
        let health = || {
            let routes = Router::new().route("/healthz", get(async || "ok\n")).route("/readyz", get(ready));
            routes.with_state(service.clone())
        };
        let guarded = |routes: Router| {
            let guard = Guard { names: names.clone(), bodies: BodyBudget::default() };
            routes.layer(middleware::from_fn_with_state(guard, at_home))
        };
        let full = async || busy("all connections are in use; try again\n");
        let whole = health().merge(mcp(client, ending));
        Self { whole: guarded(whole), health: guarded(health().fallback(full)) }
    }
}

fn mcp<H: ServerHandler>(
    client: impl Fn() -> H + Send + Sync + 'static,
    ending: &CancellationToken,
) -> Router {
    // `at_home` checks hosts and origins, for every route alike.
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(BODY_BYTES_MAX)
        .with_cancellation_token(ending.clone());
    let sessions = Arc::new(LocalSessionManager::default());
    let mcp = StreamableHttpService::new(move || Ok(client()), sessions.clone(), config);
    Router::new()
        .route_service("/mcp", mcp)
        .layer(middleware::from_fn_with_state(sessions, within_sessions))
        .layer(middleware::from_fn(in_the_protocols_words))
}

/// Refuses to open another session where there are too many; requests of open sessions, and of the newer
/// protocol, which has none, pass.
async fn within_sessions(
    State(sessions): State<Arc<LocalSessionManager>>,
    request: Request,
    next: Next,
) -> Response {
    let opens = !request.headers().contains_key(SESSION) && !request.headers().contains_key(MCP_METHOD);
    if opens && sessions.sessions.read().await.len() >= SESSIONS_MAX {
        return busy("too many sessions are open; try again\n");
    }
    next.run(request).await
}

/// Ready is who can reach its journal.
async fn ready(State(service): State<Option<Service>>) -> Response {
    match service {
        None => "ok\n".into_response(),
        Some(service) => match service.head().await {
            Ok(_) => "ok\n".into_response(),
            Err(error) => {
                tracing::warn!("not ready: {error}");
                (StatusCode::SERVICE_UNAVAILABLE, "the journal cannot be read\n").into_response()
            }
        },
    }
}

/// What every request is held against before it is handled.
#[derive(Clone)]
struct Guard {
    names: Arc<[String]>,
    bodies: BodyBudget,
}

/// A page in somebody's browser must not reach in here, whatever name it has made this machine answer to.
async fn at_home(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let Guard { names, bodies } = guard;
    let host = host_of(request.uri(), request.headers());
    if !host.as_deref().is_some_and(|host| is_ours(host, &names)) {
        return (StatusCode::FORBIDDEN, "this server does not go by that name (Host)\n").into_response();
    }
    if !origins_are_ours(request.headers(), &names) {
        return (StatusCode::FORBIDDEN, "requests from that origin are not answered (Origin)\n")
            .into_response();
    }
    match bodies.read(request).await {
        // The reservation lasts until the request is answered: whoever handles it holds the body, or what was
        // made of it.
        Ok((request, reserved)) => {
            let response = next.run(request).await;
            drop(reserved);
            response
        }
        Err(unread) => unread.into_response(),
    }
}

/// The library answers a body that is no message with a bare 415, and an `initialize` that it cannot read
/// with a word on sessions; clients read JSON-RPC errors.
async fn in_the_protocols_words(request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let kind = parts.headers.get(header::CONTENT_TYPE);
    let is_json = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let Ok(body) = axum::body::to_bytes(body, BODY_BYTES_MAX).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let response = next.run(Request::from_parts(parts, body.clone().into())).await;
    let refused = [StatusCode::UNSUPPORTED_MEDIA_TYPE, StatusCode::BAD_REQUEST].contains(&response.status());
    let bare = response.headers().get(header::CONTENT_TYPE).is_none();
    if !(is_json && refused && bare) {
        return response;
    }
    match message::read(&body) {
        Err(fault) => (StatusCode::BAD_REQUEST, axum::Json(fault.answer())).into_response(),
        Ok(_) => response,
    }
}

fn host_of(uri: &Uri, headers: &HeaderMap) -> Option<String> {
    let mut given = headers.get_all(header::HOST).iter();
    let host = given.next().and_then(|host| host.to_str().ok()).map(str::to_owned);
    // Two hosts are one too many, and one in the address must be the same.
    let single = given.next().is_none();
    let agrees = uri.authority().is_none_or(|authority| Some(authority.as_str()) == host.as_deref());
    host.filter(|_| single && agrees)
}

fn origins_are_ours(headers: &HeaderMap, names: &[String]) -> bool {
    headers.get_all(header::ORIGIN).iter().all(|origin| {
        let origin = origin.to_str().ok();
        let host = origin
            .and_then(|origin| origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")));
        host.is_some_and(|host| is_ours(host, names))
    })
}

/// A known name, with any port or with the one that was named with it.
fn is_ours(host: &str, names: &[String]) -> bool {
    let host = host.to_ascii_lowercase();
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (host.as_str(), None),
    };
    let numeric = port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    numeric && names.iter().any(|known| known.eq_ignore_ascii_case(name) || known.eq_ignore_ascii_case(&host))
}
