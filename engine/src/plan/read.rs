//! A document becomes a plan: every field read, every step connected, or every error named.

use serde_json::Value;

use super::adapt::Adapted;
use super::fields::{Fields, wrong_type};
use super::finding::{At, Finding, Findings, name_steps};
use super::step::{self, Draft, is_step_id};
use super::{Plan, Policy, STEPS_MAX, Step, document, graph, inputs};
use crate::chain::Digest;
use crate::policy::{OnFailure, PlanApproval};

const PLAN: [&str; 8] = ["name", "description", "type", "task", "reasoning", "inputs", "policy", "steps"];
const POLICY: [&str; 5] = ["concurrency", "on_failure", "timeout", "max_calls", "approval"];
const CONCURRENCY_MAX: i64 = 256;
const CALLS_MAX: i64 = 1_000_000;

pub(super) fn plan(value: &Value) -> Result<Plan, Vec<Finding>> {
    match draft(value) {
        (Some(plan), found) if found.is_empty() => Ok(plan),
        (_, found) => Err(found),
    }
}

/// The plan as far as it can be read, beside everything that is wrong with it.
pub(super) fn draft(value: &Value) -> (Option<Plan>, Vec<Finding>) {
    let document = match document::canonical(value) {
        Ok(document) => document,
        Err(finding) => return (None, vec![finding]),
    };
    let mut found = Findings::default();
    let plan = whole(value, document, &mut found);
    let found = named(found, value);
    match adapted(value, &found) {
        Some(instead) => (None, instead),
        None => (plan, found),
    }
}

/// The findings about a document, those of a step with its id.
fn named(found: Findings, value: &Value) -> Vec<Finding> {
    let mut findings = found.into_list();
    name_steps(&mut findings, |number| step_id(value, number));
    findings
}

/// The id that the document gives a step, where it can stand in one line.
fn step_id(value: &Value, number: usize) -> Option<String> {
    let id = value.get("steps")?.get(number)?.get("id")?.as_str()?;
    is_step_id(id).then(|| id.to_owned())
}

/// What is said of a document in another store's shape: the corrected document, and what is still wrong with
/// that one. `None` where the correction would not leave less to do.
fn adapted(value: &Value, found: &[Finding]) -> Option<Vec<Finding>> {
    if found.is_empty() {
        return None;
    }
    let adapted = Adapted::of(value)?;
    let mut left = Findings::default();
    whole(&adapted.document, document::canonical(&adapted.document).ok()?, &mut left);
    let left = named(left, &adapted.document);
    (left.len() < found.len()).then(|| [adapted.finding()].into_iter().chain(left).collect())
}

fn whole(value: &Value, document: String, found: &mut Findings) -> Option<Plan> {
    let fields = Fields::open(value, &At::Plan, &PLAN, found)?;
    let name = fields.required_text("name", found).unwrap_or_default().to_owned();
    let schema = inputs::read(&fields, found);
    let policy = policy(&fields, found);
    let steps_at = At::Plan.field("steps");
    let drafts = drafts(&fields, &steps_at, found);
    let whole_list = drafts.iter().all(Option::is_some);
    let drafts: Vec<Draft> = drafts.into_iter().flatten().collect();
    // With a step missing, numbers and names would not match, and every error after that would mislead.
    let (steps, by_id) =
        if whole_list { graph::connect(drafts, &steps_at, found) } else { Default::default() };
    let mut plan = Plan {
        name,
        description: fields.owned_text("description", found),
        kind: fields.owned_text("type", found),
        task: fields.owned_text("task", found),
        reasoning: fields.owned_text("reasoning", found),
        inputs: schema,
        policy,
        steps,
        digest: Digest::of(document.as_bytes()),
        document,
        by_id,
        order: Vec::new(),
    };
    plan.order = places(&plan);
    inputs::check_references(&plan, found);
    compensations(&plan, found);
    Some(plan)
}

fn places(plan: &Plan) -> Vec<u32> {
    let mut places = vec![0; plan.steps.len()];
    for (place, no) in crate::analysis::order(plan).into_iter().enumerate() {
        places[no.index()] = place as u32;
    }
    places
}

fn policy(fields: &Fields<'_, '_>, found: &mut Findings) -> Policy {
    let default = Policy {
        concurrency: 1,
        on_failure: OnFailure::Manual,
        timeout_ms: None,
        max_calls: None,
        approval: PlanApproval::None,
    };
    let at = fields.at.field("policy");
    let Some(value) = fields.value("policy", found) else { return default };
    let Some(fields) = Fields::open(value, &at, &POLICY, found) else { return default };
    Policy {
        concurrency: fields.whole("concurrency", 1..=CONCURRENCY_MAX, found).map_or(1, |steps| steps as u32),
        on_failure: fields.word("on_failure", OnFailure::ALL, found).unwrap_or(default.on_failure),
        timeout_ms: fields.duration("timeout", 1, found),
        max_calls: fields.whole("max_calls", 1..=CALLS_MAX, found).map(|calls| calls as u32),
        approval: fields.word("approval", PlanApproval::ALL, found).unwrap_or(default.approval),
    }
}

fn drafts(fields: &Fields<'_, '_>, at: &At<'_>, found: &mut Findings) -> Vec<Option<Draft>> {
    let Some(value) = fields.required("steps", found) else { return Vec::new() };
    let Value::Array(steps) = value else {
        wrong_type(at, value, "a list of steps", found);
        return Vec::new();
    };
    match steps.len() {
        0 => found.error("out_of_range", at, "there are no steps", "add at least one"),
        1..=STEPS_MAX => {
            return steps
                .iter()
                .enumerate()
                .map(|(index, step)| step::read(step, &at.item(index), found))
                .collect();
        }
        _ => found.error(
            "out_of_range",
            at,
            format!("there are more than {STEPS_MAX} steps"),
            "split the plan",
        ),
    }
    Vec::new()
}

/// To undo by itself, a plan needs something that undoes.
fn compensations(plan: &Plan, found: &mut Findings) {
    let effects = |step: &&Step| !step.read_only;
    let some = plan.steps.iter().any(|step| step.compensation.is_some());
    if plan.policy.on_failure == OnFailure::Auto && !some && plan.steps.iter().any(|step| effects(&step)) {
        let cure = "add a `compensation` to the steps with effects, or use `on_failure: manual`";
        found.error(
            "contradiction",
            "policy.on_failure",
            "`auto` undoes by itself, and no step has a compensation",
            cure,
        );
    }
}
