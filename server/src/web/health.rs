//! `/healthz` and `/readyz`, which need no credential.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::service::Service;

/// The paths of this module's routes; any Host may ask for them.
pub const PATHS: [&str; 2] = ["/healthz", "/readyz"];

pub fn router(service: Option<Service>) -> Router {
    let alive = get(|| async { "ok\n" });
    Router::new().route("/healthz", alive).route("/readyz", get(readiness)).with_state(service)
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
