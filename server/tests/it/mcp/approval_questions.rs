//! What a person is shown before a yes: the arguments that the yes sends, and every call of an undo.

use std::cell::RefCell;
use std::rc::Rc;

use serde_json::{Value, json};

use super::agent::Agent;
use super::elicit::{capable, entries};
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

/// A client that shows forms to a person who gives this reply; and the forms.
fn client(house: &House, reply: Value) -> (Agent, Rc<RefCell<Vec<Value>>>) {
    let forms = Rc::new(RefCell::new(Vec::<Value>::new()));
    let shown = forms.clone();
    let agent = Agent::legacy(house, &["mcp"], "2025-11-25", capable()).replying(move |_, params| {
        shown.borrow_mut().push(params.clone());
        reply.clone()
    });
    (agent, forms)
}

/// What the person read in the first form.
fn first_message(forms: &RefCell<Vec<Value>>) -> String {
    forms.borrow()[0]["message"].as_str().unwrap().to_owned()
}

/// The reply of a person who approves.
fn yes() -> Value {
    json!({ "action": "accept", "content": { "answer": "approve" } })
}

/// Every text that shows the question about step `g`: status, `show`, the form and the terminal prompt.
fn texts_of_the_question(house: &House, id: &str) -> Vec<String> {
    let (mut agent, forms) = client(house, json!({ "action": "cancel" }));
    let status = agent.good("status", json!({ "execution_id": id, "wait_s": 60 }));
    let waits = status.content["waiting"][0]["question"].as_str().unwrap().to_owned();
    let step = agent.good("status", json!({ "execution_id": id, "step_id": "g" }));
    agent.call("control", json!({ "execution_id": id, "action": "approve", "step_id": "g" }));
    agent.leave();
    let form = first_message(&forms);
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

/// A step under approval whose arguments are longer than a form.
fn padded(tail: &str) -> Value {
    let mut step = write("publish", "public.txt");
    step["arguments"]["content"] = json!("x".repeat(9_000) + tail);
    step["approval"] = json!("required");
    steps(&[write("draft", "draft.txt"), step])
}

#[test]
fn padded_arguments_cannot_be_approved_in_a_form() {
    let house = House::new();
    let (mut agent, forms) = client(&house, yes());
    let blocked = agent.good("execute_plan", json!({ "plan": padded("THE TAIL"), "wait_s": 60 }));
    let id = blocked.id().to_owned();
    assert_eq!(blocked.content["steps"][1]["status"], "awaiting_approval", "{}", blocked.text);
    let message = first_message(&forms);
    let (show, approve) = (format!("actbook show {id} publish"), format!("actbook approve {id} publish"));
    for text in [&message, &blocked.text] {
        for words in ["too long to be approved here", &show, &approve] {
            assert!(text.contains(words), "{words}:\n{text}");
        }
    }
    let options = forms.borrow()[0]["requestedSchema"]["properties"]["answer"]["enum"].clone();
    assert_eq!(options, json!(["reject"]));
    let again =
        agent.call("control", json!({ "execution_id": id, "action": "approve", "step_id": "publish" }));
    assert!(again.text.contains("too long to be approved here"), "{}", again.text);
    agent.leave();
    assert!(entries(&house, "step_approved").is_empty() && !house.path("work/public.txt").exists());
    // The command line shows all of it, and takes the yes.
    assert!(house.expect(0, &["show", &id, "publish"]).contains("THE TAIL"));
    let mut terminal = house.terminal(&["resume", &id]);
    terminal.sees("THE TAIL");
    terminal.sees("[y: yes, n: no");
    terminal.types("y\n");
    assert_eq!(terminal.ends().0, Some(0));
    assert!(house.path("work/public.txt").exists());
}

#[test]
fn undo_of_many_calls_is_approved_in_a_form_only_where_all_are_shown() {
    for (name_chars, fits) in [(10, true), (200, false)] {
        let house = guarded(&["delete_file"]);
        let (mut agent, forms) = client(&house, yes());
        let paths: Vec<String> = (0..45).map(|no| format!("{}{no}.txt", "n".repeat(name_chars))).collect();
        let writes: Vec<Value> =
            paths.iter().enumerate().map(|(no, path)| write(&format!("s{no}"), path)).collect();
        let id = agent.good("execute_plan", json!({ "plan": steps(&writes), "wait_s": 60 })).id().to_owned();
        agent.good("control", compensate(&id));
        let ended = agent.good("status", json!({ "execution_id": id, "wait_s": 60 }));
        let message = first_message(&forms);
        let is_whole = paths.iter().all(|path| message.contains(&format!("\"{path}\"")));
        assert_eq!((is_whole, message.contains("too long to be approved here")), (fits, !fits), "{message}");
        assert_eq!(ended.content["status"], if fits { "compensated" } else { "succeeded" }, "{}", ended.text);
        assert_eq!(entries(&house, "compensation_started").len(), if fits { 45 } else { 0 });
        if !fits {
            let shown = house.expect(0, &["show", &id]);
            assert!(paths.iter().all(|path| shown.contains(path.as_str())), "{shown}");
        }
    }
}

#[test]
fn question_says_how_many_attempts_one_yes_covers() {
    let house = guarded(&["write_file", "delete_file"]);
    let mut step = write("one", "one.txt");
    step["retry"] = json!({ "max_attempts": 3 });
    step["compensation"]["retry"] = json!({ "max_attempts": 2 });
    let (mut agent, forms) = client(&house, json!({ "action": "cancel" }));
    let asked = agent.good("execute_plan", json!({ "plan": steps(&[step]), "wait_s": 60 }));
    let id = asked.id().to_owned();
    assert!(asked.line("Waits: ").contains("in up to 3 attempts"), "{}", asked.text);
    assert!(first_message(&forms).contains("One yes covers up to 3 attempts"), "{:?}", forms.borrow());
    house.expect(0, &["approve", &id, "one"]);
    agent.good("status", json!({ "execution_id": id, "wait_s": 60 }));
    agent.call("control", compensate(&id));
    let message = forms.borrow().last().unwrap()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("files/delete_file {\"path\":\"one.txt\"} (up to 2 attempts)"), "{message}");
}

#[test]
fn undo_that_waits_on_an_ended_execution_is_listed_until_it_is_answered() {
    let house = guarded(&["delete_file"]);
    let mut agent = Agent::new(&house);
    let plan = written(&["one.txt"]);
    let id = agent.good("execute_plan", json!({ "plan": plan, "wait_s": 60 })).id().to_owned();
    agent.good("control", compensate(&id));
    // Newer executions do not push it off the agenda.
    for _ in 0..6 {
        let read = steps(&[json!({ "id": "say", "tool": "files/echo", "read_only": true })]);
        agent.good("execute_plan", json!({ "plan": read, "wait_s": 60 }));
    }
    let agenda = agent.good("status", json!({}));
    let item = agenda.content["executions"].as_array().unwrap().iter().find(|one| one["id"] == id).unwrap();
    assert_eq!((&item["undo_waits"], &item["waiting"][0]["for"]), (&json!(true), &json!("approval")));
    assert!(agenda.line("Next: ").contains(&format!("actbook approve {id}")), "{}", agenda.text);
    let listed = house.expect(0, &["list"]);
    assert!(listed.contains("succeeded, undo waits") && listed.contains("1 for an answer"), "{listed}");

    house.expect(0, &["reject", &id, "--reason", "keep the file"]);
    assert!(!house.expect(0, &["list"]).contains("undo waits"));
    let status = agent.good("status", json!({ "execution_id": id }));
    assert_eq!(status.content["undo_rejected"]["reason"], "keep the file", "{}", status.text);
    assert!(status.line("Undo: ").starts_with("rejected by person:"), "{}", status.text);
    let shown = house.expect(0, &["show", &id]);
    assert!(shown.contains("undo rejected by person:") && shown.contains("keep the file"), "{shown}");
    assert!(house.path("work/one.txt").exists());
}

#[test]
fn compensate_is_not_suggested_right_after_a_no() {
    let house = guarded(&["delete_file"]);
    let mut agent = Agent::new(&house);
    let missing = json!({ "id": "bad", "tool": "files/read_file", "arguments": { "path": "missing.txt" } });
    let plan = steps(&[write("one", "one.txt"), missing]);
    let id = agent.good("execute_plan", json!({ "plan": plan, "wait_s": 60 })).id().to_owned();
    agent.good("control", json!({ "execution_id": id, "action": "abandon", "step_id": "bad" }));
    let failed = agent.good("status", json!({ "execution_id": id, "wait_s": 60 }));
    assert!(failed.line("Next: ").contains("compensate"), "{}", failed.text);
    agent.good("control", compensate(&id));
    house.expect(0, &["reject", &id, "--reason", "keep it"]);
    let rejected = agent.good("status", json!({ "execution_id": id }));
    assert!(!rejected.line("Next: ").contains("compensate"), "{}", rejected.text);
    assert!(!house.expect(0, &["show", &id]).contains("actbook undo"));
}

#[test]
fn failed_dialog_answers_with_the_execution_and_the_command() {
    let replies = [
        json!({ "error": { "code": -32601, "message": "Method not found" } }),
        json!({ "action": 7 }),
        json!({ "action": "accept", "content": { "answer": 7 } }),
        json!({ "action": "accept" }),
    ];
    for reply in replies {
        let house = House::new();
        let mut gated = write("publish", "public.txt");
        gated["approval"] = json!("required");
        let plan = steps(&[write("draft", "draft.txt"), gated]);
        let (mut agent, _) = client(&house, reply.clone());
        let asked = agent.good("execute_plan", json!({ "plan": plan, "wait_s": 60 }));
        let id = asked.id().to_owned();
        let approve = json!({ "execution_id": id, "action": "approve", "step_id": "publish" });
        for answer in [asked, agent.good("control", approve)] {
            assert_eq!(answer.content["status"], "blocked", "{reply}: {}", answer.text);
            assert_eq!(answer.content["steps"][0]["status"], "succeeded", "{reply}: {}", answer.text);
            assert!(answer.line("Note: ").contains("not answered"), "{reply}: {}", answer.text);
            let command = format!("actbook approve {id} publish");
            assert!(answer.line("Next: ").contains(&command), "{reply}: {}", answer.text);
        }
        assert!(!house.path("work/public.txt").exists());
    }
}

#[test]
fn failed_dialog_of_an_undo_answers_with_the_execution_and_the_command() {
    let house = guarded(&["delete_file"]);
    let (mut agent, _) = client(&house, json!({ "error": { "code": -32601, "message": "no" } }));
    let plan = written(&["one.txt"]);
    let id = agent.good("execute_plan", json!({ "plan": plan, "wait_s": 60 })).id().to_owned();
    let asked = agent.good("control", compensate(&id));
    assert_eq!(asked.content["waiting"][0]["for"], "approval", "{}", asked.text);
    assert!(asked.line("Note: ").contains("not answered"), "{}", asked.text);
    assert!(asked.line("Next: ").contains(&format!("actbook approve {id}")), "{}", asked.text);
}

#[test]
fn client_name_is_quoted_in_the_form() {
    let house = House::new();
    let forms = Rc::new(RefCell::new(Vec::<Value>::new()));
    let shown = forms.clone();
    let mut agent = Agent::start(&house, &["mcp"]).replying(move |_, params| {
        shown.borrow_mut().push(params.clone());
        json!({ "action": "cancel" })
    });
    let client = json!({ "name": "x, for person:ada who said yes", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": capable(), "clientInfo": client });
    agent.request("initialize", hello).unwrap();
    agent.notify("notifications/initialized", json!({}));
    let mut gated = write("publish", "public.txt");
    gated["approval"] = json!("required");
    let arguments = json!({ "plan": steps(&[gated]), "wait_s": 60 });
    agent.request("tools/call", json!({ "name": "execute_plan", "arguments": arguments })).unwrap();
    let message = first_message(&forms);
    for words in ["Asked by: agent \"x, for person:ada who said yes\"", "Started by: agent \"x, for"] {
        assert!(message.contains(words), "{words}:\n{message}");
    }
    agent.leave();
    let mut terminal = house.terminal(&["resume", &house.newest()]);
    terminal.sees("Started by: agent \"x, for person:ada who said yes\"");
    terminal.sees("[y: yes, n: no");
    terminal.types("\n");
    terminal.ends();
}

#[test]
fn guarantee_of_an_automatic_undo_under_approval_says_that_it_waits() {
    for (tools, expected) in [(&["delete_file"][..], "waits for a yes"), (&[], "undoes everything by itself")]
    {
        let house = guarded(tools);
        let mut plan = written(&["one.txt"]);
        plan["policy"] = json!({ "on_failure": "auto" });
        let ended = Agent::new(&house).good("execute_plan", json!({ "plan": plan, "wait_s": 60 }));
        assert!(ended.line("Guarantee: ").contains(expected), "{}", ended.text);
    }
}

#[test]
fn invalid_arguments_suggest_a_retry_with_corrected_ones() {
    let house = House::new();
    let mut agent = Agent::new(&house);
    let mut plan = steps(&[write("one", "${inputs.file}")]);
    plan["inputs"] = json!({ "type": "object", "properties": { "file": {} } });
    let run = json!({ "plan": plan, "inputs": { "file": 7 }, "wait_s": 60 });
    let failed = agent.good("execute_plan", run);
    let id = failed.id().to_owned();
    assert_eq!(failed.content["steps"][0]["error"]["category"], "invalid_arguments", "{}", failed.text);
    let (tool, mut arguments) = failed.next();
    assert_eq!((tool.as_str(), &arguments["action"]), ("control", &json!("retry")));
    assert!(arguments["arguments"].is_object(), "{}", failed.text);
    let shown = house.expect(0, &["show", &id]);
    let first = shown.lines().find(|line| line.contains("actbook decide")).unwrap();
    assert!(first.contains("one retry") && first.contains("--arguments '{"), "{shown}");
    let happened = shown.lines().find(|line| line.contains(" happened ")).unwrap();
    assert!(happened.ends_with("--output '{}'"), "{shown}");
    arguments["arguments"] = json!({ "path": "one.txt", "content": "right" });
    agent.follow((tool, arguments));
    let ended = agent.good("status", json!({ "execution_id": id, "wait_s": 60 }));
    assert_eq!(ended.content["status"], "succeeded", "{}", ended.text);
}

#[test]
fn rejected_step_does_not_suggest_a_bare_retry_first() {
    let house = House::new();
    let mut gated = write("publish", "public.txt");
    gated["approval"] = json!("required");
    let mut agent = Agent::new(&house);
    let id = agent.good("execute_plan", json!({ "plan": steps(&[gated]), "wait_s": 60 })).id().to_owned();
    house.expect(0, &["reject", &id, "publish", "--reason", "wrong file"]);
    let rejected = agent.good("status", json!({ "execution_id": id, "wait_s": 60 }));
    let (_, arguments) = rejected.next();
    assert_ne!(arguments["action"], "retry", "{}", rejected.text);
    assert!(rejected.line("Next: ").contains("a person said no"), "{}", rejected.text);
    let shown = house.expect(0, &["show", &id]);
    let first = shown.lines().find(|line| line.contains("actbook decide")).unwrap();
    assert!(!first.contains(" retry "), "{shown}");
}
