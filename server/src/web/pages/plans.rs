//! `/plans`: the saved plans, and one version of a plan with its graph, its findings, its other versions and a form
//! that runs it.

use actbook_engine::plan::Plan;
use actbook_engine::policy::StepStatus;
use askama::Template;
use axum::Form;
use axum::extract::{Path, Query};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, Response};
use serde::Deserialize;
use serde_json::Map;

use super::frame::{Area, Frame};
use super::input_form::{InputForm, SubmittedInputs};
use super::markup::{Markup, url_part};
use super::plan_check::CheckPart;
use super::plan_document::OrderedPlanDocument;
use super::rerun::start_with_inputs;
use super::times::{PageTime, page_time};
use super::{render, with_status};
use crate::caller::Right;
use crate::drawing::{NodeState, PlanGraph, render_for_page};
use crate::service::PlanFilter;
use crate::service::view::PlanView;
use crate::web::WebState;
use crate::web::authentication::SignedIn;
use crate::web::problem::Problem;

/// The query of the list. An empty value does not filter.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PlansPageQuery {
    search: String,
    /// The plan's type.
    #[serde(rename = "type")]
    kind: String,
    task: String,
}

/// One plan of the list.
#[derive(Debug)]
struct PlanListRow {
    name: String,
    path: String,
    executions_path: String,
    version: u64,
    steps: u64,
    saved: PageTime,
    project: Option<String>,
}

#[derive(Debug, Template)]
#[template(path = "plans.html")]
struct PlansPage {
    frame: Frame,
    plans: Vec<PlanListRow>,
    query: PlansPageQuery,
    is_filtered: bool,
    may_save: bool,
}

/// The query of a plan's page.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PlanQuery {
    /// `None`: the newest.
    version: Option<u64>,
}

/// Another version of the plan.
#[derive(Debug)]
struct VersionLine {
    version: u64,
    path: String,
    saved: PageTime,
    steps: u64,
    is_current: bool,
    /// Compares it with the version before. `None`: it is the first.
    diff_path: Option<String>,
}

#[derive(Debug, Template)]
#[template(path = "plan.html")]
struct PlanPage {
    frame: Frame,
    name: String,
    version: u64,
    is_newest: bool,
    path: String,
    versions: Vec<VersionLine>,
    saved: PageTime,
    description: Option<String>,
    reasoning: Option<String>,
    task: Option<(String, String)>,
    drawing: Option<Markup>,
    form: InputForm,
    check: CheckPart,
    executions_path: String,
    may_run: bool,
    /// As YAML.
    document: String,
}

/// `GET /plans`.
pub async fn list(
    state: WebState,
    signed_in: SignedIn,
    headers: HeaderMap,
    Query(query): Query<PlansPageQuery>,
) -> Result<Html<String>, Problem> {
    let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let filter = PlanFilter {
        kind: given(&query.kind),
        task: given(&query.task),
        words: query.search.split_whitespace().map(str::to_owned).collect(),
    };
    let plans = state.service.plans().find(&filter).await?.into_iter().map(|plan| PlanListRow {
        path: format!("/plans/{}", url_part(&plan.id)),
        executions_path: format!("/?plan={}", url_part(&plan.id)),
        version: plan.version,
        steps: plan.steps,
        saved: page_time(&plan.saved_at),
        project: plan.project,
        name: plan.name,
    });
    let plans = plans.collect();
    let frame = Frame::load(&state, &signed_in, &headers, Area::Plans, "Plans").await?;
    render(&PlansPage {
        frame: frame.at("/plans"),
        plans,
        is_filtered: filter != PlanFilter::default(),
        may_save: signed_in.may(Right::Run),
        query,
    })
}

/// `GET /plans/{id}`.
pub async fn show(
    state: WebState,
    signed_in: SignedIn,
    headers: HeaderMap,
    Path(id): Path<String>,
    Query(query): Query<PlanQuery>,
) -> Result<Html<String>, Problem> {
    render(&load_page(&state, &signed_in, &headers, &id, query.version, None).await?)
}

/// The page of a plan; `form`: the form of its inputs, if some were sent and refused.
async fn load_page(
    state: &WebState,
    signed_in: &SignedIn,
    headers: &HeaderMap,
    id: &str,
    version: Option<u64>,
    form: Option<InputForm>,
) -> Result<PlanPage, Problem> {
    let plans = state.service.plans();
    let (view, plan) = plans.version(id, version).await?;
    let versions = plans.versions(id).await?;
    let mut check = plans.check(&plan.document, true).await.check;
    if state.service.withholds() {
        // A finding may quote what the document says.
        check.findings.clear();
    }
    let path = format!("/plans/{}", url_part(&view.id));
    let frame = Frame::load(state, signed_in, headers, Area::Plans, view.name.as_str()).await?;
    let shown = |text: &Option<String>| text.as_deref().map(|text| state.service.shown_text(text));
    Ok(PlanPage {
        frame: frame.at(path.clone()),
        is_newest: versions.first().is_none_or(|newest| newest.version == view.version),
        versions: versions.iter().map(|one| version_line(&path, one, view.version)).collect(),
        version: view.version,
        saved: page_time(&view.saved_at),
        description: shown(&plan.description),
        reasoning: shown(&plan.reasoning),
        task: plan.task.clone().map(|task| (format!("/tasks/{}", url_part(&task)), task)),
        drawing: draw(&plan, &path, state.service.withholds()),
        form: form.unwrap_or_else(|| InputForm::of(&plan, &Map::new())),
        check: CheckPart::of(&check),
        executions_path: format!("/?plan={}", url_part(&view.id)),
        may_run: signed_in.may(Right::Run),
        document: state.service.shown_text(&document_as_yaml(&plan)),
        path,
        name: view.name,
    })
}

fn version_line(path: &str, one: &PlanView, current: u64) -> VersionLine {
    let before = one.version.saturating_sub(1);
    VersionLine {
        version: one.version,
        path: format!("{path}?version={}", one.version),
        saved: page_time(&one.saved_at),
        steps: one.steps,
        is_current: one.version == current,
        diff_path: (before > 0).then(|| format!("{path}/diff?from={before}&to={}", one.version)),
    }
}

/// The document of a plan as people write it.
pub fn document_as_yaml(plan: &Plan) -> String {
    let document: Result<serde_json::Value, _> = serde_json::from_str(&plan.document);
    let yaml =
        document.ok().and_then(|document| serde_saphyr::to_string(&OrderedPlanDocument(&document)).ok());
    yaml.unwrap_or_else(|| plan.document.clone())
}

/// The graph of a plan that does not run: every step is pending.
pub fn draw(plan: &Plan, path: &str, without_texts: bool) -> Option<Markup> {
    let graph = PlanGraph::from_plan(plan);
    let graph = if without_texts { graph.without_texts() } else { graph };
    let state = |_| NodeState {
        status: StepStatus::Pending,
        time: String::new(),
        attempts: 0,
        link: format!("{path}#document"),
        selected: false,
    };
    let states: Vec<NodeState> = plan.steps.iter().map(state).collect();
    render_for_page(&graph, &states, path).map(Markup::from_rendered)
}

/// `POST /plans/{id}/run`: starts an execution with the inputs of the form, and leads to its page; with refused
/// inputs, the page again.
pub async fn run(
    state: WebState,
    signed_in: SignedIn,
    headers: HeaderMap,
    Path(id): Path<String>,
    Form(sent): Form<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    signed_in.require(Right::Run)?;
    let (reference, plan, _) = state.service.plans().load_and_check(&id).await?;
    let sent = SubmittedInputs(sent);
    match start_with_inputs(&state, &signed_in, reference, plan, &sent).await? {
        Ok(started) => Ok(started),
        Err(form) => {
            let page = load_page(&state, &signed_in, &headers, &id, None, Some(form)).await?;
            Ok(with_status(StatusCode::UNPROCESSABLE_ENTITY, render(&page)?))
        }
    }
}
