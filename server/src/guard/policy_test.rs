//! `actbook policy test`: one call against the config's rules, with the trace of each rule. Nothing is journaled.

use actbook_engine::rules::{Judgement, RuleFacts, judge};
use serde::Serialize;

use super::GuardedCall;
use super::judge::{call_facts, judgement_terms, tool_facts};
use crate::config::Config;

/// What the rules say of a call that a document describes.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyTest {
    pub tool: String,
    #[serde(flatten)]
    pub judgement: Judgement,
    /// The condition of each rule, in the order of the trace.
    pub conditions: Vec<String>,
}

/// Judges the call of a document that has the names that rules read. Paths, labels and whether the call only reads come
/// from the arguments and the config where the document leaves them out.
pub fn test_policy(config: &Config, document: RuleFacts) -> PolicyTest {
    let guard = config.guard.clone().unwrap_or_default();
    let call = GuardedCall {
        tool: document.call.tool.clone(),
        arguments: document.call.arguments.clone(),
        folder: document.session.folder.clone(),
        agent: document.session.agent.clone(),
        ..GuardedCall::default()
    };
    let mut facts = document;
    let (derived, tool) = (call_facts(config, &call), tool_facts(config, &call));
    facts.call.server = derived.server;
    facts.call.read_only |= derived.read_only;
    if facts.call.paths.is_empty() {
        facts.call.paths = derived.paths;
    }
    facts.tool.labels.extend(tool.labels);
    facts.tool.read_only |= tool.read_only;
    facts.tool.trusted |= tool.trusted;
    let judgement = judge(&guard.rules, &facts, &judgement_terms(config, &guard, &call));
    let conditions = guard.rules.iter().map(|rule| rule.condition().to_owned()).collect();
    PolicyTest { tool: facts.call.tool, judgement, conditions }
}
