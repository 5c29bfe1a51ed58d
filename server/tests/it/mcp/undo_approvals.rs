//! Tools that the config puts under approval, called through an agent's undo: every role of a call is
//! guarded.

use serde_json::{Value, json};

use super::agent::Agent;
use super::elicit::{capable, entries};
use super::{steps, write};
use crate::cli::House;

/// A sandbox whose config requires an approval for every `delete_file`.
fn guarded() -> House {
    let house = House::new();
    configure(&house, |config| {
        config["servers"]["files"]["tools"]["delete_file"] = json!({ "approval": "required" });
    });
    house
}

pub fn configure(house: &House, change: impl Fn(&mut Value)) {
    let config = std::fs::read_to_string(house.path("actbook.yaml")).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    change(&mut config);
    house.write("actbook.yaml", &config.to_string());
}

/// A plan that writes two files, each compensated by a `delete_file`.
fn plan() -> Value {
    let undoable = |id: &str, path: &str| {
        let mut step = write(id, path);
        step["compensation"] =
            json!({ "tool": "files/delete_file", "arguments": { "path": "${arguments.path}" } });
        step
    };
    steps(&[undoable("one", "one.txt"), undoable("two", "two.txt")])
}

/// The same plan with a third step that fails, and this `on_failure` policy.
fn failing(on_failure: &str) -> Value {
    let mut plan = plan();
    let missing = json!({ "id": "three", "tool": "files/read_file", "arguments": { "path": "missing.txt" } });
    plan["steps"].as_array_mut().unwrap().push(missing);
    plan["policy"] = json!({ "on_failure": on_failure });
    plan
}

fn compensate(id: &str) -> Value {
    json!({ "execution_id": id, "action": "compensate", "reason": "the user changed their mind" })
}

fn stand(house: &House) -> bool {
    house.path("work/one.txt").exists() && house.path("work/two.txt").exists()
}

fn are_gone(house: &House) -> bool {
    !house.path("work/one.txt").exists() && !house.path("work/two.txt").exists()
}

#[test]
fn agents_undo_of_a_tool_under_approval_waits_for_a_person() {
    let house = guarded();
    let mut agent = Agent::new(&house);
    let ended = agent.good("execute_plan", json!({ "plan": plan(), "wait_s": 60 }));
    let id = ended.id().to_owned();
    assert_eq!(ended.content["status"], "succeeded", "{}", ended.text);
    for _ in 0..2 {
        let asked = agent.good("control", compensate(&id));
        assert_eq!(asked.content["status"], "succeeded", "{}", asked.text);
        assert_eq!(asked.content["waiting"][0]["for"], "approval", "{}", asked.text);
        assert!(asked.line("Next: ").contains(&format!("actbook approve {id}")), "{}", asked.text);
    }
    let refused = agent.refused("control", json!({ "execution_id": id, "action": "approve" }));
    assert_eq!(refused.content["error"]["code"], "needs_a_person");
    assert!(stand(&house) && entries(&house, "compensation_started").is_empty());
    let proposed = entries(&house, "unwind_proposed");
    let calls = proposed[0]["body"]["calls"].as_array().unwrap();
    assert_eq!(calls.iter().map(|call| &call["step"]).collect::<Vec<_>>(), ["two", "one"]);
    house.expect(0, &["approve", &id]);
    house.expect(1, &["resume", &id]);
    assert!(are_gone(&house));
}

#[test]
fn person_at_the_client_answers_an_agents_undo() {
    for (answer, status) in [("approve", "compensated"), ("reject", "succeeded")] {
        let house = guarded();
        let read = std::rc::Rc::new(std::cell::RefCell::new(Vec::<String>::new()));
        let shown = read.clone();
        let mut agent =
            Agent::legacy(&house, &["mcp"], "2025-11-25", capable()).replying(move |_, params| {
                shown.borrow_mut().push(params["message"].as_str().unwrap().to_owned());
                json!({ "action": "accept", "content": { "answer": answer } })
            });
        let ended = agent.good("execute_plan", json!({ "plan": plan(), "wait_s": 60 }));
        let id = ended.id().to_owned();
        agent.good("control", compensate(&id));
        let settled = agent.good("status", json!({ "execution_id": id, "wait_s": 60 }));
        assert_eq!(settled.content["status"], status, "{}", settled.text);
        assert_eq!(stand(&house), answer == "reject");
        let read = read.borrow();
        let [message] = read.as_slice() else { panic!("{read:?}") };
        for words in ["files/delete_file", "two.txt", "one.txt", "the user changed their mind"] {
            assert!(message.contains(words), "{words}:\n{message}");
        }
    }
}

#[test]
fn proposed_or_automatic_undo_is_not_answered_by_an_agents_compensate() {
    // Under `propose` no config is needed: the plan itself asks for an approval.
    for (house, on_failure) in [(House::new(), "propose"), (guarded(), "auto"), (guarded(), "manual")] {
        let mut agent = Agent::new(&house);
        let blocked = agent.good("execute_plan", json!({ "plan": failing(on_failure), "wait_s": 60 }));
        let id = blocked.id().to_owned();
        let asked = agent.good("control", compensate(&id));
        assert_eq!(asked.content["status"], "blocked", "{on_failure}: {}", asked.text);
        assert!(stand(&house), "{on_failure}");
        house.expect(0, &["reject", &id, "--reason", "leave it"]);
        let manual = agent.good("status", json!({ "execution_id": id }));
        assert_eq!(manual.content["waiting"][0]["for"], "decision", "{on_failure}: {}", manual.text);
        // Compensating one step asks for the same approval.
        let asked = json!({ "execution_id": id, "action": "compensate", "step_id": "three" });
        let asked = agent.good("control", asked);
        assert_eq!(asked.content["waiting"][0]["for"], "approval", "{on_failure}: {}", asked.text);
        house.expect(0, &["approve", &id]);
        let ended = agent.good("status", json!({ "execution_id": id, "wait_s": 60 }));
        assert_eq!(ended.content["status"], "compensated", "{on_failure}: {}", ended.text);
        assert!(are_gone(&house), "{on_failure}");
    }
}

#[test]
fn where_agents_may_approve_their_undo_is_its_own_yes() {
    let house = guarded();
    configure(&house, |config| config["approvals"] = json!("agents"));
    let mut agent = Agent::new(&house);
    let ended = agent.good("execute_plan", json!({ "plan": plan(), "wait_s": 60 }));
    let id = ended.id().to_owned();
    agent.good("control", compensate(&id));
    let undone = agent.good("status", json!({ "execution_id": id, "wait_s": 60 }));
    assert_eq!(undone.content["status"], "compensated", "{}", undone.text);
    let started = entries(&house, "unwind_started");
    assert_eq!(started[0]["body"]["calls"].as_array().unwrap().len(), 2);
    assert!(are_gone(&house));
}

#[test]
fn tool_under_approval_or_said_to_write_is_refused_as_a_probe() {
    for tool_config in [json!({ "approval": "required" }), json!({ "read_only": false })] {
        let house = House::new();
        configure(&house, |config| config["servers"]["files"]["tools"]["read_file"] = tool_config.clone());
        let mut plan = plan();
        plan["steps"][0]["probe"] =
            json!({ "tool": "files/read_file", "arguments": { "path": "one.txt" }, "happened": "true" });
        let mut agent = Agent::new(&house);
        for tool in ["save_plan", "execute_plan"] {
            let refused = agent.refused(tool, json!({ "plan": plan }));
            assert!(refused.text.contains("steps[0].probe.tool"), "{}", refused.text);
            assert!(refused.text.contains("cannot be a probe"), "{}", refused.text);
        }
        house.write("plan.json", &plan.to_string());
        let ran = house.run(&["run", "plan.json"]);
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        assert!(!house.path("work/one.txt").exists());
    }
}

#[test]
fn retry_sends_corrected_arguments_and_the_undo_follows_them() {
    let house = House::new();
    let mut agent = Agent::new(&house);
    let mut plan = plan();
    plan["steps"][1]["arguments"]["path"] = json!("../outside.txt");
    let blocked = agent.good("execute_plan", json!({ "plan": plan, "wait_s": 60 }));
    let id = blocked.id().to_owned();
    assert_eq!(blocked.content["steps"][1]["status"], "failed", "{}", blocked.text);
    let retry = |arguments: Value| json!({ "execution_id": id, "action": "retry", "step_id": "two", "reason": "the path was wrong", "arguments": arguments });
    let refused = agent.refused("control", retry(json!({ "path": "two.txt" })));
    assert_eq!(refused.content["error"]["code"], "invalid_arguments", "{}", refused.text);
    assert!(entries(&house, "decided").is_empty());
    agent.good("control", retry(json!({ "path": "two.txt", "content": "right" })));
    let ended = agent.good("status", json!({ "execution_id": id, "wait_s": 60 }));
    assert_eq!(ended.content["status"], "succeeded", "{}", ended.text);
    assert_eq!(std::fs::read_to_string(house.path("work/two.txt")).unwrap(), "right");
    house.expect(0, &["undo", &id]);
    assert!(are_gone(&house));
}
