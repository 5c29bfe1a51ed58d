//! `plan` and `template`: what is saved, kept to be used again, and deleted.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Effect, IN_FULL, Offered};
use crate::error::Error;
use crate::mcp::Door;
use crate::mcp::answer::{self, Answer, cut};
use crate::mcp::ask::Ask;
use crate::service::{PlanSaved, TemplateUse, TemplateView};

const ABOUT_CHARS_MAX: usize = 120;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    action: PlanAction,
    /// Id or name
    plan_id: Option<String>,
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
        "next": { "type": "array", "items": { "type": "string" } },
    });
    Offered::new::<Plan>(
        "plan",
        "Saved plans: list, show the document, delete.",
        Effect::Writes,
        answer::answer(properties, &["next"]),
        IN_FULL,
    )
}

pub fn template() -> Offered {
    let properties = json!({
        "templates": { "type": "array", "items": { "type": "object" } },
        "document": { "type": "object" },
        "plan_id": { "type": "string" },
        "next": { "type": "array", "items": { "type": "string" } },
    });
    Offered::new::<Template>(
        "template",
        "Plans with inputs, kept to be used again: list, show, use, save, delete.",
        Effect::Writes,
        answer::answer(properties, &["next"]),
        IN_FULL,
    )
}

pub async fn of_plans(door: &Door, ask: &Ask, asked: Plan) -> Result<Answer, Error> {
    let service = door.service();
    let named = || asked.plan_id.as_deref().ok_or_else(|| missing("plan", "plan_id"));
    match asked.action {
        PlanAction::List => {
            let plans = service.plans().await?;
            let lines = plans
                .iter()
                .map(|plan| format!("{} `{}` v{}, {} steps", plan.id, plan.name, plan.version, plan.steps));
            let text = lines.collect::<Vec<_>>().join("\n");
            let text = if plans.is_empty() { "No plan is saved.".to_owned() } else { text };
            Ok(then(json!({ "plans": plans }), text, "execute_plan with a plan_id runs one"))
        }
        PlanAction::Show => {
            let (view, plan) = service.plan(named()?).await?;
            let document: Value = serde_json::from_str(&plan.document).unwrap_or_default();
            let next = format!("execute_plan {}", json!({ "plan_id": view.id }));
            Ok(then(json!({ "plan": view, "document": document }), plan.document.clone(), &next))
        }
        PlanAction::Delete => {
            let deleted = service.delete_plan(&ask.caller, named()?).await?;
            let text = format!("Deleted plan `{}`; its executions stay.", deleted.name);
            Ok(then(json!({ "plan": deleted }), text, "plan {\"action\":\"list\"} shows the others"))
        }
    }
}

pub async fn of_templates(door: &Door, ask: &Ask, asked: Template) -> Result<Answer, Error> {
    let service = door.service();
    let name = || asked.name.as_deref().ok_or_else(|| missing("template", "name"));
    match asked.action {
        TemplateAction::List => Ok(listed(&service.templates().await?)),
        TemplateAction::Show => {
            let shown = service.template(name()?).await?;
            let text = shown.text.map_or_else(|| shown.document.to_string(), str::to_owned);
            let next = using(&shown.view);
            Ok(then(json!(shown), text, &next))
        }
        TemplateAction::Use => {
            let template = name()?.to_owned();
            let (inputs, offline) = (asked.inputs.unwrap_or_default(), false);
            let used = TemplateUse { name: asked.r#as, task: asked.task, inputs, offline };
            let saved = service.use_template(&ask.caller, &template, used).await?;
            let next = vec![format!("execute_plan {}", json!({ "plan_id": saved.plan_id }))];
            let word = format!("Saved plan `{}` version {}.", saved.name, saved.version);
            let text = super::plans::told(&word, &saved.check, &next);
            let mut structured = json!(saved);
            structured["next"] = json!(next);
            Ok(Answer { structured, text })
        }
        TemplateAction::Save => kept(&save(door, ask, &asked).await?),
        TemplateAction::Delete => {
            let deleted = service.delete_template(&ask.caller, name()?).await?;
            let text = format!("Deleted template `{}`.", deleted.name);
            Ok(then(json!({}), text, "template {\"action\":\"list\"} shows the others"))
        }
    }
}

async fn save(door: &Door, ask: &Ask, asked: &Template) -> Result<PlanSaved, Error> {
    let service = door.service();
    match (&asked.execution_id, &asked.plan_id) {
        (Some(execution), None) => {
            let name = asked.name.as_deref().ok_or_else(|| missing("template", "name"))?;
            service.template_from(&ask.caller, execution, name).await
        }
        (None, Some(plan)) => {
            let (_, plan) = service.plan(plan).await?;
            service.save_template(&ask.caller, &plan, asked.name.as_deref()).await
        }
        (Some(_), Some(_)) | (None, None) => {
            let message = "template save needs either `execution_id` or `plan_id`";
            Err(Error::new("missing_argument", message, "name what the template is to be made of"))
        }
    }
}

fn missing(tool: &str, name: &str) -> Error {
    Error::new("missing_argument", format!("this action of {tool} needs `{name}`"), "name it")
}

fn then(mut structured: Value, text: String, next: &str) -> Answer {
    structured["next"] = json!([next]);
    Answer { structured, text: format!("{text}\nNext: {next}") }
}

fn kept(saved: &PlanSaved) -> Result<Answer, Error> {
    let inputs = saved.plan.inputs.as_ref().and_then(|schema| schema.get("properties"));
    let inputs = inputs.cloned().unwrap_or_else(|| json!({}));
    let text = format!("Kept template `{}` version {}; inputs: {inputs}", saved.name, saved.version);
    let next = format!("template {}", json!({ "action": "use", "name": saved.name, "inputs": {} }));
    let structured = json!({ "name": saved.name, "version": saved.version, "inputs": inputs });
    Ok(then(structured, text, &next))
}

fn using(template: &TemplateView) -> String {
    let needed = template.inputs.iter().filter(|input| input.required);
    let inputs: Map<String, Value> = needed.map(|input| (input.name.clone(), json!("…"))).collect();
    format!("template {}", json!({ "action": "use", "name": template.name, "inputs": inputs }))
}

fn listed(templates: &[TemplateView]) -> Answer {
    let line = |template: &TemplateView| {
        let about = cut(template.description.as_deref().unwrap_or_default(), ABOUT_CHARS_MAX);
        let names = template.inputs.iter();
        let names = names.map(|input| format!("{}{}", input.name, if input.required { "" } else { "?" }));
        format!("{} ({}): {about}", template.name, names.collect::<Vec<_>>().join(", "))
    };
    let text = templates.iter().map(line).collect::<Vec<_>>().join("\n");
    then(json!({ "templates": templates }), text, "template with action use and a name saves a plan of it")
}
