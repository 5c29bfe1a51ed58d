//! `/plans`: the saved plans, and one plan with its graph, its findings and a form that runs it.

use actbook_engine::plan::{Plan, Severity};
use actbook_engine::policy::StepStatus;
use askama::Template;
use axum::Form;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{Html, IntoResponse, Redirect, Response};
use serde_json::{Map, Value};

use super::frame::{Area, Frame};
use super::markup::{Markup, url_part};
use super::render;
use super::times::{PageTime, page_time};
use crate::caller::Right;
use crate::drawing::{NodeState, PlanGraph, render_for_page};
use crate::web::WebState;
use crate::web::authentication::SignedIn;
use crate::web::problem::Problem;

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
}

/// A field of the form that runs a plan, made from the schema of one input.
#[derive(Debug)]
struct RunField {
    name: String,
    about: String,
    is_required: bool,
    /// `text`, `number`, `checkbox` or `json`.
    kind: &'static str,
    choices: Vec<String>,
    value: String,
}

#[derive(Debug, Template)]
#[template(path = "plan.html")]
struct PlanPage {
    frame: Frame,
    name: String,
    version: u64,
    saved: PageTime,
    description: Option<String>,
    reasoning: Option<String>,
    task: Option<String>,
    drawing: Option<Markup>,
    fields: Vec<RunField>,
    /// Severity, message and remedy of each finding.
    findings: Vec<(&'static str, String, String)>,
    run_path: String,
    executions_path: String,
    may_run: bool,
    document: String,
}

/// `GET /plans`.
pub async fn list(
    State(state): State<WebState>,
    signed_in: SignedIn,
    headers: HeaderMap,
) -> Result<Html<String>, Problem> {
    let plans = state.service.plans().list().await?.into_iter().map(|plan| PlanListRow {
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
    render(&PlansPage { frame: frame.at("/plans"), plans })
}

/// `GET /plans/{id}`.
pub async fn show(
    State(state): State<WebState>,
    signed_in: SignedIn,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Html<String>, Problem> {
    let (view, plan) = state.service.plans().get(&id).await?;
    let check = state.service.plans().check(&plan.document, true).await.check;
    let severity = |severity: Severity| match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    let findings =
        check.findings.iter().map(|one| (severity(one.severity), one.message.clone(), one.cure.clone()));
    let findings = findings.collect();
    let path = format!("/plans/{}", url_part(&view.id));
    let frame = Frame::load(&state, &signed_in, &headers, Area::Plans, view.name.as_str()).await?;
    render(&PlanPage {
        frame: frame.at(path.clone()),
        version: view.version,
        saved: page_time(&view.saved_at),
        description: plan.description.clone(),
        reasoning: plan.reasoning.clone(),
        task: plan.task.clone(),
        drawing: draw(&plan, &path),
        fields: input_fields(&plan),
        findings,
        run_path: format!("{path}/run"),
        executions_path: format!("/?plan={}", url_part(&view.id)),
        may_run: signed_in.may(Right::Run),
        document: plan.document.clone(),
        name: view.name,
    })
}

/// The graph of a plan that does not run: every step is pending.
fn draw(plan: &Plan, path: &str) -> Option<Markup> {
    let state = |_| NodeState {
        status: StepStatus::Pending,
        time: String::new(),
        attempts: 0,
        link: format!("{path}#document"),
        selected: false,
    };
    let states: Vec<NodeState> = plan.steps.iter().map(state).collect();
    render_for_page(&PlanGraph::from_plan(plan), &states, path).map(Markup::from_rendered)
}

/// The fields for the plan's inputs, in the order of its schema.
fn input_fields(plan: &Plan) -> Vec<RunField> {
    let schema = plan.inputs.as_ref();
    let properties = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    let required = schema.and_then(|schema| schema.get("required")).and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|one| one == name));
    let field = |(name, schema): (&String, &Value)| {
        let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let choices = schema.get("enum").and_then(Value::as_array).cloned().unwrap_or_default();
        RunField {
            name: name.clone(),
            about: text("description"),
            is_required: is_required(name),
            kind: match text("type").as_str() {
                "string" => "text",
                "number" | "integer" => "number",
                "boolean" => "checkbox",
                _ => "json",
            },
            choices: choices.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            value: schema.get("default").map(plain_text).unwrap_or_default(),
        }
    };
    properties.into_iter().flatten().map(field).collect()
}

/// A value as a field shows it: a string without quotes, anything else as JSON.
fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// `POST /plans/{id}/run`: starts an execution with the inputs of the form, and leads to its page.
pub async fn run(
    State(state): State<WebState>,
    signed_in: SignedIn,
    Path(id): Path<String>,
    Form(form): Form<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let (reference, plan, _) = state.service.plans().load_and_check(&id).await?;
    let inputs = form_inputs(&plan, &form)?;
    let inputs = Some(Value::Object(inputs)).filter(|_| plan.inputs.is_some());
    let started = state.service.executions().start(&signed_in.caller, reference, plan, inputs, true).await?;
    let id = started.id.to_string();
    if started.fresh {
        state.service.background().drive_claimed(started.progress);
    }
    Ok(Redirect::to(&format!("/executions/{id}")).into_response())
}

/// The inputs that the form's fields mean. An empty field is left out, an unticked box is false.
fn form_inputs(plan: &Plan, form: &[(String, String)]) -> Result<Map<String, Value>, Problem> {
    let mut inputs = Map::new();
    for field in input_fields(plan) {
        let given = form.iter().find(|(name, _)| *name == field.name).map(|(_, value)| value.as_str());
        let value = match (field.kind, given) {
            ("checkbox", given) => Value::Bool(given.is_some()),
            (_, None | Some("")) => continue,
            ("text", Some(text)) => Value::from(text),
            (_, Some(text)) => serde_json::from_str(text)
                .map_err(|error| Problem::bad_parameter(&field.name, format!("this is no JSON: {error}")))?,
        };
        inputs.insert(field.name, value);
    }
    Ok(inputs)
}
