//! The first check of every request: Host and Origin, against pages of other sites, and the size of the body.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::authentication::{Audience, METRICS_PATH};
use super::bodies::BodyBudget;
use super::fetch_origin::is_foreign_fetch;
use super::health;
use super::hosts::{allowed_hosts, is_allowed_host, origins_are_allowed, request_host};
use super::listen::ListenConfig;

/// The state of `guard_request`: allowed host names and the budget for bodies. Clones share the budget.
#[derive(Clone, Debug)]
pub struct HttpGuard {
    host_names: Arc<[String]>,
    body_budget: BodyBudget,
}

impl HttpGuard {
    pub fn new(listen: &ListenConfig) -> Self {
        let public = listen.public_url.iter().map(|url| url.authority.clone());
        let further: Vec<String> = listen.host_names.iter().cloned().chain(public).collect();
        let host_names = allowed_hosts(listen.address, &further).into();
        Self { host_names, body_budget: BodyBudget::default() }
    }
}

/// Checks Host and Origin, and reads the body within the budget.
pub async fn guard_request(State(guard): State<HttpGuard>, request: Request, next: Next) -> Response {
    if let Some(why) = refusal(&guard.host_names, &request) {
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    match guard.body_budget.read(request).await {
        // The reservation lasts until the response: the handler holds the body, or what was parsed from it.
        Ok((request, reserved)) => {
            let response = next.run(request).await;
            drop(reserved);
            response
        }
        Err(error) => error.into_response(),
    }
}

/// Why a request is not answered. None: it may pass. The health routes and the metrics answer any Host: probes call a
/// server by its address. The former have nothing to steal, and the latter need a token.
fn refusal(names: &[String], request: &Request) -> Option<&'static str> {
    let (path, headers) = (request.uri().path(), request.headers());
    if health::PATHS.contains(&path) || path == METRICS_PATH {
        return None;
    }
    let host = request_host(request.uri(), headers);
    let Some(host) = host.filter(|host| is_allowed_host(host, names)) else {
        return Some("the Host header names another server\n");
    };
    if !origins_are_allowed(headers, names) {
        return Some("requests from that origin are not answered (Origin)\n");
    }
    // Clients of MCP may be pages of another port on this machine; they send a token, never a cookie.
    if Audience::of(path) != Audience::Mcp && is_foreign_fetch(request.method(), headers, &host) {
        return Some("requests from pages of other sites are not answered\n");
    }
    None
}
