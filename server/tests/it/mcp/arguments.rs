//! No argument is dropped silently: one that an action does not take is refused with the list of those it
//! takes.

use serde_json::{Map, Value, json};

use super::agent::Agent;
use super::work_plan;
use crate::cli::Sandbox;

/// A value that the schema of this property accepts.
fn sample_value(property: &Value) -> Value {
    if let Some(word) = property["enum"].get(0) {
        return word.clone();
    }
    let kind = property["anyOf"].get(0).unwrap_or(property);
    match kind["type"].as_str() {
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("x"),
    }
}

fn open_full_profile(sandbox: &Sandbox) -> Agent {
    Agent::legacy(sandbox, &["mcp", "--tools", "full"], "2025-11-25", json!({}))
}

#[test]
fn every_action_accepts_exactly_the_arguments_its_errors_list() {
    let sandbox = Sandbox::new();
    let mut agent = open_full_profile(&sandbox);
    let listed = agent.request("tools/list", json!({})).unwrap();
    let tools = listed["tools"].as_array().unwrap();
    let mut walked = 0;
    for tool in tools.iter().filter(|tool| tool["inputSchema"]["properties"]["action"]["enum"].is_array()) {
        let name = tool["name"].as_str().unwrap();
        let properties = tool["inputSchema"]["properties"].as_object().unwrap();
        for action in properties["action"]["enum"].as_array().unwrap() {
            walked += 1;
            check_action(&mut agent, name, &tool["inputSchema"], action);
        }
    }
    assert!(walked >= 20, "only {walked} actions were found");
}

/// Sends an action each argument of its tool by itself; the accepted arguments must be those that the
/// refusals list.
fn check_action(agent: &mut Agent, tool: &str, schema: &Value, action: &Value) {
    let properties = schema["properties"].as_object().unwrap();
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut least: Map<String, Value> =
        required.map(|name| (name.to_owned(), sample_value(&properties[name]))).collect();
    least.insert("action".to_owned(), action.clone());
    let (mut taken, mut lists) = (Vec::new(), Vec::new());
    for (name, property) in properties {
        let mut arguments = least.clone();
        arguments.entry(name).or_insert_with(|| sample_value(property));
        let answer = agent.call(tool, Value::Object(arguments));
        let error = &answer.content["error"];
        if error["code"] != "unexpected_argument" {
            taken.push(name.as_str());
            continue;
        }
        assert_eq!(error["path"], **name, "{tool} {action}: {}", answer.text);
        let cure = error["cure"].as_str().unwrap();
        let (_, list) = cure.split_once(" takes ").unwrap();
        lists.push(list.split(';').next().unwrap().to_owned());
    }
    lists.dedup();
    assert!(lists.len() <= 1, "{tool} {action}: {lists:?}");
    if let Some(list) = lists.first() {
        let mut listed: Vec<&str> = list.split(", ").collect();
        taken.retain(|name| *name != "idempotency_key");
        listed.sort_unstable();
        taken.sort_unstable();
        assert_eq!(listed, taken, "{tool} {action}");
    }
}

#[test]
fn argument_foreign_to_the_action_is_refused_with_the_valid_ones() {
    let sandbox = Sandbox::new();
    let mut agent = open_full_profile(&sandbox);
    let cases = [
        ("task", json!({ "action": "list", "parent": "x" }), "parent", "takes action, status;"),
        ("task", json!({ "action": "list", "labels": ["x"] }), "labels", "with action \"add\""),
        ("task", json!({ "action": "show", "id": "x", "title": "y" }), "title", "takes action, id;"),
        ("control", json!({ "execution_id": "x", "action": "pause", "step_id": "y" }), "step_id", "reason"),
        ("control", json!({ "execution_id": "x", "action": "cancel", "output": {} }), "output", "\"skip\""),
        ("status", json!({ "execution_id": "x", "task": "y" }), "task", "takes execution_id, step_id"),
        ("status", json!({ "wait_s": 1 }), "wait_s", "status with `execution_id`"),
        (
            "record_action",
            json!({ "execution_id": "x", "status": "succeeded", "description": "y" }),
            "status",
            "record_action with `step_id`",
        ),
        (
            "set_context",
            json!({ "key": "k", "delete": true, "type": "t" }),
            "type",
            "set_context with `value`",
        ),
    ];
    for (tool, arguments, path, cure) in cases {
        let refused = agent.call_refused(tool, arguments);
        assert_eq!(refused.content["error"]["code"], "unexpected_argument", "{}", refused.text);
        assert_eq!(refused.content["error"]["path"], path);
        assert!(refused.text.contains(cure), "{tool}: {}", refused.text);
    }
    let needed = agent.call_refused("control", json!({ "execution_id": "x", "action": "retry" }));
    assert_eq!(needed.content["error"]["path"], "step_id");
    assert!(needed.text.contains("status with the execution_id names its steps"), "{}", needed.text);
    let long = agent.call_refused("status", json!({ "execution_id": "x", "wait_s": 301 }));
    assert!(long.text.contains("0 to 300"), "{}", long.text);
    let strange = json!({ "name": "resume_work", "arguments": { "goal": "x" } });
    let strange = agent.request("prompts/get", strange).unwrap_err();
    assert!(strange["message"].as_str().unwrap().contains("it takes: none"), "{strange}");
}

#[test]
fn enum_values_are_accepted_in_any_case_and_with_hyphens() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let plan = work_plan(&[json!({ "id": "mine", "action": "Do it" })]);
    let started = agent.call_ok("execute_plan", json!({ "plan": plan, "wait_s": 60 }));
    let id = started.id().to_owned();
    let control =
        |action: &str| json!({ "execution_id": id, "action": action, "step_id": "mine", "reason": "why" });
    let early = agent.call_refused("control", control("Did-Not-Happen"));
    assert_eq!(early.content["error"]["code"], "does_not_fit", "{}", early.text);
    assert!(!early.text.contains("did-not-happen"), "{}", early.text);
    let paused = agent.call_ok("control", json!({ "execution_id": id, "action": "PAUSE" }));
    assert_eq!(paused.content["status"], "paused");
    let why = json!({ "execution_id": id, "action": "resume", "reason": "the disk is free again" });
    let resumed = agent.call_ok("control", why);
    assert_eq!(resumed.content["status"], "blocked");
    assert_eq!(resumed.content["records"][0]["reason"], "the disk is free again", "the reason is recorded");
    let decision = |word: &str| json!({ "execution_id": id, "decision": word, "reason": "enough" });
    let near = agent.call_refused("record_decision", decision("stopp"));
    assert!(near.text.contains("did you mean `stop`?"), "{}", near.text);
    assert_eq!(agent.call_ok("record_decision", decision("Stop")).content["status"], "cancelled");
}

#[test]
fn error_of_an_earlier_attempt_is_not_shown_while_a_later_one_runs() {
    let sandbox = Sandbox::new();
    let fails_once = "if [ -e tried ]; then until [ -e released ]; do sleep 0.01; done; \
                      else touch tried; echo broken >&2; exit 1; fi";
    let config = json!({ "commands": { "once": { "argv": ["sh", "-c", fails_once] } } });
    sandbox.write("actbook.yaml", &config.to_string());
    let mut agent = Agent::new(&sandbox);
    let journal = sandbox.follow_journal();
    let plan = work_plan(&[json!({ "id": "once", "tool": "command/once" })]);
    let blocked = agent.call_ok("execute_plan", json!({ "plan": plan, "wait_s": 60 }));
    assert_eq!(blocked.content["steps"][0]["error"]["category"], "tool_error", "{}", blocked.text);
    let id = blocked.id().to_owned();
    journal.wait_for("attempt_started", Some("once"));
    agent.call_ok("control", json!({ "execution_id": id, "action": "retry", "step_id": "once" }));
    journal.wait_for("attempt_started", Some("once"));
    let running = agent.call_ok("status", json!({ "execution_id": id }));
    assert_eq!(running.content["steps"][0]["status"], "running");
    assert_eq!(running.content["steps"][0].get("error"), None, "{}", running.text);
    assert!(!running.text.contains("broken"), "{}", running.text);
    sandbox.release();
    let ended = agent.call_ok("status", json!({ "execution_id": id, "wait_s": 60 }));
    assert_eq!(ended.content["status"], "succeeded");
}
