//! Reads one step of the document and fills in defaults. Looks at the step alone: references to other steps
//! are kept as ids for `graph` to resolve.

use std::collections::BTreeSet;
use std::fmt::Display;

use serde_json::Value;

use super::field_reader::{FieldReader, parse_keyword, parse_template};
use super::finding::{DocumentPath, FindingCollector};
use super::{Compensation, CompensationWork, Probe, RetryPolicy, Step, StepWork, TOOL_TIMEOUT_MS};
use crate::bind::{ConditionExpression, ValueTemplate};
use crate::id::StepId;
use crate::policy::{ErrorCategory, FailureAction, Reversibility, string_enum};

use serde::{Deserialize, Serialize};

/// Longest step id, in bytes.
const ID_BYTES_MAX: usize = 64;
/// Longest tool name, `server/tool`, in bytes.
const TOOL_BYTES_MAX: usize = 256;
/// Largest `retry.max_attempts` of a step.
const ATTEMPTS_MAX: i64 = 100;
/// Largest `retry.factor`, by which the backoff grows after each attempt.
const FACTOR_MAX: f64 = 100.0;
/// A step's `priority` lies between minus this and this.
const PRIORITY_MAX: i64 = 1_000_000;

/// The known fields of a step, but for `ESTIMATED_DURATION`.
const STEP_FIELDS: [&str; 19] = [
    "id",
    "name",
    "tool",
    "action",
    "arguments",
    "depends_on",
    "when",
    "timeout",
    "retry",
    "idempotent",
    "read_only",
    "cancellable",
    "compensation",
    "probe",
    "approval",
    "by",
    "failure_policy",
    "priority",
    "metadata",
];
/// The field that only an action may have.
const ESTIMATED_DURATION: &str = "estimated_duration";
const RETRY_FIELDS: [&str; 5] = ["max_attempts", "backoff", "factor", "max_backoff", "on"];
const COMPENSATION_FIELDS: [&str; 6] = ["tool", "action", "arguments", "timeout", "retry", "idempotent"];
const PROBE_FIELDS: [&str; 4] = ["tool", "arguments", "happened", "timeout"];
const FAILURE_POLICY_FIELDS: [&str; 2] = ["action", "propagate_to"];

string_enum!(
    /// The document's `by`: who calls the step's tool.
    ToolCaller { Actbook = "actbook", Agent = "agent" }
);
string_enum!(
    /// The document's `approval`.
    StepApproval { Required = "required" }
);

/// A step whose references to other steps are still ids, each with its index in the document's list.
pub(super) struct StepDraft {
    pub step: Step,
    pub depends_on: Vec<(usize, String)>,
    pub propagate_to: Vec<(usize, String)>,
}

/// Reads a step, with placeholders for fields in error so that all errors are found at once; `None` where
/// `value` is no map.
pub(super) fn read_step(
    value: &Value,
    at: &DocumentPath<'_>,
    found: &mut FindingCollector,
) -> Option<StepDraft> {
    let known: Vec<&str> = STEP_FIELDS.into_iter().chain([ESTIMATED_DURATION]).collect();
    let fields = FieldReader::open(value, at, &known, found)?;
    let id = read_id(&fields, found);
    let work = read_work(&fields, found);
    let compensation = read_compensation(&fields, found);
    let read_only = fields.bool_or_false("read_only", found);
    let undoable = read_only || compensation.is_some();
    let (failure, propagate_to) = read_failure_policy(&fields, found);
    let step = Step {
        id: StepId::new(id),
        name: fields.owned_text("name", found),
        dependencies: Vec::new(),
        dependents: Vec::new(),
        when: fields.condition("when", found),
        timeout_ms: fields
            .duration_ms("timeout", 1, found)
            .or(default_timeout_ms(matches!(work, StepWork::Tool { .. }))),
        retry: read_retry(&fields, found),
        idempotent: fields.bool_or_false("idempotent", found),
        read_only,
        cancellable: read_cancellable(&fields, undoable, found),
        compensation,
        probe: read_probe(&fields, found),
        approval: fields.keyword("approval", StepApproval::ALL, found).is_some(),
        failure_action: failure,
        propagate_to: BTreeSet::new(),
        priority: fields.integer("priority", -PRIORITY_MAX..=PRIORITY_MAX, found).unwrap_or(0),
        metadata: read_metadata(&fields, found),
        work,
    };
    check_contradictions(&step, &fields, found);
    Some(StepDraft { step, depends_on: fields.step_ids("depends_on", found), propagate_to })
}

/// The step's id; empty where it is missing or no text.
fn read_id(fields: &FieldReader<'_, '_>, found: &mut FindingCollector) -> String {
    let Some(id) = fields.required_text("id", found) else { return String::new() };
    if !is_step_id(id) {
        let cure = format!("use 1 to {ID_BYTES_MAX} of A-Z, a-z, 0-9, `_` and `-`");
        found.error("bad_id", fields.at.field("id"), format!("`{id}` is not a step id"), cure);
    }
    id.to_owned()
}

/// Whether `text` is a valid step id: 1 to 64 ASCII letters, digits, `_` and `-`.
pub(super) fn is_step_id(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !text.is_empty() && text.len() <= ID_BYTES_MAX && text.chars().all(fits)
}

/// The default timeout in milliseconds; none for work that the agent does.
fn default_timeout_ms(by_actbook: bool) -> Option<u64> {
    by_actbook.then_some(TOOL_TIMEOUT_MS)
}

/// How far the step can be undone; `undoable` decides the default.
fn read_cancellable(
    fields: &FieldReader<'_, '_>,
    undoable: bool,
    found: &mut FindingCollector,
) -> Reversibility {
    let default = if undoable { Reversibility::Reversible } else { Reversibility::Irreversible };
    fields.keyword("cancellable", Reversibility::ALL, found).unwrap_or(default)
}

fn read_metadata(fields: &FieldReader<'_, '_>, found: &mut FindingCollector) -> Option<Value> {
    let value = fields.value("metadata", found)?;
    if !value.is_object() {
        super::field_reader::report_wrong_type(&fields.at.field("metadata"), value, "a map", found);
    }
    Some(value.clone())
}

/// The step's tool call or action.
fn read_work(fields: &FieldReader<'_, '_>, found: &mut FindingCollector) -> StepWork {
    let by = fields.keyword("by", ToolCaller::ALL, found);
    check_tool_xor_action(fields, found);
    if !fields.has("tool") {
        return read_action(fields, by, found);
    }
    if fields.has(ESTIMATED_DURATION) && !fields.has("action") {
        found.error(
            "contradiction",
            fields.at.field(ESTIMATED_DURATION),
            "only an action has an estimated duration",
            "use `timeout`",
        );
    }
    let tool = read_tool(fields, found);
    let arguments = fields.arguments("arguments", found);
    match by {
        Some(ToolCaller::Agent) => StepWork::AgentTool { tool, arguments },
        Some(ToolCaller::Actbook) | None => StepWork::Tool { tool, arguments },
    }
}

/// The work of a step without `tool`.
fn read_action(
    fields: &FieldReader<'_, '_>,
    by: Option<ToolCaller>,
    found: &mut FindingCollector,
) -> StepWork {
    match by {
        Some(ToolCaller::Agent) if fields.lacks("tool") && fields.lacks("action") => {
            found.error(
                "contradiction",
                fields.at.field("by"),
                "`by: agent` says who calls a tool, and there is none",
                "add `tool`, or `action`",
            );
        }
        Some(ToolCaller::Actbook) if fields.has("action") => {
            found.error(
                "contradiction",
                fields.at.field("by"),
                "an action is done by the agent",
                "leave `by` out, or name a `tool`",
            );
        }
        Some(_) | None => {}
    }
    if fields.has("arguments") && fields.lacks("tool") {
        found.error(
            "contradiction",
            fields.at.field("arguments"),
            "an action takes no arguments",
            "say it in the action's text, or name a `tool`",
        );
    }
    let (written, text) = read_action_text(fields, found);
    StepWork::Action {
        action: text.as_literal().and_then(Value::as_str).unwrap_or(written).to_owned(),
        estimated_ms: fields.duration_ms(ESTIMATED_DURATION, 1, found),
        text,
    }
}

/// Reports a map that has both `tool` and `action`, or neither.
fn check_tool_xor_action(fields: &FieldReader<'_, '_>, found: &mut FindingCollector) {
    if fields.has("tool") && fields.has("action") {
        found.error("contradiction", fields.at, "has both `tool` and `action`", "keep one of them");
    } else if fields.lacks("tool") && fields.lacks("action") {
        found.error(
            "missing_field",
            fields.at,
            "has neither `tool` nor `action`",
            "add `tool: server/tool`, or `action: …`",
        );
    }
}

/// The field `tool`, reported where it is not `server/tool`; empty where it is missing or no text.
fn read_tool(fields: &FieldReader<'_, '_>, found: &mut FindingCollector) -> String {
    let Some(tool) = fields.required_text("tool", found) else { return String::new() };
    let is_name = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_graphic() && !"\"'`\\${}".contains(c))
    };
    let valid = tool.len() <= TOOL_BYTES_MAX
        && tool.split_once('/').is_some_and(|(server, name)| is_name(server) && is_name(name));
    if !valid {
        found.error(
            "bad_tool",
            fields.at.field("tool"),
            format!("`{tool}` is not the name of a tool"),
            "write server/tool, as in files/write_file",
        );
    }
    tool.to_owned()
}

fn read_retry(fields: &FieldReader<'_, '_>, found: &mut FindingCollector) -> RetryPolicy {
    let default = RetryPolicy::default();
    let at = fields.at.field("retry");
    let Some(value) = fields.value("retry", found) else { return default };
    let Some(fields) = FieldReader::open(value, &at, &RETRY_FIELDS, found) else { return default };
    let backoff = fields.duration_ms("backoff", 0, found);
    let backoff_ms = backoff.unwrap_or(default.backoff_ms);
    let max_backoff_ms = fields.duration_ms("max_backoff", 0, found);
    if max_backoff_ms.is_some_and(|most| most < backoff_ms) {
        let cure = "make `max_backoff` the longer one";
        found.error("contradiction", at.field("max_backoff"), "is shorter than the backoff it bounds", cure);
    }
    RetryPolicy {
        max_attempts: fields
            .integer("max_attempts", 1..=ATTEMPTS_MAX, found)
            .map_or(default.max_attempts, |attempts| attempts as u32),
        backoff_ms,
        factor: fields.number("factor", 1.0..=FACTOR_MAX, found).unwrap_or(default.factor),
        max_backoff_ms: max_backoff_ms.unwrap_or(default.max_backoff_ms.max(backoff_ms)),
        on: read_retry_categories(&fields, found).unwrap_or(default.on),
    }
}

/// The failure categories to retry; `None` where the field is absent.
fn read_retry_categories(
    fields: &FieldReader<'_, '_>,
    found: &mut FindingCollector,
) -> Option<BTreeSet<ErrorCategory>> {
    fields.has("on").then(|| {
        let at = fields.at.field("on");
        let items = fields.list("on", found).iter().enumerate();
        items
            .filter_map(|(index, item)| parse_keyword(item, &at.item(index), ErrorCategory::ALL, found))
            .collect()
    })
}

fn read_compensation(fields: &FieldReader<'_, '_>, found: &mut FindingCollector) -> Option<Compensation> {
    let at = fields.at.field("compensation");
    let value = fields.value("compensation", found)?;
    let fields = FieldReader::open(value, &at, &COMPENSATION_FIELDS, found)?;
    check_tool_xor_action(&fields, found);
    let by_actbook = fields.has("tool");
    let work = if by_actbook {
        CompensationWork::Tool {
            tool: read_tool(&fields, found),
            arguments: fields.arguments("arguments", found),
        }
    } else {
        CompensationWork::Action { action: read_action_text(&fields, found).1 }
    };
    if fields.lacks("tool") && fields.has("arguments") {
        found.error(
            "contradiction",
            at.field("arguments"),
            "an action takes no arguments",
            "say it in the action's text, or name a `tool`",
        );
    }
    Some(Compensation {
        work,
        timeout_ms: fields.duration_ms("timeout", 1, found).or(default_timeout_ms(by_actbook)),
        retry: read_retry(&fields, found),
        idempotent: fields.bool_or_false("idempotent", found),
    })
}

/// An action's text as written, and parsed as a template.
fn read_action_text<'v>(
    fields: &FieldReader<'v, '_>,
    found: &mut FindingCollector,
) -> (&'v str, ValueTemplate) {
    let written = fields.text("action", found).unwrap_or_default();
    let value = Value::from(written);
    (written, parse_template(&value, &fields.at.field("action"), found))
}

fn read_probe(fields: &FieldReader<'_, '_>, found: &mut FindingCollector) -> Option<Probe> {
    let at = fields.at.field("probe");
    let value = fields.value("probe", found)?;
    let fields = FieldReader::open(value, &at, &PROBE_FIELDS, found)?;
    let tool = read_tool(&fields, found);
    if fields.lacks("happened") {
        let cure = "add `happened`, as in `happened: output.exists`";
        found.error(
            "missing_field",
            at.field("happened"),
            "nothing says what the probe's answer means",
            cure,
        );
    }
    Some(Probe {
        tool,
        arguments: fields.arguments("arguments", found),
        happened: fields.condition("happened", found).or_else(|| ConditionExpression::parse("false").ok())?,
        timeout_ms: fields.duration_ms("timeout", 1, found).or(default_timeout_ms(true)),
    })
}

/// The action, and the ids in `propagate_to` with their list indices.
type FailurePolicyDraft = (Option<FailureAction>, Vec<(usize, String)>);

fn read_failure_policy(fields: &FieldReader<'_, '_>, found: &mut FindingCollector) -> FailurePolicyDraft {
    let at = fields.at.field("failure_policy");
    let Some(value) = fields.value("failure_policy", found) else { return (None, Vec::new()) };
    let Some(fields) = FieldReader::open(value, &at, &FAILURE_POLICY_FIELDS, found) else {
        return (None, Vec::new());
    };
    fields.required("action", found);
    let action = fields.has("action").then(|| fields.keyword("action", FailureAction::ALL, found)).flatten();
    let propagate_to = fields.step_ids("propagate_to", found);
    if action.is_some_and(|action| action != FailureAction::CancelDependent) && !propagate_to.is_empty() {
        let cure = "use `action: cancel_dependent`, or leave `propagate_to` out";
        found.error(
            "contradiction",
            at.field("propagate_to"),
            "only `cancel_dependent` propagates to chosen steps",
            cure,
        );
    }
    (action, propagate_to)
}

/// Reports fields of the step that contradict one another.
fn check_contradictions(step: &Step, fields: &FieldReader<'_, '_>, found: &mut FindingCollector) {
    let mut contradiction = |name: &str, message: &dyn Display, cure: &str| {
        found.error("contradiction", fields.at.field(name), message.to_string(), cure);
    };
    if step.read_only && step.compensation.is_some() {
        contradiction(
            "compensation",
            &"a read-only step has nothing to undo",
            "leave `compensation` or `read_only` out",
        );
    }
    if step.read_only && step.cancellable != Reversibility::Reversible {
        contradiction(
            "cancellable",
            &format!("a read-only step is never {}", step.cancellable),
            "leave `cancellable` or `read_only` out",
        );
    }
    if step.cancellable == Reversibility::Reversible && step.compensation.is_none() && !step.read_only {
        contradiction(
            "cancellable",
            &"is `reversible` and has no compensation",
            "add a `compensation`, or set `read_only: true`",
        );
    }
}
