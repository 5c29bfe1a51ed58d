//! Rules about an agent's calls: conditions in the same CEL subset as plans, over what is known of the call. All rules
//! are evaluated, and the strictest that fits wins. This module is pure: it knows neither where the rules come from nor
//! what becomes of the verdict.

mod facts;
mod shipped;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bind::{
    BindError, ConditionExpression, ExpressionScope, ExpressionVocabulary, PathSegment, ReferencePath,
    ReferenceRoot,
};
use crate::policy::string_enum;
pub use facts::{CallFacts, CalledToolFacts, CallerFacts, PinState, RuleFacts, SessionFacts};
pub use shipped::ShippedRuleSet;

string_enum!(
    /// What a rule says of a call that it fits; a later one is stricter.
    RuleEffect { Allow = "allow", Ask = "ask", Deny = "deny" }
);
string_enum!(
    /// Whether rules are enforced, or only noted.
    GuardMode { Enforce = "enforce", Observe = "observe" }
);

/// A rule about agents' calls: its compiled condition, and what holds for a call that the condition is true
/// of.
#[derive(Clone, Debug)]
pub struct Rule {
    pub name: String,
    when: ConditionExpression,
    pub then: RuleEffect,
    /// What the agent and the person who is asked read about it.
    pub say: Option<String>,
    /// The tools whose call counts the condition reads by name: a tool that was never called counts 0.
    counted: BTreeSet<String>,
}

impl Rule {
    /// Compiles a rule. `Err`: the condition does not compile, or can never be true or false.
    pub fn parse(name: &str, when: &str, then: RuleEffect, say: Option<&str>) -> Result<Self, BindError> {
        Self::parse_in(name, when, then, say, ExpressionVocabulary::Rule)
    }

    fn parse_in(
        name: &str,
        when: &str,
        then: RuleEffect,
        say: Option<&str>,
        vocabulary: ExpressionVocabulary,
    ) -> Result<Self, BindError> {
        let when = ConditionExpression::parse_in(when, vocabulary)?;
        let counted = when.paths().iter().filter_map(counted_tool).map(str::to_owned).collect();
        Ok(Self { name: name.to_owned(), when, then, say: say.map(str::to_owned), counted })
    }

    /// The condition as its author wrote it.
    pub fn condition(&self) -> &str {
        self.when.source()
    }

    /// Whether the condition reads how the tool's definition stands to the accepted one.
    pub fn reads_pin(&self) -> bool {
        let is_pin = |path: &ReferencePath| {
            path.root == ReferenceRoot::Fact("tool")
                && matches!(path.segments.first(), Some(PathSegment::Field(name)) if name == "pin")
        };
        self.when.paths().iter().any(is_pin)
    }

    /// How the rule stands to a call. One that cannot be evaluated fits if it denies or asks, and does not if it allows:
    /// an error never lets a call pass.
    fn evaluate(&self, scope: &ExpressionScope) -> RuleTrace {
        let (fits, error) = match self.when.test(scope) {
            Ok(fits) => (fits, None),
            Err(error) => (self.then != RuleEffect::Allow, Some(error.to_string())),
        };
        RuleTrace { rule: self.name.clone(), then: self.then, fits, error }
    }
}

/// The tool of a path such as `session.count["pay/charge"]`.
fn counted_tool(path: &ReferencePath) -> Option<&str> {
    let [PathSegment::Field(count), PathSegment::Field(tool), ..] = path.segments.as_slice() else {
        return None;
    };
    (path.root == ReferenceRoot::Fact("session") && count == "count").then_some(tool)
}

/// How one rule stood to a call.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleTrace {
    pub rule: String,
    pub then: RuleEffect,
    pub fits: bool,
    /// Why the condition could not be evaluated; the rule then counts as its `then`, or as no match if that is `allow`.
    pub error: Option<String>,
}

/// What decides about a call besides the rules: mode, default effect, config and budget.
#[derive(Clone, Debug)]
pub struct JudgementTerms {
    pub mode: GuardMode,
    /// What holds for a tool of which no rule and no entry of the config speaks.
    pub unknown: RuleEffect,
    /// An entry of the config speaks of the tool or its server.
    pub is_known: bool,
    /// The config demands an approval for every call of the tool.
    pub demands_approval: bool,
    /// Why the session's budget allows no further call; `None`: it allows one.
    pub spent_budget: Option<String>,
    /// An equal call of the session has an unknown outcome, and making it twice could have its effect twice.
    pub repeats_unknown: bool,
    /// Why the tool's definition may not be called unless a rule speaks of that; `None`: it may.
    pub refused_pin: Option<String>,
}

/// What decided the verdict on a call: a rule, by its name; nothing; or another check, such as budget or pin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    /// Nothing stands against the call.
    Nothing,
    Rule(String),
    /// No rule and no entry of the config speaks of the tool.
    Unknown,
    /// The config demands an approval for every call of the tool.
    Approval,
    Budget,
    /// The call repeats one of the session whose outcome is unknown.
    Repeat,
    /// The tool's definition is not the one that was accepted.
    Pin,
}

/// The verdict on a call, with its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Judgement {
    pub verdict: RuleEffect,
    pub decided_by: DecidedBy,
    /// For the agent and for the person who is asked.
    pub say: Option<String>,
    /// The verdict that observing suspended; `None`: nothing was suspended.
    pub suspended: Option<RuleEffect>,
    pub trace: Vec<RuleTrace>,
}

/// A verdict with its reason, while the strictest is searched.
struct VerdictReason {
    verdict: RuleEffect,
    decided_by: DecidedBy,
    say: Option<String>,
}

/// Judges a call: rules, budget, `unknown`, a repeated call, pin and `approval`, of which the strictest wins. Observing
/// suspends all but the approval and the pin.
pub fn judge(rules: &[Rule], facts: &RuleFacts, terms: &JudgementTerms) -> Judgement {
    let scope = rule_scope(rules, facts);
    let trace: Vec<RuleTrace> = rules.iter().map(|rule| rule.evaluate(&scope)).collect();
    let enforced = strictest(rules_finding(rules, &trace), other_findings(&trace, terms));
    let demands = config_findings(rules, &trace, terms);
    let allowed = || VerdictReason { verdict: RuleEffect::Allow, decided_by: DecidedBy::Nothing, say: None };
    let (found, suspended) = match terms.mode {
        GuardMode::Enforce => (strictest(enforced, demands), None),
        GuardMode::Observe => {
            let verdict = enforced.verdict;
            let suspended = (verdict != RuleEffect::Allow).then_some(verdict);
            (strictest(allowed(), demands), suspended)
        }
    };
    let VerdictReason { verdict, decided_by, say } = found;
    Judgement { verdict, decided_by, say, suspended, trace }
}

/// The strictest finding; of equally strict ones the first.
fn strictest(first: VerdictReason, others: Vec<VerdictReason>) -> VerdictReason {
    let stricter =
        |best: VerdictReason, other: VerdictReason| if other.verdict > best.verdict { other } else { best };
    others.into_iter().fold(first, stricter)
}

/// What the rules that fit say: the strictest, and of equally strict ones the first in the list.
fn rules_finding(rules: &[Rule], trace: &[RuleTrace]) -> VerdictReason {
    let nothing = VerdictReason { verdict: RuleEffect::Allow, decided_by: DecidedBy::Nothing, say: None };
    let fitting = rules.iter().zip(trace).filter(|(_, trace)| trace.fits);
    let findings = fitting.map(|(rule, trace)| VerdictReason {
        verdict: rule.then,
        decided_by: DecidedBy::Rule(rule.name.clone()),
        say: match &trace.error {
            Some(error) => Some(format!("the rule `{}` cannot be evaluated: {error}", rule.name)),
            None => rule.say.clone(),
        },
    });
    strictest(nothing, findings.collect())
}

/// What holds in every mode: the approval that the config demands, and the pin unless a rule that fits speaks of it.
fn config_findings(rules: &[Rule], trace: &[RuleTrace], terms: &JudgementTerms) -> Vec<VerdictReason> {
    let approval = terms.demands_approval.then(|| VerdictReason {
        verdict: RuleEffect::Ask,
        decided_by: DecidedBy::Approval,
        say: Some("the config demands an approval for every call of this tool".to_owned()),
    });
    let speaks_of_pin = rules.iter().zip(trace).any(|(rule, trace)| trace.fits && rule.reads_pin());
    let pin = terms.refused_pin.clone().filter(|_| !speaks_of_pin).map(|say| VerdictReason {
        verdict: RuleEffect::Deny,
        decided_by: DecidedBy::Pin,
        say: Some(say),
    });
    approval.into_iter().chain(pin).collect()
}

/// What `unknown`, an equal call of unknown outcome and the budget say.
fn other_findings(trace: &[RuleTrace], terms: &JudgementTerms) -> Vec<VerdictReason> {
    let is_unknown = !terms.is_known && !trace.iter().any(|trace| trace.fits);
    let unknown = is_unknown.then(|| VerdictReason {
        verdict: terms.unknown,
        decided_by: DecidedBy::Unknown,
        say: Some("no rule and no `servers` entry speaks of this tool".to_owned()),
    });
    let repeat = terms.repeats_unknown.then(|| VerdictReason {
        verdict: RuleEffect::Ask,
        decided_by: DecidedBy::Repeat,
        say: Some("the same call was made before, and nobody knows whether it had its effect".to_owned()),
    });
    let budget = terms.spent_budget.clone().map(|say| VerdictReason {
        verdict: RuleEffect::Deny,
        decided_by: DecidedBy::Budget,
        say: Some(say),
    });
    unknown.into_iter().chain(repeat).chain(budget).collect()
}

/// What the rules read. A tool that the session has not called yet counts 0.
fn rule_scope(rules: &[Rule], facts: &RuleFacts) -> ExpressionScope {
    let mut facts = facts.clone();
    let counted = rules.iter().flat_map(|rule| &rule.counted).chain([&facts.call.tool]);
    for tool in counted.cloned().collect::<BTreeSet<_>>() {
        facts.session.count.entry(tool).or_insert(0);
    }
    let mut scope = ExpressionScope::default();
    let json = |part: serde_json::Result<Value>| Arc::new(part.expect("texts, numbers and maps serialise"));
    scope.facts.insert("call", json(serde_json::to_value(&facts.call)));
    scope.facts.insert("tool", json(serde_json::to_value(&facts.tool)));
    scope.facts.insert("session", json(serde_json::to_value(&facts.session)));
    scope.facts.insert("caller", json(serde_json::to_value(&facts.caller)));
    scope.facts.insert("now", Arc::new(facts.now.into()));
    scope
}
