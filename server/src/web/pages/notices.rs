//! Pages without data of the journal: how to sign in, and what went wrong.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};

use super::frame::Frame;
use crate::tools::escape_hidden;
use crate::web::problem::Problem;

#[derive(Debug, Template)]
#[template(path = "problem.html")]
struct ProblemPage<'a> {
    frame: Frame,
    title: String,
    problem: &'a Problem,
    is_signed_out: bool,
}

#[derive(Debug, Template)]
#[template(path = "login.html")]
struct LoginPage {
    frame: Frame,
}

/// The page that shows a problem to a person.
pub fn error_page(problem: &Problem) -> Response {
    if problem.status == StatusCode::UNAUTHORIZED {
        return (problem.status, login_html()).into_response();
    }
    let title = problem.title();
    let is_signed_out = problem.code == "login_code_used";
    let page = ProblemPage { frame: Frame::bare(&title), title, problem, is_signed_out };
    (problem.status, html(&page)).into_response()
}

/// The page that says how to sign in.
pub fn login_page() -> Response {
    login_html().into_response()
}

fn login_html() -> Html<String> {
    html(&LoginPage { frame: Frame::bare("Sign in") })
}

/// The page, or one line where even that cannot be rendered.
fn html(page: &impl Template) -> Html<String> {
    let rendered = page.render().unwrap_or_else(|error| {
        tracing::error!("a page was not rendered: {error}");
        "The page could not be rendered; the server's log says why.".to_owned()
    });
    Html(escape_hidden(&rendered))
}
