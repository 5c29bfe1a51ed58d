//! A plan runs only with the tool definitions that it was checked against or that an operator accepted since.

use super::changing_server::ChangingServer;
use super::*;

/// The definitions of `act`, with this description, and of `undo`.
fn tool_definitions(description: &str) -> Value {
    json!([
        { "name": "act", "description": description, "inputSchema": { "type": "object" } },
        { "name": "undo", "description": "Takes it back.", "inputSchema": { "type": "object" } },
    ])
}

/// A plan whose first step is a question, so that the tool can change before `act` runs.
fn plan_with_question_first(step: Value) -> Value {
    let mut act = json!({ "id": "act", "tool": "shifty/act", "compensation": { "tool": "shifty/undo" } });
    for (name, value) in step.as_object().unwrap() {
        act[name] = value.clone();
    }
    json!({ "name": "asks", "steps": [{ "id": "ask", "action": "Say go", "read_only": true }, act] })
}

/// Runs the plan until it blocks on its question; returns the execution id.
fn run_until_blocked(shifty: &ChangingServer, plan: &Value) -> String {
    shifty.sandbox.write("plan.json", &plan.to_string());
    shifty.sandbox.expect(3, &["run", "plan.json"]);
    shifty.sandbox.newest()
}

/// Answers the question and resumes; asserts the exit code of `resume`.
fn record_ask_and_resume(shifty: &ChangingServer, id: &str, code: i32) {
    shifty.sandbox.expect(0, &["record", id, "ask", "succeeded"]);
    shifty.sandbox.expect(code, &["resume", id]);
}

/// The view of step `act`.
fn act_step(shifty: &ChangingServer, id: &str) -> Value {
    shifty.sandbox.json(&["show", id])["steps"][1].clone()
}

fn journal_kinds(shifty: &ChangingServer) -> Vec<String> {
    let entries = shifty.sandbox.run(&["journal", "--json"]).stdout;
    let entries = entries.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    entries.map(|entry| entry["kind"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn saved_plan_with_a_changed_tool_is_refused_until_resaved() {
    let shifty = ChangingServer::new(&tool_definitions("Does one thing."));
    let plan = json!({ "name": "acts", "steps": [{ "id": "a", "tool": "shifty/act", "compensation": { "tool": "shifty/undo" } }] });
    shifty.sandbox.write("plan.json", &plan.to_string());
    shifty.sandbox.expect(0, &["plan", "save", "plan.json"]);
    shifty.set_tools(&tool_definitions("Does another thing."));
    let refused = shifty.sandbox.run(&["run", "acts"]);
    assert_eq!(refused.code, Some(1));
    for words in [
        "description: \"Does one thing.\" → \"Does another thing.\"",
        "actbook tools accept shifty/act",
        "save the plan again",
    ] {
        assert!(refused.stderr.contains(words), "{words}: {}", refused.stderr);
    }
    assert_eq!((shifty.calls(), shifty.sandbox.json(&["list"])), (0, json!([])));
    let saved = shifty.sandbox.json(&["plan", "save", "plan.json"]);
    assert_eq!(saved["version"], 2, "the same document with another tool digest is a new version");
    assert_eq!(shifty.sandbox.json(&["plan", "save", "plan.json"])["fresh"], false);
    shifty.sandbox.expect(0, &["run", "acts"]);
    assert_eq!(shifty.calls_of("act"), 1);
    shifty.sandbox.expect(0, &["verify"]);
}

#[test]
fn changed_compensation_or_probe_tool_refuses_the_plan() {
    for role in ["compensation", "probe"] {
        let shifty = ChangingServer::new(&tool_definitions("Does one thing."));
        let mut step = json!({ "id": "a", "tool": "shifty/act", "cancellable": "irreversible" });
        step[role] = json!({ "tool": "shifty/undo" });
        if role == "probe" {
            step[role]["happened"] = json!("output.done != null");
        }
        shifty.sandbox.write("plan.json", &json!({ "name": "acts", "steps": [step] }).to_string());
        shifty.sandbox.expect(0, &["plan", "save", "plan.json"]);
        let mut changed = tool_definitions("Does one thing.");
        changed[1]["description"] = json!("Takes it back, and more.");
        shifty.set_tools(&changed);
        assert!(
            shifty.sandbox.run(&["run", "acts"]).stderr.contains("`shifty/undo` has changed since"),
            "{role}"
        );
    }
}

#[test]
fn tool_changed_during_a_run_fails_unsent_until_accepted() {
    let shifty = ChangingServer::new(&tool_definitions("Does one thing."));
    let id = run_until_blocked(&shifty, &plan_with_question_first(json!({})));
    shifty.set_tools(&tool_definitions("Does another thing."));
    record_ask_and_resume(&shifty, &id, 3);
    let step = act_step(&shifty, &id);
    assert_eq!((&step["status"], &step["error"]["category"]), (&json!("failed"), &json!("policy")), "{step}");
    let message = step["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("\"Does one thing.\" → \"Does another thing.\"")
            && message.contains("actbook tools accept shifty/act"),
        "{message}"
    );
    assert_eq!(shifty.calls(), 0);
    shifty.sandbox.expect(0, &["decide", &id, "act", "retry", "--reason", "perhaps"]);
    shifty.sandbox.expect(3, &["resume", &id]);
    assert_eq!(shifty.calls(), 0, "a retry without acceptance sends nothing");
    shifty.sandbox.expect(0, &["tools", "accept", "shifty/act", "--reason", "read it"]);
    assert_eq!(
        shifty.sandbox.json(&["tools", "show", "shifty/act"])["accepted"],
        shifty.sandbox.json(&["tools", "show", "shifty/act"])["digest"]
    );
    shifty.sandbox.expect(0, &["decide", &id, "act", "retry", "--reason", "it was accepted"]);
    shifty.sandbox.expect(0, &["resume", &id]);
    assert_eq!(shifty.calls_of("act"), 1);
    let kinds = journal_kinds(&shifty);
    assert!(
        kinds.contains(&"tool_accepted.1".to_owned()) && kinds.contains(&"pin_moved.1".to_owned()),
        "{kinds:?}"
    );
    shifty.sandbox.expect(0, &["rebuild"]);
    shifty.sandbox.expect(0, &["verify"]);
}

#[test]
fn approval_is_bound_to_the_tool_digest_shown() {
    let shifty = ChangingServer::new(&tool_definitions("Does one thing."));
    let id = run_until_blocked(&shifty, &plan_with_question_first(json!({ "approval": "required" })));
    record_ask_and_resume(&shifty, &id, 3);
    let question = shifty.sandbox.json(&["show", &id])["waiting"][0]["question"].as_str().unwrap().to_owned();
    let pin = shifty.sandbox.json(&["tools", "show", "shifty/act"])["digest"].as_str().unwrap().to_owned();
    assert!(question.contains(&pin), "{question}");
    shifty.sandbox.expect(0, &["approve", &id, "act"]);
    shifty.set_tools(&tool_definitions("Does another thing."));
    shifty.sandbox.expect(0, &["tools", "accept", "shifty/act"]);
    shifty.sandbox.expect(3, &["resume", &id]);
    let step = act_step(&shifty, &id);
    assert_eq!(step["error"]["category"], "policy", "{step}");
    assert!(
        step["error"]["message"].as_str().unwrap().contains("has changed since it was approved"),
        "{step}"
    );
    assert_eq!(shifty.calls(), 0, "accepting the tool does not approve this step");
    shifty.sandbox.expect(0, &["decide", &id, "act", "retry", "--reason", "ask me again"]);
    shifty.sandbox.expect(3, &["resume", &id]);
    let question = shifty.sandbox.json(&["show", &id])["waiting"][0]["question"].as_str().unwrap().to_owned();
    let pin = shifty.sandbox.json(&["tools", "show", "shifty/act"])["digest"].as_str().unwrap().to_owned();
    assert!(question.contains(&pin), "{question}");
    shifty.sandbox.expect(0, &["approve", &id, "act"]);
    shifty.sandbox.expect(0, &["resume", &id]);
    assert_eq!(shifty.calls_of("act"), 1);
}

#[test]
fn undo_with_a_changed_tool_blocks_until_accepted() {
    let shifty = ChangingServer::new(&tool_definitions("Does one thing."));
    let plan = json!({ "name": "acts", "steps": [{ "id": "a", "tool": "shifty/act", "compensation": { "tool": "shifty/undo" } }] });
    shifty.sandbox.write("plan.json", &plan.to_string());
    shifty.sandbox.expect(0, &["run", "plan.json"]);
    let id = shifty.sandbox.newest();
    let mut changed = tool_definitions("Does one thing.");
    changed[1]["description"] = json!("Takes everything back.");
    shifty.set_tools(&changed);
    shifty.sandbox.expect(3, &["undo", &id]);
    assert_eq!(shifty.calls_of("undo"), 0);
    shifty.sandbox.expect(0, &["tools", "accept", "shifty/undo"]);
    shifty.sandbox.expect(0, &["decide", &id, "a", "retry", "--reason", "accepted"]);
    shifty.sandbox.expect(1, &["resume", &id]);
    assert_eq!(
        (shifty.calls_of("undo"), &shifty.sandbox.json(&["show", &id])["status"]),
        (1, &json!("compensated"))
    );
}

#[test]
fn plan_saved_offline_is_pinned_at_start() {
    let shifty = ChangingServer::new(&tool_definitions("Does one thing."));
    shifty.sandbox.write("plan.json", &plan_with_question_first(json!({})).to_string());
    shifty.sandbox.expect(0, &["plan", "save", "plan.json", "--offline"]);
    shifty.set_tools(&tool_definitions("Does another thing."));
    shifty.sandbox.expect(3, &["run", "asks"]);
    let id = shifty.sandbox.newest();
    shifty.set_tools(&tool_definitions("Does a third thing."));
    record_ask_and_resume(&shifty, &id, 3);
    assert_eq!((&act_step(&shifty, &id)["error"]["category"], shifty.calls()), (&json!("policy"), 0));
}
