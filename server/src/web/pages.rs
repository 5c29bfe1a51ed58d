//! The pages that people read. Every page is rendered on the server from the views of `service`, works without the
//! script for reading and answering, and carries no script or style of its own. Texts of plans, tools and notes are
//! data: templates escape them, and what is built in Rust goes through `markup`.
//!
//!   GET page → service view → parts (templates) ┐
//!   GET …/live (SSE) ── the parts that changed ─┴→ replaced in the page by the id of their element

mod answer;
mod answer_words;
mod assets;
mod bulk;
mod context;
mod execution;
mod execution_filters;
mod execution_parts;
mod execution_row;
mod execution_steps;
mod executions;
mod frame;
mod input_form;
mod journal;
mod journal_table;
mod json_tree;
mod live;
pub mod markup;
mod notices;
mod plan_check;
mod plan_diff;
mod plan_document;
mod plan_editor;
mod plans;
mod question_card;
mod questions;
mod reference;
mod rerun;
mod saved_views;
mod sentence;
mod session_part;
mod settings;
mod statistics;
mod step_panel;
mod tasks;
mod templates;
mod timeline;
mod times;
mod tool;
mod tools;

use askama::Template;
use axum::Router;
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::{get, post};

use super::RouterState;
use super::problem::{Problem, RenderedPage};
use crate::tools::escape_hidden;
pub use live::LivePages;
use markup::icon;
pub use notices::{error_page, login_page};

/// The routes of the pages, and `/assets/…`.
pub fn router() -> Router<RouterState> {
    Router::new()
        .route("/", get(executions::list))
        .route("/live", get(live::executions))
        .route("/bulk", get(bulk::confirm).post(bulk::act))
        .route("/filter-values", get(executions::filter_values))
        .route("/views", post(saved_views::change))
        .route("/executions/{id}", get(execution::show))
        .route("/executions/{id}/live", get(live::execution))
        .route("/executions/{id}/steps/{step}/{value}", get(execution::value))
        .route("/executions/{id}/rerun", get(rerun::form).post(rerun::start))
        .route("/executions/{id}/confirm", get(answer::confirm))
        .route("/executions/{id}/answer", post(answer::answer))
        .route("/executions/{id}/control", post(answer::control))
        .route("/questions", get(questions::list))
        .route("/questions/live", get(live::questions))
        .route("/plans", get(plans::list))
        .route("/plans/new", get(plan_editor::new))
        .route("/plans/check", post(plan_editor::check))
        .route("/plans/save", post(plan_editor::save))
        .route("/plans/{id}", get(plans::show))
        .route("/plans/{id}/edit", get(plan_editor::edit))
        .route("/plans/{id}/diff", get(plan_diff::show))
        .route("/plans/{id}/run", post(plans::run))
        .route("/tasks", get(tasks::list))
        .route("/tasks/{id}", get(tasks::show))
        .route("/context", get(context::list))
        .route("/templates", get(templates::list))
        .route("/templates/{name}", get(templates::show))
        .route("/templates/{name}/use", post(templates::instantiate))
        .route("/tools", get(tools::list))
        .route("/tools/{server}/{tool}", get(tool::show))
        .route("/tools/{server}/{tool}/accept", post(tool::accept))
        .route("/stats", get(statistics::show))
        .route("/journal", get(journal::list))
        .route("/journal/verify", post(journal::verify))
        .route("/api", get(reference::show))
        .route("/settings", get(settings::show))
        .route("/settings/display", post(settings::set_display))
        .route("/assets/{name}", get(assets::asset))
}

/// The page or part that a template makes, with every hidden character of it written out: none of them is ours.
fn render(template: &impl Template) -> Result<Html<String>, Problem> {
    Ok(Html(escape_hidden(&template.render()?)))
}

/// A page with the status of an error, which is shown as it is.
fn with_status(status: axum::http::StatusCode, page: Html<String>) -> Response {
    let mut response = (status, page).into_response();
    response.extensions_mut().insert(RenderedPage);
    response
}
