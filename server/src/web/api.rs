//! The API at `/api/v1`: each handler parses a request, calls the service and gives its view as JSON.

mod bulk;
mod change;
mod context;
mod control;
mod drawings;
mod events;
mod executions;
mod filter;
mod journal;
mod operation;
mod page;
mod params;
mod plans;
mod questions;
mod ranges;
mod stats;
mod tasks;
mod templates;
mod tokens;
mod tools;
mod value_budget;
mod whoami;

use axum::Router;
use axum::extract::Request;
use axum::http::Method;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};

use super::{Problem, RouterState};
use crate::error::Error;

pub use events::EventTail;
pub use operation::{Operation, ResponseBody};

/// Every operation of the API.
pub fn operations() -> Vec<Operation> {
    let of_modules = [
        whoami::operations(),
        executions::operations(),
        control::operations(),
        bulk::operations(),
        drawings::operations(),
        questions::operations(),
        plans::operations(),
        journal::operations(),
        events::operations(),
        tasks::operations(),
        context::operations(),
        templates::operations(),
        tools::operations(),
        stats::operations(),
        tokens::operations(),
    ];
    of_modules.into_iter().flatten().collect()
}

/// The routes of the API, without the prefix.
pub fn router() -> Router<RouterState> {
    let routes = operations().into_iter().fold(Router::new(), |router, operation| operation.add_to(router));
    routes.layer(from_fn(finish_changes))
}

/// Lets a request that changes something finish although its client disconnects: an execution that was started must
/// be driven.
async fn finish_changes(request: Request, next: Next) -> Response {
    if [Method::GET, Method::HEAD].contains(request.method()) {
        return next.run(request).await;
    }
    match tokio::spawn(next.run(request)).await {
        Ok(response) => response,
        Err(error) => Problem::from(Error::Bug(format!("a request was aborted: {error}"))).into_response(),
    }
}
