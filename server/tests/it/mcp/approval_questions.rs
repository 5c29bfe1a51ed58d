//! What a person is shown before a yes: the arguments that the yes sends, and every call of an undo.

use std::cell::RefCell;
use std::rc::Rc;

use serde_json::{Value, json};

use super::agent::Agent;
use super::elicit::capable;
use super::undo_approvals::configure;
use super::{steps, write};
use crate::cli::House;

/// A house whose config asks for a yes to these tools of `files`.
fn guarded(tools: &[&str]) -> House {
    let house = House::new();
    configure(&house, |config| {
        for tool in tools {
            config["servers"]["files"]["tools"][*tool] = json!({ "approval": "required" });
        }
    });
    house
}

/// A client that shows forms to a person who gives this reply; and what the person read.
fn client(house: &House, reply: Value) -> (Agent, Rc<RefCell<Vec<String>>>) {
    let read = Rc::new(RefCell::new(Vec::<String>::new()));
    let shown = read.clone();
    let agent = Agent::legacy(house, &["mcp"], "2025-11-25", capable()).replying(move |_, params| {
        shown.borrow_mut().push(params["message"].as_str().unwrap().to_owned());
        reply.clone()
    });
    (agent, read)
}

/// Every text that shows the question about step `g`: status, `show`, the form and the terminal prompt.
fn texts_of_the_question(house: &House, id: &str) -> Vec<String> {
    let (mut agent, read) = client(house, json!({ "action": "cancel" }));
    let status = agent.good("status", json!({ "execution_id": id, "wait_s": 60 }));
    let waits = status.content["waiting"][0]["question"].as_str().unwrap().to_owned();
    let step = agent.good("status", json!({ "execution_id": id, "step_id": "g" }));
    agent.call("control", json!({ "execution_id": id, "action": "approve", "step_id": "g" }));
    agent.leave();
    let form = read.borrow()[0].clone();
    let shown = house.expect(0, &["show", id]);
    let arguments = house.json(&["show", id, "g"])["arguments"].to_string();
    let mut terminal = house.terminal(&["resume", id]);
    terminal.sees("[y: yes, n: no");
    terminal.types("\n");
    let prompt = terminal.ends().1;
    let prompt = prompt[prompt.find("Actbook asks about").unwrap()..].to_owned();
    let own_step = house.expect(0, &["show", id, "g"]);
    let question = |text: &str| text[text.find("What waits").unwrap()..].to_owned();
    let first_value = step.line("Arguments (").to_owned()
        + step.text.lines().skip_while(|line| !line.starts_with("Arguments (")).nth(1).unwrap();
    let structured = status.content["steps"].as_array().unwrap().last().unwrap()["arguments"].to_string();
    vec![
        status.line("Waits: ").to_owned(),
        waits,
        structured,
        first_value,
        form,
        question(&shown),
        question(&own_step),
        arguments,
        prompt,
    ]
}

#[test]
fn retry_with_arguments_asks_about_the_arguments_that_it_sends() {
    let house = guarded(&["fail_times"]);
    let plan = steps(&[
        json!({ "id": "g", "tool": "files/fail_times", "arguments": { "name": "former", "times": 9 } }),
    ]);
    let mut agent = Agent::new(&house);
    let id = agent.good("execute_plan", json!({ "plan": plan, "wait_s": 60 })).id().to_owned();
    house.expect(0, &["approve", &id, "g"]);
    let failed = agent.good("status", json!({ "execution_id": id, "wait_s": 60 }));
    assert_eq!(failed.content["steps"][0]["status"], "failed", "{}", failed.text);
    let corrected = json!({ "name": "corrected", "times": 0 });
    agent.good(
        "control",
        json!({ "execution_id": id, "action": "retry", "step_id": "g", "reason": "r", "arguments": corrected }),
    );
    agent.good("status", json!({ "execution_id": id, "wait_s": 60 }));
    agent.leave();
    for text in texts_of_the_question(&house, &id) {
        assert!(text.contains("corrected") && !text.contains("former"), "{text}");
    }
    // The former attempt stays on show with what it sent.
    let detail = house.expect(0, &["show", &id, "g"]);
    assert!(detail.contains("former"), "{detail}");
    house.expect(0, &["approve", &id, "g"]);
    house.expect(0, &["resume", &id]);
    assert_eq!(house.json(&["show", &id])["steps"][0]["arguments"], corrected);
}

#[test]
fn did_not_happen_with_arguments_asks_about_the_arguments_that_it_sends() {
    let house = guarded(&["crash"]);
    let plan =
        steps(&[json!({ "id": "g", "tool": "files/crash", "arguments": { "after_effect": "former.txt" } })]);
    let mut agent = Agent::new(&house);
    let id = agent.good("execute_plan", json!({ "plan": plan, "wait_s": 60 })).id().to_owned();
    house.expect(0, &["approve", &id, "g"]);
    let unknown = agent.good("status", json!({ "execution_id": id, "wait_s": 60 }));
    assert_eq!(unknown.content["steps"][0]["status"], "unknown", "{}", unknown.text);
    let corrected = json!({ "after_effect": "corrected.txt" });
    agent.good(
        "control",
        json!({ "execution_id": id, "action": "did_not_happen", "step_id": "g", "arguments": corrected }),
    );
    agent.good("status", json!({ "execution_id": id, "wait_s": 60 }));
    agent.leave();
    for text in texts_of_the_question(&house, &id) {
        assert!(text.contains("corrected.txt") && !text.contains("former.txt"), "{text}");
    }
    // A rejected correction is what a plain retry would send, and what it asks about again.
    house.expect(0, &["reject", &id, "g", "--reason", "not this one"]);
    assert_eq!(house.json(&["show", &id])["steps"][0]["arguments"], corrected);
}

/// Files that a deletion each takes back.
fn written(paths: &[&str]) -> Value {
    steps(&paths.iter().map(|path| write(&path.replace('.', "_"), path)).collect::<Vec<_>>())
}

fn compensate(id: &str) -> Value {
    json!({ "execution_id": id, "action": "compensate", "reason": "the user changed their mind" })
}

#[test]
fn undo_that_waits_for_a_yes_is_shown_with_tools_and_arguments() {
    let house = guarded(&["delete_file"]);
    let mut agent = Agent::new(&house);
    let plan = written(&["one.txt", "two.txt"]);
    let id = agent.good("execute_plan", json!({ "plan": plan, "wait_s": 60 })).id().to_owned();
    let asked = agent.good("control", compensate(&id));
    let brief = &asked.content["brief"]["undo"];
    assert_eq!(brief[0]["tool"], "files/delete_file", "{}", asked.text);
    assert_eq!(brief[0]["arguments"]["path"], "two.txt", "{}", asked.text);
    let shown = house.expect(0, &["show", &id]);
    let waits = asked.content["waiting"][0]["question"].as_str().unwrap();
    for text in [waits, asked.line("Waits: "), asked.line("Brief: "), &shown] {
        for words in ["files/delete_file", "{\"path\":\"two.txt\"}", "{\"path\":\"one.txt\"}"] {
            assert!(text.contains(words), "{words}:\n{text}");
        }
    }
}

#[test]
fn undo_that_waits_beside_another_question_is_shown_with_its_calls() {
    let house = guarded(&["delete_file"]);
    let mut gated = write("gated", "gated.txt");
    gated["approval"] = json!("required");
    let mut agent = Agent::new(&house);
    let plan = steps(&[write("one", "one.txt"), gated]);
    let id = agent.good("execute_plan", json!({ "plan": plan, "wait_s": 60 })).id().to_owned();
    let asked = agent.good("control", compensate(&id));
    let undo = asked.content["waiting"].as_array().unwrap().iter().find(|one| one.get("step").is_none());
    let question = undo.unwrap()["question"].as_str().unwrap();
    assert!(question.contains("files/delete_file with {\"path\":\"one.txt\"}"), "{question}");
    assert_eq!(asked.content["brief"]["undo"][0]["arguments"]["path"], "one.txt", "{}", asked.text);
}
