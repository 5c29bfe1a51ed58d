//! MCP over HTTP at `/mcp`, beside `/healthz` and `/readyz`. Every route answers only to the names and
//! origins that this machine goes by; headers, bodies, connections and patience all have limits.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
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
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::message;
use crate::error::Error;
use crate::service::Service;

const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;
const HEADERS_MAX: usize = 64;
const HEADER_BYTES_MAX: usize = 64 * 1024;
/// From the first byte of a request to the end of its headers.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
/// From there to the end of its body.
const BODY_WITHIN: Duration = Duration::from_secs(30);
const CONNECTIONS_MAX: usize = 1_024;
/// What is under way when the end is asked for may take this long.
const LEAVING: Duration = Duration::from_secs(5);
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
    let router = router(listen, client, service, &ending);
    let graceful = GracefulShutdown::new();
    let seats = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    tokio::pin!(leave);
    loop {
        let seat = seats.clone().acquire_owned();
        let accepted = async { (seat.await, listener.accept().await) };
        tokio::select! {
            (seat, accepted) = accepted => match accepted {
                Ok((stream, _)) => {
                    let connection = connection(stream, router.clone());
                    let connection = graceful.watch(connection);
                    tokio::spawn(async move {
                        if let Err(error) = connection.await {
                            tracing::debug!("a connection ended: {error}");
                        }
                        drop(seat);
                    });
                }
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

fn connection(stream: TcpStream, router: Router) -> Connection {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!("a connection waits to fill its packets: {error}");
    }
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEADER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
}

fn router<H: ServerHandler>(
    listen: &Listen,
    client: impl Fn() -> H + Send + Sync + 'static,
    service: Option<Service>,
    ending: &CancellationToken,
) -> Router {
    // Hosts and origins are checked below, for every route alike.
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(BODY_BYTES_MAX)
        .with_cancellation_token(ending.clone());
    let sessions = Arc::new(LocalSessionManager::default());
    let mcp = StreamableHttpService::new(move || Ok(client()), sessions, config);
    let names: Arc<[String]> = listen.all_names().into();
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .with_state(service)
        .route_service("/mcp", mcp)
        .layer(middleware::from_fn(in_the_protocols_words))
        .layer(middleware::from_fn_with_state(names, at_home))
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

/// A page in somebody's browser must not reach in here, whatever name it has made this machine answer to.
async fn at_home(State(names): State<Arc<[String]>>, request: Request, next: Next) -> Response {
    let host = host_of(request.uri(), request.headers());
    if !host.as_deref().is_some_and(|host| is_ours(host, &names)) {
        return (StatusCode::FORBIDDEN, "this server does not go by that name (Host)\n").into_response();
    }
    if !origins_are_ours(request.headers(), &names) {
        return (StatusCode::FORBIDDEN, "requests from that origin are not answered (Origin)\n")
            .into_response();
    }
    match whole(request).await {
        Ok(request) => next.run(request).await,
        Err(status) => (status, "the body did not come, or is too large\n").into_response(),
    }
}

/// The request with its body, which has to come within its time.
async fn whole(request: Request) -> Result<Request, StatusCode> {
    let (parts, body) = request.into_parts();
    let body = tokio::time::timeout(BODY_WITHIN, axum::body::to_bytes(body, BODY_BYTES_MAX)).await;
    match body {
        Ok(Ok(body)) => Ok(Request::from_parts(parts, body.into())),
        Ok(Err(_)) => Err(StatusCode::PAYLOAD_TOO_LARGE),
        Err(_) => Err(StatusCode::REQUEST_TIMEOUT),
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
