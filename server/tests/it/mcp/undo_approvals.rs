//! Tools that the config puts under approval, called through an agent's undo: every role of a call is
//! guarded.

use serde_json::{Value, json};

use super::agent::Agent;
use super::elicit::{elicitation_capability, journal_entries};
use super::{work_plan, write_step};
use crate::cli::Sandbox;

/// A sandbox whose config requires an approval for every `delete_file`.
fn sandbox_with_guarded_delete() -> Sandbox {
    let sandbox = Sandbox::new();
    change_config(&sandbox, |config| {
        config["servers"]["files"]["tools"]["delete_file"] = json!({ "approval": "required" });
    });
    sandbox
}

pub fn change_config(sandbox: &Sandbox, change: impl Fn(&mut Value)) {
    let config = std::fs::read_to_string(sandbox.path("actbook.yaml")).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    change(&mut config);
    sandbox.write("actbook.yaml", &config.to_string());
}

/// A plan that writes two files, each compensated by a `delete_file`.
fn plan() -> Value {
    let undoable = |id: &str, path: &str| {
        let mut step = write_step(id, path);
        step["compensation"] =
            json!({ "tool": "files/delete_file", "arguments": { "path": "${arguments.path}" } });
        step
    };
    work_plan(&[undoable("one", "one.txt"), undoable("two", "two.txt")])
}

/// The same plan with a third step that fails, and this `on_failure` policy.
fn failing_plan(on_failure: &str) -> Value {
    let mut plan = plan();
    let missing = json!({ "id": "three", "tool": "files/read_file", "arguments": { "path": "missing.txt" } });
    plan["steps"].as_array_mut().unwrap().push(missing);
    plan["policy"] = json!({ "on_failure": on_failure });
    plan
}

fn compensate_input(id: &str) -> Value {
    json!({ "execution_id": id, "action": "compensate", "reason": "the user changed their mind" })
}

fn both_files_exist(sandbox: &Sandbox) -> bool {
    sandbox.path("work/one.txt").exists() && sandbox.path("work/two.txt").exists()
}

fn both_files_are_gone(sandbox: &Sandbox) -> bool {
    !sandbox.path("work/one.txt").exists() && !sandbox.path("work/two.txt").exists()
}

#[test]
fn agent_undo_with_a_guarded_tool_waits_for_a_person() {
    let sandbox = sandbox_with_guarded_delete();
    let mut agent = Agent::new(&sandbox);
    let ended = agent.call_ok("execute_plan", json!({ "plan": plan(), "wait_s": 60 }));
    let id = ended.id().to_owned();
    assert_eq!(ended.content["status"], "succeeded", "{}", ended.text);
    for action in ["compensate", "undo"] {
        let mut input = compensate_input(&id);
        input["action"] = json!(action);
        let asked = agent.call_ok("control", input);
        assert_eq!(asked.content["status"], "succeeded", "{}", asked.text);
        assert_eq!(asked.content["waiting"][0]["for"], "approval", "{}", asked.text);
        assert!(asked.text_after("Next: ").contains(&format!("actbook approve {id}")), "{}", asked.text);
    }
    let refused = agent.call_refused("control", json!({ "execution_id": id, "action": "approve" }));
    assert_eq!(refused.content["error"]["code"], "needs_a_person");
    assert!(both_files_exist(&sandbox) && journal_entries(&sandbox, "compensation_started").is_empty());
    let proposed = journal_entries(&sandbox, "unwind_proposed");
    let calls = proposed[0]["body"]["calls"].as_array().unwrap();
    assert_eq!(calls.iter().map(|call| &call["step"]).collect::<Vec<_>>(), ["two", "one"]);
    sandbox.expect(0, &["approve", &id]);
    sandbox.expect(1, &["resume", &id]);
    assert!(both_files_are_gone(&sandbox));
}

#[test]
fn agent_undo_is_elicited_from_the_person_at_the_client() {
    for (answer, status) in [("approve", "compensated"), ("reject", "succeeded")] {
        let sandbox = sandbox_with_guarded_delete();
        let read = std::rc::Rc::new(std::cell::RefCell::new(Vec::<String>::new()));
        let shown = read.clone();
        let mut agent = Agent::legacy(&sandbox, &["mcp"], "2025-11-25", elicitation_capability())
            .with_replies(move |_, params| {
                shown.borrow_mut().push(params["message"].as_str().unwrap().to_owned());
                json!({ "action": "accept", "content": { "answer": answer } })
            });
        let ended = agent.call_ok("execute_plan", json!({ "plan": plan(), "wait_s": 60 }));
        let id = ended.id().to_owned();
        agent.call_ok("control", compensate_input(&id));
        let settled = agent.call_ok("status", json!({ "execution_id": id, "wait_s": 60 }));
        assert_eq!(settled.content["status"], status, "{}", settled.text);
        assert_eq!(both_files_exist(&sandbox), answer == "reject");
        let read = read.borrow();
        let [message] = read.as_slice() else { panic!("{read:?}") };
        for words in ["files/delete_file", "two.txt", "one.txt", "the user changed their mind"] {
            assert!(message.contains(words), "{words}:\n{message}");
        }
    }
}

#[test]
fn agent_compensate_does_not_approve_a_pending_undo() {
    // Under `propose` no config is needed: the plan itself asks for an approval.
    for (sandbox, on_failure) in [
        (Sandbox::new(), "propose"),
        (sandbox_with_guarded_delete(), "auto"),
        (sandbox_with_guarded_delete(), "manual"),
    ] {
        let mut agent = Agent::new(&sandbox);
        let blocked =
            agent.call_ok("execute_plan", json!({ "plan": failing_plan(on_failure), "wait_s": 60 }));
        let id = blocked.id().to_owned();
        let asked = agent.call_ok("control", compensate_input(&id));
        assert_eq!(asked.content["status"], "blocked", "{on_failure}: {}", asked.text);
        assert!(both_files_exist(&sandbox), "{on_failure}");
        sandbox.expect(0, &["reject", &id, "--reason", "leave it"]);
        let manual = agent.call_ok("status", json!({ "execution_id": id }));
        assert_eq!(manual.content["waiting"][0]["for"], "decision", "{on_failure}: {}", manual.text);
        // Compensating one step asks for the same approval.
        let asked = json!({ "execution_id": id, "action": "compensate", "step_id": "three" });
        let asked = agent.call_ok("control", asked);
        assert_eq!(asked.content["waiting"][0]["for"], "approval", "{on_failure}: {}", asked.text);
        sandbox.expect(0, &["approve", &id]);
        let ended = agent.call_ok("status", json!({ "execution_id": id, "wait_s": 60 }));
        assert_eq!(ended.content["status"], "compensated", "{on_failure}: {}", ended.text);
        assert!(both_files_are_gone(&sandbox), "{on_failure}");
    }
}

#[test]
fn agent_undo_counts_as_approval_if_config_allows_agents() {
    let sandbox = sandbox_with_guarded_delete();
    change_config(&sandbox, |config| config["approvals"] = json!("agents"));
    let mut agent = Agent::new(&sandbox);
    let ended = agent.call_ok("execute_plan", json!({ "plan": plan(), "wait_s": 60 }));
    let id = ended.id().to_owned();
    agent.call_ok("control", compensate_input(&id));
    let undone = agent.call_ok("status", json!({ "execution_id": id, "wait_s": 60 }));
    assert_eq!(undone.content["status"], "compensated", "{}", undone.text);
    let started = journal_entries(&sandbox, "unwind_started");
    assert_eq!(started[0]["body"]["calls"].as_array().unwrap().len(), 2);
    assert!(both_files_are_gone(&sandbox));
}

#[test]
fn guarded_or_writing_tool_is_refused_as_a_probe() {
    for tool_config in [json!({ "approval": "required" }), json!({ "read_only": false })] {
        let sandbox = Sandbox::new();
        change_config(&sandbox, |config| {
            config["servers"]["files"]["tools"]["read_file"] = tool_config.clone()
        });
        let mut plan = plan();
        plan["steps"][0]["probe"] =
            json!({ "tool": "files/read_file", "arguments": { "path": "one.txt" }, "happened": "true" });
        let mut agent = Agent::new(&sandbox);
        for tool in ["save_plan", "execute_plan"] {
            let refused = agent.call_refused(tool, json!({ "plan": plan }));
            assert!(refused.text.contains("steps[0].probe.tool"), "{}", refused.text);
            assert!(refused.text.contains("cannot be a probe"), "{}", refused.text);
        }
        sandbox.write("plan.json", &plan.to_string());
        let ran = sandbox.run(&["run", "plan.json"]);
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(!sandbox.path("work/one.txt").exists());
    }
}

#[test]
fn undo_uses_the_corrected_arguments_of_a_retry() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let mut plan = plan();
    plan["steps"][1]["arguments"]["path"] = json!("../outside.txt");
    let blocked = agent.call_ok("execute_plan", json!({ "plan": plan, "wait_s": 60 }));
    let id = blocked.id().to_owned();
    assert_eq!(blocked.content["steps"][1]["status"], "failed", "{}", blocked.text);
    let retry = |arguments: Value| json!({ "execution_id": id, "action": "retry", "step_id": "two", "reason": "the path was wrong", "arguments": arguments });
    let refused = agent.call_refused("control", retry(json!({ "path": "two.txt" })));
    assert_eq!(refused.content["error"]["code"], "invalid_arguments", "{}", refused.text);
    assert!(journal_entries(&sandbox, "decided").is_empty());
    agent.call_ok("control", retry(json!({ "path": "two.txt", "content": "right" })));
    let ended = agent.call_ok("status", json!({ "execution_id": id, "wait_s": 60 }));
    assert_eq!(ended.content["status"], "succeeded", "{}", ended.text);
    assert_eq!(std::fs::read_to_string(sandbox.path("work/two.txt")).unwrap(), "right");
    sandbox.expect(0, &["undo", &id]);
    assert!(both_files_are_gone(&sandbox));
}
