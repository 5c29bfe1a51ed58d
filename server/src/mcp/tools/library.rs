//! `plan` and `template`: what is saved, kept to be used again, and deleted.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{EVERYWHERE, Effect, IN_FULL, Offered, Profile, ToolUse};
use crate::error::Error;
use crate::mcp::Door;
use crate::mcp::answer::{self, Answer, cut};
use crate::mcp::ask::Ask;
use crate::mcp::text::{Next, Text};
use crate::service::view::PlanView;
use crate::service::{PlanSaved, TemplateUse, TemplateView, quote};

const ABOUT_CHARS_MAX: usize = 120;
/// Of a document, on one page.
const DOCUMENT_CHARS_MAX: usize = 12_000;
const LISTED_MAX: usize = 100;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    action: PlanAction,
    /// Id or name
    plan_id: Option<String>,
    /// Go on in a long document
    offset: Option<u64>,
    #[expect(dead_code, reason = "read where the call comes in")]
    idempotency_key: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum PlanAction {
    List,
    Show,
    Delete,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// use: save a plan made of it; save: keep plan_id, or what execution_id ran with its literals as inputs
    action: TemplateAction,
    name: Option<String>,
    /// For use; they become defaults
    inputs: Option<Map<String, Value>>,
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
    #[expect(dead_code, reason = "read where the call comes in")]
    idempotency_key: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TemplateAction {
    List,
    Show,
    Use,
    Save,
    Delete,
}

pub fn plan() -> Offered {
    let properties = json!({
        "plans": { "type": "array", "items": { "type": "object" } },
        "document": { "type": "object" },
        "next": answer::objects(),
    });
    Offered::new::<Plan>(
        "plan",
        "Saved plans: list, show the document, delete.",
        Effect::Writes,
        answer::answer(properties, &["next"]),
        EVERYWHERE,
    )
    .with_uses(PLAN_USES)
}

const PLAN_USES: &[ToolUse] = &[
    ToolUse::action("list", &[], &[]),
    ToolUse::action("show", &["plan_id"], &["offset"]),
    ToolUse::action("delete", &["plan_id"], &[]),
];

pub fn template() -> Offered {
    let properties = json!({
        "templates": { "type": "array", "items": { "type": "object" } },
        "document": { "type": "object" },
        "plan_id": { "type": "string" },
        "next": answer::objects(),
    });
    Offered::new::<Template>(
        "template",
        "Plans with inputs, kept to be used again: list, show, use, save, delete.",
        Effect::Writes,
        answer::answer(properties, &["next"]),
        IN_FULL,
    )
    .with_uses(TEMPLATE_USES)
}

const TEMPLATE_USES: &[ToolUse] = &[
    ToolUse::action("list", &[], &[]),
    ToolUse::action("show", &["name"], &[]),
    ToolUse::action("use", &["name"], &["inputs", "as", "task"]),
    ToolUse::action("save", &[], &["name", "plan_id", "execution_id", "everywhere"]),
    ToolUse::action("delete", &["name"], &[]),
];

pub async fn of_plans(door: &Door, ask: &Ask, asked: Plan) -> Result<Answer, Error> {
    let service = door.service();
    let named = || asked.plan_id.as_deref().expect("the table of uses asks for it");
    match asked.action {
        PlanAction::List => Ok(listed_plans(door.profile(), &service.plans().await?)),
        PlanAction::Show => {
            let (view, plan) = service.plan(named()).await?;
            shown(door.profile(), &view, &plan.document, asked.offset.unwrap_or(0))
        }
        PlanAction::Delete => {
            let deleted = service.delete_plan(&ask.caller, named()).await?;
            let text =
                Text::new(format!("Deleted plan {}; its executions stay.", quote::name(&deleted.name)));
            let next = Next::call("plan", json!({ "action": "list" }), "shows the others");
            Ok(then(json!({ "plan": deleted }), text, next))
        }
    }
}

fn listed_plans(profile: Profile, plans: &[PlanView]) -> Answer {
    let mut text = Text::new(format!("{} plans are saved.", plans.len()));
    for plan in plans.iter().take(LISTED_MAX) {
        text.item(format!("{} {} v{}, {} steps", plan.id, quote::name(&plan.name), plan.version, plan.steps));
    }
    if plans.len() > LISTED_MAX {
        text.line(format!("and {} more, in the structured content", plans.len() - LISTED_MAX));
    }
    let next = match plans.first() {
        Some(first) => profile.start(first.id.as_str(), "starts the first; any other by its plan_id"),
        None => Next::say(profile.first_calls()),
    };
    then(json!({ "plans": plans }), text, next)
}

/// A plan's document; a long one page by page.
fn shown(profile: Profile, view: &PlanView, document: &str, offset: u64) -> Result<Answer, Error> {
    let (size, from) = (document.chars().count(), usize::try_from(offset).unwrap_or(usize::MAX));
    if from > 0 && from >= size {
        let message = format!("`offset`: the document has {size} characters");
        return Err(Error::new("invalid_argument", message, "leave `offset` out: it begins with 0"));
    }
    let page: String = document.chars().skip(from).take(DOCUMENT_CHARS_MAX).collect();
    let (name, version, on) = (quote::name(&view.name), view.version, from + DOCUMENT_CHARS_MAX);
    let mut text =
        Text::new(format!("Plan {name} version {version}, {} steps ({size} characters):", view.steps));
    text.block(&page, DOCUMENT_CHARS_MAX);
    let (content, next) = if size > on {
        let arguments = json!({ "action": "show", "plan_id": view.id, "offset": on });
        (json!({ "plan": view }), Next::call("plan", arguments, "reads on"))
    } else if from > 0 {
        (json!({ "plan": view }), profile.start(&view.id, ""))
    } else {
        let whole: Value = serde_json::from_str(document).unwrap_or_default();
        (json!({ "plan": view, "document": whole }), profile.start(&view.id, ""))
    };
    Ok(then(content, text, next))
}

pub async fn of_templates(door: &Door, ask: &Ask, asked: Template) -> Result<Answer, Error> {
    let service = door.service();
    let name = || asked.name.as_deref().expect("the table of uses asks for it");
    match asked.action {
        TemplateAction::List => Ok(listed(&service.templates().await?)),
        TemplateAction::Show => {
            let shown = service.template(name()).await?;
            let document = shown.text.map_or_else(|| shown.document.to_string(), str::to_owned);
            let mut text = Text::new(format!("Template {}:", quote::name(&shown.view.name)));
            text.block(&document, DOCUMENT_CHARS_MAX);
            let next = using(&shown.view);
            Ok(then(json!(shown), text, next))
        }
        TemplateAction::Use => {
            let template = name().to_owned();
            let (inputs, offline) = (asked.inputs.unwrap_or_default(), false);
            let used = TemplateUse { name: asked.r#as, task: asked.task, inputs, offline };
            let saved = service.use_template(&ask.caller, &template, used).await?;
            Ok(super::plans::kept("Saved", &saved, vec![door.profile().start(saved.plan_id.as_str(), "")]))
        }
        TemplateAction::Save => kept(&save(door, ask, &asked).await?),
        TemplateAction::Delete => {
            let deleted = service.delete_template(&ask.caller, name()).await?;
            let text = Text::new(format!("Deleted template {}.", quote::name(&deleted.name)));
            let next = Next::call("template", json!({ "action": "list" }), "shows the others");
            Ok(then(json!({}), text, next))
        }
    }
}

async fn save(door: &Door, ask: &Ask, asked: &Template) -> Result<PlanSaved, Error> {
    let (service, everywhere) = (door.service(), asked.everywhere.unwrap_or(false));
    match (&asked.execution_id, &asked.plan_id) {
        (Some(execution), None) => {
            let name = asked.name.as_deref().ok_or_else(|| {
                let message = "template with action \"save\" and `execution_id` needs `name`";
                Error::new("missing_argument", message, "give the name that the template is to have")
            })?;
            service.template_from(&ask.caller, execution, name, everywhere).await
        }
        (None, Some(plan)) => {
            let (_, plan) = service.plan(plan).await?;
            service.save_template(&ask.caller, &plan, asked.name.as_deref(), everywhere).await
        }
        (Some(_), Some(_)) | (None, None) => {
            let message = "template with action \"save\" needs either `execution_id` or `plan_id`";
            let cure = "give the one that the template is to be made of; plan {\"action\":\"list\"} shows \
                        saved plans, status without arguments shows executions";
            Err(Error::new("missing_argument", message, cure))
        }
    }
}

fn then(mut structured: Value, mut text: Text, next: Next) -> Answer {
    let next = [next];
    structured["next"] = json!(next);
    text.next(&next);
    Answer { structured, text: text.into_string() }
}

fn kept(saved: &PlanSaved) -> Result<Answer, Error> {
    let inputs = saved.plan.inputs.as_ref().and_then(|schema| schema.get("properties"));
    let inputs = inputs.cloned().unwrap_or_else(|| json!({}));
    let (name, version) = (quote::name(&saved.name), saved.version);
    let text = Text::new(format!("Kept template {name} version {version}; inputs: {inputs}"));
    let arguments = json!({ "action": "use", "name": saved.name, "inputs": {} });
    let structured = json!({ "name": saved.name, "version": saved.version, "inputs": inputs });
    Ok(then(structured, text, Next::call("template", arguments, "")))
}

fn using(template: &TemplateView) -> Next {
    let needed = template.inputs.iter().filter(|input| input.required);
    let inputs: Map<String, Value> = needed.map(|input| (input.name.clone(), json!("…"))).collect();
    Next::call("template", json!({ "action": "use", "name": template.name, "inputs": inputs }), "")
}

fn listed(templates: &[TemplateView]) -> Answer {
    let mut text = Text::new("Templates, with the inputs that each takes:");
    for template in templates {
        let about = cut(template.description.as_deref().unwrap_or_default(), ABOUT_CHARS_MAX);
        let names = template.inputs.iter();
        let names = names.map(|input| format!("{}{}", input.name, if input.required { "" } else { "?" }));
        text.item(format!("{} ({}): {about}", template.name, names.collect::<Vec<_>>().join(", ")));
    }
    let next = Next::say("template with action use and a name saves a plan of it");
    then(json!({ "templates": templates }), text, next)
}
