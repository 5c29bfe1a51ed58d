//! Several agents share a plan: the agent that records an agent step as started has claimed it.

use serde_json::{Value, json};

use super::agent::Agent;
use super::steps;
use crate::cli::House;

fn report(id: &str, status: &str) -> Value {
    json!({ "execution_id": id, "step_id": "tell", "status": status, "description": "told the team" })
}

#[test]
fn agent_step_is_its_starters_and_another_agent_of_the_same_name_is_refused() {
    let house = House::new();
    let (mut one, mut two) = (Agent::new(&house), Agent::new(&house));
    let plan = steps(&[json!({ "id": "tell", "action": "Tell the team" })]);
    let blocked = one.good("execute_plan", json!({ "plan": plan, "wait_s": 60 }));
    let id = blocked.id().to_owned();
    let started = one.good("record_action", report(&id, "started"));
    let holder = started.content["waiting"][0]["claim"]["holder"].as_str().unwrap().to_owned();
    assert!(holder.starts_with("agent:scripted#"), "{holder}");
    let seen = two.good("status", json!({ "execution_id": id }));
    assert!(seen.line("Next: ").contains(&format!("only if you are {holder}")), "{}", seen.text);
    for status in ["started", "succeeded", "failed"] {
        let refused = two.refused("record_action", report(&id, status));
        assert_eq!(refused.content["error"]["code"], "claimed", "{}", refused.text);
        assert!(refused.text.contains(&holder) && refused.text.contains("take_over"), "{}", refused.text);
    }
    let mut early = report(&id, "started");
    early["take_over"] = json!(true);
    assert_eq!(two.refused("record_action", early).content["error"]["code"], "claimed");
    let ended = one.good("record_action", report(&id, "succeeded"));
    assert_eq!(ended.content["status"], "succeeded", "{}", ended.text);
}

#[test]
fn person_reports_a_step_that_an_agent_has_started() {
    let house = House::new();
    let mut agent = Agent::new(&house);
    let plan = steps(&[json!({ "id": "tell", "action": "Tell the team" })]);
    let id = agent.good("execute_plan", json!({ "plan": plan, "wait_s": 60 })).id().to_owned();
    agent.good("record_action", report(&id, "started"));
    house.expect(0, &["record", &id, "tell", "succeeded"]);
    let ended = agent.good("status", json!({ "execution_id": id, "wait_s": 45 }));
    assert_eq!(ended.content["status"], "succeeded", "{}", ended.text);
}

#[test]
fn restarted_agent_takes_over_the_claim_of_its_ended_session() {
    let house = House::new();
    let mut first = Agent::new(&house);
    let plan = steps(&[json!({ "id": "tell", "action": "Tell the team" })]);
    let id = first.good("execute_plan", json!({ "plan": plan, "wait_s": 45 })).id().to_owned();
    let started = first.good("record_action", report(&id, "started"));
    let holder = started.content["waiting"][0]["claim"]["holder"].as_str().unwrap().to_owned();
    assert!(started.line("Waits: ").contains(&format!("is yours ({holder})")), "{}", started.text);

    let mut other = Agent::new(&house);
    let held = other.good("status", json!({ "execution_id": id }));
    let says = format!("Step `tell` is held by {holder} until ");
    assert!(held.line("Waits: ").starts_with(&says), "{}", held.text);
    assert!(held.line("Waits: ").contains("not by you (agent:scripted#"), "{}", held.text);
    assert!(!other.good("status", json!({})).text.contains("is yours"), "bare status says the same");
    for action in ["retry", "skip"] {
        let control = json!({ "execution_id": id, "step_id": "tell", "action": action });
        let refused = other.refused("control", control);
        assert!(refused.text.contains("record_action with status \"failed\""), "{}", refused.text);
    }

    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let lapsed = other.good("status", json!({ "execution_id": id }));
    assert!(lapsed.line("Waits: ").contains("whose claim has lapsed"), "{}", lapsed.text);
    assert_eq!(lapsed.content["waiting"][0]["claim"]["lapsed"], true);
    let refused = other.refused("record_action", report(&id, "succeeded"));
    assert!(refused.text.contains("connection has ended"), "{}", refused.text);
    let (tool, mut arguments) = lapsed.next();
    assert_eq!((tool.as_str(), &arguments["take_over"]), ("record_action", &json!(true)));
    arguments["description"] = json!("my client was restarted; told the team");
    let ended = other.follow((tool, arguments));
    assert_eq!(ended.content["status"], "succeeded", "{}", ended.text);
}
