//! `/plans/new` and `/plans/{id}/edit`: a plan's document as text, with its check beside it, which follows what is
//! typed.

use askama::Template;
use axum::Form;
use axum::extract::{Path, Query};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;

use super::frame::{Area, Frame};
use super::markup::url_part;
use super::plan_check::CheckPart;
use super::plans::document_as_yaml;
use super::{render, with_status};
use crate::caller::Right;
use crate::web::WebState;
use crate::web::authentication::SignedIn;
use crate::web::problem::Problem;

/// What a new plan begins with.
const FIRST_PLAN: &str = "\
name: my-plan
description: What it is for
steps:
  - id: write
    tool: files/write_file
    arguments: { path: note.txt, content: hello }
    compensation: { tool: files/delete_file, arguments: { path: \"${arguments.path}\" } }
";

#[derive(Debug, Template)]
#[template(path = "plan_editor.html")]
struct EditorPage {
    frame: Frame,
    /// The name and the path of the plan that is changed. `None`: a new one is written.
    plan: Option<(String, String)>,
    text: String,
    check: CheckPart,
}

/// The query of the editor.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct EditorQuery {
    /// The version to begin with. `None`: the newest.
    version: Option<u64>,
}

/// The form of the editor.
#[derive(Debug, Deserialize)]
pub struct EditorForm {
    text: String,
    /// The id of the plan that is changed; empty for a new one.
    #[serde(default)]
    plan: String,
}

/// `GET /plans/new`.
pub async fn new(state: WebState, signed_in: SignedIn, headers: HeaderMap) -> Result<Response, Problem> {
    signed_in.require(Right::Run)?;
    let page = EditorPage::load(&state, &signed_in, &headers, None, FIRST_PLAN.to_owned()).await?;
    Ok(render(&page)?.into_response())
}

/// `GET /plans/{id}/edit`.
pub async fn edit(
    state: WebState,
    signed_in: SignedIn,
    headers: HeaderMap,
    Path(id): Path<String>,
    Query(query): Query<EditorQuery>,
) -> Result<Response, Problem> {
    signed_in.require(Right::Run)?;
    let (view, plan) = state.service.plans().version(&id, query.version).await?;
    let place = (view.name.clone(), format!("/plans/{}", url_part(&view.id)));
    let page = EditorPage::load(&state, &signed_in, &headers, Some(place), document_as_yaml(&plan)).await?;
    Ok(render(&page)?.into_response())
}

/// `POST /plans/check`: the findings alone for the script, or the editor with them.
pub async fn check(
    state: WebState,
    signed_in: SignedIn,
    headers: HeaderMap,
    Form(form): Form<EditorForm>,
) -> Result<Response, Problem> {
    signed_in.require(Right::Run)?;
    if headers.contains_key("hx-request") {
        let check = state.service.plans().check(&form.text, false).await.check;
        return Ok(render(&CheckPart::of(&check))?.into_response());
    }
    let place = place_of(&state, &form).await?;
    let page = EditorPage::load(&state, &signed_in, &headers, place, form.text).await?;
    Ok(render(&page)?.into_response())
}

/// `POST /plans/save`: saves the version and leads to the plan; a document with errors leads back to the editor.
pub async fn save(
    state: WebState,
    signed_in: SignedIn,
    headers: HeaderMap,
    Form(form): Form<EditorForm>,
) -> Result<Response, Problem> {
    match state.service.plans().save(&signed_in.caller, &form.text, false).await {
        Ok(saved) => {
            let path = format!("/plans/{}", url_part(saved.plan_id.as_str()));
            Ok(Redirect::to(&path).into_response())
        }
        Err(error) if !error.findings().is_empty() => {
            let place = place_of(&state, &form).await?;
            let page = EditorPage::load(&state, &signed_in, &headers, place, form.text).await?;
            Ok(with_status(StatusCode::UNPROCESSABLE_ENTITY, render(&page)?))
        }
        Err(error) => Err(error.into()),
    }
}

/// The name and the path of the plan that a form changes.
async fn place_of(state: &WebState, form: &EditorForm) -> Result<Option<(String, String)>, Problem> {
    if form.plan.is_empty() {
        return Ok(None);
    }
    let (view, _) = state.service.plans().get(&form.plan).await?;
    Ok(Some((view.name, format!("/plans/{}", url_part(&view.id)))))
}

impl EditorPage {
    async fn load(
        state: &WebState,
        signed_in: &SignedIn,
        headers: &HeaderMap,
        plan: Option<(String, String)>,
        text: String,
    ) -> Result<Self, Problem> {
        let check = CheckPart::of(&state.service.plans().check(&text, false).await.check);
        let title = plan.as_ref().map_or("New plan".to_owned(), |(name, _)| format!("Change {name}"));
        let frame = Frame::load(state, signed_in, headers, Area::Plans, title).await?;
        let path = plan.as_ref().map_or("/plans/new".to_owned(), |(_, path)| format!("{path}/edit"));
        Ok(Self { frame: frame.at(path), plan, text, check })
    }

    /// The id in the path of the plan.
    fn plan_id(&self) -> &str {
        self.plan.as_ref().and_then(|(_, path)| path.strip_prefix("/plans/")).unwrap_or_default()
    }
}
