//! `save_plan`: a document is checked against the live tools and becomes a version.

use actbook_engine::analysis::Check;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Effect, Offered, WHERE_PLANS_RUN};
use crate::error::Error;
use crate::mcp::Door;
use crate::mcp::answer::{self, Answer};
use crate::mcp::ask::Ask;
use crate::mcp::cures;
use crate::mcp::text::{Next, Text};
use crate::mcp::waiting::WAIT_S_SUGGESTED;
use crate::service::{PlanSaved, quote};

const FINDINGS_SHOWN_MAX: usize = 10;
/// Of each list of a check.
const LISTED_MAX: usize = 20;

/// A plan's document: an object, or its YAML or JSON text.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Document {
    Object(Map<String, Value>),
    Text(String),
}

impl JsonSchema for Document {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Document".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "anyOf": [{ "type": "object" }, { "type": "string" }] })
    }
}

impl Document {
    pub fn text(&self) -> String {
        match self {
            Self::Object(object) => json!(object).to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SavePlan {
    /// {name, steps:[{id, tool:"server/tool", arguments, depends_on?, compensation?:{tool, arguments}, retry?, approval?} or {id, action:"work you do yourself"}], inputs?, policy?}. Values: "${inputs.x}", "${steps.id.output.y}". All fields: resource actbook://plan-format
    plan: Document,
    /// Check only, save nothing
    dry_run: Option<bool>,
    /// Same key + same request = same answer, done once
    #[expect(dead_code, reason = "read where the call comes in")]
    idempotency_key: Option<String>,
}

pub fn save_plan() -> Offered {
    let properties = json!({
        "plan_id": { "type": "string" },
        "version": { "type": "integer" },
        "digest": { "type": "string" },
        "check": { "type": "object" },
        "next": answer::objects(),
    });
    Offered::new::<SavePlan>(
        "save_plan",
        "Check a plan (schema, graph, live tools, point of no return) and save it as a new version. Nothing runs yet.",
        Effect::Writes,
        answer::answer(properties, &["check"]),
        WHERE_PLANS_RUN,
    )
}

pub async fn save(door: &Door, ask: &Ask, asked: SavePlan) -> Result<Answer, Error> {
    let text = asked.plan.text();
    if asked.dry_run == Some(true) {
        return Ok(checked(door.service().check(&text, false).await.check));
    }
    let mut saved = door.service().save_plan(&ask.caller, &text, false).await?;
    saved.check.findings = cures::found_here(saved.check.findings);
    let arguments = json!({ "plan_id": saved.plan_id, "wait_s": WAIT_S_SUGGESTED });
    let next = vec![Next::call("execute_plan", arguments, "")];
    let word = if saved.fresh { "Saved" } else { "It was saved already:" };
    Ok(kept(word, &saved, next))
}

/// A check of which nothing was saved.
fn checked(mut check: Check) -> Answer {
    check.findings = cures::found_here(check.findings);
    let word = if check.ok { "The plan is good; nothing was saved." } else { "The plan is not good yet." };
    let next = vec![if check.ok {
        Next::say("save_plan with the same plan and without dry_run saves it")
    } else {
        Next::say("correct what the findings name and check again")
    }];
    let text = told(word, &check, &next);
    Answer { structured: json!({ "check": shortened(&check), "next": next }), text }
}

/// A plan that was saved, with its check.
pub(super) fn kept(word: &str, saved: &PlanSaved, next: Vec<Next>) -> Answer {
    let (name, version, id) = (quote::name(&saved.name), saved.version, &saved.plan_id);
    let text = told(&format!("{word} plan {name} version {version}, plan_id {id}."), &saved.check, &next);
    let mut structured = json!(saved);
    structured["check"] = shortened(&saved.check);
    structured["next"] = json!(next);
    Answer { structured, text }
}

/// The check with its lists cut, and how much of each was left out: 500 steps would fill a reader's context.
fn shortened(check: &Check) -> Value {
    let mut shown = json!(check);
    let mut left_out = Map::new();
    for list in ["findings", "waves", "stopping"] {
        let Some(items) = shown[list].as_array_mut() else { continue };
        if items.len() > LISTED_MAX {
            left_out.insert(list.to_owned(), json!(items.len() - LISTED_MAX));
            items.truncate(LISTED_MAX);
        }
    }
    let waves = shown["waves"].as_array_mut().into_iter().flatten();
    let mut steps = 0;
    for wave in waves.filter_map(Value::as_array_mut) {
        steps += wave.len().saturating_sub(LISTED_MAX);
        wave.truncate(LISTED_MAX);
    }
    if steps > 0 {
        left_out.insert("steps_of_waves".to_owned(), json!(steps));
    }
    if !left_out.is_empty() {
        shown["left_out"] = Value::Object(left_out);
    }
    shown
}

/// A plan is named or given, not both.
pub(super) fn both(tool: &str) -> Error {
    let message = format!("{tool} takes either `plan_id` or `plan`, and was given both");
    let error = Error::new("invalid_argument", message, "leave one of the two out");
    Error { path: Some("plan".to_owned()), ..error }
}

pub(super) fn told(word: &str, check: &Check, next: &[Next]) -> String {
    let mut text = Text::new(word);
    match &check.point_of_no_return {
        Some(step) => text.line(format!(
            "Point of no return: step `{step}`; what runs from there on cannot be fully undone."
        )),
        None if check.ok => text.line("No point of no return: everything can be undone."),
        None => {}
    }
    for finding in check.findings.iter().take(FINDINGS_SHOWN_MAX) {
        text.line(format!(
            "{} {}: {} → {}",
            finding.severity,
            finding.place(),
            finding.message,
            finding.cure
        ));
    }
    if let Some(more) = check.findings.len().checked_sub(FINDINGS_SHOWN_MAX).filter(|more| *more > 0) {
        text.line(format!(
            "and {more} more findings; those above come first, so correct them and check again"
        ));
    }
    text.next(next);
    text.into_string()
}
