//! The API at `/api/v1`: each handler parses a request, calls the service and gives its view as JSON.

mod whoami;

use axum::Router;
use axum::routing::get;

use super::WebState;

/// The routes of the API, without the prefix.
pub fn router() -> Router<WebState> {
    Router::new().route("/whoami", get(whoami::whoami))
}
