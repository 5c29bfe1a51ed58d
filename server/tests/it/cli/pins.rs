//! A plan runs only with the tool definitions that it was checked against or that an operator accepted since.

use super::shifty::Shifty;
use super::*;

/// The definitions of `act`, with this description, and of `undo`.
fn tools(description: &str) -> Value {
    json!([
        { "name": "act", "description": description, "inputSchema": { "type": "object" } },
        { "name": "undo", "description": "Takes it back.", "inputSchema": { "type": "object" } },
    ])
}

/// A plan whose first step is a question, so that the tool can change before `act` runs.
fn asks_first(step: Value) -> Value {
    let mut act = json!({ "id": "act", "tool": "shifty/act", "compensation": { "tool": "shifty/undo" } });
    for (name, value) in step.as_object().unwrap() {
        act[name] = value.clone();
    }
    json!({ "name": "asks", "steps": [{ "id": "ask", "action": "Say go", "read_only": true }, act] })
}

/// Runs the plan until it blocks on its question; returns the execution id.
fn waiting(shifty: &Shifty, plan: &Value) -> String {
    shifty.house.write("plan.json", &plan.to_string());
    shifty.house.expect(3, &["run", "plan.json"]);
    shifty.house.newest()
}

/// Answers the question and resumes; asserts the exit code of `resume`.
fn go(shifty: &Shifty, id: &str, code: i32) {
    shifty.house.expect(0, &["record", id, "ask", "succeeded"]);
    shifty.house.expect(code, &["resume", id]);
}

/// The view of step `act`.
fn act(shifty: &Shifty, id: &str) -> Value {
    shifty.house.json(&["show", id])["steps"][1].clone()
}

fn kinds(shifty: &Shifty) -> Vec<String> {
    let entries = shifty.house.run(&["journal", "--json"]).out;
    let entries = entries.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    entries.map(|entry| entry["kind"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_saved_plan_whose_tool_changed_does_not_start_until_it_is_saved_again() {
    let shifty = Shifty::new(&tools("Does one thing."));
    let plan = json!({ "name": "acts", "steps": [{ "id": "a", "tool": "shifty/act", "compensation": { "tool": "shifty/undo" } }] });
    shifty.house.write("plan.json", &plan.to_string());
    shifty.house.expect(0, &["plan", "save", "plan.json"]);
    shifty.says(&tools("Does another thing."));
    let refused = shifty.house.run(&["run", "acts"]);
    assert_eq!(refused.code, Some(1));
    for words in [
        "description: \"Does one thing.\" → \"Does another thing.\"",
        "actbook tools accept shifty/act",
        "save the plan again",
    ] {
        assert!(refused.err.contains(words), "{words}: {}", refused.err);
    }
    assert_eq!((shifty.calls(), shifty.house.json(&["list"])), (0, json!([])));
    let saved = shifty.house.json(&["plan", "save", "plan.json"]);
    assert_eq!(saved["version"], 2, "the same document with another tool digest is a new version");
    assert_eq!(shifty.house.json(&["plan", "save", "plan.json"])["fresh"], false);
    shifty.house.expect(0, &["run", "acts"]);
    assert_eq!(shifty.calls_of("act"), 1);
    shifty.house.expect(0, &["verify"]);
}

#[test]
fn a_compensation_or_a_probe_that_changed_holds_the_plan_back_too() {
    for role in ["compensation", "probe"] {
        let shifty = Shifty::new(&tools("Does one thing."));
        let mut step = json!({ "id": "a", "tool": "shifty/act", "cancellable": "irreversible" });
        step[role] = json!({ "tool": "shifty/undo" });
        if role == "probe" {
            step[role]["happened"] = json!("output.done != null");
        }
        shifty.house.write("plan.json", &json!({ "name": "acts", "steps": [step] }).to_string());
        shifty.house.expect(0, &["plan", "save", "plan.json"]);
        let mut changed = tools("Does one thing.");
        changed[1]["description"] = json!("Takes it back, and more.");
        shifty.says(&changed);
        assert!(
            shifty.house.run(&["run", "acts"]).err.contains("`shifty/undo` is not what it was"),
            "{role}"
        );
    }
}

#[test]
fn a_tool_that_changed_under_a_run_is_refused_unsent_and_called_once_it_is_accepted() {
    let shifty = Shifty::new(&tools("Does one thing."));
    let id = waiting(&shifty, &asks_first(json!({})));
    shifty.says(&tools("Does another thing."));
    go(&shifty, &id, 3);
    let step = act(&shifty, &id);
    assert_eq!((&step["status"], &step["error"]["category"]), (&json!("failed"), &json!("policy")), "{step}");
    let message = step["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("\"Does one thing.\" → \"Does another thing.\"")
            && message.contains("actbook tools accept shifty/act"),
        "{message}"
    );
    assert_eq!(shifty.calls(), 0);
    shifty.house.expect(0, &["decide", &id, "act", "retry", "--reason", "perhaps"]);
    shifty.house.expect(3, &["resume", &id]);
    assert_eq!(shifty.calls(), 0, "a retry without acceptance sends nothing");
    shifty.house.expect(0, &["tools", "accept", "shifty/act", "--reason", "read it"]);
    assert_eq!(
        shifty.house.json(&["tools", "show", "shifty/act"])["accepted"],
        shifty.house.json(&["tools", "show", "shifty/act"])["digest"]
    );
    shifty.house.expect(0, &["decide", &id, "act", "retry", "--reason", "it was accepted"]);
    shifty.house.expect(0, &["resume", &id]);
    assert_eq!(shifty.calls_of("act"), 1);
    let kinds = kinds(&shifty);
    assert!(
        kinds.contains(&"tool_accepted.1".to_owned()) && kinds.contains(&"pin_moved.1".to_owned()),
        "{kinds:?}"
    );
    shifty.house.expect(0, &["rebuild"]);
    shifty.house.expect(0, &["verify"]);
}

#[test]
fn a_yes_is_bound_to_the_tool_that_was_shown() {
    let shifty = Shifty::new(&tools("Does one thing."));
    let id = waiting(&shifty, &asks_first(json!({ "approval": "required" })));
    go(&shifty, &id, 3);
    let question = shifty.house.json(&["show", &id])["waiting"][0]["question"].as_str().unwrap().to_owned();
    let pin = shifty.house.json(&["tools", "show", "shifty/act"])["digest"].as_str().unwrap().to_owned();
    assert!(question.contains(&pin), "{question}");
    shifty.house.expect(0, &["approve", &id, "act"]);
    shifty.says(&tools("Does another thing."));
    shifty.house.expect(0, &["tools", "accept", "shifty/act"]);
    shifty.house.expect(3, &["resume", &id]);
    let step = act(&shifty, &id);
    assert_eq!(step["error"]["category"], "policy", "{step}");
    assert!(step["error"]["message"].as_str().unwrap().contains("was approved as it was before"), "{step}");
    assert_eq!(shifty.calls(), 0, "accepting the tool does not approve this step");
    shifty.house.expect(0, &["decide", &id, "act", "retry", "--reason", "ask me again"]);
    shifty.house.expect(3, &["resume", &id]);
    let question = shifty.house.json(&["show", &id])["waiting"][0]["question"].as_str().unwrap().to_owned();
    let pin = shifty.house.json(&["tools", "show", "shifty/act"])["digest"].as_str().unwrap().to_owned();
    assert!(question.contains(&pin), "{question}");
    shifty.house.expect(0, &["approve", &id, "act"]);
    shifty.house.expect(0, &["resume", &id]);
    assert_eq!(shifty.calls_of("act"), 1);
}

#[test]
fn an_undo_whose_tool_changed_asks_and_goes_on_once_that_is_accepted() {
    let shifty = Shifty::new(&tools("Does one thing."));
    let plan = json!({ "name": "acts", "steps": [{ "id": "a", "tool": "shifty/act", "compensation": { "tool": "shifty/undo" } }] });
    shifty.house.write("plan.json", &plan.to_string());
    shifty.house.expect(0, &["run", "plan.json"]);
    let id = shifty.house.newest();
    let mut changed = tools("Does one thing.");
    changed[1]["description"] = json!("Takes everything back.");
    shifty.says(&changed);
    shifty.house.expect(3, &["undo", &id]);
    assert_eq!(shifty.calls_of("undo"), 0);
    shifty.house.expect(0, &["tools", "accept", "shifty/undo"]);
    shifty.house.expect(0, &["decide", &id, "a", "retry", "--reason", "accepted"]);
    shifty.house.expect(1, &["resume", &id]);
    assert_eq!(
        (shifty.calls_of("undo"), &shifty.house.json(&["show", &id])["status"]),
        (1, &json!("compensated"))
    );
}

#[test]
fn a_plan_saved_without_looking_is_pinned_when_it_starts() {
    let shifty = Shifty::new(&tools("Does one thing."));
    shifty.house.write("plan.json", &asks_first(json!({})).to_string());
    shifty.house.expect(0, &["plan", "save", "plan.json", "--offline"]);
    shifty.says(&tools("Does another thing."));
    shifty.house.expect(3, &["run", "asks"]);
    let id = shifty.house.newest();
    shifty.says(&tools("Does a third thing."));
    go(&shifty, &id, 3);
    assert_eq!((&act(&shifty, &id)["error"]["category"], shifty.calls()), (&json!("policy"), 0));
}
