//! Templates: those shipped with the binary, and saved ones, which are made from plans and past executions. A
//! saved template hides a shipped one of the same name.

mod shipped;

use std::collections::BTreeMap;
use std::sync::Arc;

use actbook_engine::analysis;
use actbook_engine::execution::{Execution, PayloadRef};
use actbook_engine::id::{PlanId, StepNo};
use actbook_engine::plan::Plan;
use actbook_engine::template::{self, ExecutionValues, PlanFromTemplate};
use serde::Serialize;
use serde_json::{Map, Value};

use super::Service;
use super::plans::SavedPlan;
use super::view::format_time;
use crate::caller::Caller;
use crate::error::{Corruption, DocumentKind, ErasedUse, Error, InvalidDocument, PersonAct, SecretProblem};
use crate::ledger::DeletePlanRequest;
use crate::store::{payloads, plans};

pub use shipped::{ShippedTemplate, shipped_templates};

/// At most this many saved templates are listed.
const LISTED_MAX: u64 = 500;
/// At most this many versions of a template are shown.
const VERSIONS_MAX: u64 = 100;

/// A template as lists show it.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize)]
pub struct TemplateView {
    pub name: String,
    /// It is part of the binary.
    pub shipped: bool,
    pub description: Option<String>,
    pub inputs: Vec<InputView>,
    pub steps: usize,
    /// The newest version. `None`: the template was shipped.
    #[serde(flatten)]
    pub saved: Option<TemplateVersion>,
}

/// One input of a template, from the plan's JSON Schema.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize)]
pub struct InputView {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: Option<Value>,
    pub default: Option<Value>,
    /// It must be given: it is required and has no default.
    pub required: bool,
}

/// Number, author, time and journal position of one saved version of a template, without its document.
#[derive(Clone, Debug, Serialize)]
pub struct TemplateVersion {
    pub version: u64,
    pub author: String,
    pub saved_at: String,
    pub position: u64,
}

/// Everything about one template.
#[derive(Clone, Debug, Serialize)]
pub struct TemplateDetail {
    #[serde(flatten)]
    pub view: TemplateView,
    /// Saved versions, newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<TemplateVersion>,
    pub document: Value,
    /// The YAML text of a shipped template. `None`: the template was saved.
    #[serde(skip)]
    pub text: Option<&'static str>,
    #[serde(skip)]
    pub plan: Arc<Plan>,
}

/// How to make a plan from a template.
#[derive(Clone, Debug, Default)]
pub struct TemplateUse {
    /// The plan's name. `None`: the template's name.
    pub name: Option<String>,
    pub task: Option<String>,
    pub inputs: Map<String, Value>,
    /// Do not check the plan against its live tools.
    pub offline: bool,
}

/// A template that was found by its name: a saved one with its row, or a shipped one with its text.
struct FoundTemplate {
    plan: Arc<Plan>,
    /// `None`: the template was shipped.
    row: Option<plans::TemplateRow>,
    /// The YAML text of a shipped template.
    text: Option<&'static str>,
}

/// Templates: plans with inputs that are kept to be used again.
#[derive(Clone, Copy, Debug)]
pub struct Templates<'a>(pub(super) &'a Service);

impl Templates<'_> {
    /// All visible templates: saved ones first, then the shipped ones that no saved one hides.
    pub async fn list(self) -> Result<Vec<TemplateView>, Error> {
        let mut views = Vec::new();
        for row in plans::list_templates(self.0.tenant, self.0.boundary(), LISTED_MAX).all(&self.0.db).await?
        {
            let plan = self.0.plans().at(row.plan.position).await?;
            views.push(template_view(&FoundTemplate { plan, row: Some(row), text: None }));
        }
        let visible =
            shipped_templates().iter().filter(|one| !views.iter().any(|view| view.name == one.name));
        let shipped_views: Vec<TemplateView> =
            visible.map(|one| template_view(&FoundTemplate::from_shipped(one))).collect();
        views.extend(shipped_views);
        views.iter_mut().for_each(|view| self.0.withhold_template(view));
        Ok(views)
    }

    /// Everything about one template, by name. Refused if there is none.
    pub async fn get(self, name: &str) -> Result<TemplateDetail, Error> {
        let template = self.find(name).await?;
        let history = match &template.row {
            Some(row) => {
                plans::template_versions(self.0.tenant, &row.plan.id, VERSIONS_MAX).all(&self.0.db).await?
            }
            None => Vec::new(),
        };
        let unreadable = |error: serde_json::Error| Error::Corrupt(Corruption::Entry(error.to_string()));
        let mut view = template_view(&template);
        self.0.withhold_template(&mut view);
        Ok(TemplateDetail {
            view,
            history: history.iter().map(template_version).collect(),
            document: self.0.shown(serde_json::from_str(&template.plan.document).map_err(unreadable)?),
            text: template.text,
            plan: template.plan,
        })
    }

    /// The plan of a template, by name.
    pub(super) async fn plan(self, name: &str) -> Result<Arc<Plan>, Error> {
        Ok(self.find(name).await?.plan)
    }

    /// Finds a template by name: a visible saved one, else a shipped one. Refused if there is none.
    async fn find(self, name: &str) -> Result<FoundTemplate, Error> {
        let named = plans::template_by_name(self.0.tenant, self.0.boundary(), self.0.project(), name);
        if let Some(row) = named.first(&self.0.db).await? {
            let plan = self.0.plans().at(row.plan.position).await?;
            return Ok(FoundTemplate { plan, row: Some(row), text: None });
        }
        match shipped_templates().iter().find(|one| one.name == name) {
            Some(one) => Ok(FoundTemplate::from_shipped(one)),
            None => Err(self.no_such_template(name).await?),
        }
    }

    /// The refusal of an unknown template, with the nearest name. `Err`: the known names could not be read.
    async fn no_such_template(self, name: &str) -> Result<Error, Error> {
        let known = self.list().await?;
        let nearest = analysis::nearest(name, known.iter().map(|view| view.name.as_str()));
        Ok(Error::NoSuchTemplate { given: name.to_owned(), nearest: nearest.map(str::to_owned) })
    }

    /// Saves a plan as a template, under the plan's name if none is given; visible to all projects if
    /// `everywhere`.
    pub async fn save(
        self,
        caller: &Caller,
        plan: &Plan,
        name: Option<&str>,
        everywhere: bool,
    ) -> Result<SavedPlan, Error> {
        let document = template::template_from_plan(plan, name.unwrap_or(&plan.name));
        self.submit(caller, document, everywhere).await
    }

    /// Saves what an execution ran as a template, with its literal values turned into inputs. Refused if the
    /// execution's inputs or corrected arguments were erased.
    pub async fn save_from_execution(
        self,
        caller: &Caller,
        id: &str,
        name: &str,
        everywhere: bool,
    ) -> Result<SavedPlan, Error> {
        let execution = self.0.executions().load(id).await?;
        let inputs = match execution.inputs {
            Some(kept) => Some(self.template_value(kept).await?),
            None => None,
        };
        let corrected_arguments = &self.corrected_arguments(&execution).await?;
        let values = ExecutionValues { inputs: inputs.as_ref(), corrected_arguments };
        let document = template::template_from_execution(&execution.plan, name, values, &|value| {
            self.holds_secret(value)
        });
        self.submit(caller, document, everywhere).await
    }

    /// By step: the arguments of an answer that replaced those of the plan; steps without such an answer are
    /// missing.
    async fn corrected_arguments(self, execution: &Execution) -> Result<BTreeMap<StepNo, Value>, Error> {
        let mut corrected = BTreeMap::new();
        for (no, _) in execution.plan.numbered_steps() {
            if let Some(kept) = execution.step(no).corrected_arguments {
                corrected.insert(no, self.template_value(kept).await?);
            }
        }
        Ok(corrected)
    }

    /// A stored value that a template needs; refused if it was erased.
    async fn template_value(self, kept: PayloadRef) -> Result<Value, Error> {
        let payload = payloads::by_position(self.0.tenant, kept.position.0).first(&self.0.db).await?;
        let erased = || Error::Erased { needed_for: ErasedUse::Template };
        payload.and_then(|payload| serde_json::from_slice(&payload.body).ok()).ok_or_else(erased)
    }

    /// Redacts, checks and saves a template. The check is offline: live tools are checked when the template
    /// is used. Refused if the caller may not share and `everywhere` is true.
    async fn submit(
        self,
        caller: &Caller,
        mut document: Value,
        everywhere: bool,
    ) -> Result<SavedPlan, Error> {
        self.0.require_may_share(caller, everywhere)?;
        self.0.tools.redact(&mut document);
        let (mut request, check) = self.0.plans().prepare(&document.to_string(), true).await?;
        request.placement.template = true;
        request.placement.everywhere = everywhere;
        self.0.plans().save_prepared(caller, request, check).await
    }

    /// Whether a value holds a known secret.
    fn holds_secret(self, value: &Value) -> bool {
        let mut redacted = value.clone();
        self.0.tools.redact(&mut redacted);
        redacted != *value
    }

    /// Makes a plan from a template, given by name, and saves it. Refused if an input holds a known secret,
    /// which would be stored.
    pub async fn instantiate(
        self,
        caller: &Caller,
        template: &str,
        used: TemplateUse,
    ) -> Result<SavedPlan, Error> {
        let FoundTemplate { plan, row, .. } = self.find(template).await?;
        if let Some((name, _)) = used.inputs.iter().find(|(_, value)| self.holds_secret(value)) {
            return Err(Error::Secret(SecretProblem::InTemplateInput { input: name.clone() }));
        }
        let name = used.name.as_deref().unwrap_or(&plan.name);
        let made = PlanFromTemplate { name, task: used.task.as_deref(), inputs: &used.inputs };
        let refused = |findings| Error::invalid(DocumentKind::Inputs, findings);
        let document = template::plan_from_template(&plan, made).map_err(refused)?;
        let saved = self.0.plans().save(caller, &document.to_string(), used.offline).await;
        saved.map_err(|error| if row.is_none() { of_shipped_template(error) } else { error })
    }

    /// Deletes a saved template by name. Shipped ones are refused, and to a confined service another
    /// project's.
    pub async fn delete(self, caller: &Caller, name: &str) -> Result<TemplateView, Error> {
        let template = self.find(name).await?;
        let Some(row) = &template.row else {
            return Err(Error::ShippedTemplate { name: name.to_owned() });
        };
        self.0.require_own_project(row.plan.project.as_deref(), PersonAct::DeleteForeignTemplate)?;
        self.0.submit(caller, DeletePlanRequest { id: PlanId::new(row.plan.id.as_str()) }).await?;
        Ok(template_view(&template))
    }
}

impl FoundTemplate {
    /// A shipped template as it is found by name: without a row.
    fn from_shipped(one: &ShippedTemplate) -> Self {
        Self { plan: one.plan.clone(), row: None, text: Some(one.text) }
    }
}

/// Marks the refusal of a plan as one of a shipped template's, so that it says which tools those call. Any
/// other error stays.
fn of_shipped_template(error: Error) -> Error {
    if let Error::Invalid(document) = error {
        return Error::Invalid(InvalidDocument { kind: DocumentKind::PlanOfShippedTemplate, ..document });
    }
    error
}

fn template_view(template: &FoundTemplate) -> TemplateView {
    let plan = &template.plan;
    TemplateView {
        name: plan.name.clone(),
        shipped: template.row.is_none(),
        description: plan.description.clone(),
        inputs: input_views(plan),
        steps: plan.steps.len(),
        saved: template.row.as_ref().map(template_version),
    }
}

/// What the row says about this version.
fn template_version(row: &plans::TemplateRow) -> TemplateVersion {
    let plans::TemplateRow { plan, author } = row;
    TemplateVersion {
        version: plan.version,
        author: author.clone(),
        saved_at: format_time(plan.saved_at),
        position: plan.position,
    }
}

/// The inputs that a plan's schema declares; empty without a schema.
fn input_views(plan: &Plan) -> Vec<InputView> {
    let Some(schema) = &plan.inputs else { return Vec::new() };
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let view = |(name, property): (&String, &Value)| {
        let default = property.get("default").cloned();
        InputView {
            name: name.clone(),
            kind: property.get("type").cloned(),
            required: default.is_none() && required.contains(&name.as_str()),
            default,
        }
    };
    schema["properties"].as_object().into_iter().flatten().map(view).collect()
}
