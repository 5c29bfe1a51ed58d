//! What a person is shown before a yes: the arguments that the yes sends, and every call of an undo.

use std::cell::RefCell;
use std::rc::Rc;

use serde_json::{Value, json};

use super::agent::Agent;
use super::elicit::{elicitation_capability, journal_entries};
use super::undo_approvals::change_config;
use super::{work_plan, write_step};
use crate::cli::Sandbox;

/// A sandbox whose config requires an approval for these tools of `files`.
fn guarded(tools: &[&str]) -> Sandbox {
    let sandbox = Sandbox::new();
    change_config(&sandbox, |config| {
        for tool in tools {
            config["servers"]["files"]["tools"][*tool] = json!({ "approval": "required" });
        }
    });
    sandbox
}

/// A client that shows forms to a person who gives this reply; and the forms.
fn client(sandbox: &Sandbox, reply: Value) -> (Agent, Rc<RefCell<Vec<Value>>>) {
    let forms = Rc::new(RefCell::new(Vec::<Value>::new()));
    let shown = forms.clone();
    let agent = Agent::legacy(sandbox, &["mcp"], "2025-11-25", elicitation_capability()).with_replies(
        move |_, params| {
            shown.borrow_mut().push(params.clone());
            reply.clone()
        },
    );
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
fn texts_of_the_question(sandbox: &Sandbox, id: &str) -> Vec<String> {
    let (mut agent, forms) = client(sandbox, json!({ "action": "cancel" }));
    let status = agent.call_ok("status", json!({ "execution_id": id, "wait_s": 60 }));
    let waits = status.content["waiting"][0]["question"].as_str().unwrap().to_owned();
    let step = agent.call_ok("status", json!({ "execution_id": id, "step_id": "g" }));
    agent.call("control", json!({ "execution_id": id, "action": "approve", "step_id": "g" }));
    agent.close();
    let form = first_message(&forms);
    let shown = sandbox.expect(0, &["show", id]);
    let arguments = sandbox.json(&["show", id, "g"])["arguments"].to_string();
    let mut terminal = sandbox.terminal(&["resume", id]);
    terminal.wait_for("[y: yes, n: no");
    terminal.type_keys("\n");
    let prompt = terminal.wait_for_exit().1;
    let prompt = prompt[prompt.find("Actbook asks about").unwrap()..].to_owned();
    let own_step = sandbox.expect(0, &["show", id, "g"]);
    let question = |text: &str| text[text.find("What waits").unwrap()..].to_owned();
    let first_value = step.text_after("Arguments (").to_owned()
        + step.text.lines().skip_while(|line| !line.starts_with("Arguments (")).nth(1).unwrap();
    let structured = status.content["steps"].as_array().unwrap().last().unwrap()["arguments"].to_string();
    vec![
        status.text_after("Waits: ").to_owned(),
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
    let sandbox = guarded(&["fail_times"]);
    let plan = work_plan(&[
        json!({ "id": "g", "tool": "files/fail_times", "arguments": { "name": "former", "times": 9 } }),
    ]);
    let mut agent = Agent::new(&sandbox);
    let id = agent.call_ok("execute_plan", json!({ "plan": plan, "wait_s": 60 })).id().to_owned();
    sandbox.expect(0, &["approve", &id, "g"]);
    let failed = agent.call_ok("status", json!({ "execution_id": id, "wait_s": 60 }));
    assert_eq!(failed.content["steps"][0]["status"], "failed", "{}", failed.text);
    let corrected = json!({ "name": "corrected", "times": 0 });
    agent.call_ok(
        "control",
        json!({ "execution_id": id, "action": "retry", "step_id": "g", "reason": "r", "arguments": corrected }),
    );
    agent.call_ok("status", json!({ "execution_id": id, "wait_s": 60 }));
    agent.close();
    for text in texts_of_the_question(&sandbox, &id) {
        assert!(text.contains("corrected") && !text.contains("former"), "{text}");
    }
    // The former attempt stays on show with what it sent.
    let detail = sandbox.expect(0, &["show", &id, "g"]);
    assert!(detail.contains("former"), "{detail}");
    sandbox.expect(0, &["approve", &id, "g"]);
    sandbox.expect(0, &["resume", &id]);
    assert_eq!(sandbox.json(&["show", &id])["steps"][0]["arguments"], corrected);
}

#[test]
fn did_not_happen_with_arguments_asks_about_the_arguments_that_it_sends() {
    let sandbox = guarded(&["crash"]);
    let plan = work_plan(&[
        json!({ "id": "g", "tool": "files/crash", "arguments": { "after_effect": "former.txt" } }),
    ]);
    let mut agent = Agent::new(&sandbox);
    let id = agent.call_ok("execute_plan", json!({ "plan": plan, "wait_s": 60 })).id().to_owned();
    sandbox.expect(0, &["approve", &id, "g"]);
    let unknown = agent.call_ok("status", json!({ "execution_id": id, "wait_s": 60 }));
    assert_eq!(unknown.content["steps"][0]["status"], "unknown", "{}", unknown.text);
    let corrected = json!({ "after_effect": "corrected.txt" });
    agent.call_ok(
        "control",
        json!({ "execution_id": id, "action": "did_not_happen", "step_id": "g", "arguments": corrected }),
    );
    agent.call_ok("status", json!({ "execution_id": id, "wait_s": 60 }));
    agent.close();
    for text in texts_of_the_question(&sandbox, &id) {
        assert!(text.contains("corrected.txt") && !text.contains("former.txt"), "{text}");
    }
    // A rejected correction is what a plain retry would send, and what it asks about again.
    sandbox.expect(0, &["reject", &id, "g", "--reason", "not this one"]);
    assert_eq!(sandbox.json(&["show", &id])["steps"][0]["arguments"], corrected);
}

/// Files that a deletion each takes back.
fn written(paths: &[&str]) -> Value {
    work_plan(&paths.iter().map(|path| write_step(&path.replace('.', "_"), path)).collect::<Vec<_>>())
}

fn compensate(id: &str) -> Value {
    json!({ "execution_id": id, "action": "compensate", "reason": "the user changed their mind" })
}

#[test]
fn undo_that_waits_for_a_yes_is_shown_with_tools_and_arguments() {
    let sandbox = guarded(&["delete_file"]);
    let mut agent = Agent::new(&sandbox);
    let plan = written(&["one.txt", "two.txt"]);
    let id = agent.call_ok("execute_plan", json!({ "plan": plan, "wait_s": 60 })).id().to_owned();
    let asked = agent.call_ok("control", compensate(&id));
    let brief = &asked.content["brief"]["undo"];
    assert_eq!(brief[0]["tool"], "files/delete_file", "{}", asked.text);
    assert_eq!(brief[0]["arguments"]["path"], "two.txt", "{}", asked.text);
    let shown = sandbox.expect(0, &["show", &id]);
    let waits = asked.content["waiting"][0]["question"].as_str().unwrap();
    for text in [waits, asked.text_after("Waits: "), asked.text_after("Brief: "), &shown] {
        for words in ["files/delete_file", "{\"path\":\"two.txt\"}", "{\"path\":\"one.txt\"}"] {
            assert!(text.contains(words), "{words}:\n{text}");
        }
    }
}

#[test]
fn undo_that_waits_beside_another_question_is_shown_with_its_calls() {
    let sandbox = guarded(&["delete_file"]);
    let mut gated = write_step("gated", "gated.txt");
    gated["approval"] = json!("required");
    let mut agent = Agent::new(&sandbox);
    let plan = work_plan(&[write_step("one", "one.txt"), gated]);
    let id = agent.call_ok("execute_plan", json!({ "plan": plan, "wait_s": 60 })).id().to_owned();
    let asked = agent.call_ok("control", compensate(&id));
    let undo = asked.content["waiting"].as_array().unwrap().iter().find(|one| one.get("step").is_none());
    let question = undo.unwrap()["question"].as_str().unwrap();
    assert!(question.contains("files/delete_file with {\"path\":\"one.txt\"}"), "{question}");
    assert_eq!(asked.content["brief"]["undo"][0]["arguments"]["path"], "one.txt", "{}", asked.text);
}

/// A step under approval whose arguments are longer than a form.
fn padded(tail: &str) -> Value {
    let mut step = write_step("publish", "public.txt");
    step["arguments"]["content"] = json!("x".repeat(9_000) + tail);
    step["approval"] = json!("required");
    work_plan(&[write_step("draft", "draft.txt"), step])
}

#[test]
fn padded_arguments_cannot_be_approved_in_a_form() {
    let sandbox = Sandbox::new();
    let (mut agent, forms) = client(&sandbox, yes());
    let blocked = agent.call_ok("execute_plan", json!({ "plan": padded("THE_TAIL"), "wait_s": 60 }));
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
    agent.close();
    assert!(
        journal_entries(&sandbox, "step_approved").is_empty() && !sandbox.path("work/public.txt").exists()
    );
    // The command line shows all of it, and takes the yes.
    assert!(sandbox.expect(0, &["show", &id, "publish"]).contains("THE_TAIL"));
    let mut terminal = sandbox.terminal(&["resume", &id]);
    terminal.wait_for("THE_TAIL");
    terminal.wait_for("[y: yes, n: no");
    terminal.type_keys("y\n");
    assert_eq!(terminal.wait_for_exit().0, Some(0));
    assert!(sandbox.path("work/public.txt").exists());
}

#[test]
fn undo_of_many_calls_is_approved_in_a_form_only_where_all_are_shown() {
    for (name_chars, fits) in [(10, true), (200, false)] {
        let sandbox = guarded(&["delete_file"]);
        let (mut agent, forms) = client(&sandbox, yes());
        let paths: Vec<String> = (0..45).map(|no| format!("{}{no}.txt", "n".repeat(name_chars))).collect();
        let writes: Vec<Value> =
            paths.iter().enumerate().map(|(no, path)| write_step(&format!("s{no}"), path)).collect();
        let id = agent
            .call_ok("execute_plan", json!({ "plan": work_plan(&writes), "wait_s": 60 }))
            .id()
            .to_owned();
        agent.call_ok("control", compensate(&id));
        let ended = agent.call_ok("status", json!({ "execution_id": id, "wait_s": 60 }));
        let message = first_message(&forms);
        let is_whole = paths.iter().all(|path| message.contains(&format!("\"{path}\"")));
        assert_eq!((is_whole, message.contains("too long to be approved here")), (fits, !fits), "{message}");
        assert_eq!(ended.content["status"], if fits { "compensated" } else { "succeeded" }, "{}", ended.text);
        assert_eq!(journal_entries(&sandbox, "compensation_started").len(), if fits { 45 } else { 0 });
        if !fits {
            let shown = sandbox.expect(0, &["show", &id]);
            assert!(paths.iter().all(|path| shown.contains(path.as_str())), "{shown}");
        }
    }
}

#[test]
fn question_says_how_many_attempts_one_yes_covers() {
    let sandbox = guarded(&["write_file", "delete_file"]);
    let mut step = write_step("one", "one.txt");
    step["retry"] = json!({ "max_attempts": 3 });
    step["compensation"]["retry"] = json!({ "max_attempts": 2 });
    let (mut agent, forms) = client(&sandbox, json!({ "action": "cancel" }));
    let asked = agent.call_ok("execute_plan", json!({ "plan": work_plan(&[step]), "wait_s": 60 }));
    let id = asked.id().to_owned();
    assert!(asked.text_after("Waits: ").contains("in up to 3 attempts"), "{}", asked.text);
    assert!(first_message(&forms).contains("One approval covers up to 3 attempts"), "{:?}", forms.borrow());
    sandbox.expect(0, &["approve", &id, "one"]);
    agent.call_ok("status", json!({ "execution_id": id, "wait_s": 60 }));
    agent.call("control", compensate(&id));
    let message = forms.borrow().last().unwrap()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("files/delete_file {\"path\":\"one.txt\"} (up to 2 attempts)"), "{message}");
}

#[test]
fn undo_that_waits_on_an_ended_execution_is_listed_until_it_is_answered() {
    let sandbox = guarded(&["delete_file"]);
    let mut agent = Agent::new(&sandbox);
    let plan = written(&["one.txt"]);
    let id = agent.call_ok("execute_plan", json!({ "plan": plan, "wait_s": 60 })).id().to_owned();
    agent.call_ok("control", compensate(&id));
    // Newer executions do not push it off the agenda.
    for _ in 0..6 {
        let read = work_plan(&[json!({ "id": "say", "tool": "files/echo", "read_only": true })]);
        agent.call_ok("execute_plan", json!({ "plan": read, "wait_s": 60 }));
    }
    let agenda = agent.call_ok("status", json!({}));
    let item = agenda.content["executions"].as_array().unwrap().iter().find(|one| one["id"] == id).unwrap();
    assert_eq!((&item["undo_waits"], &item["waiting"][0]["for"]), (&json!(true), &json!("approval")));
    assert!(agenda.text_after("Next: ").contains(&format!("actbook approve {id}")), "{}", agenda.text);
    let listed = sandbox.expect(0, &["list"]);
    assert!(listed.contains("succeeded, undo waits") && listed.contains("1 for an answer"), "{listed}");
    let newest = sandbox.newest();
    for (option, value) in [
        ("--cursor", newest.as_str()),
        ("--status", "succeeded"),
        ("--search", &id),
        ("--actor", "agent:scripted"),
    ] {
        let listed = sandbox.expect(0, &["list", option, value]);
        assert!(listed.contains("1 for an answer"), "{option} {value}: {listed}");
    }
    let listed = sandbox.expect(0, &["list", "--search", &newest]);
    assert!(!listed.contains("for an answer"), "another execution: {listed}");

    sandbox.expect(0, &["reject", &id, "--reason", "keep the file"]);
    assert!(!sandbox.expect(0, &["list"]).contains("undo waits"));
    let status = agent.call_ok("status", json!({ "execution_id": id }));
    assert_eq!(status.content["undo_rejected"]["reason"], "keep the file", "{}", status.text);
    assert!(status.text_after("Undo: ").starts_with("rejected by person:"), "{}", status.text);
    let shown = sandbox.expect(0, &["show", &id]);
    assert!(shown.contains("undo rejected by person:") && shown.contains("keep the file"), "{shown}");
    assert!(sandbox.path("work/one.txt").exists());
}

#[test]
fn list_by_category_counts_a_waiting_undo_and_show_prints_its_calls_once() {
    let sandbox = guarded(&["delete_file"]);
    let mut agent = Agent::new(&sandbox);
    let mut plan = written(&["one.txt"]);
    let fails =
        json!({ "id": "fails", "tool": "files/fail_times", "arguments": { "name": "x", "times": 9 } });
    plan["steps"].as_array_mut().unwrap().push(fails);
    let id = agent.call_ok("execute_plan", json!({ "plan": plan, "wait_s": 60 })).id().to_owned();
    let before = sandbox.expect(0, &["show", &id]);
    assert_eq!(before.matches("files/delete_file").count(), 1, "the brief names the call: {before}");
    let abandon = json!({ "execution_id": id, "action": "abandon", "step_id": "fails", "reason": "leave it", "wait_s": 60 });
    assert_eq!(agent.call_ok("control", abandon).content["status"], "failed");
    agent.call_ok("control", compensate(&id));

    let listed = sandbox.expect(0, &["list", "--category", "tool_error"]);
    assert!(listed.contains("failed, undo waits") && listed.contains("1 for an answer"), "{listed}");
    let shown = sandbox.expect(0, &["show", &id]);
    assert!(shown.contains("Recovery brief") && shown.contains("actbook approve"), "{shown}");
    assert_eq!(shown.matches("files/delete_file").count(), 1, "the question names the call: {shown}");
}

/// Former versions wrote no `look_again_at` for an undo that waits after the end.
#[test]
fn list_of_a_former_version_verifies_and_rebuild_lists_its_waiting_undo() {
    let sandbox = guarded(&["delete_file"]);
    let mut agent = Agent::new(&sandbox);
    let plan = written(&["one.txt"]);
    let id = agent.call_ok("execute_plan", json!({ "plan": plan, "wait_s": 60 })).id().to_owned();
    agent.call_ok("control", compensate(&id));
    drop(agent);
    let change_row = |sql: &str| {
        let database = rusqlite::Connection::open(sandbox.path("data/actbook/actbook.db")).unwrap();
        assert_eq!(database.execute(sql, []).unwrap(), 1, "{sql}");
    };
    change_row("UPDATE executions SET look_again_at = NULL");
    assert!(!sandbox.expect(0, &["list"]).contains("undo waits"));
    sandbox.expect(0, &["verify"]);
    sandbox.expect(0, &["rebuild"]);
    assert!(sandbox.expect(0, &["list"]).contains("undo waits"));

    change_row("UPDATE executions SET look_again_at = NULL, status = 'failed'");
    let verified = sandbox.expect(1, &["verify"]);
    assert!(verified.contains("the journal is whole, but the list of executions differs"), "{verified}");
    assert!(verified.contains("run `actbook rebuild`"), "{verified}");
    assert!(!verified.contains("is not valid at"), "{verified}");
}

#[test]
fn compensate_is_not_suggested_right_after_a_no() {
    let sandbox = guarded(&["delete_file"]);
    let mut agent = Agent::new(&sandbox);
    let missing = json!({ "id": "bad", "tool": "files/read_file", "arguments": { "path": "missing.txt" } });
    let plan = work_plan(&[write_step("one", "one.txt"), missing]);
    let id = agent.call_ok("execute_plan", json!({ "plan": plan, "wait_s": 60 })).id().to_owned();
    agent.call_ok("control", json!({ "execution_id": id, "action": "abandon", "step_id": "bad" }));
    let failed = agent.call_ok("status", json!({ "execution_id": id, "wait_s": 60 }));
    assert!(failed.text_after("Next: ").contains("compensate"), "{}", failed.text);
    agent.call_ok("control", compensate(&id));
    sandbox.expect(0, &["reject", &id, "--reason", "keep it"]);
    let rejected = agent.call_ok("status", json!({ "execution_id": id }));
    assert!(!rejected.text_after("Next: ").contains("compensate"), "{}", rejected.text);
    assert!(!sandbox.expect(0, &["show", &id]).contains("actbook undo"));
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
        let sandbox = Sandbox::new();
        let mut gated = write_step("publish", "public.txt");
        gated["approval"] = json!("required");
        let plan = work_plan(&[write_step("draft", "draft.txt"), gated]);
        let (mut agent, _) = client(&sandbox, reply.clone());
        let asked = agent.call_ok("execute_plan", json!({ "plan": plan, "wait_s": 60 }));
        let id = asked.id().to_owned();
        let approve = json!({ "execution_id": id, "action": "approve", "step_id": "publish" });
        for answer in [asked, agent.call_ok("control", approve)] {
            assert_eq!(answer.content["status"], "blocked", "{reply}: {}", answer.text);
            assert_eq!(answer.content["steps"][0]["status"], "succeeded", "{reply}: {}", answer.text);
            assert!(answer.text_after("Note: ").contains("not answered"), "{reply}: {}", answer.text);
            let command = format!("actbook approve {id} publish");
            assert!(answer.text_after("Next: ").contains(&command), "{reply}: {}", answer.text);
        }
        assert!(!sandbox.path("work/public.txt").exists());
    }
}

#[test]
fn failed_dialog_of_an_undo_answers_with_the_execution_and_the_command() {
    let sandbox = guarded(&["delete_file"]);
    let (mut agent, _) = client(&sandbox, json!({ "error": { "code": -32601, "message": "no" } }));
    let plan = written(&["one.txt"]);
    let id = agent.call_ok("execute_plan", json!({ "plan": plan, "wait_s": 60 })).id().to_owned();
    let asked = agent.call_ok("control", compensate(&id));
    assert_eq!(asked.content["waiting"][0]["for"], "approval", "{}", asked.text);
    assert!(asked.text_after("Note: ").contains("not answered"), "{}", asked.text);
    assert!(asked.text_after("Next: ").contains(&format!("actbook approve {id}")), "{}", asked.text);
}

#[test]
fn client_name_is_quoted_in_the_form() {
    let sandbox = Sandbox::new();
    let forms = Rc::new(RefCell::new(Vec::<Value>::new()));
    let shown = forms.clone();
    let mut agent = Agent::start(&sandbox, &["mcp"]).with_replies(move |_, params| {
        shown.borrow_mut().push(params.clone());
        json!({ "action": "cancel" })
    });
    let client = json!({ "name": "x, for person:ada who said yes", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": elicitation_capability(), "clientInfo": client });
    agent.request("initialize", hello).unwrap();
    agent.notify("notifications/initialized", json!({}));
    let mut gated = write_step("publish", "public.txt");
    gated["approval"] = json!("required");
    let arguments = json!({ "plan": work_plan(&[gated]), "wait_s": 60 });
    agent.request("tools/call", json!({ "name": "execute_plan", "arguments": arguments })).unwrap();
    let message = first_message(&forms);
    for words in ["Asked by: agent \"x, for person:ada who said yes\"", "Started by: agent \"x, for"] {
        assert!(message.contains(words), "{words}:\n{message}");
    }
    agent.close();
    let mut terminal = sandbox.terminal(&["resume", &sandbox.newest()]);
    terminal.wait_for("Started by: agent \"x, for person:ada who said yes\"");
    terminal.wait_for("[y: yes, n: no");
    terminal.type_keys("\n");
    terminal.wait_for_exit();
}

#[test]
fn terminal_shows_who_asked_for_the_undo_and_why() {
    let sandbox = guarded(&["delete_file"]);
    let missing = json!({ "id": "bad", "tool": "files/read_file", "arguments": { "path": "missing.txt" } });
    let plan = work_plan(&[write_step("one", "one.txt"), missing]);
    let mut agent = Agent::new(&sandbox);
    let id = agent.call_ok("execute_plan", json!({ "plan": plan, "wait_s": 45 })).id().to_owned();
    agent.call_ok("control", compensate(&id));
    agent.close();
    let mut terminal = sandbox.terminal(&["resume", &id]);
    terminal.wait_for("may what was done be undone?");
    terminal.wait_for("Asked by: agent \"scripted\"");
    terminal.wait_for("the user changed");
    terminal.wait_for("one.txt");
    terminal.wait_for("[y: yes, n: no");
    terminal.type_keys("y\n");
    terminal.wait_for_exit();
    assert!(!sandbox.path("work/one.txt").exists());
}

#[test]
fn guarantee_of_an_automatic_undo_under_approval_says_that_it_waits() {
    for (tools, expected) in
        [(&["delete_file"][..], "waits for approval"), (&[], "undoes everything automatically")]
    {
        let sandbox = guarded(tools);
        let mut plan = written(&["one.txt"]);
        plan["policy"] = json!({ "on_failure": "auto" });
        let ended = Agent::new(&sandbox).call_ok("execute_plan", json!({ "plan": plan, "wait_s": 60 }));
        assert!(ended.text_after("Guarantee: ").contains(expected), "{}", ended.text);
    }
}

#[test]
fn invalid_arguments_suggest_a_retry_with_corrected_ones() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let mut plan = work_plan(&[write_step("one", "${inputs.file}")]);
    plan["inputs"] = json!({ "type": "object", "properties": { "file": {} } });
    let run = json!({ "plan": plan, "inputs": { "file": 7 }, "wait_s": 60 });
    let failed = agent.call_ok("execute_plan", run);
    let id = failed.id().to_owned();
    assert_eq!(failed.content["steps"][0]["error"]["category"], "invalid_arguments", "{}", failed.text);
    let (tool, mut arguments) = failed.next_call();
    assert_eq!((tool.as_str(), &arguments["action"]), ("control", &json!("retry")));
    assert!(arguments["arguments"].is_object(), "{}", failed.text);
    let shown = sandbox.expect(0, &["show", &id]);
    let first = shown.lines().find(|line| line.contains("actbook decide")).unwrap();
    assert!(first.contains("one retry") && first.contains("--arguments '{"), "{shown}");
    let happened = shown.lines().find(|line| line.contains(" happened ")).unwrap();
    assert!(happened.ends_with("--output '{}'"), "{shown}");
    arguments["arguments"] = json!({ "path": "one.txt", "content": "right" });
    agent.make_call((tool, arguments));
    let ended = agent.call_ok("status", json!({ "execution_id": id, "wait_s": 60 }));
    assert_eq!(ended.content["status"], "succeeded", "{}", ended.text);
}

#[test]
fn rejected_step_does_not_suggest_a_bare_retry_first() {
    let sandbox = Sandbox::new();
    let mut gated = write_step("publish", "public.txt");
    gated["approval"] = json!("required");
    let mut agent = Agent::new(&sandbox);
    let id =
        agent.call_ok("execute_plan", json!({ "plan": work_plan(&[gated]), "wait_s": 60 })).id().to_owned();
    sandbox.expect(0, &["reject", &id, "publish", "--reason", "wrong file"]);
    let rejected = agent.call_ok("status", json!({ "execution_id": id, "wait_s": 60 }));
    let (_, arguments) = rejected.next_call();
    assert_ne!(arguments["action"], "retry", "{}", rejected.text);
    assert!(rejected.text_after("Next: ").contains("a person said no"), "{}", rejected.text);
    let shown = sandbox.expect(0, &["show", &id]);
    let first = shown.lines().find(|line| line.contains("actbook decide")).unwrap();
    assert!(!first.contains(" retry "), "{shown}");
}

#[test]
fn suggested_correction_escapes_expressions_and_gives_no_reason() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let mut step = write_step("one", "${inputs.file}");
    step["arguments"]["content"] = json!("costs $${x}");
    let mut plan = work_plan(&[step]);
    plan["inputs"] = json!({ "type": "object", "properties": { "file": {} } });
    let run = json!({ "plan": plan, "inputs": { "file": 7 }, "wait_s": 60 });
    let failed = agent.call_ok("execute_plan", run);
    let id = failed.id().to_owned();
    let (tool, mut call) = failed.next_call();
    assert!(call.get("reason").is_none(), "{}", failed.text);
    assert_eq!(call["arguments"], json!({ "path": 7, "content": "costs $${x}" }), "{}", failed.text);
    let shown = sandbox.expect(0, &["show", &id]);
    assert!(shown.contains("--arguments '{") && shown.contains("costs $${x}"), "{shown}");
    call["arguments"]["path"] = json!("one.txt");
    agent.make_call((tool, call));
    let ended = agent.call_ok("status", json!({ "execution_id": id, "wait_s": 60 }));
    assert_eq!(ended.content["status"], "succeeded", "{}", ended.text);
    assert_eq!(ended.content["steps"][0]["arguments"]["content"], "costs ${x}", "{}", ended.text);
}
