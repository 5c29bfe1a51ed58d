//! An agent that knows only the tool list and the texts of answers.

use serde_json::{Value, json};

use super::agent::Agent;
use super::{hold, steps, write};
use crate::cli::House;

/// Replaces the name that a refusal calls wrong by the one that it suggests.
fn corrected(plan: &Value, refusal: &str) -> Value {
    let wrong = refusal.split('`').find(|word| word.contains("write_fil")).unwrap_or("dependson");
    let meant = refusal.split("did you mean `").nth(1).and_then(|rest| rest.split('`').next()).unwrap();
    serde_json::from_str(&plan.to_string().replace(&format!("\"{wrong}\""), &format!("\"{meant}\""))).unwrap()
}

#[test]
fn an_agent_that_knows_only_the_texts_does_the_whole_round() {
    let house = House::new();
    let mut agent = Agent::new(&house);
    let nothing = agent.good("status", json!({}));
    assert!(nothing.line("Next: ").contains("save_plan"), "{}", nothing.text);
    let tools = agent.good("list_tools", json!({ "search": "write" }));
    assert!(tools.text.contains("files/write_file"), "{}", tools.text);

    // A mistake that only the error message shows how to correct.
    let mut second = write("second", "b.txt");
    second["dependson"] = json!(["first"]);
    let failing = json!({
        "id": "third",
        "tool": "files/fail_times",
        "arguments": { "name": "third", "times": 1 },
        "depends_on": ["second"],
        "cancellable": "reversible",
        "compensation": { "action": "Nothing to take back" },
    });
    let plan = steps(&[write("first", "a.txt"), second, failing]);
    let refusal = agent.refused("save_plan", json!({ "plan": plan }));
    assert_eq!(refusal.content["error"]["path"], "steps[1].dependson");
    let plan = corrected(&plan, &refusal.text);
    let saved = agent.good("save_plan", json!({ "plan": plan }));

    let (tool, mut arguments) = saved.next();
    arguments["wait_s"] = json!(60);
    let blocked = agent.follow((tool, arguments));
    assert_eq!(blocked.content["status"], "blocked");
    assert!(blocked.text.contains("Step `third` is failed: tool_error after 1 attempt"), "{}", blocked.text);
    assert!(blocked.text.contains("Brief: done first, second"), "{}", blocked.text);
    assert!(blocked.line("Guarantee: ").contains("one step at a time"));

    // The agent gives up and undoes everything.
    let (tool, mut arguments) = blocked.next();
    assert_eq!((tool.as_str(), &arguments["action"]), ("control", &json!("retry")));
    arguments["action"] = json!("compensate");
    let undoing = agent.follow((tool, arguments));
    let ended = match undoing.content["status"].as_str() {
        Some("compensating") => agent.follow(undoing.next()),
        _ => undoing,
    };
    assert_eq!(ended.content["status"], "compensated", "{}", ended.text);
    assert!(!house.path("work/a.txt").exists() && !house.path("work/b.txt").exists());
    assert_eq!(agent.leave(), Some(0));
}

#[test]
fn a_second_agent_with_no_memory_picks_the_work_up_from_status_alone() {
    let house = House::new();
    let mut first = Agent::new(&house);
    let own = json!({ "id": "ask", "action": "Ask the customer", "depends_on": ["draft"] });
    let last = json!({
        "id": "file",
        "tool": "files/write_file",
        "arguments": { "path": "answer.txt", "content": "${steps.ask.output.word}" },
    });
    let plan = steps(&[write("draft", "draft.txt"), own, last]);
    let started = first.good("execute_plan", json!({ "plan": plan, "wait_s": 60 }));
    assert_eq!(started.content["status"], "blocked");
    assert_eq!(first.leave(), Some(0));

    let mut second = Agent::new(&house);
    let found = second.good("status", json!({}));
    assert!(found.text.contains("Step `ask` is yours: \"Ask the customer\""), "{}", found.text);
    let (tool, mut arguments) = found.next();
    assert_eq!(tool, "record_action");
    arguments["output"] = json!({ "word": "yes" });
    let reported = second.follow((tool, arguments));
    let ended = match reported.content["status"].as_str() {
        Some("running") => second.follow(reported.next()),
        _ => reported,
    };
    assert_eq!(ended.content["status"], "succeeded", "{}", ended.text);
    assert_eq!(std::fs::read_to_string(house.path("work/answer.txt")).unwrap(), "yes");
}

#[test]
fn what_a_client_leaves_running_the_next_one_takes_up() {
    let house = House::new();
    let mut first = Agent::new(&house);
    let plan = steps(&[hold("wait"), write("after", "after.txt")]);
    let started = first.good("execute_plan", json!({ "plan": plan }));
    assert_eq!(started.content["status"], "running");
    let id = started.id().to_owned();
    // Kill the process, so that it does not finish its calls.
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    house.release();
    let mut second = Agent::new(&house);
    let ended = second.good("status", json!({ "execution_id": id, "wait_s": 60 }));
    assert!(ended.content["status"] != "running", "{}", ended.text);
}

#[test]
fn an_agent_is_told_that_nobody_of_its_place_can_drive_an_execution() {
    let house = House::new();
    let mut first = Agent::new(&house);
    let journal = house.journal();
    let id = first.good("execute_plan", json!({ "plan": steps(&[hold("wait")]) })).id().to_owned();
    journal.until("attempt_started", Some("wait"));
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let config = std::fs::read_to_string(house.path("actbook.yaml")).unwrap();
    house.write("actbook.yaml", &config.replace("echo held", "echo otherwise"));

    let mut stranger = Agent::new(&house);
    let shown = stranger.good("status", json!({ "execution_id": id }));
    assert_eq!(shown.content["status"], "running");
    assert!(shown.line("Next: ").starts_with("nobody here can drive it"), "{}", shown.text);
    assert!(!shown.text.contains("waits for it"), "{}", shown.text);
    // Cancelling needs no servers.
    stranger.good("control", json!({ "execution_id": id, "action": "cancel", "reason": "nobody's" }));
    let ended = stranger.good("status", json!({ "execution_id": id, "wait_s": 60 }));
    assert_eq!(ended.content["status"], "cancelled", "{}", ended.text);
}
