//! Several agents share a plan: the agent that records an agent step as started has claimed it.

use serde_json::{Value, json};

use super::agent::Agent;
use super::work_plan;
use crate::cli::Sandbox;

fn report(id: &str, status: &str) -> Value {
    json!({ "execution_id": id, "step_id": "tell", "status": status, "description": "told the team" })
}

#[test]
fn claimed_agent_step_refuses_another_agent_of_the_same_name() {
    let sandbox = Sandbox::new();
    let (mut one, mut two) = (Agent::new(&sandbox), Agent::new(&sandbox));
    let plan = work_plan(&[json!({ "id": "tell", "action": "Tell the team" })]);
    let blocked = one.call_ok("execute_plan", json!({ "plan": plan, "wait_s": 60 }));
    let id = blocked.id().to_owned();
    let started = one.call_ok("record_action", report(&id, "started"));
    let holder = started.content["waiting"][0]["claim"]["holder"].as_str().unwrap().to_owned();
    assert!(holder.starts_with("agent:scripted#"), "{holder}");
    let seen = two.call_ok("status", json!({ "execution_id": id }));
    assert!(seen.text_after("Next: ").contains(&format!("leave step `tell` to {holder}")), "{}", seen.text);
    for status in ["started", "succeeded", "failed"] {
        let refused = two.call_refused("record_action", report(&id, status));
        assert_eq!(refused.content["error"]["code"], "claimed", "{}", refused.text);
        assert!(refused.text.contains(&holder) && refused.text.contains("take_over"), "{}", refused.text);
    }
    let mut early = report(&id, "started");
    early["take_over"] = json!(true);
    assert_eq!(two.call_refused("record_action", early).content["error"]["code"], "claimed");
    let ended = one.call_ok("record_action", report(&id, "succeeded"));
    assert_eq!(ended.content["status"], "succeeded", "{}", ended.text);
}

#[test]
fn person_can_record_a_step_claimed_by_an_agent() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let plan = work_plan(&[json!({ "id": "tell", "action": "Tell the team" })]);
    let id = agent.call_ok("execute_plan", json!({ "plan": plan, "wait_s": 60 })).id().to_owned();
    agent.call_ok("record_action", report(&id, "started"));
    sandbox.expect(0, &["record", &id, "tell", "succeeded"]);
    let ended = agent.call_ok("status", json!({ "execution_id": id, "wait_s": 45 }));
    assert_eq!(ended.content["status"], "succeeded", "{}", ended.text);
}

#[test]
fn restarted_agent_takes_over_the_claim_of_its_ended_session() {
    let sandbox = Sandbox::new();
    let mut first = Agent::new(&sandbox);
    let plan = work_plan(&[json!({ "id": "tell", "action": "Tell the team" })]);
    let id = first.call_ok("execute_plan", json!({ "plan": plan, "wait_s": 45 })).id().to_owned();
    let started = first.call_ok("record_action", report(&id, "started"));
    let holder = started.content["waiting"][0]["claim"]["holder"].as_str().unwrap().to_owned();
    assert!(started.text_after("Waits: ").contains(&format!("is yours ({holder})")), "{}", started.text);

    let mut other = Agent::new(&sandbox);
    let held = other.call_ok("status", json!({ "execution_id": id }));
    let says = format!("Step `tell` is held by {holder} until ");
    assert!(held.text_after("Waits: ").starts_with(&says), "{}", held.text);
    assert!(held.text_after("Waits: ").contains("not by you (agent:scripted#"), "{}", held.text);
    assert!(!other.call_ok("status", json!({})).text.contains("is yours"), "bare status says the same");
    for action in ["retry", "skip"] {
        let control = json!({ "execution_id": id, "step_id": "tell", "action": action });
        let refused = other.call_refused("control", control);
        assert!(refused.text.contains("record_action with status \"failed\""), "{}", refused.text);
    }

    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let lapsed = other.call_ok("status", json!({ "execution_id": id }));
    assert!(lapsed.text_after("Waits: ").contains("whose claim has lapsed"), "{}", lapsed.text);
    assert_eq!(lapsed.content["waiting"][0]["claim"]["lapsed"], true);
    let refused = other.call_refused("record_action", report(&id, "succeeded"));
    assert!(refused.text.contains("connection has ended"), "{}", refused.text);
    let (tool, mut arguments) = lapsed.next_call();
    assert_eq!((tool.as_str(), &arguments["take_over"]), ("record_action", &json!(true)));
    arguments["description"] = json!("my client was restarted; told the team");
    let ended = other.make_call((tool, arguments));
    assert_eq!(ended.content["status"], "succeeded", "{}", ended.text);
}
