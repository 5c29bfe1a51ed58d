//! Templates and saved plans over MCP; templates are in the `full` profile only.

use serde_json::{Value, json};

use super::agent::Agent;
use super::write;
use crate::cli::House;

fn full(house: &House) -> Agent {
    Agent::legacy(house, &["mcp", "--tools", "full"], "2025-11-25", json!({}))
}

#[test]
fn an_agent_keeps_what_it_ran_and_runs_it_again_with_other_inputs() {
    let house = House::new();
    let mut agent = full(&house);
    let plan = json!({ "name": "work", "steps": [write("a", "one.txt"), write("b", "two.txt")] });
    let first = agent.good("execute_plan", json!({ "plan": plan, "wait_s": 30 }));
    assert_eq!(first.content["status"], "succeeded");

    let kept =
        agent.good("template", json!({ "action": "save", "execution_id": first.id(), "name": "pair" }));
    let inputs = kept.content["inputs"].as_object().unwrap();
    assert_eq!(inputs.keys().collect::<Vec<_>>(), ["a_path", "b_path", "content"]);
    let (tool, arguments) = kept.next();
    assert_eq!((tool.as_str(), &arguments["name"]), ("template", &json!("pair")));
    let slip =
        agent.refused("template", json!({ "action": "use", "name": "pair", "inputs": { "a_pat": "x" } }));
    assert!(slip.text.contains("did you mean `inputs.a_path`?"), "{}", slip.text);

    let used = json!({ "action": "use", "name": "pair", "as": "again", "inputs": { "a_path": "three.txt" }, "idempotency_key": "u1" });
    let saved = agent.good("template", used.clone());
    assert_eq!(agent.good("template", used).content["plan_id"], saved.content["plan_id"]);
    let (_, mut start) = saved.next();
    start["wait_s"] = json!(30);
    start["inputs"] = json!({ "b_path": "four.txt" });
    let second = agent.good("execute_plan", start);
    assert_eq!(second.content["status"], "succeeded");
    for file in ["one", "two", "three", "four"] {
        assert!(house.path(&format!("work/{file}.txt")).exists(), "{file}");
    }

    let listed = agent.good("template", json!({ "action": "list" }));
    assert!(listed.text.contains("- pair (a_path?, b_path?, content?)"), "{}", listed.text);
    assert!(listed.text.contains("research (audience?, depth?, topic)"), "{}", listed.text);
    let shown = agent.good("template", json!({ "action": "show", "name": "pair" }));
    assert!(shown.content["author"].as_str().unwrap().starts_with("agent:"));
    agent.good("template", json!({ "action": "delete", "name": "pair" }));
    let gone = agent.refused("template", json!({ "action": "show", "name": "pair" }));
    assert_eq!(gone.content["error"]["code"], "no_such_template");
    let neither = agent.refused("template", json!({ "action": "save", "name": "x" }));
    assert_eq!(neither.content["error"]["code"], "missing_argument");
}

#[test]
fn saved_plans_are_listed_shown_deleted_and_kept_as_templates() {
    let house = House::new();
    let mut agent = full(&house);
    agent
        .good("save_plan", json!({ "plan": { "name": "one", "steps": [{ "id": "a", "action": "do it" }] } }));
    let listed = agent.good("plan", json!({ "action": "list" }));
    assert_eq!(listed.content["plans"][0]["name"], "one");
    let shown = agent.good("plan", json!({ "action": "show", "plan_id": "one" }));
    assert_eq!(shown.content["document"]["steps"][0]["action"], "do it");
    agent.good("template", json!({ "action": "save", "plan_id": "one" }));
    agent.good("plan", json!({ "action": "delete", "plan_id": "one" }));
    assert_eq!(agent.good("plan", json!({ "action": "list" })).content["plans"], json!([]));
    let used = agent.good("template", json!({ "action": "use", "name": "one" }));
    assert!(used.content["plan_id"].is_string());
    let list = |profile: &str| -> Vec<Value> {
        let mut agent = Agent::legacy(&house, &["mcp", "--tools", profile], "2025-11-25", json!({}));
        let listed = agent.request("tools/list", json!({})).unwrap();
        listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect()
    };
    for profile in ["run", "record"] {
        let names = list(profile);
        assert!(!names.contains(&json!("template")) && names.contains(&json!("plan")), "{names:?}");
    }
}

#[test]
fn an_agents_plan_says_what_it_is_at_and_what_blocks_it() {
    let house = House::new();
    let mut agent = full(&house);
    agent.good("template", json!({ "action": "use", "name": "research", "inputs": { "topic": "queues" } }));
    let started = agent.good("execute_plan", json!({ "plan_id": "research", "wait_s": 5 }));
    let id = started.id().to_owned();
    assert!(started.text.contains("At scope. Estimated 165m"), "{}", started.text);
    assert!(started.text.contains("the questions that the team has about queues"), "{}", started.text);
    let report = |status: &str| json!({ "execution_id": id, "step_id": "scope", "status": status, "description": "read" });
    agent.good("record_action", report("started"));
    let logged =
        json!({ "execution_id": id, "description": "asked the vendor", "type": "call", "confidence": 0.7 });
    agent.good("record_action", logged);
    let done = agent.good("record_action", report("succeeded"));
    assert_eq!(done.content["current"], json!(["sources"]));
    assert_eq!(done.content["durations"]["left_ms"], 9_000_000);
    assert_eq!(done.content["steps"][0]["estimated_ms"], 900_000);
    let note = json!({ "key": "archive", "type": "blockers", "execution_id": id, "value": "no access yet" });
    agent.good("set_context", note);
    let blocked = agent.good("status", json!({ "execution_id": id }));
    assert!(
        blocked.text.contains("Blocker `archive`") && blocked.text.contains("no access yet"),
        "{}",
        blocked.text
    );
    agent.good("set_context", json!({ "key": "archive", "execution_id": id, "delete": true }));
    assert!(!agent.good("status", json!({ "execution_id": id })).text.contains("Blocker"));
}
