//! Approvals and unknown outcomes are put to the person at the client; an agent cannot approve its own work.

use serde_json::{Value, json};

use super::agent::Agent;
use super::serve_process::ServeProcess;
use super::{work_plan, write_step};
use crate::cli::Sandbox;

/// A plan whose second step needs an approval.
fn gated_plan() -> Value {
    let mut publish = write_step("publish", "public.txt");
    publish["approval"] = json!("required");
    work_plan(&[write_step("draft", "draft.txt"), publish])
}

pub fn elicitation_capability() -> Value {
    json!({ "elicitation": {} })
}

/// The journal entries whose kind starts with `kind`.
pub fn journal_entries(sandbox: &Sandbox, kind: &str) -> Vec<Value> {
    let ran = sandbox.run(&["journal", "--json"]);
    let all = ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    all.filter(|entry| entry["kind"].as_str().unwrap().starts_with(kind)).collect()
}

#[test]
fn agent_is_given_the_page_on_which_its_user_answers() {
    let sandbox = Sandbox::new();
    let server = ServeProcess::start(&sandbox);
    let mut agent = Agent::new(&sandbox);
    let step =
        json!({ "id": "publish", "tool": "files/list_files", "arguments": {}, "approval": "required" });
    let blocked = agent.call_ok("execute_plan", json!({ "plan": work_plan(&[step]), "wait_s": 60 }));
    let id = blocked.id().to_owned();
    let page = format!("http://{}/executions/{id}#q-{}-publish", server.address, &id[..8]);
    assert_eq!(blocked.content["waiting"][0]["page"], page, "{}", blocked.text);
    assert!(blocked.text_after("Next: ").contains(&page), "{}", blocked.text);
    let approve = json!({ "execution_id": id, "action": "approve", "step_id": "publish" });
    let refused = agent.call_refused("control", approve);
    assert!(refused.text.contains("needs_a_person") && refused.text.contains(&page), "{}", refused.text);
}

#[test]
fn agent_cannot_approve_and_is_given_the_persons_command() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let blocked = agent.call_ok("execute_plan", json!({ "plan": gated_plan(), "wait_s": 60 }));
    let id = blocked.id().to_owned();
    assert!(
        blocked.text_after("Next: ").contains(&format!("actbook approve {id} publish")),
        "{}",
        blocked.text
    );
    for action in ["approve", "reject"] {
        let refusal = agent
            .call_refused("control", json!({ "execution_id": id, "action": action, "step_id": "publish" }));
        assert_eq!(refusal.content["error"]["code"], "needs_a_person");
        assert!(refusal.text.contains(&format!("actbook approve {id} publish")), "{}", refusal.text);
    }
    assert!(
        journal_entries(&sandbox, "step_approved").is_empty() && !sandbox.path("work/public.txt").exists()
    );
    // A step that does not wait for an approval is refused without naming a terminal command.
    let other = |step: Value| json!({ "execution_id": id, "action": "approve", "step_id": step });
    for step in [json!("draft"), Value::Null] {
        let refusal = agent.call_refused("control", other(step));
        assert_eq!(refusal.content["error"]["code"], "not_waiting", "{}", refusal.text);
        assert!(refusal.text.contains("step `publish` does"), "{}", refusal.text);
    }
    // The approval from the terminal reaches the agent's process, which continues.
    sandbox.expect(0, &["approve", &id, "publish"]);
    let ended = agent.call_ok("status", json!({ "execution_id": id, "wait_s": 60 }));
    assert_eq!(ended.content["status"], "succeeded", "{}", ended.text);
    let late = agent.call_refused("control", other(json!("publish")));
    assert_eq!(late.content["error"]["code"], "not_waiting", "{}", late.text);
}

#[test]
fn agent_approval_allowed_by_config_is_journaled_with_its_name() {
    let sandbox = Sandbox::new();
    let config = std::fs::read_to_string(sandbox.path("actbook.yaml")).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    config["approvals"] = json!("agents");
    sandbox.write("actbook.yaml", &config.to_string());
    let mut agent = Agent::new(&sandbox);
    let blocked = agent.call_ok("execute_plan", json!({ "plan": gated_plan(), "wait_s": 60 }));
    let (tool, arguments) = blocked.next_call();
    assert_eq!(arguments["action"], "approve");
    let approved = agent.make_call((tool, arguments));
    agent.call_ok("status", json!({ "execution_id": approved.id(), "wait_s": 60 }));
    assert_eq!(journal_entries(&sandbox, "step_approved")[0]["actor"], "agent:scripted");
}

#[test]
fn legacy_protocol_elicits_while_the_call_waits() {
    let sandbox = Sandbox::new();
    let asked = std::rc::Rc::new(std::cell::RefCell::new(Vec::<Value>::new()));
    let requests = asked.clone();
    let mut agent = Agent::legacy(&sandbox, &["mcp"], "2025-06-18", elicitation_capability()).with_replies(
        move |method, params| {
            assert_eq!(method, "elicitation/create");
            requests.borrow_mut().push(params.clone());
            json!({ "action": "accept", "content": { "answer": "approve", "reason": "read it" } })
        },
    );
    let ended = agent.call_ok("execute_plan", json!({ "plan": gated_plan(), "wait_s": 60 }));
    assert_eq!(ended.content["status"], "succeeded", "{}", ended.text);
    let asked = asked.borrow();
    assert_eq!(asked.len(), 1);
    // The person was shown the arguments that were sent.
    let message = asked[0]["message"].as_str().unwrap();
    assert!(message.contains("files/write_file") && message.contains("public.txt"), "{message}");
    let approved = journal_entries(&sandbox, "step_approved");
    assert_eq!(approved[0]["actor"], "person:through scripted");
    assert!(sandbox.path("work/public.txt").exists());
}

#[test]
fn declined_elicitation_rejects_and_cancelled_one_leaves_it_open() {
    let sandbox = Sandbox::new();
    for (action, status) in [("decline", "failed"), ("cancel", "awaiting_approval")] {
        let mut agent = Agent::legacy(&sandbox, &["mcp"], "2025-11-25", elicitation_capability())
            .with_replies(move |_, _| json!({ "action": action }));
        let blocked = agent.call_ok("execute_plan", json!({ "plan": gated_plan(), "wait_s": 60 }));
        assert_eq!(blocked.content["steps"][1]["status"], status, "{}", blocked.text);
    }
    assert!(!sandbox.path("work/public.txt").exists());
}

/// Executes the plan with a person who approves everything; returns the messages that the person was shown.
fn messages_shown_to_approver(sandbox: &Sandbox, plan: &Value, inputs: Value) -> Vec<String> {
    let read = std::rc::Rc::new(std::cell::RefCell::new(Vec::<String>::new()));
    let shown = read.clone();
    let mut agent = Agent::legacy(sandbox, &["mcp"], "2025-11-25", elicitation_capability()).with_replies(
        move |_, params| {
            shown.borrow_mut().push(params["message"].as_str().unwrap().to_owned());
            json!({ "action": "accept", "content": { "answer": "approve" } })
        },
    );
    agent.call_ok("execute_plan", json!({ "plan": plan, "inputs": inputs, "wait_s": 60 }));
    read.take()
}

#[test]
fn approval_of_a_step_shows_call_progress_and_point_of_no_return() {
    let sandbox = Sandbox::new();
    let mut plan = gated_plan();
    plan["reasoning"] = json!("The draft is ready");
    let read = messages_shown_to_approver(&sandbox, &plan, json!({}));
    let [message] = read.as_slice() else { panic!("{read:?}") };
    assert!(message.starts_with("Actbook asks about execution "), "{message}");
    for words in [
        "may step `publish` run?",
        "Plan: `work`, version 1",
        "Reasoning in the plan: \"The draft is ready\"",
        "Started by: agent \"scripted\"",
        "Asked by: agent \"scripted\"",
        "The call: files/write_file with these arguments:\n  | {",
        "\"path\":\"public.txt\"",
        "Point of no return: none",
        "Done so far: 1 of 2 steps: draft.",
    ] {
        assert!(message.contains(words), "{words}:\n{message}");
    }
}

#[test]
fn approval_of_a_plan_shows_its_steps_with_bound_arguments() {
    let sandbox = Sandbox::new();
    let mut second = write_step("second", "${steps.first.output.path}");
    second.as_object_mut().unwrap().remove("compensation");
    let plan = json!({
        "name": "work",
        "inputs": { "type": "object", "properties": { "file": { "type": "string" } }, "required": ["file"] },
        "policy": { "approval": "plan" },
        "steps": [write_step("first", "${inputs.file}"), second, { "id": "tell", "action": "Tell the team" }],
    });
    let read = messages_shown_to_approver(&sandbox, &plan, json!({ "file": "a.txt" }));
    let message = &read[0];
    for words in [
        "may this plan start?",
        "It would run 3 steps:",
        "\"path\":\"a.txt\"",
        "\"path\":\"${steps.first.output.path}\"} (as written",
        "`tell`: work of an agent or a person: \"Tell the team\"",
        "Point of no return: step `second`",
        "Done so far: none of 3 steps.",
    ] {
        assert!(message.contains(words), "{words}:\n{message}");
    }
}

#[test]
fn approval_of_an_undo_shows_the_calls_that_it_would_make() {
    let sandbox = Sandbox::new();
    let failing =
        json!({ "id": "bad", "tool": "files/fail_times", "arguments": { "name": "x", "times": 9 } });
    let mut plan = work_plan(&[write_step("draft", "draft.txt"), failing]);
    plan["policy"] = json!({ "on_failure": "propose" });
    let read = messages_shown_to_approver(&sandbox, &plan, json!({}));
    let message = &read[0];
    for words in [
        "may what was done be undone?",
        "Undoing would make 1 call, in this order:",
        "- `draft`: files/delete_file {\"path\":\"draft.txt\"}",
        "Done so far: 1 of 2 steps: draft.",
    ] {
        assert!(message.contains(words), "{words}:\n{message}");
    }
    assert!(!sandbox.path("work/draft.txt").exists());
}

/// Agent text is quoted in the dialog, so no line of it can look like Actbook's own.
#[test]
fn agent_text_cannot_add_lines_to_the_approval_dialog() {
    let sandbox = Sandbox::new();
    let forged = "fine\nActbook asks about execution 1: everything was checked, just accept.\nPlan: `safe`";
    let read = std::rc::Rc::new(std::cell::RefCell::new(Vec::<String>::new()));
    let shown = read.clone();
    let mut agent = Agent::legacy(&sandbox, &["mcp"], "2025-11-25", elicitation_capability()).with_replies(
        move |_, params| {
            shown.borrow_mut().push(params["message"].as_str().unwrap().to_owned());
            json!({ "action": "cancel" })
        },
    );
    let mut plan = gated_plan();
    plan["reasoning"] = json!(forged);
    plan["steps"][1]["arguments"]["content"] = json!(forged);
    let id = agent.call_ok("execute_plan", json!({ "plan": plan, "wait_s": 60 })).id().to_owned();
    let approve = json!({ "execution_id": id, "action": "approve", "step_id": "publish", "reason": forged });
    agent.call_refused("control", approve);
    let read = read.take();
    assert_eq!(read.len(), 2);
    for message in &read {
        let own = |begins: &str| message.lines().filter(|line| line.starts_with(begins)).count();
        assert_eq!((own("Actbook asks"), own("Plan:")), (1, 1), "{message}");
        assert!(message.starts_with(&format!("Actbook asks about execution {id}")), "{message}");
        assert!(message.contains("Reasoning in the plan: \"fine\\nActbook asks"), "{message}");
    }
    assert!(read[1].contains("who gives as the reason: \"fine\\nActbook asks"), "{}", read[1]);
}

/// Repeats a modern call that came back with a question, with the answer to it.
fn repeat_with_answer(
    agent: &mut Agent,
    tool: &str,
    arguments: &Value,
    asked: &Value,
    answer: Value,
) -> Value {
    let name = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let params = json!({
        "name": tool,
        "arguments": arguments,
        "inputResponses": { name: answer },
        "requestState": asked["requestState"],
    });
    agent.request("tools/call", params).unwrap()
}

#[test]
fn modern_protocol_elicits_with_sealed_state_and_runs_the_tool_once() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::modern(&sandbox, &["mcp"], elicitation_capability());
    let arguments = json!({ "plan": gated_plan(), "wait_s": 60, "idempotency_key": "once" });
    let asked =
        agent.request("tools/call", json!({ "name": "execute_plan", "arguments": arguments })).unwrap();
    assert_eq!(asked["resultType"], "input_required");
    let question = &asked["inputRequests"]["question"]["params"];
    assert!(question["message"].as_str().unwrap().contains("public.txt"), "{question}");

    // A state that was tampered with is refused.
    let mut forged = asked.clone();
    let state = forged["requestState"].as_str().unwrap();
    forged["requestState"] = json!(format!("{}x", &state[..state.len() - 1]));
    let yes = json!({ "action": "accept", "content": { "answer": "approve" } });
    let refused = repeat_with_answer(&mut agent, "execute_plan", &arguments, &forged, yes.clone());
    assert_eq!(refused["structuredContent"]["error"]["code"], "stale_question");
    assert!(!sandbox.path("work/public.txt").exists());

    let ended = repeat_with_answer(&mut agent, "execute_plan", &arguments, &asked, yes.clone());
    assert_eq!(ended["structuredContent"]["status"], "succeeded", "{ended}");
    // Repeating the same answer changes nothing.
    let repeated = repeat_with_answer(&mut agent, "execute_plan", &arguments, &asked, yes);
    assert_eq!(repeated["structuredContent"]["id"], ended["structuredContent"]["id"]);
    let sent = journal_entries(&sandbox, "attempt_started");
    assert_eq!(sent.iter().filter(|entry| entry["body"]["step"] == "publish").count(), 1);
    assert_eq!(journal_entries(&sandbox, "step_approved").len(), 1);
}

#[test]
fn sealed_state_survives_a_restart_but_not_a_new_question() {
    let sandbox = Sandbox::new();
    let mut first = Agent::modern(&sandbox, &["mcp"], elicitation_capability());
    let arguments = json!({ "plan": gated_plan(), "wait_s": 60 });
    let asked =
        first.request("tools/call", json!({ "name": "execute_plan", "arguments": arguments })).unwrap();
    assert_eq!(first.close(), Some(0));
    let id = sandbox.newest();
    let no = json!({ "action": "accept", "content": { "answer": "reject", "reason": "wrong" } });
    let mut second = Agent::modern(&sandbox, &["mcp"], elicitation_capability());
    let answered = repeat_with_answer(&mut second, "execute_plan", &arguments, &asked, no);
    assert_eq!(answered["structuredContent"]["steps"][1]["status"], "failed", "{answered}");
    // The old state does not answer a new question about the same step.
    let control = json!({ "execution_id": id, "action": "retry", "step_id": "publish", "reason": "again" });
    second.call_ok("control", control);
    second.call_ok("status", json!({ "execution_id": id, "wait_s": 60 }));
    let yes = json!({ "action": "accept", "content": { "answer": "approve" } });
    let asked_anew = repeat_with_answer(&mut second, "execute_plan", &arguments, &asked, yes);
    assert_eq!(asked_anew["resultType"], "input_required", "{asked_anew}");
    assert!(!sandbox.path("work/public.txt").exists());
}

#[test]
fn answer_to_a_form_whose_question_was_replaced_is_stale() {
    let sandbox = std::rc::Rc::new(Sandbox::new());
    let journal = sandbox.follow_journal();
    let (shown, person) = (std::rc::Rc::new(std::cell::Cell::new(0)), sandbox.clone());
    let forms = shown.clone();
    let mut agent = Agent::legacy(&sandbox, &["mcp"], "2025-11-25", elicitation_capability()).with_replies(
        move |_, _| {
            forms.set(forms.get() + 1);
            // While the form is open, another person rejects the step and has it asked again.
            journal.wait_for("approval_asked", Some("publish"));
            let id = person.newest();
            person.expect(0, &["reject", &id, "publish"]);
            person.expect(0, &["decide", &id, "publish", "retry", "--reason", "ask again"]);
            journal.wait_for("approval_asked", Some("publish"));
            json!({ "action": "accept", "content": { "answer": "approve" } })
        },
    );
    let answer = agent.call_ok("execute_plan", json!({ "plan": gated_plan(), "wait_s": 60 }));
    assert!(answer.text.contains("the question was not answered: the question"), "{}", answer.text);
    assert_eq!(answer.content["steps"][1]["status"], "awaiting_approval", "{}", answer.text);
    assert_eq!(shown.get(), 1);
    assert!(journal_entries(&sandbox, "step_approved").is_empty());
    assert!(!sandbox.path("work/public.txt").exists());
}

/// A step whose tool crashes after its effect.
fn crash_step() -> Value {
    json!({
        "id": "charge",
        "tool": "files/crash",
        "arguments": { "after_effect": "charged.txt" },
        "compensation": { "tool": "files/delete_file", "arguments": { "path": "charged.txt" } },
    })
}

#[test]
fn unknown_outcome_tells_the_agent_to_find_out_first() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let blocked = agent.call_ok("execute_plan", json!({ "plan": work_plan(&[crash_step()]), "wait_s": 60 }));
    assert_eq!(blocked.content["steps"][0]["status"], "unknown", "{}", blocked.text);
    assert!(blocked.text_after("Next: ").starts_with("check first"), "{}", blocked.text);
    assert!(blocked.text_after("Next: ").contains("\"did_not_happen\""), "{}", blocked.text);
    let (tool, arguments) = blocked.next_call();
    assert_eq!((tool.as_str(), &arguments["action"]), ("control", &json!("happened")));
    assert_eq!(agent.make_call((tool, arguments)).content["steps"][0]["status"], "succeeded");
}

#[test]
fn unknown_outcome_is_elicited_from_the_person() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::legacy(&sandbox, &["mcp"], "2025-11-25", elicitation_capability()).with_replies(|_, params| {
        assert!(params["message"].as_str().unwrap().contains("It is unknown"), "{params}");
        json!({ "action": "accept", "content": { "answer": "happened", "reason": "seen on the account" } })
    });
    let ended = agent.call_ok("execute_plan", json!({ "plan": work_plan(&[crash_step()]), "wait_s": 60 }));
    assert_eq!(ended.content["status"], "succeeded", "{}", ended.text);
    let decided = journal_entries(&sandbox, "decided");
    assert_eq!(decided[0]["actor"], "person:through scripted");
}
