//! Collects what the rules read about a call, and judges it.

use std::collections::BTreeSet;

use actbook_engine::rules::{
    CallFacts, CalledToolFacts, CallerFacts, DecidedBy, GuardMode, Judgement, JudgementTerms, PinState, Rule,
    RuleEffect, RuleFacts, judge,
};
use serde_json::{Value, json};

use super::call::server_and_tool;
use super::{Guard, GuardedCall, paths};
use crate::caller::Caller;
use crate::config::{CLIENT_SERVER, Config, GuardConfig};
use crate::service::{ARGUMENTS_BYTES_MAX, GuardedTool, JudgedSession};

/// The names for clients' tools that nothing is known of.
const UNKNOWN_BUILT_INS: [&str; 2] = ["client/other", "client/mcp"];
/// The clients' own tools that only read.
const READING_BUILT_INS: [&str; 2] = ["client/read", "client/fetch"];
/// The clients' own tools through which data can leave.
const EGRESS_BUILT_INS: [&str; 2] = ["client/fetch", "client/shell"];
/// The label of tools through which data can leave.
const EGRESS: &str = "egress";
/// The label of a session that has read what strangers wrote.
pub const UNTRUSTED: &str = "untrusted";

/// Judges a call by the config's rules and what the session is.
pub fn judge_call(
    guard: &Guard<'_>,
    caller: &Caller,
    session: JudgedSession,
    call: &GuardedCall,
) -> Judgement {
    let JudgedSession { facts: session, spent_budget, repeats_unknown } = session;
    let (now, config) = (guard.service.sessions().now_ms(), guard.config.guard());
    let facts = RuleFacts {
        call: call_facts(guard.config, call),
        tool: tool_facts(guard.config, call),
        session,
        caller: CallerFacts { name: caller.actor.to_string(), roles: Vec::new() },
        now,
    };
    let terms = judgement_terms(guard.config, config, call);
    let repeats_unknown = repeats_unknown && !facts.call.read_only;
    judge_names(&config.rules, facts, &JudgementTerms { spent_budget, repeats_unknown, ..terms }, call)
}

/// Judges a call under each name that its tool may have; the strictest verdict counts.
pub fn judge_names(
    rules: &[Rule],
    mut facts: RuleFacts,
    terms: &JudgementTerms,
    call: &GuardedCall,
) -> Judgement {
    let mut under = |name: &str| {
        facts.call.tool = name.to_owned();
        facts.call.server = server_and_tool(name).0.to_owned();
        judge(rules, &facts, terms)
    };
    let first = under(&call.tool);
    let strictness = |one: &Judgement| (one.verdict, one.suspended);
    let strictest =
        |one: Judgement, other: Judgement| if strictness(&other) > strictness(&one) { other } else { one };
    call.rule_names().into_iter().skip(1).map(under).fold(first, strictest)
}

/// What beside the rules decides about a call; the budget is not spent, and no equal call is unknown.
pub fn judgement_terms(config: &Config, guard: &GuardConfig, call: &GuardedCall) -> JudgementTerms {
    JudgementTerms {
        mode: guard.mode,
        unknown: guard.unknown,
        is_known: is_known(config, call),
        demands_approval: call.settings(config).approval == Some(true),
        spent_budget: None,
        repeats_unknown: false,
        refused_pin: call.relayed.as_ref().and_then(refused_pin),
    }
}

/// Why a definition is not called that differs from the accepted one; `None`: it is the accepted one.
fn refused_pin(tool: &GuardedTool) -> Option<String> {
    let how = match tool.pin {
        PinState::Same => return None,
        PinState::Changed => "has changed since it was accepted",
        PinState::New => "is new at its server",
    };
    let name = &tool.name;
    Some(format!(
        "`{name}` {how}: a person looks at it with `actbook tools show {name}`, and accepts it with `actbook tools accept {name}`"
    ))
}

/// Whether agents are offered a tool: the accepted definition, or one that a rule about definitions lets pass.
pub fn is_offered(config: &Config, tool: &GuardedTool) -> bool {
    if tool.pin == PinState::Same {
        return true;
    }
    let guard = config.guard();
    let rules: Vec<Rule> = guard.rules.iter().filter(|rule| rule.reads_pin()).cloned().collect();
    let call = GuardedCall {
        tool: tool.name.clone(),
        arguments: json!({}),
        relayed: Some(tool.clone()),
        ..GuardedCall::default()
    };
    let facts = RuleFacts {
        call: call_facts(config, &call),
        tool: tool_facts(config, &call),
        ..RuleFacts::default()
    };
    let terms = JudgementTerms { is_known: true, ..judgement_terms(config, guard, &call) };
    judge(&rules, &facts, &terms).verdict != RuleEffect::Deny
}

/// What rules read about the call itself.
pub fn call_facts(config: &Config, call: &GuardedCall) -> CallFacts {
    CallFacts {
        tool: call.tool.clone(),
        server: call.server().to_owned(),
        arguments: call.arguments.clone(),
        paths: paths::find_paths(&call.arguments, call.folder.as_deref()),
        read_only: is_read_only(config, call),
    }
}

/// What the config says of the tool; for a client's own tools, what is known of them.
pub fn tool_facts(config: &Config, call: &GuardedCall) -> CalledToolFacts {
    let mut labels = call.settings(config).labels;
    if EGRESS_BUILT_INS.contains(&call.tool.as_str()) {
        labels.insert(EGRESS.to_owned());
    }
    CalledToolFacts {
        labels,
        pin: call.relayed.as_ref().map_or(PinState::Same, |tool| tool.pin),
        read_only: is_read_only(config, call),
        destructive: call.relayed.as_ref().is_some_and(|tool| tool.hints.destructive == Some(true)),
        trusted: config.servers.get(call.server()).is_some_and(|server| server.trusted),
    }
}

/// Whether the call only reads, by the config or by what is known of a client's own tools.
pub fn is_read_only(config: &Config, call: &GuardedCall) -> bool {
    let configured = call.settings(config).read_only;
    let hinted = call.relayed.as_ref().is_some_and(|tool| tool.hints.read_only == Some(true));
    configured.unwrap_or(hinted || READING_BUILT_INS.contains(&call.tool.as_str()))
}

/// Whether an entry of the config, or Actbook itself, speaks of the tool.
fn is_known(config: &Config, call: &GuardedCall) -> bool {
    let (server, tool) = server_and_tool(&call.tool);
    if server != CLIENT_SERVER {
        return config.servers.contains_key(server);
    }
    // What the config says of one of the client's tools tells nothing of its other ones.
    let is_configured = config.servers.get(server).is_some_and(|server| server.tools.contains_key(tool));
    is_configured || !UNKNOWN_BUILT_INS.contains(&call.tool.as_str())
}

/// Denies a call whatever the rules say, unless the guard only observes. `what` stands in the place of a rule's name.
pub fn deny(judged: &mut Judgement, mode: GuardMode, what: &str, why: &str) {
    match mode {
        GuardMode::Enforce => {
            judged.verdict = RuleEffect::Deny;
            judged.decided_by = DecidedBy::Rule(what.to_owned());
            judged.say = Some(why.to_owned());
        }
        GuardMode::Observe => judged.suspended = Some(RuleEffect::Deny),
    }
}

/// Why a call is denied whose arguments are cut.
pub fn oversize_message() -> String {
    let limit = ARGUMENTS_BYTES_MAX / (1024 * 1024);
    format!("the input is larger than {limit} MiB, too large to be judged whole; make the call in parts")
}

/// The labels that join the session with a call of this tool.
pub fn labels_added(config: &Config, call: &GuardedCall) -> BTreeSet<String> {
    let mut adds = call.settings(config).adds;
    if call.tool == "client/fetch" {
        adds.insert(UNTRUSTED.to_owned());
    }
    adds
}

/// The rule that decided; what else decided stands in its place.
pub fn deciding_rule(judged: &Judgement) -> Option<String> {
    match &judged.decided_by {
        DecidedBy::Nothing => None,
        DecidedBy::Rule(rule) => Some(rule.clone()),
        DecidedBy::Unknown => Some("unknown".to_owned()),
        DecidedBy::Approval => Some("approval".to_owned()),
        DecidedBy::Budget => Some("budget".to_owned()),
        DecidedBy::Repeat => Some("repeat".to_owned()),
        DecidedBy::Pin => Some("pin".to_owned()),
    }
}

/// The error of a refused call: what the rule says, and its name.
pub fn refusal_payload(judged: &Judgement) -> Value {
    let rule = deciding_rule(judged).unwrap_or_default();
    let say = judged.say.clone().unwrap_or_else(|| format!("the rule `{rule}` refuses this call"));
    json!({ "message": say, "rule": rule })
}
