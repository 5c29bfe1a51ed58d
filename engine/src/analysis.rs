//! What can be said of a plan before it runs: findings beyond its errors, the waves of its graph,
//! the point of no return, and what stopping after each step would leave behind. Reads plans, and what
//! it is told of their tools.

mod advice;
mod arguments;
mod claims;
mod flow;
mod inputs;
mod names;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use serde::Serialize;
use serde_json::Value;

use crate::bind::with_room;
use crate::id::{StepId, StepNo};
use crate::plan::Plan;
pub use crate::plan::{Finding, Severity};
pub use crate::spelling::nearest;
use crate::terms::{Rules, Terms};
pub use names::{check_names, name_trouble};

/// Names in one list of leftovers; the count tells of the rest.
pub const LEFT_BEHIND_SHOWN: usize = 20;

/// The plan check, as every door shows it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Check {
    pub ok: bool,
    pub findings: Vec<Finding>,
    /// Steps that could run side by side, wave after wave.
    pub waves: Vec<Vec<StepId>>,
    pub point_of_no_return: Option<StepId>,
    /// In the order in which the steps run one at a time.
    pub stopping: Vec<Leftover>,
}

/// What remains in the world if the execution stops right after `step` and undoes all it can.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Leftover {
    pub step: StepId,
    /// The latest steps whose effect cannot be taken back, or not wholly.
    pub left_behind: Vec<StepId>,
    pub left_behind_total: usize,
}

/// What a live tool says of itself.
#[derive(Clone, Debug, Default)]
pub struct ToolFacts {
    pub input_schema: Value,
    pub output_schema: Option<Value>,
    /// Claims of its server.
    pub read_only: Option<bool>,
    pub destructive: Option<bool>,
    /// Where its description holds characters that nobody sees.
    pub hidden: Vec<String>,
}

/// By name, written `server/tool`; of a tool that is not here nothing is known.
pub type Tools = BTreeMap<String, ToolFacts>;

/// The check of a plan, under what the operator says of its tools.
pub fn check(plan: &Plan, terms: &Terms) -> Check {
    let rules: Vec<Rules> = plan.steps.iter().map(|step| Rules::of(step, terms)).collect();
    let order = order(plan);
    let turning = order.iter().copied().find(|no| rules[no.index()].leaves_behind());
    let mut findings = claims::forbidden_probes(plan, terms);
    let ok = findings.is_empty();
    findings.extend(advice::findings(plan, &order, &rules));
    Check {
        ok,
        findings,
        waves: waves(plan),
        point_of_no_return: turning.map(|no| plan.step(no).id.clone()),
        stopping: stopping(plan, &order, &rules),
    }
}

/// The plan held against its live tools: arguments, outputs, claims.
pub fn check_tools(plan: &Plan, tools: &Tools, terms: &Terms) -> Vec<Finding> {
    let mut findings = with_room(|| arguments::findings(plan, tools));
    findings.extend(claims::findings(plan, tools, terms));
    advice::condensed(findings)
}

/// Errors that refuse a new version only: plans that were saved before these rules existed still run.
const AUTHORS_ONLY: [&str; 2] = ["undeclared_input", "not_a_schema"];

impl Check {
    /// The check as it counts for a plan that was saved before.
    pub fn of_saved_plan(mut self) -> Self {
        for finding in self.findings.iter_mut().filter(|finding| AUTHORS_ONLY.contains(&finding.code)) {
            finding.severity = Severity::Warning;
        }
        self.ok = !self.findings.iter().any(|finding| finding.severity == Severity::Error);
        self
    }

    /// The check of a document that is no plan.
    pub fn refused(findings: Vec<Finding>) -> Self {
        Self { findings, ..Self::default() }
    }
}

/// The order at concurrency 1: the first step in the list whose dependencies have run.
pub fn order(plan: &Plan) -> Vec<StepNo> {
    let mut waiting: Vec<usize> = plan.steps.iter().map(|step| step.needs.len()).collect();
    let ready = plan.numbered().filter(|(_, step)| step.needs.is_empty()).map(|(no, _)| Reverse(no));
    let mut ready: BinaryHeap<_> = ready.collect();
    let mut order = Vec::with_capacity(plan.steps.len());
    while let Some(Reverse(no)) = ready.pop() {
        order.push(no);
        for next in &plan.step(no).needed_by {
            waiting[next.index()] -= 1;
            if waiting[next.index()] == 0 {
                ready.push(Reverse(*next));
            }
        }
    }
    order
}

/// Each step in the wave after the last of those it needs.
pub fn waves(plan: &Plan) -> Vec<Vec<StepId>> {
    let mut level = vec![0; plan.steps.len()];
    let mut count = 0;
    for no in order(plan) {
        let needs = plan.step(no).needs.iter();
        level[no.index()] = needs.map(|need| level[need.step.index()] + 1).max().unwrap_or(0);
        count = count.max(level[no.index()] + 1);
    }
    let mut waves = vec![Vec::new(); count];
    for (no, step) in plan.numbered() {
        waves[level[no.index()]].push(step.id.clone());
    }
    waves
}

/// The first step that runs after which full undo is impossible.
pub fn point_of_no_return(plan: &Plan) -> Option<StepNo> {
    let none = Terms::new();
    order(plan).into_iter().find(|no| Rules::of(plan.step(*no), &none).leaves_behind())
}

fn stopping(plan: &Plan, order: &[StepNo], rules: &[Rules]) -> Vec<Leftover> {
    let mut left: Vec<&StepId> = Vec::new();
    let mut stopping = Vec::with_capacity(order.len());
    for no in order {
        let step = plan.step(*no);
        if rules[no.index()].leaves_behind() {
            left.push(&step.id);
        }
        let shown = &left[left.len().saturating_sub(LEFT_BEHIND_SHOWN)..];
        let left_behind = shown.iter().map(|id| (*id).clone()).collect();
        stopping.push(Leftover { step: step.id.clone(), left_behind, left_behind_total: left.len() });
    }
    stopping
}
