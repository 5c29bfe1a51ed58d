//! `/plans`: saving, checking, listing, showing and deleting them.

use actbook_engine::analysis::PlanCheck;
use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{delete, get, post};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::change::{Change, NoFields, changed, created};
use super::drawings::draw_graph;
use super::operation::Operation;
use super::page::{ListName, Page, page_limit};
use super::params::{self, Params};
use crate::caller::Right;
use crate::drawing::PlanGraph;
use crate::error::{Corruption, Error};
use crate::service::view::PlanView;
use crate::service::{PlanDiff, PlanFilter, SavedPlan};
use crate::web::{Problem, SignedIn, WebState};

pub fn operations() -> Vec<Operation> {
    let example = || json!({ "plan": { "name": "look", "steps": [{ "id": "a", "action": "look around" }] } });
    vec![
        Operation::new("GET", "/plans", "list_plans", get(list))
            .summary("List the saved plans, each in its newest version")
            .query::<PlansQuery>()
            .gives("PlanPage"),
        Operation::new("POST", "/plans", "save_plan", post(save))
            .summary("Check a plan and save it; a new version only if it changed")
            .right(Right::Run)
            .body::<PlanBody>(example())
            .creates_resource("SavedPlan"),
        Operation::new("POST", "/plans:check", "check_plan", post(check))
            .summary("Check a plan without saving it or calling a tool")
            .right(Right::Run)
            .body::<PlanBody>(example())
            .gives("PlanCheck"),
        Operation::new("GET", "/plans/{id}", "get_plan", get(show))
            .summary("A saved plan and its document, by id or name")
            .query::<VersionQuery>()
            .gives("PlanDetail"),
        Operation::new("GET", "/plans/{id}/diff", "compare_plan_versions", get(compare))
            .summary("What differs between two versions of a plan, and what the newer one does without")
            .query::<DiffQuery>()
            .gives("PlanDiff"),
        Operation::new("GET", "/plans/{id}/graph.svg", "draw_plan", get(draw))
            .summary("A saved plan drawn: dependencies, what undoes each step, the point of no return")
            .query::<VersionQuery>()
            .gives_media("image/svg+xml"),
        Operation::new("DELETE", "/plans/{id}", "delete_plan", delete(remove))
            .summary("Delete a plan; its executions stay")
            .right(Right::Run)
            .gives("Plan"),
    ]
}

/// A plan's document: a JSON object, or YAML or JSON text.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum PlanText {
    Document(Map<String, Value>),
    Text(String),
}

/// The document as text.
pub fn plan_text(plan: &PlanText) -> Result<String, Problem> {
    match plan {
        PlanText::Text(text) => Ok(text.clone()),
        PlanText::Document(document) => {
            serde_json::to_string(document).map_err(|error| Problem::bad_field("/plan", error.to_string()))
        }
    }
}

/// The query of `GET /plans`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PlansQuery {
    r#type: Option<String>,
    task: Option<String>,
    /// Words that must all occur in the name, the description, the type or the task
    search: Option<String>,
    /// 1 to 500; 50 unless given
    #[schemars(range(min = 1, max = 500))]
    limit: Option<u64>,
    cursor: Option<String>,
}

/// The query of `GET /plans/{id}`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct VersionQuery {
    /// The newest unless given
    version: Option<u64>,
}

/// The query of `GET /plans/{id}/diff`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DiffQuery {
    /// The version before `to` unless given
    from: Option<u64>,
    /// The newest unless given
    to: Option<u64>,
}

/// A body with a plan.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PlanBody {
    plan: PlanText,
    /// Do not ask the servers for their tools
    #[serde(default)]
    offline: bool,
}

/// A saved plan and its document.
#[derive(Debug, Serialize)]
struct PlanDetail {
    #[serde(flatten)]
    plan: PlanView,
    document: Value,
}

async fn list(
    state: WebState,
    _signed_in: SignedIn,
    Params(query): Params<PlansQuery>,
) -> Result<Json<Page<PlanView>>, Problem> {
    let filter = PlanFilter { kind: query.r#type, task: query.task, words: params::words(query.search) };
    let limit = page_limit(query.limit)?;
    let name = ListName::new("plans", &filter);
    let after = name.text(query.cursor.as_deref())?.unwrap_or_default();
    let after = after.split_once('\n').unwrap_or_default();
    let plans = state.service.plans().find_page(&filter, after, limit as usize + 1).await?;
    Ok(Page::cut_by_text(plans, limit, &name, |plan| format!("{}\n{}", plan.name, plan.id)))
}

async fn save(state: WebState, Change { caller, body, .. }: Change<PlanBody>) -> Result<Response, Problem> {
    let saved = state.service.plans().save(&caller, &plan_text(&body.plan)?, body.offline).await?;
    Ok(created(&caller, &plan_location(&saved), &saved))
}

/// Where a saved version of a plan can be read.
pub fn plan_location(saved: &SavedPlan) -> String {
    format!("/plans/{}?version={}", saved.plan_id, saved.version)
}

async fn check(state: WebState, Change { body, .. }: Change<PlanBody>) -> Result<Json<PlanCheck>, Problem> {
    Ok(Json(state.service.plans().check(&plan_text(&body.plan)?, body.offline).await.check))
}

async fn show(
    state: WebState,
    _signed_in: SignedIn,
    Path(id): Path<String>,
    Params(query): Params<VersionQuery>,
) -> Result<Json<PlanDetail>, Problem> {
    let (plan, document) = state.service.plans().version(&id, query.version).await?;
    let unreadable = |error: serde_json::Error| Error::Corrupt(Corruption::Entry(error.to_string()));
    let document = state.service.shown(serde_json::from_str(&document.document).map_err(unreadable)?);
    Ok(Json(PlanDetail { plan, document }))
}

async fn compare(
    state: WebState,
    _signed_in: SignedIn,
    Path(id): Path<String>,
    Params(query): Params<DiffQuery>,
) -> Result<Json<PlanDiff>, Problem> {
    Ok(Json(state.service.plans().diff(&id, query.from, query.to).await?))
}

async fn draw(
    state: WebState,
    _signed_in: SignedIn,
    Path(id): Path<String>,
    Params(query): Params<VersionQuery>,
) -> Result<Response, Problem> {
    let (_, plan) = state.service.plans().version(&id, query.version).await?;
    draw_graph(&state, PlanGraph::from_plan(&plan))
}

async fn remove(
    state: WebState,
    Path(id): Path<String>,
    Change { caller, .. }: Change<NoFields>,
) -> Result<Response, Problem> {
    let deleted = state.service.plans().delete(&caller, &id).await?;
    Ok(changed(&caller, StatusCode::OK, &deleted))
}
