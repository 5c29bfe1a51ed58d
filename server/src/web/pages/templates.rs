//! `/templates`: plans with inputs that are kept to be used again; and one of them, with a form that makes a plan.

use askama::Template;
use axum::Form;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Redirect, Response};
use serde_json::Map;

use super::frame::{Area, Frame};
use super::input_form::{InputFault, InputForm, SubmittedInputs};
use super::markup::{Markup, url_part};
use super::plans::{document_as_yaml, draw};
use super::times::{PageTime, page_time};
use super::{render, with_status};
use crate::caller::Right;
use crate::service::{TemplateDetail, TemplateUse, TemplateView};
use crate::web::WebState;
use crate::web::authentication::SignedIn;
use crate::web::problem::Problem;

/// The fields of the form beside the inputs. No input's field has such a name.
const NAME_FIELD: &str = "//name";
const TASK_FIELD: &str = "//task";

/// One template of the list.
#[derive(Debug)]
struct TemplateListRow {
    name: String,
    path: String,
    description: String,
    inputs: String,
    steps: usize,
    /// Version, author and time. `None`: it came with Actbook.
    saved: Option<(u64, String, PageTime)>,
}

#[derive(Debug, Template)]
#[template(path = "templates.html")]
struct TemplatesPage {
    frame: Frame,
    templates: Vec<TemplateListRow>,
}

#[derive(Debug, Template)]
#[template(path = "template.html")]
struct TemplatePage {
    frame: Frame,
    name: String,
    path: String,
    description: String,
    shipped: bool,
    drawing: Option<Markup>,
    document: String,
    /// Version, author and time of each.
    history: Vec<(u64, String, PageTime)>,
    form: InputForm,
    plan_name: String,
    task: String,
    may_use: bool,
}

/// `GET /templates`.
pub async fn list(state: WebState, signed_in: SignedIn, headers: HeaderMap) -> Result<Html<String>, Problem> {
    let templates = state.service.templates().list().await?.into_iter().map(TemplateListRow::of).collect();
    let frame = Frame::load(&state, &signed_in, &headers, Area::Templates, "Templates").await?;
    render(&TemplatesPage { frame: frame.at("/templates"), templates })
}

impl TemplateListRow {
    fn of(template: TemplateView) -> Self {
        Self {
            path: format!("/templates/{}", url_part(&template.name)),
            description: template.description.unwrap_or_default(),
            inputs: template.inputs.iter().map(|input| input.name.as_str()).collect::<Vec<_>>().join(", "),
            steps: template.steps,
            saved: template.saved.map(|saved| (saved.version, saved.author, page_time(&saved.saved_at))),
            name: template.name,
        }
    }
}

/// `GET /templates/{name}`.
pub async fn show(
    state: WebState,
    signed_in: SignedIn,
    headers: HeaderMap,
    Path(name): Path<String>,
) -> Result<Html<String>, Problem> {
    let template = state.service.templates().get(&name).await?;
    let form = InputForm::of(&template.plan, &Map::new()).with_all_optional();
    render(&TemplatePage::load(&state, &signed_in, &headers, template, form).await?)
}

/// `POST /templates/{name}/use`: saves a plan made from the template and leads to it; with refused inputs, the page
/// again.
pub async fn instantiate(
    state: WebState,
    signed_in: SignedIn,
    headers: HeaderMap,
    Path(name): Path<String>,
    Form(sent): Form<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    signed_in.require(Right::Run)?;
    let template = state.service.templates().get(&name).await?;
    let sent = SubmittedInputs(sent);
    let text =
        |field: &str| sent.text(field).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let faults = match sent.inputs(&template.plan) {
        Err(faults) => faults,
        Ok(inputs) => {
            let used = TemplateUse { name: text(NAME_FIELD), task: text(TASK_FIELD), inputs, offline: false };
            match state.service.templates().instantiate(&signed_in.caller, &name, used).await {
                Ok(saved) => {
                    let path = format!("/plans/{}", url_part(saved.plan_id.as_str()));
                    return Ok(Redirect::to(&path).into_response());
                }
                Err(error) if error.findings().is_empty() => return Err(error.into()),
                Err(error) => error.findings().iter().map(InputFault::of).collect(),
            }
        }
    };
    let form = InputForm::refused(&template.plan, &sent, faults).with_all_optional();
    let mut page = TemplatePage::load(&state, &signed_in, &headers, template, form).await?;
    page.plan_name = text(NAME_FIELD).unwrap_or_default();
    page.task = text(TASK_FIELD).unwrap_or_default();
    Ok(with_status(StatusCode::UNPROCESSABLE_ENTITY, render(&page)?))
}

impl TemplatePage {
    async fn load(
        state: &WebState,
        signed_in: &SignedIn,
        headers: &HeaderMap,
        template: TemplateDetail,
        form: InputForm,
    ) -> Result<Self, Problem> {
        let TemplateDetail { view, history, text, plan, .. } = template;
        let path = format!("/templates/{}", url_part(&view.name));
        let frame = Frame::load(state, signed_in, headers, Area::Templates, view.name.as_str()).await?;
        Ok(Self {
            frame: frame.at(path.clone()),
            drawing: draw(&plan, &path, state.service.withholds()),
            // One that comes with Actbook has nothing to withhold.
            document: text.map_or_else(|| state.service.shown_text(&document_as_yaml(&plan)), str::to_owned),
            history: history
                .into_iter()
                .map(|one| (one.version, one.author, page_time(&one.saved_at)))
                .collect(),
            description: view.description.unwrap_or_default(),
            shipped: view.shipped,
            plan_name: view.name.clone(),
            task: String::new(),
            may_use: signed_in.may(Right::Run),
            name: view.name,
            form,
            path,
        })
    }
}
