//! One step of the document, read with its defaults. Knows the step alone: what it says of other
//! steps is kept by name for `graph` to resolve.

use std::collections::BTreeSet;
use std::fmt::Display;

use serde_json::Value;

use super::fields::{Fields, template, word_of};
use super::finding::{At, Findings};
use super::{Compensation, Probe, Retry, Step, TOOL_TIMEOUT_MS, Undo, Work};
use crate::bind::{Condition, Template};
use crate::id::StepId;
use crate::policy::{Cancellable, Category, FailureAction, words};

use serde::{Deserialize, Serialize};

const ID_MAX: usize = 64;
const TOOL_MAX: usize = 256;
const ATTEMPTS_MAX: i64 = 100;
const FACTOR_MAX: f64 = 100.0;
const PRIORITY_MAX: i64 = 1_000_000;

const STEP: [&str; 19] = [
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
const ACTION_ONLY: &str = "estimated_duration";
const RETRY: [&str; 5] = ["max_attempts", "backoff", "factor", "max_backoff", "on"];
const COMPENSATION: [&str; 6] = ["tool", "action", "arguments", "timeout", "retry", "idempotent"];
const PROBE: [&str; 4] = ["tool", "arguments", "happened", "timeout"];
const FAILURE_POLICY: [&str; 2] = ["action", "propagate_to"];

words!(
    By { Actbook = "actbook", Agent = "agent" }
);
words!(
    Approval { Required = "required" }
);

/// A step, and the names it uses for others, each with its place in its list.
pub(super) struct Draft {
    pub step: Step,
    pub depends_on: Vec<(usize, String)>,
    pub propagate_to: Vec<(usize, String)>,
}

/// Always gives a step, so that everything that is wrong is found in one go.
pub(super) fn read(value: &Value, at: &At<'_>, found: &mut Findings) -> Option<Draft> {
    let known: Vec<&str> = STEP.into_iter().chain([ACTION_ONLY]).collect();
    let fields = Fields::open(value, at, &known, found)?;
    let id = id(&fields, found);
    let work = work(&fields, found);
    let compensation = compensation(&fields, found);
    let read_only = fields.flag("read_only", found);
    let undoable = read_only || compensation.is_some();
    let (failure, propagate_to) = failure_policy(&fields, found);
    let step = Step {
        id: StepId::new(id),
        name: fields.owned_text("name", found),
        needs: Vec::new(),
        needed_by: Vec::new(),
        when: fields.condition("when", found),
        timeout_ms: fields
            .duration("timeout", 1, found)
            .or(default_timeout(matches!(work, Work::Tool { .. }))),
        retry: retry(&fields, found),
        idempotent: fields.flag("idempotent", found),
        read_only,
        cancellable: cancellable(&fields, undoable, found),
        compensation,
        probe: probe(&fields, found),
        approval: fields.word("approval", Approval::ALL, found).is_some(),
        failure,
        propagate_to: BTreeSet::new(),
        priority: fields.whole("priority", -PRIORITY_MAX..=PRIORITY_MAX, found).unwrap_or(0),
        metadata: metadata(&fields, found),
        work,
    };
    contradictions(&step, &fields, found);
    Some(Draft { step, depends_on: fields.ids("depends_on", found), propagate_to })
}

fn id(fields: &Fields<'_, '_>, found: &mut Findings) -> String {
    let Some(id) = fields.required_text("id", found) else { return String::new() };
    if !is_step_id(id) {
        let cure = format!("use 1 to {ID_MAX} of A-Z, a-z, 0-9, `_` and `-`");
        found.error("bad_id", fields.at.field("id"), format!("`{id}` is no step id"), cure);
    }
    id.to_owned()
}

/// Whether a text is 1 to 64 of the characters that step ids are made of.
pub(super) fn is_step_id(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !text.is_empty() && text.len() <= ID_MAX && text.chars().all(fits)
}

fn default_timeout(by_actbook: bool) -> Option<u64> {
    by_actbook.then_some(TOOL_TIMEOUT_MS)
}

fn cancellable(fields: &Fields<'_, '_>, undoable: bool, found: &mut Findings) -> Cancellable {
    let default = if undoable { Cancellable::Reversible } else { Cancellable::Irreversible };
    fields.word("cancellable", Cancellable::ALL, found).unwrap_or(default)
}

fn metadata(fields: &Fields<'_, '_>, found: &mut Findings) -> Option<Value> {
    let value = fields.value("metadata", found)?;
    if !value.is_object() {
        super::fields::wrong_type(&fields.at.field("metadata"), value, "a map", found);
    }
    Some(value.clone())
}

fn work(fields: &Fields<'_, '_>, found: &mut Findings) -> Work {
    let by = fields.word("by", By::ALL, found);
    one_of_tool_and_action(fields, found);
    if !fields.has("tool") {
        return action(fields, by, found);
    }
    if fields.has(ACTION_ONLY) && !fields.has("action") {
        found.error(
            "contradiction",
            fields.at.field(ACTION_ONLY),
            "only an action has an estimated duration",
            "use `timeout`",
        );
    }
    let tool = tool(fields, found);
    let arguments = fields.arguments("arguments", found);
    match by {
        Some(By::Agent) => Work::AgentTool { tool, arguments },
        Some(By::Actbook) | None => Work::Tool { tool, arguments },
    }
}

fn action(fields: &Fields<'_, '_>, by: Option<By>, found: &mut Findings) -> Work {
    match by {
        Some(By::Agent) if !fields.has("action") => {
            found.error(
                "contradiction",
                fields.at.field("by"),
                "`by: agent` says who calls a tool, and there is none",
                "add `tool`, or `action`",
            );
        }
        Some(By::Actbook) if fields.has("action") => {
            found.error(
                "contradiction",
                fields.at.field("by"),
                "an action is done by the agent",
                "leave `by` out, or name a `tool`",
            );
        }
        Some(_) | None => {}
    }
    if fields.has("arguments") {
        found.error(
            "contradiction",
            fields.at.field("arguments"),
            "an action takes no arguments",
            "say it in the action's text, or name a `tool`",
        );
    }
    let (written, text) = bound_text(fields, found);
    Work::Action {
        action: text.literal().and_then(Value::as_str).unwrap_or(written).to_owned(),
        estimated_ms: fields.duration(ACTION_ONLY, 1, found),
        text,
    }
}

fn one_of_tool_and_action(fields: &Fields<'_, '_>, found: &mut Findings) {
    match (fields.has("tool"), fields.has("action")) {
        (true, true) => {
            found.error("contradiction", fields.at, "has both `tool` and `action`", "keep one of them")
        }
        (false, false) => found.error(
            "missing_field",
            fields.at,
            "has neither `tool` nor `action`",
            "add `tool: server/tool`, or `action: …`",
        ),
        (true, false) | (false, true) => {}
    }
}

fn tool(fields: &Fields<'_, '_>, found: &mut Findings) -> String {
    let Some(tool) = fields.required_text("tool", found) else { return String::new() };
    let named = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_graphic() && !"\"'`\\${}".contains(c))
    };
    let well = tool.len() <= TOOL_MAX
        && tool.split_once('/').is_some_and(|(server, name)| named(server) && named(name));
    if !well {
        found.error(
            "bad_tool",
            fields.at.field("tool"),
            format!("`{tool}` names no tool"),
            "write server/tool, as in files/write_file",
        );
    }
    tool.to_owned()
}

fn retry(fields: &Fields<'_, '_>, found: &mut Findings) -> Retry {
    let default = Retry::default();
    let at = fields.at.field("retry");
    let Some(value) = fields.value("retry", found) else { return default };
    let Some(fields) = Fields::open(value, &at, &RETRY, found) else { return default };
    let backoff = fields.duration("backoff", 0, found);
    let backoff_ms = backoff.unwrap_or(default.backoff_ms);
    let max_backoff_ms = fields.duration("max_backoff", 0, found);
    if max_backoff_ms.is_some_and(|most| most < backoff_ms) {
        let cure = "make `max_backoff` the longer one";
        found.error("contradiction", at.field("max_backoff"), "is shorter than the backoff it bounds", cure);
    }
    Retry {
        max_attempts: fields
            .whole("max_attempts", 1..=ATTEMPTS_MAX, found)
            .map_or(default.max_attempts, |attempts| attempts as u32),
        backoff_ms,
        factor: fields.number("factor", 1.0..=FACTOR_MAX, found).unwrap_or(default.factor),
        max_backoff_ms: max_backoff_ms.unwrap_or(default.max_backoff_ms.max(backoff_ms)),
        on: categories(&fields, found).unwrap_or(default.on),
    }
}

fn categories(fields: &Fields<'_, '_>, found: &mut Findings) -> Option<BTreeSet<Category>> {
    fields.has("on").then(|| {
        let at = fields.at.field("on");
        let items = fields.list("on", found).iter().enumerate();
        items.filter_map(|(index, item)| word_of(item, &at.item(index), Category::ALL, found)).collect()
    })
}

fn compensation(fields: &Fields<'_, '_>, found: &mut Findings) -> Option<Compensation> {
    let at = fields.at.field("compensation");
    let value = fields.value("compensation", found)?;
    let fields = Fields::open(value, &at, &COMPENSATION, found)?;
    one_of_tool_and_action(&fields, found);
    let by_actbook = fields.has("tool");
    let work = match by_actbook {
        true => Undo::Tool { tool: tool(&fields, found), arguments: fields.arguments("arguments", found) },
        false => Undo::Action { action: bound_text(&fields, found).1 },
    };
    if !by_actbook && fields.has("arguments") {
        found.error(
            "contradiction",
            at.field("arguments"),
            "an action takes no arguments",
            "say it in the action's text, or name a `tool`",
        );
    }
    Some(Compensation {
        work,
        timeout_ms: fields.duration("timeout", 1, found).or(default_timeout(by_actbook)),
        retry: retry(&fields, found),
        idempotent: fields.flag("idempotent", found),
    })
}

/// An action's text as it was written, and with the expressions that may stand in it.
fn bound_text<'v>(fields: &Fields<'v, '_>, found: &mut Findings) -> (&'v str, Template) {
    let written = fields.text("action", found).unwrap_or_default();
    let value = Value::from(written);
    let text = template(&value, &fields.at.field("action"), found);
    (written, text.unwrap_or_else(|| Template::of_literal(value)))
}

fn probe(fields: &Fields<'_, '_>, found: &mut Findings) -> Option<Probe> {
    let at = fields.at.field("probe");
    let value = fields.value("probe", found)?;
    let fields = Fields::open(value, &at, &PROBE, found)?;
    let tool = tool(&fields, found);
    if !fields.has("happened") {
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
        happened: fields.condition("happened", found).or_else(|| Condition::parse("false").ok())?,
        timeout_ms: fields.duration("timeout", 1, found).or(default_timeout(true)),
    })
}

type FailurePolicy = (Option<FailureAction>, Vec<(usize, String)>);

fn failure_policy(fields: &Fields<'_, '_>, found: &mut Findings) -> FailurePolicy {
    let at = fields.at.field("failure_policy");
    let Some(value) = fields.value("failure_policy", found) else { return (None, Vec::new()) };
    let Some(fields) = Fields::open(value, &at, &FAILURE_POLICY, found) else { return (None, Vec::new()) };
    fields.required("action", found);
    let action = fields.has("action").then(|| fields.word("action", FailureAction::ALL, found)).flatten();
    let propagate_to = fields.ids("propagate_to", found);
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

fn contradictions(step: &Step, fields: &Fields<'_, '_>, found: &mut Findings) {
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
    if step.read_only && step.cancellable != Cancellable::Reversible {
        contradiction(
            "cancellable",
            &format!("a read-only step is never {}", step.cancellable),
            "leave `cancellable` or `read_only` out",
        );
    }
    if step.cancellable == Cancellable::Reversible && step.compensation.is_none() && !step.read_only {
        contradiction(
            "cancellable",
            &"is `reversible` with nothing that reverses it",
            "add a `compensation`, or say `read_only: true`",
        );
    }
}
