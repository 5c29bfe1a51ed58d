//! Random plan documents, parsed and bound by the real parser and binder.

use actbook_engine::chain::Digest;
use actbook_engine::plan::Plan;
use actbook_engine::tool_policy::{RetryLimits, ToolPolicies, ToolPolicy};
use serde_json::{Map, Value, json};

use super::rng::SimRng;

const IDS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

pub fn random_plan(rng: &mut SimRng) -> Plan {
    let document = random_document(rng);
    Plan::from_value(&document).unwrap_or_else(|found| panic!("{found:#?} in {document:#}"))
}

fn random_document(rng: &mut SimRng) -> Value {
    let count = *rng.pick(&[1, 1, 2, 2, 3, 3, 4, 5, 6]);
    let steps: Vec<Value> = (0..count).map(|index| random_step(rng, index, count)).collect();
    let undoable = steps.iter().any(|step| step.get("compensation").is_some());
    let on_failure = *rng.pick(&["manual", "manual", "propose", if undoable { "auto" } else { "manual" }]);
    let mut policy = json!({
        "concurrency": rng.pick(&[1, 1, 2, 3]),
        "on_failure": on_failure,
        "approval": rng.pick(&["none", "none", "none", "none", "none", "plan", "at_point_of_no_return", "every_write"]),
    });
    if rng.percent_chance(30) {
        policy["max_calls"] = json!(rng.pick(&[1, 2, 4]));
    }
    if rng.percent_chance(12) {
        policy["timeout"] = json!(rng.pick(&["2s", "20s"]));
    }
    json!({ "name": "random", "policy": policy, "steps": steps })
}

fn random_step(rng: &mut SimRng, index: usize, count: usize) -> Value {
    let agent = rng.percent_chance(20);
    let read_only = !agent && rng.percent_chance(15);
    let mut step = Map::new();
    step.insert("id".into(), json!(IDS[index]));
    insert_work(rng, agent, index, &mut step);
    let needed: Vec<&str> = IDS[..index].iter().copied().filter(|_| rng.percent_chance(35)).collect();
    step.insert("depends_on".into(), json!(needed));
    if let Some(when) = random_condition(rng, index) {
        step.insert("when".into(), json!(when));
    }
    if read_only {
        step.insert("read_only".into(), json!(true));
    } else {
        insert_compensation(rng, &mut step);
    }
    if !agent {
        step.insert("idempotent".into(), json!(rng.percent_chance(30)));
        step.insert("retry".into(), random_retry(rng));
    }
    if !read_only && rng.percent_chance(30) {
        step.insert("probe".into(), json!({ "tool": "t/probe", "happened": "output.exists" }));
    }
    if rng.percent_chance(12) {
        step.insert("approval".into(), json!("required"));
    }
    if rng.percent_chance(30) {
        step.insert("priority".into(), json!(1));
    }
    insert_failure_policy(rng, index, count, &mut step);
    Value::Object(step)
}

fn insert_work(rng: &mut SimRng, agent: bool, index: usize, step: &mut Map<String, Value>) {
    if agent && rng.percent_chance(60) {
        step.insert("action".into(), json!("do it"));
    } else {
        step.insert("tool".into(), json!("t/run"));
        let mut arguments = json!({ "path": IDS[index] });
        if index > 0 && rng.percent_chance(25) {
            let from = IDS[rng.below(index)];
            arguments["from"] = json!(format!("${{steps.{from}.output{}}}", rng.pick(&["", ".x"])));
        }
        if rng.percent_chance(4) {
            arguments["bad"] = json!("${int('not a number')}");
        }
        step.insert("arguments".into(), arguments);
        if agent {
            step.insert("by".into(), json!("agent"));
        }
    }
    if agent && rng.percent_chance(30) {
        step.insert("timeout".into(), json!("5s"));
    }
}

fn random_condition(rng: &mut SimRng, index: usize) -> Option<String> {
    if index > 0 && rng.percent_chance(20) {
        let status = rng.pick(&["failed", "succeeded", "unknown"]);
        return Some(format!("steps.{}.status == '{status}'", IDS[rng.below(index)]));
    }
    rng.percent_chance(7).then(|| "false".to_owned())
}

fn insert_compensation(rng: &mut SimRng, step: &mut Map<String, Value>) {
    let mut compensation = match rng.below(5) {
        0 => {
            if rng.percent_chance(20) {
                step.insert("cancellable".into(), json!("partially-reversible"));
            }
            return;
        }
        1 => json!({ "action": "undo it" }),
        _ => {
            let mut call = json!({ "tool": "t/undo", "arguments": { "path": "back" } });
            if rng.percent_chance(15) && step.contains_key("arguments") {
                call["arguments"]["path"] = json!("${arguments.path}");
            }
            if rng.percent_chance(10) {
                call["arguments"]["made"] = json!("${output.x}");
            }
            call["idempotent"] = json!(rng.percent_chance(40));
            call["retry"] = random_retry(rng);
            call
        }
    };
    if compensation.get("action").is_some() && rng.percent_chance(30) {
        compensation["timeout"] = json!("5s");
    }
    step.insert("compensation".into(), compensation);
    if rng.percent_chance(15) {
        step.insert("cancellable".into(), json!(rng.pick(&["partially-reversible", "irreversible"])));
    }
}

/// Random tool policies of an operator; mostly none.
pub fn random_policies(rng: &mut SimRng) -> ToolPolicies {
    let mut policies = ToolPolicies::new();
    for tool in ["t/run", "t/undo", "t/probe"] {
        if rng.percent_chance(25) {
            policies.insert(tool.to_owned(), random_policy(rng));
        }
    }
    policies
}

fn random_policy(rng: &mut SimRng) -> ToolPolicy {
    let max_attempts = *rng.pick(&[None, Some(1), Some(2)]);
    ToolPolicy {
        pin: Some(Digest::of(b"one")),
        timeout_ms: *rng.pick(&[None, Some(1_000)]),
        retry: rng.percent_chance(50).then(|| RetryLimits { max_attempts, ..RetryLimits::default() }),
        idempotent: *rng.pick(&[None, None, Some(true), Some(false)]),
        read_only: *rng.pick(&[None, None, None, Some(true), Some(false)]),
        hinted: rng.percent_chance(20),
        approval: rng.percent_chance(15),
    }
}

fn random_retry(rng: &mut SimRng) -> Value {
    let on = rng.pick(&[
        ["unavailable", "timeout"],
        ["unavailable", "protocol"],
        ["timeout", "internal"],
        ["tool_error", "policy"],
    ]);
    json!({ "max_attempts": rng.pick(&[1, 1, 2, 3]), "backoff": rng.pick(&["0s", "500ms", "2s"]), "on": on })
}

fn insert_failure_policy(rng: &mut SimRng, index: usize, count: usize, step: &mut Map<String, Value>) {
    let actions = [
        None,
        None,
        None,
        Some("cancel_all"),
        Some("cancel_dependent"),
        Some("continue_others"),
        Some("manual_decision"),
    ];
    let Some(action) = *rng.pick(&actions) else { return };
    let mut policy = json!({ "action": action });
    if action == "cancel_dependent" {
        let named: Vec<&str> = (0..count)
            .filter(|other| *other != index)
            .map(|other| IDS[other])
            .filter(|_| rng.percent_chance(25))
            .collect();
        policy["propagate_to"] = json!(named);
    }
    step.insert("failure_policy".into(), policy);
}
