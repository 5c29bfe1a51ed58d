//! Everything that `actbook serve` answers on its one port: pages at `/`, the API at `/api/v1`, MCP at `/mcp`, and
//! `/metrics`, `/healthz` and `/readyz`. Translates HTTP into service calls and views into responses; all rules live in
//! `service`.
//!
//! A request passes these layers, outermost first:
//!
//!   compression → security headers → problems become JSON or a page → Host, Origin, body → credential → route
//!
//! Handlers take `WebState`, whose service is the caller's, and, for the caller and its rights, `SignedIn`; they return
//! `Result<_, Problem>`, and `?` turns any `Error` into a `Problem`.

mod api;
mod authentication;
mod bodies;
mod compression;
mod connection_slots;
mod curl;
mod event_stream;
mod fetch_origin;
mod guard;
mod health;
mod hosts;
mod json;
mod listen;
mod listener;
mod login;
mod metrics;
mod openapi;
mod pages;
mod problem;
mod security_headers;
mod stall_limit;
mod state;
pub mod status;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::service::Service;
use bodies::busy_response;
use guard::HttpGuard;
use listener::Routers;

pub use authentication::SignedIn;
pub use listen::{ListenConfig, PublicUrl};
pub use login::login_url;
pub use problem::{Problem, RequestFault};
pub use state::{RouterState, WebState};

/// How this server checks who calls.
#[derive(Clone, Debug)]
pub struct AccessConfig {
    /// `/mcp` answers requests without a token (`--without-tokens`).
    pub mcp_is_open: bool,
    /// The cookie goes over TLS alone, because browsers reach this server by `https`.
    pub is_https: bool,
    /// The name of the session cookie. It has the port in it on loopback, since cookies ignore ports.
    pub cookie_name: String,
    /// Where clients reach this server, without a path: `http://127.0.0.1:4700`.
    pub base_url: String,
}

/// What the server answers with, beside the health routes.
#[derive(Debug)]
pub struct Endpoints {
    /// The route `/mcp`.
    pub mcp: Router,
    /// The API and the pages. None: there are none, and `/mcp` is open, for servers that only speak MCP.
    pub web: Option<RouterState>,
    /// Checked by `/readyz`. None: always ready.
    pub service: Option<Service>,
}

/// Serves until `shutdown` resolves; then cancels `ending`, which must end the streams of `/mcp` too, and lets
/// requests in flight finish.
pub async fn serve(
    listener: TcpListener,
    listen: &ListenConfig,
    endpoints: Endpoints,
    ending: &CancellationToken,
    shutdown: impl Future<Output = ()>,
) {
    let guard = HttpGuard::new(listen);
    let guarded = |routes: Router| {
        let routes = routes.layer(from_fn_with_state(guard.clone(), guard::guard_request));
        routes
            .layer(from_fn(problem::render_problems))
            .layer(from_fn(security_headers::add))
            .layer(from_fn(compression::compress))
    };
    let full = || async { busy_response("all connections are in use; try again\n") };
    let health = health::router(endpoints.service.clone());
    let routers = Routers {
        health_only: guarded(health.clone().fallback(full)),
        all_routes: guarded(health.merge(routes_with_credentials(endpoints))),
    };
    listener::accept_connections(listener, routers, ending, shutdown).await;
}

/// All routes but the health routes, behind the check of the credential if there is something to check it with.
fn routes_with_credentials(endpoints: Endpoints) -> Router {
    let Some(state) = endpoints.web else { return endpoints.mcp };
    let own = Router::new()
        .nest("/api/v1", api::router())
        .merge(openapi::router())
        .merge(metrics::router())
        .merge(login::router())
        .merge(pages::router())
        .with_state(state.clone());
    own.merge(endpoints.mcp).layer(from_fn_with_state(state, authentication::authenticate))
}
