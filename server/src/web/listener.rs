//! The HTTP server: accepts connections and serves them, each within limits on headers, time and number. Knows no
//! routes.

use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::connection_slots::{ConnectionSlot, ConnectionSlots, RESERVED_SLOT_TIMEOUT};
use super::stall_limit::StallLimit;

const HEADERS_MAX: usize = 64;
/// Most bytes that a connection buffers, so the most that a request's headers may have.
const HEADER_BYTES_MAX: usize = 64 * 1024;
/// Limit from the first byte of a request to the end of its headers.
const HEADERS_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection is closed whose client takes nothing for this long while something waits for it.
const STALL_MAX: Duration = Duration::from_secs(120);
/// How long requests in flight may take after shutdown was requested.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// The routers that connections are served with.
#[derive(Debug)]
pub struct Routers {
    pub all_routes: Router,
    /// The health routes alone, for connections in a reserved slot.
    pub health_only: Router,
}

/// Serves until `shutdown` resolves; then accepts nothing more, cancels `ending`, which ends the streams, and lets
/// requests in flight finish.
pub async fn accept_connections(
    listener: TcpListener,
    routers: Routers,
    ending: &CancellationToken,
    shutdown: impl Future<Output = ()>,
) {
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
type ServerHttpConnection = http1::Connection<TokioIo<StallLimit<TcpStream>>, TowerToHyperService<Router>>;

/// Spawns a task that serves one connection and releases its slot at the end.
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
        .serve_connection(TokioIo::new(StallLimit::new(stream, STALL_MAX)), TowerToHyperService::new(router))
}
