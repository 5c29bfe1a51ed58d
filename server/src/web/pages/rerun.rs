//! `/executions/{id}/rerun`: the same version of the plan once more, with its inputs filled in to be changed; and
//! what every form shares that starts an execution.

use std::sync::Arc;

use actbook_engine::event::PlanRef;
use actbook_engine::plan::Plan;
use askama::Template;
use axum::Form;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use serde_json::Value;

use super::frame::{Area, Frame};
use super::input_form::{InputFault, InputForm, SubmittedInputs};
use super::markup::short_id;
use super::{render, with_status};
use crate::caller::Right;
use crate::error::{DocumentKind, Error};
use crate::service::ExecutedPlan;
use crate::web::WebState;
use crate::web::authentication::SignedIn;
use crate::web::problem::Problem;

#[derive(Debug, Template)]
#[template(path = "rerun.html")]
struct RerunPage {
    frame: Frame,
    execution: String,
    short: String,
    plan: String,
    version: u32,
    form: InputForm,
    /// Inputs that the plan neither declares nor reads, which are left out.
    left_out: Vec<String>,
}

/// `GET /executions/{id}/rerun`.
pub async fn form(
    state: WebState,
    signed_in: SignedIn,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    signed_in.require(Right::Run)?;
    let executed = state.service.executions().executed_plan(&id, false).await?;
    let form = InputForm::of(&executed.plan, &executed.inputs);
    let frame = Frame::load(&state, &signed_in, &headers, Area::Executions, "Rerun").await?;
    Ok(render(&RerunPage::of(&id, &executed, form, frame))?.into_response())
}

/// `POST /executions/{id}/rerun`: starts the execution and leads to its page; with refused inputs, the form again.
pub async fn start(
    state: WebState,
    signed_in: SignedIn,
    headers: HeaderMap,
    Path(id): Path<String>,
    Form(sent): Form<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    signed_in.require(Right::Run)?;
    let executed = state.service.executions().executed_plan(&id, false).await?;
    state.service.plans().check_saved(&executed.plan).await?;
    let sent = SubmittedInputs(sent);
    let started =
        start_with_inputs(&state, &signed_in, executed.reference.clone(), executed.plan.clone(), &sent)
            .await?;
    match started {
        Ok(started) => Ok(started),
        Err(form) => {
            let frame = Frame::load(&state, &signed_in, &headers, Area::Executions, "Rerun").await?;
            let page = RerunPage::of(&id, &executed, form, frame);
            Ok(with_status(StatusCode::UNPROCESSABLE_ENTITY, render(&page)?))
        }
    }
}

impl RerunPage {
    fn of(id: &str, executed: &ExecutedPlan, form: InputForm, frame: Frame) -> Self {
        Self {
            frame: frame.at(format!("/executions/{id}/rerun")),
            execution: id.to_owned(),
            short: short_id(id).to_owned(),
            plan: executed.reference.name.clone(),
            version: executed.reference.version,
            left_out: executed.left_out.clone(),
            form,
        }
    }
}

/// Starts an execution with the inputs that a form sent, and leads to its page. `Ok(Err)`: the inputs were refused;
/// the form says why.
pub async fn start_with_inputs(
    state: &WebState,
    signed_in: &SignedIn,
    reference: PlanRef,
    plan: Arc<Plan>,
    sent: &SubmittedInputs,
) -> Result<Result<Response, InputForm>, Problem> {
    let inputs = match sent.inputs(&plan) {
        Ok(inputs) => inputs,
        Err(faults) => return Ok(Err(InputForm::refused(&plan, sent, faults))),
    };
    let inputs = Some(Value::Object(inputs)).filter(|_| plan.inputs.is_some());
    match state.service.executions().start(&signed_in.caller, reference, plan.clone(), inputs, true).await {
        Ok(started) => {
            let path = format!("/executions/{}", started.id);
            if started.fresh {
                state.service.background().drive_claimed(started.progress);
            }
            Ok(Ok(Redirect::to(&path).into_response()))
        }
        Err(Error::Invalid(refused)) if refused.kind == DocumentKind::Inputs => {
            let faults = refused.findings.iter().map(InputFault::of).collect();
            Ok(Err(InputForm::refused(&plan, sent, faults)))
        }
        Err(error) => Err(error.into()),
    }
}
