//! Warnings and notes: what a plan may say, but its author probably did not mean. Only what a
//! reader would act on; errors are the parser's, and those of `inputs`.

use super::inputs;
use crate::id::StepNo;
use crate::plan::{Finding, Plan, Probe, Step, Undo, duration_text};
use crate::policy::{Cancellable, Category, OnFailure, PlanApproval};
use crate::terms::Rules;

/// Findings of one kind beyond this are counted, not listed.
const SAME_SHOWN: usize = 20;

pub(super) fn findings(plan: &Plan, order: &[StepNo], rules: &[Rules]) -> Vec<Finding> {
    let mut findings = policy(plan, rules);
    findings.extend(inputs::findings(plan));
    findings.extend(early_irreversible(plan, order, rules));
    for (no, step) in plan.numbered() {
        let at = format!("steps[{}]", no.0);
        findings.extend(step_advice(plan, step, rules[no.index()], &at));
    }
    condensed(findings)
}

/// A plan of ten thousand alike steps is told once what is told of each of them.
pub(super) fn condensed(findings: Vec<Finding>) -> Vec<Finding> {
    let mut counts = std::collections::BTreeMap::new();
    let mut kept = Vec::new();
    for finding in findings {
        let count = counts.entry(finding.code).or_insert(0_usize);
        *count += 1;
        if *count <= SAME_SHOWN {
            kept.push(finding);
        }
    }
    for (code, count) in counts {
        if count > SAME_SHOWN {
            let message = format!("there are {} more findings `{code}`", count - SAME_SHOWN);
            kept.push(Finding::note("more_findings", "steps", message, "cure those listed first"));
        }
    }
    kept
}

fn policy(plan: &Plan, rules: &[Rules]) -> Vec<Finding> {
    let mut findings = Vec::new();
    if plan.policy.approval == PlanApproval::AtPointOfNoReturn
        && !rules.iter().any(|rules| rules.leaves_behind())
    {
        let message = "every step can be undone, so the point of no return is never reached";
        findings.push(Finding::warning(
            "approval_never_asked",
            "policy.approval",
            message,
            "use `plan` or `every_write` to be asked",
        ));
    }
    let calls = plan.steps.iter().filter(|step| !step.by_agent()).count();
    if plan.policy.max_calls.is_some_and(|budget| (budget as usize) < calls) {
        let message = format!("the budget is smaller than the number of calls, {calls}");
        findings.push(Finding::warning(
            "small_budget",
            "policy.max_calls",
            message,
            "raise it, or drop steps",
        ));
    }
    findings
}

/// The later the point of no return, the more a failure can still be undone.
fn early_irreversible(plan: &Plan, order: &[StepNo], rules: &[Rules]) -> Option<Finding> {
    let place = order.iter().position(|no| rules[no.index()].leaves_behind())?;
    let turning = order[place];
    let mut after = vec![false; plan.steps.len()];
    after[turning.index()] = true;
    let free = order[place + 1..].iter().find(|no| {
        let step = plan.step(**no);
        after[no.index()] = step.needs.iter().any(|need| after[need.step.index()]);
        !after[no.index()] && !rules[no.index()].leaves_behind()
    })?;
    let (turning_id, free_id) = (&plan.step(turning).id, &plan.step(*free).id);
    let message =
        format!("`{turning_id}` cannot be undone, and `{free_id}`, which does not need it, runs after it");
    let cure = "move it towards the end of the plan";
    Some(Finding::note("early_point_of_no_return", format!("steps[{}]", turning.0), message, cure))
}

fn step_advice(plan: &Plan, step: &Step, rules: Rules, at: &str) -> Vec<Finding> {
    let findings = [
        never_runs(step, at),
        auto_without_compensation(plan, step, at),
        agent_without_timeout(step, at),
        unsafe_retry(step, rules, at),
        long_timeout(plan, step, at),
        compensated_irreversible(step, at),
        output_of_unknown(step, at),
        pointless_probe(step, at),
    ];
    findings.into_iter().flatten().collect()
}

fn never_runs(step: &Step, at: &str) -> Option<Finding> {
    let never = step.when.as_ref()?.literal() == Some(false);
    never.then(|| {
        Finding::warning(
            "never_runs",
            format!("{at}.when"),
            format!("`{}` is always skipped", step.id),
            "change `when`, or drop the step",
        )
    })
}

fn auto_without_compensation(plan: &Plan, step: &Step, at: &str) -> Option<Finding> {
    let missing = plan.policy.on_failure == OnFailure::Auto && !step.read_only && step.compensation.is_none();
    let message = format!("`auto` cannot undo `{}`: it has no compensation", step.id);
    missing.then(|| {
        Finding::warning("no_compensation", at, message, "add a `compensation`, or say `read_only: true`")
    })
}

fn agent_without_timeout(step: &Step, at: &str) -> Option<Finding> {
    let endless = step.by_agent() && step.timeout_ms.is_none();
    let message = format!("`{}` waits for its report without end", step.id);
    endless.then(|| Finding::note("no_timeout", at, message, "add a `timeout` if the report may never come"))
}

/// After `unknown`, only what may be sent twice is sent again; after `failed`, whatever the plan lists.
fn unsafe_retry(step: &Step, rules: Rules, at: &str) -> Option<Finding> {
    let retried = step.retry.max_attempts > 1 && !step.retry.on.is_empty() && !step.by_agent();
    if !retried || rules.repeatable {
        return None;
    }
    let id = &step.id;
    if step.retry.on.iter().all(|category| *category == Category::Timeout) {
        let message = format!(
            "`{id}` is neither idempotent nor read-only, so a time-out is `unknown` and not tried again"
        );
        let cure = "say `idempotent: true` if sending it twice does no harm, or add a `probe`";
        return Some(Finding::warning("retry_without_effect", format!("{at}.retry.on"), message, cure));
    }
    let message = format!(
        "`{id}` is tried again after a failure, and neither the plan nor the config calls it idempotent: \
         what a failed call has done already is done twice"
    );
    let cure =
        "say `idempotent: true` if sending it twice does no harm, or retry only where nothing was done";
    Some(Finding::note("retry_of_effects", format!("{at}.retry"), message, cure))
}

fn long_timeout(plan: &Plan, step: &Step, at: &str) -> Option<Finding> {
    let whole = plan.policy.timeout_ms?;
    let own = step.timeout_ms.filter(|own| *own > whole)?;
    let message = format!(
        "{} is longer than the whole execution may take, {}",
        duration_text(own),
        duration_text(whole)
    );
    Some(Finding::warning(
        "long_timeout",
        format!("{at}.timeout"),
        message,
        "shorten it, or lengthen `policy.timeout`",
    ))
}

fn compensated_irreversible(step: &Step, at: &str) -> Option<Finding> {
    let odd = step.cancellable == Cancellable::Irreversible && step.compensation.is_some();
    let message = format!(
        "`{}` is irreversible and has a compensation: it is run, and the effect still counts as left behind",
        step.id
    );
    odd.then(|| {
        Finding::warning(
            "irreversible_compensation",
            format!("{at}.cancellable"),
            message,
            "say `partially-reversible` or `reversible`",
        )
    })
}

/// An attempt of unknown outcome has no output, and is undone all the same.
fn output_of_unknown(step: &Step, at: &str) -> Option<Finding> {
    let reads = match &step.compensation.as_ref()?.work {
        Undo::Tool { arguments, .. } => arguments.reads(),
        Undo::Action { action } => action.reads(),
    };
    let message = format!(
        "the compensation reads the output of `{}`, which an attempt of unknown outcome does not have",
        step.id
    );
    let cure = "use `arguments` or inputs, or add a `probe` that gives the output";
    (reads.own_output && step.probe.is_none())
        .then(|| Finding::note("output_of_unknown", format!("{at}.compensation"), message, cure))
}

fn pointless_probe(step: &Step, at: &str) -> Option<Finding> {
    let Probe { happened, .. } = step.probe.as_ref()?;
    if step.read_only {
        return Some(Finding::note(
            "pointless_probe",
            format!("{at}.probe"),
            "a read-only step is simply tried again",
            "leave `probe` out",
        ));
    }
    let blind = !happened.reads().own_output;
    let message = "`happened` does not read the probe's `output`, so the probe changes nothing";
    blind.then(|| {
        Finding::warning(
            "pointless_probe",
            format!("{at}.probe.happened"),
            message,
            "write it over `output`, as in `output.exists`",
        )
    })
}
