//! Static analysis of a plan before it runs: findings beyond the parser's errors, the waves of its graph, the
//! point of no return, and the effects that would remain after stopping at each step. Looks at the plan and
//! at the given facts about its tools, and at nothing else.

mod advice;
mod arguments;
mod comparison;
mod inference;
mod inputs;
mod markers;
mod names;
mod tool_claims;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::bind::with_large_stack;
use crate::id::{StepId, StepNo};
use crate::plan::Plan;
pub use crate::plan::{Finding, Severity};
pub use crate::spelling::nearest;
use crate::tool_policy::{StepRules, ToolPolicies};
pub use comparison::{FieldChange, PlanComparison, StepChange, StepChangeKind, compare_plans};
pub use markers::check_markers;
pub use names::{check_names, forbidden_character};

/// Most step ids in one `left_behind` list; `left_behind_total` counts them all.
pub const LEFT_BEHIND_SHOWN: usize = 20;

/// The result of checking a plan, in the form that CLI, MCP and HTTP show.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PlanCheck {
    /// Whether the plan may run. `check_plan` considers forbidden probes only; the service sets the final
    /// value from all findings.
    pub ok: bool,
    pub findings: Vec<Finding>,
    /// Groups of steps that could run at the same time, in order.
    pub waves: Vec<Vec<StepId>>,
    /// The first step after which a full undo is impossible; `None` where everything can be undone.
    pub point_of_no_return: Option<StepId>,
    /// What stopping after each step would leave, in the order in which steps run at concurrency 1.
    pub stopping: Vec<LeftoverEffects>,
}

/// The effects that remain if the execution stops right after `step` and undoes all it can.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftoverEffects {
    pub step: StepId,
    /// The latest steps whose effect cannot be undone, or not fully; at most `LEFT_BEHIND_SHOWN`.
    pub left_behind: Vec<StepId>,
    pub left_behind_total: usize,
}

/// A live tool's schemas and its server's claims about it.
#[derive(Clone, Debug, Default)]
pub struct ToolFacts {
    pub input_schema: Value,
    pub output_schema: Option<Value>,
    /// The server's claim that the tool only reads; `None` where it makes none.
    pub read_only: Option<bool>,
    /// The server's claim that the tool destroys something; `None` where it makes none.
    pub destructive: Option<bool>,
    /// Locations of hidden characters in the tool's definition, as in `description: U+202E at 12`.
    pub hidden_characters: Vec<String>,
}

/// Facts by tool name, `server/tool`. Nothing is known of a tool without an entry.
pub type ToolFactsByName = BTreeMap<String, ToolFacts>;

/// Checks a plan offline, under the operator's terms for its tools.
pub fn check_plan(plan: &Plan, terms: &ToolPolicies) -> PlanCheck {
    let rules: Vec<StepRules> = plan.steps.iter().map(|step| StepRules::resolve(step, terms)).collect();
    let order = plan.sequential_order();
    let no_return = order.iter().copied().find(|no| rules[no.index()].leaves_effect_after_undo());
    let mut findings = tool_claims::forbidden_probes(plan, terms);
    let ok = findings.is_empty();
    findings.extend(advice::findings(plan, &order, &rules));
    PlanCheck {
        ok,
        findings,
        waves: waves(plan),
        point_of_no_return: no_return.map(|no| plan.step(no).id.clone()),
        stopping: leftover_effects(plan, &order, &rules),
    }
}

/// Findings about a draft with parse errors, beyond those: rules that hold whatever the errors hide.
pub fn check_draft(draft: &Plan, terms: &ToolPolicies) -> Vec<Finding> {
    let mut findings = tool_claims::forbidden_probes(draft, terms);
    findings.extend(advice::limit_per_code(inputs::findings(draft)));
    findings.extend(check_names(draft));
    findings.extend(check_markers(draft));
    findings
}

/// Checks a plan against its live tools: arguments, outputs, and what the servers and the config claim.
pub fn check_against_tools(plan: &Plan, tools: &ToolFactsByName, terms: &ToolPolicies) -> Vec<Finding> {
    let mut findings = with_large_stack(|| arguments::findings(plan, tools));
    findings.extend(tool_claims::findings(plan, tools, terms));
    advice::limit_per_code(findings)
}

/// Codes of errors that refuse only a new plan or version: plans saved before these rules existed still run.
const NEW_VERSION_ONLY_CODES: [&str; 2] = ["undeclared_input", "not_a_schema"];

impl PlanCheck {
    /// The check for a plan that was saved earlier: errors of rules that are newer than it become warnings.
    pub fn for_saved_plan(mut self) -> Self {
        for finding in
            self.findings.iter_mut().filter(|finding| NEW_VERSION_ONLY_CODES.contains(&finding.code))
        {
            finding.severity = Severity::Warning;
        }
        self.ok = !self.findings.iter().any(|finding| finding.severity == Severity::Error);
        self
    }

    /// The check of a document that did not parse: not ok, with the parser's errors.
    pub fn from_errors(findings: Vec<Finding>) -> Self {
        Self { findings, ..Self::default() }
    }
}

/// Groups the steps into waves: each step is in the wave after the latest of its dependencies.
pub fn waves(plan: &Plan) -> Vec<Vec<StepId>> {
    let mut wave_of = vec![0; plan.steps.len()];
    let mut count = 0;
    for no in plan.sequential_order() {
        let dependencies = plan.step(no).dependencies.iter();
        let waves = dependencies.map(|dependency| wave_of[dependency.step.index()] + 1);
        wave_of[no.index()] = waves.max().unwrap_or(0);
        count = count.max(wave_of[no.index()] + 1);
    }
    let mut waves = vec![Vec::new(); count];
    for (no, step) in plan.numbered_steps() {
        waves[wave_of[no.index()]].push(step.id.clone());
    }
    waves
}

/// The first step at concurrency 1 after which a full undo is impossible, by the plan alone; `None` where
/// everything can be undone.
pub fn point_of_no_return(plan: &Plan) -> Option<StepNo> {
    let no_terms = ToolPolicies::new();
    plan.sequential_order()
        .into_iter()
        .find(|no| StepRules::resolve(plan.step(*no), &no_terms).leaves_effect_after_undo())
}

/// What stopping after each step of `order` would leave behind.
fn leftover_effects(plan: &Plan, order: &[StepNo], rules: &[StepRules]) -> Vec<LeftoverEffects> {
    let mut left: Vec<&StepId> = Vec::new();
    let mut stopping = Vec::with_capacity(order.len());
    for no in order {
        let step = plan.step(*no);
        if rules[no.index()].leaves_effect_after_undo() {
            left.push(&step.id);
        }
        let shown = &left[left.len().saturating_sub(LEFT_BEHIND_SHOWN)..];
        let left_behind = shown.iter().map(|id| (*id).clone()).collect();
        stopping.push(LeftoverEffects { step: step.id.clone(), left_behind, left_behind_total: left.len() });
    }
    stopping
}
