//! Templates and saved plans over MCP; templates are in the `full` profile only.

use serde_json::{Value, json};

use super::agent::Agent;
use super::write_step;
use crate::cli::Sandbox;

fn open_full_profile(sandbox: &Sandbox) -> Agent {
    Agent::legacy(sandbox, &["mcp", "--tools", "full"], "2025-11-25", json!({}))
}

#[test]
fn agent_saves_an_execution_as_template_and_reruns_it_with_other_inputs() {
    let sandbox = Sandbox::new();
    let mut agent = open_full_profile(&sandbox);
    let plan = json!({ "name": "work", "steps": [write_step("a", "one.txt"), write_step("b", "two.txt")] });
    let first = agent.call_ok("execute_plan", json!({ "plan": plan, "wait_s": 30 }));
    assert_eq!(first.content["status"], "succeeded");

    let kept =
        agent.call_ok("template", json!({ "action": "save", "execution_id": first.id(), "name": "pair" }));
    let inputs = kept.content["inputs"].as_object().unwrap();
    assert_eq!(inputs.keys().collect::<Vec<_>>(), ["a_path", "b_path", "content"]);
    let (tool, arguments) = kept.next_call();
    assert_eq!((tool.as_str(), &arguments["name"]), ("template", &json!("pair")));
    let slip = agent
        .call_refused("template", json!({ "action": "use", "name": "pair", "inputs": { "a_pat": "x" } }));
    assert!(slip.text.contains("did you mean `inputs.a_path`?"), "{}", slip.text);

    let used = json!({ "action": "use", "name": "pair", "as": "again", "inputs": { "a_path": "three.txt" }, "idempotency_key": "u1" });
    let saved = agent.call_ok("template", used.clone());
    assert_eq!(agent.call_ok("template", used).content["plan_id"], saved.content["plan_id"]);
    let (_, mut start) = saved.next_call();
    start["wait_s"] = json!(30);
    start["inputs"] = json!({ "b_path": "four.txt" });
    let second = agent.call_ok("execute_plan", start);
    assert_eq!(second.content["status"], "succeeded");
    for file in ["one", "two", "three", "four"] {
        assert!(sandbox.path(&format!("work/{file}.txt")).exists(), "{file}");
    }

    let listed = agent.call_ok("template", json!({ "action": "list" }));
    assert!(listed.text.contains("- pair (a_path?, b_path?, content?)"), "{}", listed.text);
    assert!(listed.text.contains("research (audience?, depth?, topic)"), "{}", listed.text);
    let shown = agent.call_ok("template", json!({ "action": "show", "name": "pair" }));
    assert!(shown.content["author"].as_str().unwrap().starts_with("agent:"));
    agent.call_ok("template", json!({ "action": "delete", "name": "pair" }));
    let gone = agent.call_refused("template", json!({ "action": "show", "name": "pair" }));
    assert_eq!(gone.content["error"]["code"], "no_such_template");
    let neither = agent.call_refused("template", json!({ "action": "save", "name": "x" }));
    assert_eq!(neither.content["error"]["code"], "missing_argument");
}

#[test]
fn saved_plans_are_listed_shown_deleted_and_kept_as_templates() {
    let sandbox = Sandbox::new();
    let mut agent = open_full_profile(&sandbox);
    agent.call_ok(
        "save_plan",
        json!({ "plan": { "name": "one", "steps": [{ "id": "a", "action": "do it" }] } }),
    );
    let listed = agent.call_ok("plan", json!({ "action": "list" }));
    assert_eq!(listed.content["plans"][0]["name"], "one");
    let shown = agent.call_ok("plan", json!({ "action": "show", "plan_id": "one" }));
    assert_eq!(shown.content["document"]["steps"][0]["action"], "do it");
    agent.call_ok("template", json!({ "action": "save", "plan_id": "one" }));
    agent.call_ok("plan", json!({ "action": "delete", "plan_id": "one" }));
    assert_eq!(agent.call_ok("plan", json!({ "action": "list" })).content["plans"], json!([]));
    let used = agent.call_ok("template", json!({ "action": "use", "name": "one" }));
    assert!(used.content["plan_id"].is_string());
    let list = |profile: &str| -> Vec<Value> {
        let mut agent = Agent::legacy(&sandbox, &["mcp", "--tools", profile], "2025-11-25", json!({}));
        let listed = agent.request("tools/list", json!({})).unwrap();
        listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect()
    };
    for profile in ["run", "record"] {
        let names = list(profile);
        assert!(!names.contains(&json!("template")) && names.contains(&json!("plan")), "{names:?}");
    }
}

#[test]
fn status_shows_current_step_durations_and_blockers() {
    let sandbox = Sandbox::new();
    let mut agent = open_full_profile(&sandbox);
    agent
        .call_ok("template", json!({ "action": "use", "name": "research", "inputs": { "topic": "queues" } }));
    let started = agent.call_ok("execute_plan", json!({ "plan_id": "research", "wait_s": 5 }));
    let id = started.id().to_owned();
    assert!(started.text.contains("At scope. Estimated 165m"), "{}", started.text);
    assert!(started.text.contains("the questions that the team has about queues"), "{}", started.text);
    let report = |status: &str| json!({ "execution_id": id, "step_id": "scope", "status": status, "description": "read" });
    agent.call_ok("record_action", report("started"));
    let logged =
        json!({ "execution_id": id, "description": "asked the vendor", "type": "call", "confidence": 0.7 });
    agent.call_ok("record_action", logged);
    let done = agent.call_ok("record_action", report("succeeded"));
    assert_eq!(done.content["current"], json!(["sources"]));
    assert_eq!(done.content["durations"]["left_ms"], 9_000_000);
    assert_eq!(done.content["steps"][0]["estimated_ms"], 900_000);
    let note = json!({ "key": "archive", "type": "blockers", "execution_id": id, "value": "no access yet" });
    agent.call_ok("set_context", note);
    let blocked = agent.call_ok("status", json!({ "execution_id": id }));
    assert!(
        blocked.text.contains("Blocker `archive`") && blocked.text.contains("no access yet"),
        "{}",
        blocked.text
    );
    agent.call_ok("set_context", json!({ "key": "archive", "execution_id": id, "delete": true }));
    assert!(!agent.call_ok("status", json!({ "execution_id": id })).text.contains("Blocker"));
}
