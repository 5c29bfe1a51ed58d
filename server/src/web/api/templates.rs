//! `/templates`: plans with inputs that are kept to be used again.

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{delete, get, post};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::change::{Change, NoFields, changed, created};
use super::operation::Operation;
use super::page::{ListName, Page, PageParams};
use super::params::Params;
use super::plans::plan_location;
use crate::caller::Right;
use crate::service::{TemplateDetail, TemplateUse, TemplateView};
use crate::web::{Problem, SignedIn, WebState};

pub fn operations() -> Vec<Operation> {
    vec![
        Operation::new("GET", "/templates", "list_templates", get(list))
            .summary("List the templates: saved ones first, then those that come with Actbook")
            .query::<PageParams>()
            .gives("TemplatePage"),
        Operation::new("GET", "/templates/{name}", "get_template", get(show))
            .summary("A template, its versions and its document")
            .gives("Template"),
        Operation::new("POST", "/templates/{name}/use", "use_template", post(instantiate))
            .summary("Make a plan from a template and save it")
            .right(Right::Run)
            .body::<UseBody>(json!({ "name": "notes-2.1", "inputs": { "version": "2.1" } }))
            .creates_resource("SavedPlan"),
        Operation::new("DELETE", "/templates/{name}", "delete_template", delete(remove))
            .summary("Delete a saved template")
            .right(Right::Run)
            .gives("Template"),
    ]
}

/// The body of `POST /templates/{name}/use`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UseBody {
    /// The plan's name; the template's unless given
    name: Option<String>,
    task: Option<String>,
    /// They become defaults of the plan
    #[serde(default)]
    inputs: Map<String, Value>,
    /// Do not ask the servers for their tools
    #[serde(default)]
    offline: bool,
}

async fn list(
    state: WebState,
    _signed_in: SignedIn,
    Params(query): Params<PageParams>,
) -> Result<Json<Page<TemplateView>>, Problem> {
    let templates = state.service.templates().list().await?;
    let key = |one: &TemplateView| format!("{}\n{}", u8::from(one.shipped), one.name);
    Page::of_all(templates, &query, &ListName::new("templates", &()), key)
}

async fn show(
    state: WebState,
    _signed_in: SignedIn,
    Path(name): Path<String>,
) -> Result<Json<TemplateDetail>, Problem> {
    Ok(Json(state.service.templates().get(&name).await?))
}

async fn instantiate(
    state: WebState,
    Path(template): Path<String>,
    Change { caller, body, .. }: Change<UseBody>,
) -> Result<Response, Problem> {
    let UseBody { name, task, inputs, offline } = body;
    let used = TemplateUse { name, task, inputs, offline };
    let saved = state.service.templates().instantiate(&caller, &template, used).await?;
    Ok(created(&caller, &plan_location(&saved), &saved))
}

async fn remove(
    state: WebState,
    Path(name): Path<String>,
    Change { caller, .. }: Change<NoFields>,
) -> Result<Response, Problem> {
    Ok(changed(&caller, StatusCode::OK, &state.service.templates().delete(&caller, &name).await?))
}
