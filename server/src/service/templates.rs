//! Templates: those that come with the binary and those that were made here. Made of plans and of past
//! executions, shown, used, deleted. One that was made comes before one of the same name that was shipped.

mod shipped;

use std::sync::Arc;

use actbook_engine::analysis;
use actbook_engine::id::PlanId;
use actbook_engine::plan::Plan;
use actbook_engine::template::{self, Made};
use serde::Serialize;
use serde_json::{Map, Value};

use super::Service;
use super::plans::PlanSaved;
use super::view::time;
use crate::caller::Caller;
use crate::error::Error;
use crate::ledger::Request;
use crate::store::{payloads, plans};

pub use shipped::{Shipped, shipped};

const LISTED_MAX: u64 = 500;
const VERSIONS_MAX: u64 = 100;

/// A line of the list.
#[derive(Clone, Debug, Serialize)]
pub struct TemplateView {
    pub name: String,
    /// It came with the binary.
    pub shipped: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub inputs: Vec<InputView>,
    pub steps: usize,
    /// Of one that was made here.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub saved: Option<TemplateVersion>,
}

#[derive(Clone, Debug, Serialize)]
pub struct InputView {
    pub name: String,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// It has to be given.
    pub required: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct TemplateVersion {
    pub version: u64,
    pub author: String,
    pub saved_at: String,
    pub position: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct TemplateShown {
    #[serde(flatten)]
    pub view: TemplateView,
    /// Newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<TemplateVersion>,
    pub document: Value,
    /// As it was written, of one that was shipped.
    #[serde(skip)]
    pub text: Option<&'static str>,
    #[serde(skip)]
    pub plan: Arc<Plan>,
}

/// What is to become of a template.
#[derive(Clone, Debug, Default)]
pub struct TemplateUse {
    /// The plan's; none: the template's own.
    pub name: Option<String>,
    pub task: Option<String>,
    pub inputs: Map<String, Value>,
    /// Its tools are not asked for.
    pub offline: bool,
}

/// A template as it was found.
struct Held {
    plan: Arc<Plan>,
    row: Option<plans::Authored>,
    text: Option<&'static str>,
}

impl Service {
    /// Those that were made here first, then those that were shipped.
    pub async fn templates(&self) -> Result<Vec<TemplateView>, Error> {
        let mut views = Vec::new();
        for row in plans::templates(self.tenant, self.boundary(), LISTED_MAX).all(&self.db).await? {
            let plan = self.document_at(row.plan.position).await?;
            views.push(view(&Held { plan, row: Some(row), text: None }));
        }
        let of_shipped = shipped().iter().filter(|one| !views.iter().any(|view| view.name == one.name));
        let of_shipped: Vec<TemplateView> = of_shipped.map(|one| view(&Held::of(one))).collect();
        views.extend(of_shipped);
        Ok(views)
    }

    pub async fn template(&self, name: &str) -> Result<TemplateShown, Error> {
        let held = self.held(name).await?;
        let history = match &held.row {
            Some(row) => plans::versions(self.tenant, &row.plan.id, VERSIONS_MAX).all(&self.db).await?,
            None => Vec::new(),
        };
        let unreadable =
            |error: serde_json::Error| Error::new("corrupt", error.to_string(), "run `actbook verify`");
        Ok(TemplateShown {
            view: view(&held),
            history: history.iter().map(version).collect(),
            document: serde_json::from_str(&held.plan.document).map_err(unreadable)?,
            text: held.text,
            plan: held.plan,
        })
    }

    /// Only what it is made of, for whoever makes a plan of it.
    pub(super) async fn template_plan(&self, name: &str) -> Result<Arc<Plan>, Error> {
        Ok(self.held(name).await?.plan)
    }

    async fn held(&self, name: &str) -> Result<Held, Error> {
        let named = plans::template(self.tenant, self.boundary(), self.project(), name);
        if let Some(row) = named.first(&self.db).await? {
            let plan = self.document_at(row.plan.position).await?;
            return Ok(Held { plan, row: Some(row), text: None });
        }
        match shipped().iter().find(|one| one.name == name) {
            Some(one) => Ok(Held::of(one)),
            None => Err(self.no_such_template(name).await?),
        }
    }

    async fn no_such_template(&self, name: &str) -> Result<Error, Error> {
        let known = self.templates().await?;
        let near = analysis::nearest(name, known.iter().map(|view| view.name.as_str()));
        let cure = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`actbook template list` shows them".to_owned(),
        };
        Ok(Error::new("no_such_template", format!("there is no template `{name}`"), cure))
    }

    /// A template from a plan's document; without a name it keeps the plan's. `everywhere`: for all projects.
    pub async fn save_template(
        &self,
        caller: &Caller,
        plan: &Plan,
        name: Option<&str>,
        everywhere: bool,
    ) -> Result<PlanSaved, Error> {
        let document = template::of_plan(plan, name.unwrap_or(&plan.name));
        self.keep_template(caller, document, everywhere).await
    }

    /// A template from what an execution ran, its literals lifted into inputs.
    pub async fn template_from(
        &self,
        caller: &Caller,
        id: &str,
        name: &str,
        everywhere: bool,
    ) -> Result<PlanSaved, Error> {
        let execution = self.fold(self.find(id).await?.stream)?;
        let given = match execution.inputs {
            Some(kept) => payloads::at(self.tenant, kept.position.0).first(&self.db).await?,
            None => None,
        };
        if execution.inputs.is_some() && given.is_none() {
            let message = "what this execution was given has been erased";
            return Err(Error::new("erased", message, "make the template of its plan: `template save`"));
        }
        let given: Option<Value> = given.and_then(|payload| serde_json::from_slice(&payload.body).ok());
        let document =
            template::of_execution(&execution.plan, name, given.as_ref(), &|value| self.is_secret(value));
        self.keep_template(caller, document, everywhere).await
    }

    /// It is checked as far as it goes without its tools: they are asked for when it is used.
    async fn keep_template(
        &self,
        caller: &Caller,
        mut document: Value,
        everywhere: bool,
    ) -> Result<PlanSaved, Error> {
        self.require_sharer(caller, everywhere)?;
        self.tools.redact(&mut document);
        let (mut asked, check) = self.ready(&document.to_string(), true).await?;
        asked.placement.template = true;
        asked.placement.everywhere = everywhere;
        self.put_plan(caller, asked, check).await
    }

    fn is_secret(&self, value: &Value) -> bool {
        let mut struck_out = value.clone();
        self.tools.redact(&mut struck_out);
        struck_out != *value
    }

    /// Saves a plan that is made of a template.
    pub async fn use_template(
        &self,
        caller: &Caller,
        template: &str,
        used: TemplateUse,
    ) -> Result<PlanSaved, Error> {
        let plan = self.template_plan(template).await?;
        if let Some((name, _)) = used.inputs.iter().find(|(_, value)| self.is_secret(value)) {
            let message = format!("`{name}` holds a secret, and what is given here is kept");
            return Err(Error::new("secret_input", message, "give it when the plan runs"));
        }
        let name = used.name.as_deref().unwrap_or(&plan.name);
        let made = Made { name, task: used.task.as_deref(), inputs: &used.inputs };
        let refused = |findings| Error::findings("the inputs are refused", findings);
        let document = template::used(&plan, made).map_err(refused)?;
        self.save_plan(caller, &document.to_string(), used.offline).await
    }

    pub async fn delete_template(&self, caller: &Caller, name: &str) -> Result<TemplateView, Error> {
        let held = self.held(name).await?;
        let Some(row) = &held.row else {
            let message = format!("the template `{name}` comes with Actbook");
            return Err(Error::new("shipped", message, "only templates that were made can be deleted"));
        };
        self.require_own(row.plan.project.as_deref(), "template")?;
        self.ask(caller, Request::DeletePlan { id: PlanId::new(row.plan.id.as_str()) }).await?;
        Ok(view(&held))
    }
}

impl Held {
    fn of(one: &Shipped) -> Self {
        Self { plan: one.plan.clone(), row: None, text: Some(one.text) }
    }
}

fn view(held: &Held) -> TemplateView {
    let plan = &held.plan;
    TemplateView {
        name: plan.name.clone(),
        shipped: held.row.is_none(),
        description: plan.description.clone(),
        inputs: inputs(plan),
        steps: plan.steps.len(),
        saved: held.row.as_ref().map(version),
    }
}

fn version(row: &plans::Authored) -> TemplateVersion {
    let plans::Authored { plan, author } = row;
    TemplateVersion {
        version: plan.version,
        author: author.clone(),
        saved_at: time(plan.saved_at),
        position: plan.position,
    }
}

fn inputs(plan: &Plan) -> Vec<InputView> {
    let Some(schema) = &plan.inputs else { return Vec::new() };
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let shown = |(name, property): (&String, &Value)| {
        let default = property.get("default").cloned();
        InputView {
            name: name.clone(),
            kind: property.get("type").cloned(),
            required: default.is_none() && required.contains(&name.as_str()),
            default,
        }
    };
    schema["properties"].as_object().into_iter().flatten().map(shown).collect()
}
