//! The tools `plan` and `template`: list, show, save, use and delete saved plans and templates.

use std::sync::Arc;

use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::plans::PlanDocument;
use super::{ALL_PROFILES, AgentTool, CallVariant, FULL_ONLY, ToolEffect, ToolProfile};
use crate::error::{AgentErrorCode, Error};
use crate::mcp::McpEndpoint;
use crate::mcp::answer::{self, AgentAnswer, truncate_chars};
use crate::mcp::request::AgentRequest;
use crate::mcp::text::{AnswerText, Suggestion};
use crate::service::view::PlanView;
use crate::service::{SavedPlan, TemplateUse, TemplateView, quote};

const ABOUT_CHARS_MAX: usize = 120;
/// Most characters of a plan's or template's document in one answer; a longer plan has further pages.
const DOCUMENT_CHARS_MAX: usize = 12_000;
const LISTED_MAX: usize = 100;

// Arguments of `plan`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanInput {
    action: PlanAction,
    /// Id or name
    plan_id: Option<String>,
    /// Go on in a long document
    offset: Option<u64>,
    #[expect(dead_code, reason = "`with_idempotency_key` reads it from the raw arguments")]
    idempotency_key: Option<String>,
}

// What `plan` can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum PlanAction {
    List,
    Show,
    Delete,
}

// Arguments of `template`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplateInput {
    /// use: save a plan made of it; save: keep plan_id, or what execution_id ran with its literals as inputs
    action: TemplateAction,
    name: Option<String>,
    /// For use; they become defaults
    inputs: Option<PlanDocument>,
    /// For use: the plan's name
    r#as: Option<String>,
    /// For use
    task: Option<String>,
    /// For save
    plan_id: Option<String>,
    /// For save
    execution_id: Option<String>,
    /// For save: all projects see it
    everywhere: Option<bool>,
    #[expect(dead_code, reason = "`with_idempotency_key` reads it from the raw arguments")]
    idempotency_key: Option<String>,
}

// What `template` can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TemplateAction {
    List,
    Show,
    Use,
    Save,
    Delete,
}

impl AgentTool for PlanInput {
    const NAME: &str = "plan";
    const DESCRIPTION: &str = "Saved plans: list, show the document, delete.";
    const EFFECT: ToolEffect = ToolEffect::WritesJournal;
    const PROFILES: &[ToolProfile] = ALL_PROFILES;
    const VARIANTS: &[CallVariant] = PLAN_VARIANTS;
    type Answer = AgentAnswer;

    fn output_schema() -> Arc<JsonObject> {
        let properties = json!({
            "plans": { "type": "array", "items": { "type": "object" } },
            "document": { "type": "object" },
            "next": answer::object_array_schema(),
        });
        answer::answer_schema(properties, &["next"])
    }

    async fn handle(self, endpoint: &McpEndpoint, request: &AgentRequest) -> Result<AgentAnswer, Error> {
        let service = endpoint.service();
        let plan_id = || self.plan_id.as_deref().expect("the call variant requires it");
        match self.action {
            PlanAction::List => Ok(plan_list_answer(endpoint.profile(), &service.plans().list().await?)),
            PlanAction::Show => {
                let (view, plan) = service.plans().get(plan_id()).await?;
                plan_document_answer(endpoint.profile(), &view, &plan.document, self.offset.unwrap_or(0))
            }
            PlanAction::Delete => {
                let deleted = service.plans().delete(&request.caller, plan_id()).await?;
                let text = AnswerText::new(format!(
                    "Deleted plan {}; its executions stay.",
                    quote::name(&deleted.name)
                ));
                let next = Suggestion::tool_call("plan", json!({ "action": "list" }), "shows the others");
                Ok(answer_with_suggestion(json!({ "plan": deleted }), text, next))
            }
        }
    }
}

/// Which arguments each action of `plan` takes.
const PLAN_VARIANTS: &[CallVariant] = &[
    CallVariant::when_action("list", &[], &[]),
    CallVariant::when_action("show", &["plan_id"], &["offset"]),
    CallVariant::when_action("delete", &["plan_id"], &[]),
];

impl AgentTool for TemplateInput {
    const NAME: &str = "template";
    const DESCRIPTION: &str = "Plans with inputs, kept to be used again: list, show, use, save, delete.";
    const EFFECT: ToolEffect = ToolEffect::WritesJournal;
    const PROFILES: &[ToolProfile] = FULL_ONLY;
    const VARIANTS: &[CallVariant] = TEMPLATE_VARIANTS;
    type Answer = AgentAnswer;

    fn output_schema() -> Arc<JsonObject> {
        let properties = json!({
            "templates": { "type": "array", "items": { "type": "object" } },
            "document": { "type": "object" },
            "plan_id": { "type": "string" },
            "next": answer::object_array_schema(),
        });
        answer::answer_schema(properties, &["next"])
    }

    async fn handle(self, endpoint: &McpEndpoint, request: &AgentRequest) -> Result<AgentAnswer, Error> {
        let service = endpoint.service();
        let name = || self.name.as_deref().expect("the call variant requires it");
        match self.action {
            TemplateAction::List => Ok(template_list_answer(&service.templates().list().await?)),
            TemplateAction::Show => {
                let shown = service.templates().get(name()).await?;
                let document = shown.text.map_or_else(|| shown.document.to_string(), str::to_owned);
                let mut text = AnswerText::new(format!("Template {}:", quote::name(&shown.view.name)));
                text.push_quoted_block(&document, DOCUMENT_CHARS_MAX);
                let next = suggest_template_use(&shown.view);
                Ok(answer_with_suggestion(json!(shown), text, next))
            }
            TemplateAction::Use => {
                let template = name().to_owned();
                let inputs = self.inputs.map(|inputs| inputs.into_object("inputs")).transpose()?;
                let (inputs, offline) = (inputs.unwrap_or_default(), false);
                let used = TemplateUse { name: self.r#as, task: self.task, inputs, offline };
                let saved = service.templates().instantiate(&request.caller, &template, used).await?;
                Ok(super::plans::plan_saved_answer(
                    "Saved",
                    &saved,
                    vec![
                        endpoint
                            .profile()
                            .start_suggestion(saved.plan_id.as_str(), saved.plan.inputs.as_ref()),
                    ],
                ))
            }
            TemplateAction::Save => template_saved_answer(&save_template(endpoint, request, &self).await?),
            TemplateAction::Delete => {
                let deleted = service.templates().delete(&request.caller, name()).await?;
                let text = AnswerText::new(format!("Deleted template {}.", quote::name(&deleted.name)));
                let next = Suggestion::tool_call("template", json!({ "action": "list" }), "shows the others");
                Ok(answer_with_suggestion(json!({}), text, next))
            }
        }
    }
}

/// Which arguments each action of `template` takes.
const TEMPLATE_VARIANTS: &[CallVariant] = &[
    CallVariant::when_action("list", &[], &[]),
    CallVariant::when_action("show", &["name"], &[]),
    CallVariant::when_action("use", &["name"], &["inputs", "as", "task"]),
    CallVariant::when_action("save", &[], &["name", "plan_id", "execution_id", "everywhere"]),
    CallVariant::when_action("delete", &["name"], &[]),
];

fn plan_list_answer(profile: ToolProfile, plans: &[PlanView]) -> AgentAnswer {
    let mut text = AnswerText::new(format!("{} plans are saved.", plans.len()));
    for plan in plans.iter().take(LISTED_MAX) {
        text.push_item(format!(
            "{} {} v{}, {} steps",
            plan.id,
            quote::name(&plan.name),
            plan.version,
            plan.steps
        ));
    }
    if plans.len() > LISTED_MAX {
        text.push_line(format!("and {} more, in the structured content", plans.len() - LISTED_MAX));
    }
    // Which plan is meant is the agent's to say: starting the first one is no suggestion.
    let next: Vec<Suggestion> =
        plans.is_empty().then(|| Suggestion::advice(profile.first_calls())).into_iter().collect();
    if !plans.is_empty() {
        let start = if profile == ToolProfile::Record { "record_execution_start" } else { "execute_plan" };
        text.push_line(format!("{start} with a plan_id starts one; plan with action \"show\" reads it."));
    }
    answer_with_suggestions(json!({ "plans": plans }), text, &next)
}

/// The answer that shows a plan's document from character `offset` on. Err: it is not that long.
fn plan_document_answer(
    profile: ToolProfile,
    view: &PlanView,
    document: &str,
    offset: u64,
) -> Result<AgentAnswer, Error> {
    let (size, from) = (document.chars().count(), usize::try_from(offset).unwrap_or(usize::MAX));
    if from > 0 && from >= size {
        let message = format!("`offset`: the document has {size} characters");
        let cure = "leave `offset` out: it begins with 0";
        return Err(Error::agent(AgentErrorCode::InvalidArgument, message, cure));
    }
    let page: String = document.chars().skip(from).take(DOCUMENT_CHARS_MAX).collect();
    let (name, version, next_offset) = (quote::name(&view.name), view.version, from + DOCUMENT_CHARS_MAX);
    let mut text =
        AnswerText::new(format!("Plan {name} version {version}, {} steps ({size} characters):", view.steps));
    text.push_quoted_block(&page, DOCUMENT_CHARS_MAX);
    let (content, next) = if size > next_offset {
        let arguments = json!({ "action": "show", "plan_id": view.id, "offset": next_offset });
        (json!({ "plan": view }), Suggestion::tool_call("plan", arguments, "reads on"))
    } else {
        let whole: Value = serde_json::from_str(document).unwrap_or_default();
        let starts = profile.start_suggestion(&view.id, whole.get("inputs"));
        let content =
            if from > 0 { json!({ "plan": view }) } else { json!({ "plan": view, "document": whole }) };
        (content, starts)
    };
    Ok(answer_with_suggestion(content, text, next))
}

/// Saves a template from an execution or from a saved plan. Err: both or neither of them is named.
async fn save_template(
    endpoint: &McpEndpoint,
    request: &AgentRequest,
    input: &TemplateInput,
) -> Result<SavedPlan, Error> {
    let (service, everywhere) = (endpoint.service(), input.everywhere.unwrap_or(false));
    match (&input.execution_id, &input.plan_id) {
        (Some(execution), None) => {
            let name = input.name.as_deref().ok_or_else(|| {
                let message = "template with action \"save\" and `execution_id` needs `name`";
                let cure = "give the name that the template is to have";
                Error::agent(AgentErrorCode::MissingArgument, message, cure)
            })?;
            service.templates().save_from_execution(&request.caller, execution, name, everywhere).await
        }
        (None, Some(plan)) => {
            let (_, plan) = service.plans().get(plan).await?;
            service.templates().save(&request.caller, &plan, input.name.as_deref(), everywhere).await
        }
        (Some(_), Some(_)) | (None, None) => {
            let message = "template with action \"save\" needs either `execution_id` or `plan_id`";
            let cure = "give the one that the template is to be made of; plan {\"action\":\"list\"} shows \
                        saved plans, status without arguments shows executions";
            Err(Error::agent(AgentErrorCode::MissingArgument, message, cure))
        }
    }
}

/// The answer with this one suggestion, in the text and as `next`.
fn answer_with_suggestion(structured: Value, text: AnswerText, next: Suggestion) -> AgentAnswer {
    answer_with_suggestions(structured, text, &[next])
}

/// The answer with these suggestions, in the text and as `next`.
fn answer_with_suggestions(mut structured: Value, mut text: AnswerText, next: &[Suggestion]) -> AgentAnswer {
    structured["next"] = json!(next);
    text.push_suggestions(next);
    AgentAnswer { structured, text: text.into_string() }
}

/// The answer that confirms a saved template and suggests to use it; never `Err`.
fn template_saved_answer(saved: &SavedPlan) -> Result<AgentAnswer, Error> {
    let inputs = saved.plan.inputs.as_ref().and_then(|schema| schema.get("properties"));
    let inputs = inputs.cloned().unwrap_or_else(|| json!({}));
    let (name, version) = (quote::name(&saved.name), saved.version);
    let text = AnswerText::new(format!("Saved template {name} version {version}; inputs: {inputs}"));
    let arguments = json!({ "action": "use", "name": saved.name, "inputs": {} });
    let structured = json!({ "name": saved.name, "version": saved.version, "inputs": inputs });
    Ok(answer_with_suggestion(structured, text, Suggestion::tool_call("template", arguments, "")))
}

/// Suggests to use a template, with placeholders for its required inputs.
fn suggest_template_use(template: &TemplateView) -> Suggestion {
    let needed = template.inputs.iter().filter(|input| input.required);
    let inputs: Map<String, Value> = needed.map(|input| (input.name.clone(), json!("…"))).collect();
    Suggestion::tool_call("template", json!({ "action": "use", "name": template.name, "inputs": inputs }), "")
}

/// The answer that lists templates; an input that need not be given is marked with `?`.
fn template_list_answer(templates: &[TemplateView]) -> AgentAnswer {
    let mut text = AnswerText::new("Templates, with the inputs that each takes:");
    for template in templates {
        let about = truncate_chars(template.description.as_deref().unwrap_or_default(), ABOUT_CHARS_MAX);
        let names = template.inputs.iter();
        let names = names.map(|input| format!("{}{}", input.name, if input.required { "" } else { "?" }));
        text.push_item(format!("{} ({}): {about}", template.name, names.collect::<Vec<_>>().join(", ")));
    }
    let next = Suggestion::advice("template with action use and a name saves a plan of it");
    answer_with_suggestion(json!({ "templates": templates }), text, next)
}
