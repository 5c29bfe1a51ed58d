//! The commands of a case that is a session.
//!
//!   call TOOL JSON [ask | refuse] [agent] [observed] [adds=a,b] [pin=D] [node=N] [undo=TOOL] [id=ID] [expires=MS]
//!        [approval] [before=JSON] [seen=a,b]     `seen`: the labels with which the call was judged
//!   go STEP [before=JSON]        the waiting call starts
//!   leave STEP                   its caller stops waiting
//!   ended STEP OUTCOME …         as with `end`; `after=JSON` first
//!   lose NODE [unsent:STEP]      keep STEP before|after JSON      clear LABEL      close [LAST_POSITION_WHEN_IDLE]

use std::collections::BTreeSet;

use actbook_engine::chain::Digest;
use actbook_engine::event::UndoTemplate;
use actbook_engine::execution::{CallId, CallKind, CallVerdict, Execution, SessionCall, SessionCommand};
use actbook_engine::id::{NodeId, Position};
use actbook_engine::tool_policy::ToolPolicy;
use serde_json::{Value, json};

use super::parse_outcome;

pub fn parse_command(execution: &Execution, verb: &str, words: &[&str]) -> SessionCommand {
    let step = || words[0].to_owned();
    match verb {
        "call" => SessionCommand::AddCall(Box::new(parse_call(execution, words))),
        "go" => SessionCommand::StartCall {
            step: step(),
            labels: current_labels(execution),
            node: Some(NodeId::new("n")),
            before: option(words, "before").map(parse_json),
        },
        "leave" => SessionCommand::StopWaiting { step: step() },
        "ended" => {
            let after = option(words, "after").map(parse_json);
            let outcome: Vec<&str> =
                words[1..].iter().copied().filter(|word| !word.starts_with("after=")).collect();
            let outcome = parse_outcome(outcome[0], &outcome[1..].join(" "));
            SessionCommand::EndCall { step: step(), outcome, after }
        }
        "lose" => {
            let unsent = words[1..].iter().map(|word| word.strip_prefix("unsent:").expect("a step"));
            let unsent = unsent.map(|step| CallId {
                step: execution.plan.find_step(step).expect("a step"),
                kind: CallKind::Run,
                index: 0,
            });
            SessionCommand::LoseCalls { node: NodeId::new(words[0]), unsent: unsent.collect() }
        }
        "keep" => SessionCommand::KeepState {
            step: step(),
            moment: words[1].parse().expect("a moment"),
            state: parse_json(words[2]),
        },
        "clear" => SessionCommand::ClearLabel { label: step(), reason: None },
        "close" => {
            let idle_since = words.first().map(|position| Position(position.parse().expect("a position")));
            SessionCommand::Close { reason: None, idle_since }
        }
        _ => panic!("unknown command {verb}"),
    }
}

fn parse_call(execution: &Execution, words: &[&str]) -> SessionCall {
    let has = |word: &str| words.contains(&word);
    let text = |name: &str| option(words, name).map(str::to_owned);
    let by_agent = has("agent");
    let policy = ToolPolicy {
        pin: option(words, "pin").map(|pin| Digest::of(pin.as_bytes())),
        approval: has("approval"),
        read_only: has("read-only").then_some(true),
        ..ToolPolicy::default()
    };
    let undo = text("undo").map(|tool| UndoTemplate {
        tool,
        arguments: json!({ "path": "${arguments.path}", "was": "${before}" }),
        check: None,
    });
    SessionCall {
        tool: words[0].to_owned(),
        arguments: parse_json(words[1]),
        by_agent,
        node: (!by_agent).then(|| NodeId::new(option(words, "node").unwrap_or("n"))),
        policies: [(words[0].to_owned(), policy)].into(),
        servers: [("t".to_owned(), Digest::of(b"t"))].into(),
        undo,
        adds: labels(option(words, "adds")),
        call: text("id"),
        agent: None,
        client_tool: text("as"),
        folder: text("in"),
        secrets: option(words, "secrets").map(parse_json),
        matched: None,
        before: option(words, "before").map(parse_json),
        labels: option(words, "seen").map_or_else(|| current_labels(execution), |seen| labels(Some(seen))),
        verdict: if has("ask") {
            CallVerdict::Ask
        } else if has("refuse") {
            CallVerdict::Refuse { error: json!({ "message": "no" }) }
        } else {
            CallVerdict::Allow
        },
        rule: None,
        note: None,
        expires_at_ms: option(words, "expires").map(|at| at.parse().expect("a time")),
        observed: has("observed"),
    }
}

/// Labels, counts and what a successor would inherit.
pub fn show_session(execution: &Execution) -> String {
    let session = execution.session.as_ref().expect("a session");
    let labels: Vec<&str> = session.labels.iter().map(String::as_str).collect();
    let counts: Vec<String> = session.counts.iter().map(|(tool, count)| format!("{tool} {count}")).collect();
    let successor = serde_json::to_string(&execution.successor_start()).expect("a start is JSON");
    format!("  labels: {}\n  calls: {}\n  successor: {successor}\n", labels.join(", "), counts.join(", "))
}

fn option<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

fn labels(text: Option<&str>) -> BTreeSet<String> {
    let names = text.into_iter().flat_map(|text| text.split(','));
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn current_labels(execution: &Execution) -> BTreeSet<String> {
    execution.session.as_ref().expect("a session").labels.clone()
}

fn parse_json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}
