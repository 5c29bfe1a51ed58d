//! The tool `save_plan`: checks a document against the live tools and saves it as a version.

use std::sync::Arc;

use actbook_engine::analysis::PlanCheck;
use actbook_engine::plan::read_document;
use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{AgentTool, RUN_AND_FULL, ToolEffect, ToolProfile};
use crate::error::{AgentError, AgentErrorCode, Error};
use crate::mcp::McpEndpoint;
use crate::mcp::answer::{self, AgentAnswer};
use crate::mcp::error_report;
use crate::mcp::request::AgentRequest;
use crate::mcp::text::{AnswerText, Suggestion};
use crate::service::{SavedPlan, quote};

const FINDINGS_SHOWN_MAX: usize = 10;
/// Most characters that are shown of a plan's text that is not a document.
const NAME_CHARS_MAX: usize = 80;
/// Most items that each list of a check keeps, and most steps of a wave.
const LISTED_MAX: usize = 20;

/// A document, such as a plan: an object, or its YAML or JSON text.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum PlanDocument {
    Object(Map<String, Value>),
    Text(String),
}

impl JsonSchema for PlanDocument {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Document".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "anyOf": [{ "type": "object" }, { "type": "string" }] })
    }
}

impl PlanDocument {
    /// Refuses a text that is a plan's name rather than a document.
    pub fn require_document(&self) -> Result<(), Error> {
        match self {
            Self::Text(text) if !text.contains([':', '{']) => {
                let message =
                    format!("`plan` is a document, and {} is not one", quote::quoted(text, NAME_CHARS_MAX));
                let cure = "`plan_id` takes a saved plan's name or id";
                Err(AgentError::new(AgentErrorCode::InvalidArgument, message, cure).with_path("plan").into())
            }
            Self::Text(_) | Self::Object(_) => Ok(()),
        }
    }

    /// The document as YAML or JSON text, without the fence of a code block.
    pub fn text(&self) -> String {
        match self {
            Self::Object(object) => json!(object).to_string(),
            Self::Text(text) => without_fence(text).to_owned(),
        }
    }

    /// The document as an object; `Err`: its text is none. `argument`: its name.
    pub fn into_object(self, argument: &str) -> Result<Map<String, Value>, Error> {
        let text = match self {
            Self::Object(object) => return Ok(object),
            Self::Text(text) => text,
        };
        let (message, cure) = match read_document(without_fence(&text)) {
            Ok(Value::Object(object)) => return Ok(object),
            Ok(_) => ("it is no object".to_owned(), format!("write {{\"{argument}\": {{…}}}}")),
            Err(finding) => (finding.message, finding.cure),
        };
        let message = format!("`{argument}`: {message}");
        Err(AgentError::new(AgentErrorCode::InvalidArgument, message, cure).with_path(argument).into())
    }
}

/// The text inside the fence of a Markdown code block, as models write documents; the text itself if it has none.
fn without_fence(text: &str) -> &str {
    let inner = text.trim().strip_prefix("```").and_then(|text| text.strip_suffix("```"));
    inner.and_then(|inner| inner.split_once('\n')).map_or(text, |(_, inner)| inner)
}

// Arguments of `save_plan`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SavePlanInput {
    /// {name, steps:[{id, tool:"server/tool", arguments, depends_on?, compensation?:{tool, arguments}, retry?, approval?} or {id, action:"work you do yourself"}], inputs?, policy?}. Values: "${inputs.x}", "${steps.id.output.y}". All fields: resource actbook://plan-format
    plan: PlanDocument,
    /// Check only, save nothing
    dry_run: Option<bool>,
    /// Same key + same request, from a client of your name = same answer, done once
    #[expect(dead_code, reason = "`with_idempotency_key` reads it from the raw arguments")]
    idempotency_key: Option<String>,
}

impl AgentTool for SavePlanInput {
    const NAME: &str = "save_plan";
    const DESCRIPTION: &str = "Check a plan (schema, graph, live tools, point of no return) and save it as a new version. Nothing runs yet.";
    const EFFECT: ToolEffect = ToolEffect::WritesJournal;
    const PROFILES: &[ToolProfile] = RUN_AND_FULL;
    type Answer = AgentAnswer;

    fn output_schema() -> Arc<JsonObject> {
        let properties = json!({
            "plan_id": { "type": "string" },
            "version": { "type": "integer" },
            "digest": { "type": "string" },
            "check": { "type": "object" },
            "next": answer::object_array_schema(),
        });
        answer::answer_schema(properties, &["check"])
    }

    async fn handle(self, endpoint: &McpEndpoint, request: &AgentRequest) -> Result<AgentAnswer, Error> {
        let text = self.plan.text();
        if self.dry_run == Some(true) {
            return Ok(dry_run_answer(endpoint.service().plans().check(&text, false).await.check));
        }
        let mut saved = endpoint.service().plans().save(&request.caller, &text, false).await?;
        saved.check.findings = error_report::findings_for_agent(saved.check.findings);
        let next =
            vec![ToolProfile::Run.start_suggestion(saved.plan_id.as_str(), saved.plan.inputs.as_ref())];
        let verb = if saved.fresh { "Saved" } else { "It was saved already:" };
        Ok(plan_saved_answer(verb, &saved, next))
    }
}

/// The answer of a check without saving: the findings, and what to do next.
fn dry_run_answer(mut check: PlanCheck) -> AgentAnswer {
    check.findings = error_report::findings_for_agent(check.findings);
    let heading = if check.ok { "The plan is good; nothing was saved." } else { "The plan is not good yet." };
    let next = vec![if check.ok {
        Suggestion::advice("save_plan with the same plan and without dry_run saves it")
    } else {
        Suggestion::advice("correct what the findings name and check again")
    }];
    let text = check_text(heading, &check, &next);
    AgentAnswer { structured: json!({ "check": clip_check(&check), "next": next }), text }
}

/// The answer that confirms a saved plan, with its check; `verb` begins the text.
pub(super) fn plan_saved_answer(verb: &str, saved: &SavedPlan, next: Vec<Suggestion>) -> AgentAnswer {
    let (name, version, id) = (quote::name(&saved.name), saved.version, &saved.plan_id);
    let text =
        check_text(&format!("{verb} plan {name} version {version}, plan_id {id}."), &saved.check, &next);
    let mut structured = json!(saved);
    structured["check"] = clip_check(&saved.check);
    structured["next"] = json!(next);
    AgentAnswer { structured, text }
}

/// The check as JSON with truncated lists, and how much of each was left out.
fn clip_check(check: &PlanCheck) -> Value {
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

/// The error for a call of `tool` that has both `plan_id` and `plan`.
pub(super) fn both_given_error(tool: &str) -> Error {
    let message = format!("{tool} takes either `plan_id` or `plan`, and was given both");
    let error = AgentError::new(AgentErrorCode::InvalidArgument, message, "leave one of the two out");
    error.with_path("plan").into()
}

/// Adds the check of a document that was saved and started in one call: its findings and its point of no
/// return, in short before the `Next` lines of the text, and as `check` in the structured content.
pub(super) fn add_check(answer: &mut AgentAnswer, mut check: PlanCheck) {
    check.findings = error_report::findings_for_agent(check.findings);
    answer.structured["check"] = clip_check(&check);
    let mut said = AnswerText::new(match &check.point_of_no_return {
        Some(step) => format!("Check: the point of no return is step `{step}`."),
        None => "Check: no point of no return.".to_owned(),
    });
    for finding in check.findings.iter().take(FINDINGS_SHOWN_MAX) {
        said.push_line(format!(
            "Check: {} {}: {}",
            finding.severity,
            finding.path_with_step(),
            finding.message
        ));
    }
    if let Some(more) = check.findings.len().checked_sub(FINDINGS_SHOWN_MAX).filter(|more| *more > 0) {
        said.push_line(format!("Check: {more} more findings, in the structured content."));
    }
    let at = answer.text.find("\nNext: ").unwrap_or(answer.text.len());
    answer.text.insert_str(at, &format!("\n{}", said.into_string()));
}

/// The text of a check: heading, point of no return, the first findings and the suggestions.
pub(super) fn check_text(heading: &str, check: &PlanCheck, next: &[Suggestion]) -> String {
    let mut text = AnswerText::new(heading);
    match &check.point_of_no_return {
        Some(step) => text.push_line(format!(
            "Point of no return: step `{step}`; what runs from there on cannot be fully undone."
        )),
        None if check.ok => text.push_line("No point of no return: everything can be undone."),
        None => {}
    }
    for finding in check.findings.iter().take(FINDINGS_SHOWN_MAX) {
        text.push_line(format!(
            "{} {}: {} → {}",
            finding.severity,
            finding.path_with_step(),
            finding.message,
            finding.cure
        ));
    }
    if let Some(more) = check.findings.len().checked_sub(FINDINGS_SHOWN_MAX).filter(|more| *more > 0) {
        text.push_line(format!(
            "and {more} more findings; those above come first, so correct them and check again"
        ));
    }
    text.push_suggestions(next);
    text.into_string()
}
