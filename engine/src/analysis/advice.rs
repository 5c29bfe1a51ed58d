//! Warnings and notes about plans that are valid but probably not what the author meant. Errors come from the
//! parser and from `inputs`.

use super::inputs;
use crate::id::StepNo;
use crate::plan::{CompensationWork, Finding, Plan, Probe, Step, duration_text};
use crate::policy::{ErrorCategory, OnFailure, PlanApproval, Reversibility};
use crate::tool_policy::StepRules;

/// Most findings listed per code; the rest are only counted.
const FINDINGS_PER_CODE_MAX: usize = 20;

/// All advice on a plan, and the findings about its inputs. `rules` is indexed by step number.
pub(super) fn findings(plan: &Plan, order: &[StepNo], rules: &[StepRules]) -> Vec<Finding> {
    let mut findings = policy_advice(plan, rules);
    findings.extend(inputs::findings(plan));
    findings.extend(early_point_of_no_return(plan, order, rules));
    for (no, step) in plan.numbered_steps() {
        let at = format!("steps[{}]", no.0);
        findings.extend(step_advice(plan, step, rules[no.index()], &at));
    }
    limit_per_code(findings)
}

/// Keeps the first `FINDINGS_PER_CODE_MAX` findings of each code and adds a note that counts the rest, so that a plan of
/// thousands of similar steps does not repeat itself.
pub(super) fn limit_per_code(findings: Vec<Finding>) -> Vec<Finding> {
    let mut counts = std::collections::BTreeMap::new();
    let mut kept = Vec::new();
    for finding in findings {
        let count = counts.entry(finding.code).or_insert(0_usize);
        *count += 1;
        if *count <= FINDINGS_PER_CODE_MAX {
            kept.push(finding);
        }
    }
    for (code, count) in counts {
        if count > FINDINGS_PER_CODE_MAX {
            let message = format!("there are {} more findings `{code}`", count - FINDINGS_PER_CODE_MAX);
            kept.push(Finding::note("more_findings", "steps", message, "correct those listed first"));
        }
    }
    kept
}

/// Advice on the plan-wide policy.
fn policy_advice(plan: &Plan, rules: &[StepRules]) -> Vec<Finding> {
    let mut findings = Vec::new();
    if plan.policy.approval == PlanApproval::AtPointOfNoReturn
        && !rules.iter().any(|rules| rules.leaves_effect_after_undo())
    {
        let message = "every step can be undone, so the point of no return is never reached";
        findings.push(Finding::warning(
            "approval_never_asked",
            "policy.approval",
            message,
            "use `plan` or `every_write` to be asked",
        ));
    }
    let calls = plan.steps.iter().filter(|step| !step.is_agent_step()).count();
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

/// Notes that the point of no return comes before a step that can be undone and does not depend on it. The
/// later the point of no return, the longer a failure can be undone fully.
fn early_point_of_no_return(plan: &Plan, order: &[StepNo], rules: &[StepRules]) -> Option<Finding> {
    let rank = order.iter().position(|no| rules[no.index()].leaves_effect_after_undo())?;
    let no_return = order[rank];
    let mut depends_on_it = vec![false; plan.steps.len()];
    depends_on_it[no_return.index()] = true;
    let independent = order[rank + 1..].iter().find(|no| {
        let step = plan.step(**no);
        depends_on_it[no.index()] = step.dependencies.iter().any(|need| depends_on_it[need.step.index()]);
        !depends_on_it[no.index()] && !rules[no.index()].leaves_effect_after_undo()
    })?;
    let (id, later_id) = (&plan.step(no_return).id, &plan.step(*independent).id);
    let message = format!("`{id}` cannot be undone, and `{later_id}`, which does not need it, runs after it");
    let cure = "move it towards the end of the plan";
    Some(Finding::note("early_point_of_no_return", format!("steps[{}]", no_return.0), message, cure))
}

/// Advice on one step. `at` is its path, as in `steps[2]`.
fn step_advice(plan: &Plan, step: &Step, rules: StepRules, at: &str) -> Vec<Finding> {
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

/// Warns of `when: false`.
fn never_runs(step: &Step, at: &str) -> Option<Finding> {
    let never = step.when.as_ref()?.as_literal() == Some(false);
    never.then(|| {
        Finding::warning(
            "never_runs",
            format!("{at}.when"),
            format!("`{}` is always skipped", step.id),
            "change `when`, or drop the step",
        )
    })
}

/// Warns of a step with effects that `on_failure: auto` could not undo.
fn auto_without_compensation(plan: &Plan, step: &Step, at: &str) -> Option<Finding> {
    let missing = plan.policy.on_failure == OnFailure::Auto && !step.read_only && step.compensation.is_none();
    let message = format!("`auto` cannot undo `{}`: it has no compensation", step.id);
    missing.then(|| {
        Finding::warning("no_compensation", at, message, "add a `compensation`, or set `read_only: true`")
    })
}

/// Notes an agent step that waits for its report without a limit.
fn agent_without_timeout(step: &Step, at: &str) -> Option<Finding> {
    let endless = step.is_agent_step() && step.timeout_ms.is_none();
    let message = format!("`{}` waits for its report without end", step.id);
    endless.then(|| Finding::note("no_timeout", at, message, "add a `timeout` if the report may never come"))
}

/// Reports a retry of a step that is not repeatable. After `unknown` only repeatable calls are retried; after
/// `failed`, all that the plan lists are.
fn unsafe_retry(step: &Step, rules: StepRules, at: &str) -> Option<Finding> {
    let retried = step.retry.max_attempts > 1 && !step.retry.on.is_empty() && !step.is_agent_step();
    if !retried || rules.repeatable {
        return None;
    }
    let id = &step.id;
    if step.retry.on.iter().all(|category| *category == ErrorCategory::Timeout) {
        let message = format!(
            "`{id}` is neither idempotent nor read-only, so a time-out is `unknown` and not tried again"
        );
        let cure = "set `idempotent: true` if sending it twice does no harm, or add a `probe`";
        return Some(Finding::warning("retry_without_effect", format!("{at}.retry.on"), message, cure));
    }
    let message = format!(
        "`{id}` is tried again after a failure, and neither the plan nor the config calls it idempotent: \
         the effects of a failed call may happen twice"
    );
    let cure =
        "set `idempotent: true` if sending it twice does no harm, or retry only where nothing was done";
    Some(Finding::note("retry_of_effects", format!("{at}.retry"), message, cure))
}

/// Warns of a step timeout that exceeds the whole execution's.
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

/// Warns of a compensation on a step declared irreversible.
fn compensated_irreversible(step: &Step, at: &str) -> Option<Finding> {
    let odd = step.cancellable == Reversibility::Irreversible && step.compensation.is_some();
    let message = format!(
        "`{}` is irreversible and has a compensation: it is run, and the effect still counts as left behind",
        step.id
    );
    odd.then(|| {
        Finding::warning(
            "irreversible_compensation",
            format!("{at}.cancellable"),
            message,
            "use `partially-reversible` or `reversible`",
        )
    })
}

/// Notes a compensation that reads its step's output: an attempt of unknown outcome is undone too, and has
/// none.
fn output_of_unknown(step: &Step, at: &str) -> Option<Finding> {
    let reads = match &step.compensation.as_ref()?.work {
        CompensationWork::Tool { arguments, .. } => arguments.reads(),
        CompensationWork::Action { action } => action.reads(),
    };
    let message = format!(
        "the compensation reads the output of `{}`, which an attempt of unknown outcome does not have",
        step.id
    );
    let cure = "use `arguments` or inputs, or add a `probe` that gives the output";
    (reads.own_output && step.probe.is_none())
        .then(|| Finding::note("output_of_unknown", format!("{at}.compensation"), message, cure))
}

/// Reports a probe that cannot change anything.
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
