//! An agent that knows only the tool list and the texts of answers.

use serde_json::{Value, json};

use super::agent::Agent;
use super::{hold_step, work_plan, write_step};
use crate::cli::Sandbox;

/// Replaces the name that a refusal calls wrong by the one that it suggests.
fn correct_plan(plan: &Value, refusal: &str) -> Value {
    let wrong = refusal.split('`').find(|word| word.contains("write_fil")).unwrap_or("dependson");
    let meant = refusal.split("did you mean `").nth(1).and_then(|rest| rest.split('`').next()).unwrap();
    serde_json::from_str(&plan.to_string().replace(&format!("\"{wrong}\""), &format!("\"{meant}\""))).unwrap()
}

#[test]
fn agent_following_only_texts_saves_runs_and_undoes_a_plan() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let nothing = agent.call_ok("status", json!({}));
    assert!(nothing.text_after("Next: ").contains("save_plan"), "{}", nothing.text);
    let tools = agent.call_ok("list_tools", json!({ "search": "write" }));
    assert!(tools.text.contains("files/write_file"), "{}", tools.text);

    // A mistake that only the error message shows how to correct.
    let mut second = write_step("second", "b.txt");
    second["dependson"] = json!(["first"]);
    let failing = json!({
        "id": "third",
        "tool": "files/fail_times",
        "arguments": { "name": "third", "times": 1 },
        "depends_on": ["second"],
        "cancellable": "reversible",
        "compensation": { "action": "Nothing to take back" },
    });
    let plan = work_plan(&[write_step("first", "a.txt"), second, failing]);
    let refusal = agent.call_refused("save_plan", json!({ "plan": plan }));
    assert_eq!(refusal.content["error"]["path"], "steps[1].dependson");
    let plan = correct_plan(&plan, &refusal.text);
    let saved = agent.call_ok("save_plan", json!({ "plan": plan }));

    let (tool, mut arguments) = saved.next_call();
    arguments["wait_s"] = json!(60);
    let blocked = agent.make_call((tool, arguments));
    assert_eq!(blocked.content["status"], "blocked");
    assert!(blocked.text.contains("Step `third` is failed: tool_error after 1 attempt"), "{}", blocked.text);
    assert!(blocked.text.contains("Brief: done first, second; not done third. Undo"), "{}", blocked.text);
    assert!(blocked.text_after("Guarantee: ").contains("one step at a time"));

    // The agent gives up and undoes everything.
    let (tool, mut arguments) = blocked.next_call();
    assert_eq!((tool.as_str(), &arguments["action"]), ("control", &json!("retry")));
    arguments["action"] = json!("compensate");
    let undoing = agent.make_call((tool, arguments));
    let ended = match undoing.content["status"].as_str() {
        Some("compensating") => agent.make_call(undoing.next_call()),
        _ => undoing,
    };
    assert_eq!(ended.content["status"], "compensated", "{}", ended.text);
    assert!(!sandbox.path("work/a.txt").exists() && !sandbox.path("work/b.txt").exists());
    assert_eq!(agent.close(), Some(0));
}

#[test]
fn second_agent_continues_the_work_from_status_alone() {
    let sandbox = Sandbox::new();
    let mut first = Agent::new(&sandbox);
    let own = json!({ "id": "ask", "action": "Ask the customer", "depends_on": ["draft"] });
    let last = json!({
        "id": "file",
        "tool": "files/write_file",
        "arguments": { "path": "answer.txt", "content": "${steps.ask.output.word}" },
    });
    let plan = work_plan(&[write_step("draft", "draft.txt"), own, last]);
    let started = first.call_ok("execute_plan", json!({ "plan": plan, "wait_s": 60 }));
    assert_eq!(started.content["status"], "blocked");
    assert_eq!(first.close(), Some(0));

    let mut second = Agent::new(&sandbox);
    let found = second.call_ok("status", json!({}));
    assert!(found.text.contains("Step `ask` is yours: \"Ask the customer\""), "{}", found.text);
    let (tool, mut arguments) = found.next_call();
    assert_eq!(tool, "record_action");
    arguments["output"] = json!({ "word": "yes" });
    let reported = second.make_call((tool, arguments));
    let ended = match reported.content["status"].as_str() {
        Some("running") => second.make_call(reported.next_call()),
        _ => reported,
    };
    assert_eq!(ended.content["status"], "succeeded", "{}", ended.text);
    assert_eq!(std::fs::read_to_string(sandbox.path("work/answer.txt")).unwrap(), "yes");
}

#[test]
fn execution_of_a_crashed_client_is_resumed_by_the_next() {
    let sandbox = Sandbox::new();
    let mut first = Agent::new(&sandbox);
    let plan = work_plan(&[hold_step("wait"), write_step("after", "after.txt")]);
    let started = first.call_ok("execute_plan", json!({ "plan": plan }));
    assert_eq!(started.content["status"], "running");
    let id = started.id().to_owned();
    // Kill the process, so that it does not finish its calls.
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    sandbox.release();
    let mut second = Agent::new(&sandbox);
    let ended = second.call_ok("status", json!({ "execution_id": id, "wait_s": 60 }));
    assert!(ended.content["status"] != "running", "{}", ended.text);
}

#[test]
fn status_of_an_execution_with_another_toolset_says_nobody_can_drive_it() {
    let sandbox = Sandbox::new();
    let mut first = Agent::new(&sandbox);
    let journal = sandbox.follow_journal();
    let id =
        first.call_ok("execute_plan", json!({ "plan": work_plan(&[hold_step("wait")]) })).id().to_owned();
    journal.wait_for("attempt_started", Some("wait"));
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let config = std::fs::read_to_string(sandbox.path("actbook.yaml")).unwrap();
    sandbox.write("actbook.yaml", &config.replace("echo held", "echo otherwise"));

    let mut stranger = Agent::new(&sandbox);
    let shown = stranger.call_ok("status", json!({ "execution_id": id }));
    assert_eq!(shown.content["status"], "running");
    assert!(shown.text_after("Next: ").starts_with("no process here can drive it"), "{}", shown.text);
    assert!(!shown.text.contains("waits for it"), "{}", shown.text);
    // Cancelling needs no servers.
    stranger.call_ok("control", json!({ "execution_id": id, "action": "cancel", "reason": "nobody's" }));
    let ended = stranger.call_ok("status", json!({ "execution_id": id, "wait_s": 60 }));
    assert_eq!(ended.content["status"], "cancelled", "{}", ended.text);
}
