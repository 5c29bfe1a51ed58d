//! The pages that people read. Every page is rendered on the server from the views of `service`.

use axum::Router;
use axum::response::{Html, IntoResponse, Response};

use super::WebState;
use super::problem::Problem;

/// The routes of the pages, and `/assets/…`.
pub fn router() -> Router<WebState> {
    Router::new()
}

/// The page that shows a problem to a person.
pub fn error_page(problem: &Problem) -> Response {
    (problem.status, format!("{}\n{}\n", problem.detail, problem.cure)).into_response()
}

/// The page that says how to sign in.
pub fn login_page() -> Response {
    Html("Run <code>actbook open</code> to sign in.").into_response()
}
