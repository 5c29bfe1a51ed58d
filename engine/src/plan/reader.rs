//! Builds a plan from a document: reads every field, connects the steps, and reports all errors at once.

use serde_json::Value;

use super::field_reader::{FieldReader, report_wrong_type};
use super::finding::{DocumentPath, Finding, FindingCollector, add_step_ids};
use super::foreign_format::AdaptedDocument;
use super::step::{self, StepDraft, is_step_id};
use super::{Plan, PlanPolicy, STEPS_MAX, Step, document, graph, inputs};
use crate::chain::Digest;
use crate::policy::{OnFailure, PlanApproval};

const PLAN_FIELDS: [&str; 8] =
    ["name", "description", "type", "task", "reasoning", "inputs", "policy", "steps"];
const POLICY_FIELDS: [&str; 5] = ["concurrency", "on_failure", "timeout", "max_calls", "approval"];
/// Largest `policy.concurrency`: steps of one execution that may run at the same time.
const CONCURRENCY_MAX: i64 = 256;
/// Largest `policy.max_calls`: calls that one execution may make.
const CALLS_MAX: i64 = 1_000_000;

/// Reads a valid plan; `Err` lists all errors.
pub(super) fn read_plan(value: &Value) -> Result<Plan, Vec<Finding>> {
    match read_draft(value) {
        (Some(plan), found) if found.is_empty() => Ok(plan),
        (_, found) => Err(found),
    }
}

/// Reads as much of the plan as it can, with all errors. `None` where the document is no map or was written
/// for another store.
pub(super) fn read_draft(value: &Value) -> (Option<Plan>, Vec<Finding>) {
    let document = match document::canonical_json(value) {
        Ok(document) => document,
        Err(finding) => return (None, vec![finding]),
    };
    let mut found = FindingCollector::default();
    let plan = build_plan(value, document, &mut found);
    let found = with_step_ids(found, value);
    match foreign_format_findings(value, &found) {
        Some(instead) => (None, instead),
        None => (plan, found),
    }
}

/// The collected findings, with step ids taken from the document.
fn with_step_ids(found: FindingCollector, value: &Value) -> Vec<Finding> {
    let mut findings = found.into_list();
    add_step_ids(&mut findings, |number| step_id_in_document(value, number));
    findings
}

/// The id of the step at this index in the document; `None` where it is missing or not a valid id.
fn step_id_in_document(value: &Value, number: usize) -> Option<String> {
    let id = value.get("steps")?.get(number)?.get("id")?.as_str()?;
    is_step_id(id).then(|| id.to_owned())
}

/// Findings for a document in another store's format: the converted document, then the errors that it still
/// has. `None` where converting would not leave fewer errors than `found`.
fn foreign_format_findings(value: &Value, found: &[Finding]) -> Option<Vec<Finding>> {
    if found.is_empty() {
        return None;
    }
    let adapted = AdaptedDocument::convert(value)?;
    let mut left = FindingCollector::default();
    build_plan(&adapted.document, document::canonical_json(&adapted.document).ok()?, &mut left);
    let left = with_step_ids(left, &adapted.document);
    let finding = adapted.to_finding(left.is_empty());
    (left.len() < found.len()).then(|| [finding].into_iter().chain(left).collect())
}

/// Reads the whole document into a plan and collects errors; `None` where it is no map.
fn build_plan(value: &Value, document: String, found: &mut FindingCollector) -> Option<Plan> {
    let fields = FieldReader::open(value, &DocumentPath::Plan, &PLAN_FIELDS, found)?;
    let name = fields.required_text("name", found).unwrap_or_default().to_owned();
    let schema = inputs::read_inputs_schema(&fields, found);
    let policy = read_policy(&fields, found);
    let steps_at = DocumentPath::Plan.field("steps");
    let drafts = read_steps(&fields, &steps_at, found);
    let all_readable = drafts.iter().all(Option::is_some);
    let drafts: Vec<StepDraft> = drafts.into_iter().flatten().collect();
    // With an unreadable step left out, step numbers would be off, and the errors that follow misleading.
    let (steps, by_id) =
        if all_readable { graph::connect_steps(drafts, &steps_at, found) } else { Default::default() };
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
        topological_ranks: Vec::new(),
    };
    plan.topological_ranks = topological_ranks(&plan);
    inputs::check_input_references(&plan, found);
    check_auto_undo(&plan, found);
    Some(plan)
}

/// Each step's rank in the sequential order.
fn topological_ranks(plan: &Plan) -> Vec<u32> {
    let mut ranks = vec![0; plan.steps.len()];
    for (rank, no) in plan.sequential_order().into_iter().enumerate() {
        ranks[no.index()] = rank as u32;
    }
    ranks
}

fn read_policy(fields: &FieldReader<'_, '_>, found: &mut FindingCollector) -> PlanPolicy {
    let default = PlanPolicy {
        concurrency: 1,
        on_failure: OnFailure::Manual,
        timeout_ms: None,
        max_calls: None,
        approval: PlanApproval::None,
    };
    let at = fields.at.field("policy");
    let Some(value) = fields.value("policy", found) else { return default };
    let Some(fields) = FieldReader::open(value, &at, &POLICY_FIELDS, found) else { return default };
    PlanPolicy {
        concurrency: fields
            .integer("concurrency", 1..=CONCURRENCY_MAX, found)
            .map_or(1, |steps| steps as u32),
        on_failure: fields.keyword("on_failure", OnFailure::ALL, found).unwrap_or(default.on_failure),
        timeout_ms: fields.duration_ms("timeout", 1, found),
        max_calls: fields.integer("max_calls", 1..=CALLS_MAX, found).map(|calls| calls as u32),
        approval: fields.keyword("approval", PlanApproval::ALL, found).unwrap_or(default.approval),
    }
}

/// Reads the steps; `None` for each that is no map.
fn read_steps(
    fields: &FieldReader<'_, '_>,
    at: &DocumentPath<'_>,
    found: &mut FindingCollector,
) -> Vec<Option<StepDraft>> {
    let Some(value) = fields.required("steps", found) else { return Vec::new() };
    let Value::Array(steps) = value else {
        report_wrong_type(at, value, "a list of steps", found);
        return Vec::new();
    };
    match steps.len() {
        0 => found.error("out_of_range", at, "there are no steps", "add at least one"),
        1..=STEPS_MAX => {
            return steps
                .iter()
                .enumerate()
                .map(|(index, step)| step::read_step(step, &at.item(index), found))
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

/// Reports `on_failure: auto` in a plan that has effects but no compensation.
fn check_auto_undo(plan: &Plan, found: &mut FindingCollector) {
    let has_effects = |step: &&Step| !step.read_only;
    let any_compensation = plan.steps.iter().any(|step| step.compensation.is_some());
    if plan.policy.on_failure == OnFailure::Auto
        && !any_compensation
        && plan.steps.iter().any(|step| has_effects(&step))
    {
        let cure = "add a `compensation` to the steps with effects, or use `on_failure: manual`";
        found.error(
            "contradiction",
            "policy.on_failure",
            "`auto` undoes by itself, and no step has a compensation",
            cure,
        );
    }
}
