//! Random plans, as documents: the real parser and binder read them.

use actbook_engine::chain::Digest;
use actbook_engine::plan::Plan;
use actbook_engine::tool_policy::{RetryLimits, ToolPolicies, ToolPolicy};
use serde_json::{Map, Value, json};

use super::dice::Dice;

const IDS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

pub fn plan(dice: &mut Dice) -> Plan {
    let document = document(dice);
    Plan::from_value(&document).unwrap_or_else(|found| panic!("{found:#?} in {document:#}"))
}

fn document(dice: &mut Dice) -> Value {
    let count = *dice.pick(&[1, 1, 2, 2, 3, 3, 4, 5, 6]);
    let steps: Vec<Value> = (0..count).map(|index| step(dice, index, count)).collect();
    let undoable = steps.iter().any(|step| step.get("compensation").is_some());
    let on_failure = *dice.pick(&["manual", "manual", "propose", if undoable { "auto" } else { "manual" }]);
    let mut policy = json!({
        "concurrency": dice.pick(&[1, 1, 2, 3]),
        "on_failure": on_failure,
        "approval": dice.pick(&["none", "none", "none", "none", "none", "plan", "at_point_of_no_return", "every_write"]),
    });
    if dice.chance(30) {
        policy["max_calls"] = json!(dice.pick(&[1, 2, 4]));
    }
    if dice.chance(12) {
        policy["timeout"] = json!(dice.pick(&["2s", "20s"]));
    }
    json!({ "name": "random", "policy": policy, "steps": steps })
}

fn step(dice: &mut Dice, index: usize, count: usize) -> Value {
    let agent = dice.chance(20);
    let read_only = !agent && dice.chance(15);
    let mut step = Map::new();
    step.insert("id".into(), json!(IDS[index]));
    work(dice, agent, index, &mut step);
    let needed: Vec<&str> = IDS[..index].iter().copied().filter(|_| dice.chance(35)).collect();
    step.insert("depends_on".into(), json!(needed));
    if let Some(when) = when(dice, index) {
        step.insert("when".into(), json!(when));
    }
    if read_only {
        step.insert("read_only".into(), json!(true));
    } else {
        undoing(dice, &mut step);
    }
    if !agent {
        step.insert("idempotent".into(), json!(dice.chance(30)));
        step.insert("retry".into(), retry(dice));
    }
    if !read_only && dice.chance(30) {
        step.insert("probe".into(), json!({ "tool": "t/probe", "happened": "output.exists" }));
    }
    if dice.chance(12) {
        step.insert("approval".into(), json!("required"));
    }
    if dice.chance(30) {
        step.insert("priority".into(), json!(1));
    }
    failure_policy(dice, index, count, &mut step);
    Value::Object(step)
}

fn work(dice: &mut Dice, agent: bool, index: usize, step: &mut Map<String, Value>) {
    if agent && dice.chance(60) {
        step.insert("action".into(), json!("do it"));
    } else {
        step.insert("tool".into(), json!("t/run"));
        let mut arguments = json!({ "path": IDS[index] });
        if index > 0 && dice.chance(25) {
            let from = IDS[dice.below(index)];
            arguments["from"] = json!(format!("${{steps.{from}.output{}}}", dice.pick(&["", ".x"])));
        }
        if dice.chance(4) {
            arguments["bad"] = json!("${int('not a number')}");
        }
        step.insert("arguments".into(), arguments);
        if agent {
            step.insert("by".into(), json!("agent"));
        }
    }
    if agent && dice.chance(30) {
        step.insert("timeout".into(), json!("5s"));
    }
}

fn when(dice: &mut Dice, index: usize) -> Option<String> {
    if index > 0 && dice.chance(20) {
        let status = dice.pick(&["failed", "succeeded", "unknown"]);
        return Some(format!("steps.{}.status == '{status}'", IDS[dice.below(index)]));
    }
    dice.chance(7).then(|| "false".to_owned())
}

fn undoing(dice: &mut Dice, step: &mut Map<String, Value>) {
    let mut compensation = match dice.below(5) {
        0 => {
            if dice.chance(20) {
                step.insert("cancellable".into(), json!("partially-reversible"));
            }
            return;
        }
        1 => json!({ "action": "undo it" }),
        _ => {
            let mut call = json!({ "tool": "t/undo", "arguments": { "path": "back" } });
            if dice.chance(15) && step.contains_key("arguments") {
                call["arguments"]["path"] = json!("${arguments.path}");
            }
            if dice.chance(10) {
                call["arguments"]["made"] = json!("${output.x}");
            }
            call["idempotent"] = json!(dice.chance(40));
            call["retry"] = retry(dice);
            call
        }
    };
    if compensation.get("action").is_some() && dice.chance(30) {
        compensation["timeout"] = json!("5s");
    }
    step.insert("compensation".into(), compensation);
    if dice.chance(15) {
        step.insert("cancellable".into(), json!(dice.pick(&["partially-reversible", "irreversible"])));
    }
}

/// What an operator may have said of the tools: in most stories nothing.
pub fn terms(dice: &mut Dice) -> ToolPolicies {
    let mut terms = ToolPolicies::new();
    for tool in ["t/run", "t/undo", "t/probe"] {
        if dice.chance(25) {
            terms.insert(tool.to_owned(), tool_terms(dice));
        }
    }
    terms
}

fn tool_terms(dice: &mut Dice) -> ToolPolicy {
    let max_attempts = *dice.pick(&[None, Some(1), Some(2)]);
    ToolPolicy {
        pin: Some(Digest::of(b"one")),
        timeout_ms: *dice.pick(&[None, Some(1_000)]),
        retry: dice.chance(50).then(|| RetryLimits { max_attempts, ..RetryLimits::default() }),
        idempotent: *dice.pick(&[None, None, Some(true), Some(false)]),
        read_only: *dice.pick(&[None, None, None, Some(true), Some(false)]),
        hinted: dice.chance(20),
        approval: dice.chance(15),
    }
}

fn retry(dice: &mut Dice) -> Value {
    let on = dice.pick(&[
        ["unavailable", "timeout"],
        ["unavailable", "protocol"],
        ["timeout", "internal"],
        ["tool_error", "policy"],
    ]);
    json!({ "max_attempts": dice.pick(&[1, 1, 2, 3]), "backoff": dice.pick(&["0s", "500ms", "2s"]), "on": on })
}

fn failure_policy(dice: &mut Dice, index: usize, count: usize, step: &mut Map<String, Value>) {
    let actions = [
        None,
        None,
        None,
        Some("cancel_all"),
        Some("cancel_dependent"),
        Some("continue_others"),
        Some("manual_decision"),
    ];
    let Some(action) = *dice.pick(&actions) else { return };
    let mut policy = json!({ "action": action });
    if action == "cancel_dependent" {
        let named: Vec<&str> = (0..count)
            .filter(|other| *other != index)
            .map(|other| IDS[other])
            .filter(|_| dice.chance(25))
            .collect();
        policy["propagate_to"] = json!(named);
    }
    step.insert("failure_policy".into(), policy);
}
