//! What a plan says of its steps, beside what the servers claim of their tools and what the operator
//! says. Claims prove nothing; a contradiction is worth a second look.

use serde_json::Value;

use super::{ToolFacts, Tools};
use crate::plan::{Finding, Plan, Step, Undo, duration_text};
use crate::policy::Cancellable;
use crate::terms::{Rules, Terms, ToolTerms};

pub(super) fn findings(plan: &Plan, tools: &Tools, terms: &Terms) -> Vec<Finding> {
    let document: Value = serde_json::from_str(&plan.document).unwrap_or_default();
    let mut findings = Vec::new();
    for (no, step) in plan.numbered() {
        let at = format!("steps[{}]", no.0);
        let said = |field: &str| document["steps"][no.index()].get(field).is_some();
        let facts = step.tool().and_then(|tool| tools.get(tool));
        let rules = Rules::of(step, terms);
        findings.extend(facts.into_iter().flat_map(|facts| claims(step, rules, facts, &at, &said)));
        findings.extend(probe(step, tools, &at));
        let words = step.tool().and_then(|tool| terms.get(tool));
        findings.extend(words.into_iter().flat_map(|words| operator(step, words, &at, &said)));
    }
    findings.extend(hidden(plan, tools));
    findings
}

fn claims(
    step: &Step,
    rules: Rules,
    facts: &ToolFacts,
    at: &str,
    said: &dyn Fn(&str) -> bool,
) -> Vec<Finding> {
    let tool = step.tool().unwrap_or_default();
    let writes = facts.read_only == Some(false) || facts.destructive == Some(true);
    let mut findings = Vec::new();
    if step.read_only && writes && facts.read_only != Some(true) {
        let message = format!("the plan says that `{tool}` only reads, and its server says that it writes");
        let cure = "leave `read_only` out, or ask who is right";
        findings.push(Finding::warning("contradicts_server", format!("{at}.read_only"), message, cure));
    }
    let undone = rules.cancellable == Cancellable::Reversible && step.compensation.is_some();
    if facts.destructive == Some(true) && undone && said("cancellable") {
        let message = format!("`{tool}` destroys, says its server, and the plan calls that reversible");
        let cure =
            "make sure that the compensation brings back what was there, or say `partially-reversible`";
        findings.push(Finding::warning("contradicts_server", format!("{at}.cancellable"), message, cure));
    }
    if writes && !rules.read_only && step.compensation.is_none() && !said("cancellable") {
        let message = format!("`{tool}` writes, says its server, and nothing undoes it");
        let cure = "add a `compensation`, or say `cancellable: irreversible` if there is none";
        findings.push(Finding::warning("no_compensation", at, message, cure));
    }
    if facts.read_only == Some(true) && !rules.read_only {
        let message = format!("`{tool}` only reads, says its server; the plan treats it as one that writes");
        findings.push(Finding::note("claims_read_only", at, message, "say `read_only: true` if you agree"));
    }
    findings
}

fn probe(step: &Step, tools: &Tools, at: &str) -> Option<Finding> {
    let probe = step.probe.as_ref()?;
    let facts = tools.get(&probe.tool)?;
    (facts.read_only == Some(false)).then(|| {
        let message = format!("a probe only looks, and `{}` writes, says its server", probe.tool);
        Finding::warning(
            "contradicts_server",
            format!("{at}.probe.tool"),
            message,
            "probe with a tool that reads",
        )
    })
}

/// A probe must only read and is never put to a person: the config may say that its tool is neither.
pub(super) fn forbidden_probes(plan: &Plan, terms: &Terms) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (no, step) in plan.numbered() {
        let Some(probe) = &step.probe else { continue };
        let Some(said) = terms.get(&probe.tool).filter(|said| !said.may_probe()) else { continue };
        let why = if said.approval { "asks for a yes before each call of it" } else { "says that it writes" };
        let message = format!("`{}` cannot be a probe: the config {why}", probe.tool);
        let (path, cure) = (format!("steps[{}].probe.tool", no.0), "probe with a tool that only reads");
        findings.push(Finding::error("forbidden_probe", path, message, cure));
    }
    findings
}

/// Where the operator's word will win over the plan's.
fn operator(step: &Step, words: &ToolTerms, at: &str, said: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut loses = |field: &str, message: String| {
        let cure = "take it out of the plan, or ask the operator";
        findings.push(Finding::warning("config_decides", format!("{at}.{field}"), message, cure));
    };
    if step.idempotent && words.idempotent == Some(false) {
        loses("idempotent", "the config says that it is not".to_owned());
    }
    if step.read_only && words.read_only == Some(false) {
        loses("read_only", "the config says that it is not".to_owned());
    }
    if let (Some(own), Some(most)) = (step.timeout_ms, words.timeout_ms)
        && own > most
        && said("timeout")
    {
        let message =
            format!("{} is more than the config allows, {}", duration_text(own), duration_text(most));
        loses("timeout", message);
    }
    let most = words.retry.as_ref().and_then(|retry| retry.max_attempts);
    if let Some(most) = most.filter(|most| step.retry.max_attempts > *most) {
        loses("retry.max_attempts", format!("the config allows {most}"));
    }
    if words.approval && !step.approval {
        let message =
            format!("the config asks for a yes before each call of `{}`", step.tool().unwrap_or_default());
        findings.push(Finding::note("approval_by_config", at, message, "be there to answer"));
    }
    findings
}

/// A tool's description may say one thing to a person and another to a model.
fn hidden(plan: &Plan, tools: &Tools) -> Vec<Finding> {
    let mut told = std::collections::BTreeSet::new();
    let mut findings = Vec::new();
    for (path, tool) in named(plan) {
        let Some(facts) = tools.get(tool).filter(|facts| !facts.hidden.is_empty()) else { continue };
        if told.insert(tool) {
            let message =
                format!("`{tool}` describes itself with hidden characters: {}", facts.hidden.join(", "));
            let cure = "read its description with `actbook tools show`, and doubt its server";
            findings.push(Finding::warning("hidden_text", path, message, cure));
        }
    }
    findings
}

fn named(plan: &Plan) -> impl Iterator<Item = (String, &str)> {
    plan.numbered().flat_map(|(no, step)| {
        let at = format!("steps[{}]", no.0);
        let undo = step.compensation.as_ref().and_then(|one| match &one.work {
            Undo::Tool { tool, .. } => Some((format!("{at}.compensation.tool"), tool.as_str())),
            Undo::Action { .. } => None,
        });
        let probe = step.probe.as_ref().map(|probe| (format!("{at}.probe.tool"), probe.tool.as_str()));
        let own = step.tool().map(|tool| (format!("{at}.tool"), tool));
        own.into_iter().chain(undo).chain(probe).collect::<Vec<_>>()
    })
}
