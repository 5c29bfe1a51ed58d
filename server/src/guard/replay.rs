//! `actbook policy replay`: what today's rules would have said of the calls of earlier sessions. Nothing is journaled.

use std::collections::BTreeMap;

use actbook_engine::rules::{
    CallerFacts, GuardMode, Judgement, JudgementTerms, RuleEffect, RuleFacts, judge,
};
use serde::Serialize;

use super::GuardedCall;
use super::judge::{call_facts, deciding_rule, judgement_terms, tool_facts};
use crate::config::{Config, GuardConfig};
use crate::error::Error;
use crate::service::{PastCall, PastResult, Service};

/// What today's rules would have said of past calls.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PolicyReplay {
    /// Unix time in milliseconds.
    pub since_ms: i64,
    pub calls: usize,
    pub unchanged: usize,
    pub allow_to_ask: usize,
    pub allow_to_deny: usize,
    /// Of another kind: asked about calls that would be denied, and calls that today's rules are milder about.
    pub other_changes: usize,
    /// Calls that would have been asked about or denied, and that failed or were undone.
    pub would_have_stopped: usize,
    /// Calls that would have been asked about or denied, and that went well.
    pub would_have_hindered: usize,
    /// Calls whose outcome is unknown, or whose arguments are erased.
    pub undecidable: usize,
    /// How many calls each rule would have asked about or denied that were allowed.
    pub by_rule: BTreeMap<String, usize>,
    pub changed: Vec<ReplayedCall>,
}

/// A call of which today's rules say something else.
#[derive(Clone, Debug, Serialize)]
pub struct ReplayedCall {
    pub execution: String,
    pub step: String,
    pub tool: String,
    pub was: RuleEffect,
    pub now: RuleEffect,
    pub rule: Option<String>,
    pub say: Option<String>,
    pub result: PastResult,
}

/// Judges the calls of this project's sessions since `since_ms` by the rules of the config, as if they were enforced.
pub async fn replay_policy(service: &Service, config: &Config, since_ms: i64) -> Result<PolicyReplay, Error> {
    let calls = service.sessions().past_calls(since_ms).await?;
    let guard = config.guard.clone().unwrap_or_default();
    let mut replay = PolicyReplay { since_ms, calls: calls.len(), ..PolicyReplay::default() };
    calls.iter().for_each(|call| replay.add(config, &guard, call));
    Ok(replay)
}

impl PolicyReplay {
    fn add(&mut self, config: &Config, guard: &GuardConfig, call: &PastCall) {
        let Some(judged) = judge_past_call(config, guard, call) else {
            self.undecidable += 1;
            return;
        };
        let (was, now) = (call.decided, judged.verdict);
        if was == now {
            self.unchanged += 1;
            return;
        }
        match now {
            RuleEffect::Ask if was == RuleEffect::Allow => self.allow_to_ask += 1,
            RuleEffect::Deny if was == RuleEffect::Allow => self.allow_to_deny += 1,
            RuleEffect::Allow | RuleEffect::Ask | RuleEffect::Deny => self.other_changes += 1,
        }
        let rule = deciding_rule(&judged);
        if was == RuleEffect::Allow {
            self.count_effect(call.result);
            *self.by_rule.entry(rule.clone().unwrap_or_default()).or_insert(0) += 1;
        }
        self.changed.push(ReplayedCall {
            execution: call.execution.clone(),
            step: call.step.clone(),
            tool: call.tool.clone(),
            was,
            now,
            rule,
            say: judged.say,
            result: call.result,
        });
    }

    /// Counts what a stricter verdict on an allowed call would have done.
    fn count_effect(&mut self, result: PastResult) {
        match result {
            PastResult::Failed | PastResult::Undone => self.would_have_stopped += 1,
            PastResult::WentWell => self.would_have_hindered += 1,
            PastResult::Unknown | PastResult::NotMade => self.undecidable += 1,
        }
    }
}

/// What today's rules say of the call; `None`: its arguments are erased.
fn judge_past_call(config: &Config, guard: &GuardConfig, past: &PastCall) -> Option<Judgement> {
    let call = GuardedCall {
        tool: past.tool.clone(),
        arguments: past.arguments.clone()?,
        folder: past.folder.clone().or_else(|| past.session.folder.clone()),
        agent: past.session.agent.clone(),
        ..GuardedCall::default()
    };
    let facts = RuleFacts {
        call: call_facts(config, &call),
        tool: tool_facts(config, &call),
        session: past.session.clone(),
        caller: CallerFacts { name: format!("agent:{}", past.session.client), roles: Vec::new() },
        now: past.at_ms,
    };
    let terms = JudgementTerms { mode: GuardMode::Enforce, ..judgement_terms(config, guard, &call) };
    Some(judge(&guard.rules, &facts, &terms))
}
