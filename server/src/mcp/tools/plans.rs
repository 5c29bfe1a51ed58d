//! `save_plan`: a document is checked against the live tools and becomes a version.

use std::fmt::Write as _;

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

const FINDINGS_SHOWN_MAX: usize = 10;

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
        "next": { "type": "array", "items": { "type": "string" } },
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
        let mut check = door.service().check(&text, false).await.check;
        check.findings = cures::found_here(check.findings);
        let word =
            if check.ok { "The plan is good; nothing was saved." } else { "The plan is not good yet." };
        let next = match check.ok {
            true => vec!["save_plan with the same plan and without dry_run saves it".to_owned()],
            false => vec!["correct what the findings name and check again".to_owned()],
        };
        let text = told(word, &check, &next);
        return Ok(Answer::new(&json!({ "check": check, "next": next }), text));
    }
    let mut saved = door.service().save_plan(&ask.caller, &text, false).await?;
    saved.check.findings = cures::found_here(saved.check.findings);
    let next = vec![format!("execute_plan {}", json!({ "plan_id": saved.plan_id }))];
    let fresh = if saved.fresh { "Saved" } else { "It was saved already:" };
    let word = format!("{fresh} plan `{}` version {}, plan_id {}.", saved.name, saved.version, saved.plan_id);
    let text = told(&word, &saved.check, &next);
    let mut structured = json!(saved);
    structured["next"] = json!(next);
    Ok(Answer { structured, text })
}

/// A plan is named or given, not both.
pub(super) fn both(tool: &str) -> Error {
    let message = format!("{tool} takes either `plan_id` or `plan`, and was given both");
    let error = Error::new("invalid_argument", message, "leave one of the two out");
    Error { path: Some("plan".to_owned()), ..error }
}

pub(super) fn told(word: &str, check: &Check, next: &[String]) -> String {
    let mut text = word.to_owned();
    match &check.point_of_no_return {
        Some(step) => write!(
            text,
            "\nPoint of no return: step `{step}`; what runs from there on cannot be fully undone."
        ),
        None if check.ok => write!(text, "\nNo point of no return: everything can be undone."),
        None => Ok(()),
    }
    .expect("writing to a string does not fail");
    for finding in check.findings.iter().take(FINDINGS_SHOWN_MAX) {
        write!(text, "\n{} {}: {} → {}", finding.severity, finding.path, finding.message, finding.cure)
            .expect("writing to a string does not fail");
    }
    if let Some(more) = check.findings.len().checked_sub(FINDINGS_SHOWN_MAX).filter(|more| *more > 0) {
        write!(text, "\nand {more} more findings").expect("writing to a string does not fail");
    }
    for line in next {
        write!(text, "\nNext: {line}").expect("writing to a string does not fail");
    }
    text
}
