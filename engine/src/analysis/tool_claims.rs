//! Compares what a plan declares about its steps with what the servers claim about their tools and what the
//! operator's config says. Claims prove nothing, so most contradictions are only warnings.

use serde_json::Value;

use super::{ToolFacts, ToolFactsByName};
use crate::plan::{Compensation, CompensationWork, CureAction, Finding, Plan, Step, duration_text};
use crate::policy::Reversibility;
use crate::tool_policy::{StepRules, ToolPolicies, ToolPolicy};

/// The findings about all declarations of a plan.
pub(super) fn findings(plan: &Plan, tools: &ToolFactsByName, terms: &ToolPolicies) -> Vec<Finding> {
    let document: Value = serde_json::from_str(&plan.document).unwrap_or_default();
    let mut findings = Vec::new();
    for (no, step) in plan.numbered_steps() {
        let at = format!("steps[{}]", no.0);
        let declares = |field: &str| document["steps"][no.index()].get(field).is_some();
        let facts = step.tool().and_then(|tool| tools.get(tool));
        let rules = StepRules::resolve(step, terms);
        findings.extend(
            facts.into_iter().flat_map(|facts| server_contradictions(step, rules, facts, &at, &declares)),
        );
        findings.extend(writing_probe(step, tools, &at));
        let tool_terms = step.tool().and_then(|tool| terms.get(tool));
        findings
            .extend(tool_terms.into_iter().flat_map(|terms| config_overrides(step, terms, &at, &declares)));
        findings.extend(guarded_compensation(step, rules, &at));
    }
    findings.extend(hidden_text(plan, tools));
    findings
}

/// Compares a step with its server's claims. `declares` tells whether the document has a field of the step.
fn server_contradictions(
    step: &Step,
    rules: StepRules,
    facts: &ToolFacts,
    at: &str,
    declares: &dyn Fn(&str) -> bool,
) -> Vec<Finding> {
    let tool = step.tool().unwrap_or_default();
    let writes = facts.read_only == Some(false) || facts.destructive == Some(true);
    let mut findings = Vec::new();
    if step.read_only && writes && facts.read_only != Some(true) {
        let message = format!("the plan says that `{tool}` only reads, and its server says that it writes");
        let cure = "leave `read_only` out, or find out which is right";
        findings.push(Finding::warning("contradicts_server", format!("{at}.read_only"), message, cure));
    }
    let undone = rules.cancellable == Reversibility::Reversible && step.compensation.is_some();
    if facts.destructive == Some(true) && undone && declares("cancellable") {
        let message =
            format!("`{tool}` is destructive, according to its server, and the plan calls it reversible");
        let cure =
            "make sure that the compensation brings back what was there, or use `partially-reversible`";
        findings.push(Finding::warning("contradicts_server", format!("{at}.cancellable"), message, cure));
    }
    if writes && !rules.read_only && step.compensation.is_none() && !declares("cancellable") {
        let message = format!("`{tool}` writes, according to its server, and has no compensation");
        let cure = "add a `compensation`, or set `cancellable: irreversible` if there is none";
        findings.push(Finding::warning("no_compensation", at, message, cure));
    }
    if facts.read_only == Some(true) && !rules.read_only {
        let message =
            format!("`{tool}` only reads, according to its server; the plan treats it as one that writes");
        findings.push(Finding::note(
            "claims_read_only",
            at,
            message,
            "set `read_only: true` if that is right",
        ));
    }
    findings
}

/// Warns of a probe whose tool writes, by its server's claim.
fn writing_probe(step: &Step, tools: &ToolFactsByName, at: &str) -> Option<Finding> {
    let probe = step.probe.as_ref()?;
    let facts = tools.get(&probe.tool)?;
    (facts.read_only == Some(false)).then(|| {
        let message = format!("a probe must only read, and `{}` writes, according to its server", probe.tool);
        Finding::warning(
            "contradicts_server",
            format!("{at}.probe.tool"),
            message,
            "probe with a tool that reads",
        )
    })
}

/// Errors for probes that the config forbids: a probe must only read and runs without approval, so its tool
/// may neither write nor require approval.
pub(super) fn forbidden_probes(plan: &Plan, terms: &ToolPolicies) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (no, step) in plan.numbered_steps() {
        let Some(probe) = &step.probe else { continue };
        let tool_terms = terms.get(&probe.tool).filter(|terms| !terms.allows_probe());
        let Some(ToolPolicy { approval, .. }) = tool_terms else { continue };
        let why = if *approval { "requires an approval for each call of it" } else { "says that it writes" };
        let message = format!("`{}` cannot be a probe: the config {why}", probe.tool);
        let (path, cure) = (format!("steps[{}].probe.tool", no.0), "probe with a tool that only reads");
        findings.push(Finding::error("forbidden_probe", path, message, cure));
    }
    findings
}

/// Notes a compensation whose tool the config puts under approval.
fn guarded_compensation(step: &Step, rules: StepRules, at: &str) -> Option<Finding> {
    let tool =
        step.compensation.as_ref().and_then(Compensation::tool).filter(|_| rules.undo_needs_approval)?;
    let message =
        format!("the config requires an approval for a call of `{tool}`: undoing `{}` waits for it", step.id);
    let path = format!("{at}.compensation");
    Some(Finding::note("approval_by_config", path, message, "have a person ready to approve it"))
}

/// Warns where the operator's config overrides what the plan declares.
fn config_overrides(
    step: &Step,
    terms: &ToolPolicy,
    at: &str,
    declares: &dyn Fn(&str) -> bool,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut overridden = |field: &str, message: String| {
        let cure = "take it out of the plan, or ask the operator";
        findings.push(Finding::warning("config_decides", format!("{at}.{field}"), message, cure));
    };
    if step.idempotent && terms.idempotent == Some(false) {
        overridden("idempotent", "the config says that it is not".to_owned());
    }
    if step.read_only && terms.read_only == Some(false) {
        overridden("read_only", "the config says that it is not".to_owned());
    }
    if let (Some(own), Some(most)) = (step.timeout_ms, terms.timeout_ms)
        && own > most
        && declares("timeout")
    {
        let message =
            format!("{} is more than the config allows, {}", duration_text(own), duration_text(most));
        overridden("timeout", message);
    }
    let most = terms.retry.as_ref().and_then(|retry| retry.max_attempts);
    if let Some(most) = most.filter(|most| step.retry.max_attempts > *most) {
        overridden("retry.max_attempts", format!("the config allows {most}"));
    }
    if terms.approval && !step.approval {
        let message =
            format!("the config requires an approval for each call of `{}`", step.tool().unwrap_or_default());
        findings.push(Finding::note("approval_by_config", at, message, "have a person ready to approve it"));
    }
    findings
}

/// Warns of tools with invisible characters in their description, which may tell a model something that a
/// person does not see. One warning per tool.
fn hidden_text(plan: &Plan, tools: &ToolFactsByName) -> Vec<Finding> {
    let mut reported = std::collections::BTreeSet::new();
    let mut findings = Vec::new();
    for (path, tool) in named_tools(plan) {
        let Some(facts) = tools.get(tool).filter(|facts| !facts.hidden_characters.is_empty()) else {
            continue;
        };
        if reported.insert(tool) {
            let message = format!(
                "`{tool}` has hidden characters in its definition: {}",
                facts.hidden_characters.join(", ")
            );
            let cure = "read its description, and be careful with its server";
            let finding = Finding::warning("hidden_text", path, message, cure);
            findings.push(finding.with_action(CureAction::ReadToolDescription));
        }
    }
    findings
}

/// Every tool that the plan names, with the path of the field.
fn named_tools(plan: &Plan) -> impl Iterator<Item = (String, &str)> {
    plan.numbered_steps().flat_map(|(no, step)| {
        let at = format!("steps[{}]", no.0);
        let undo = step.compensation.as_ref().and_then(|compensation| match &compensation.work {
            CompensationWork::Tool { tool, .. } => Some((format!("{at}.compensation.tool"), tool.as_str())),
            CompensationWork::Action { .. } => None,
        });
        let probe = step.probe.as_ref().map(|probe| (format!("{at}.probe.tool"), probe.tool.as_str()));
        let own = step.tool().map(|tool| (format!("{at}.tool"), tool));
        own.into_iter().chain(undo).chain(probe).collect::<Vec<_>>()
    })
}
