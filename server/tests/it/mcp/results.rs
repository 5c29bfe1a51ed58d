//! What an agent finds in the text alone: outputs, steps, notes, progress; whatever is cut names the call
//! that reads the rest.

use serde_json::{Value, json};

use super::agent::{Agent, ToolAnswer, parse_call};
use super::{hold_step, work_plan, write_step};
use crate::cli::Sandbox;

/// Suggested waits stay below the 60 seconds after which some clients time out.
const WAIT_S_MAX: u64 = 45;

fn echo_step(id: &str, arguments: Value) -> Value {
    json!({ "id": id, "tool": "files/echo", "arguments": arguments, "read_only": true })
}

/// The quoted lines of a text, without their marks.
fn quoted_text(text: &str) -> String {
    let lines = text.lines().filter_map(|line| line.strip_prefix("  | "));
    lines.collect::<Vec<_>>().join("\n")
}

/// The call on the first line that contains these words.
fn call_on_line(answer: &ToolAnswer, words: &str) -> (String, Value) {
    let line = answer.text.lines().find(|line| line.contains(words));
    let line = line.unwrap_or_else(|| panic!("no line has {words:?}:\n{}", answer.text));
    parse_call(line).unwrap_or_else(|| panic!("no call on {line}"))
}

#[test]
fn outputs_appear_in_the_text_last_step_first() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let plan = work_plan(&[
        echo_step("early", json!({ "word": "one" })),
        echo_step("late", json!({ "word": "two" })),
    ]);
    let ended = agent.call_ok("execute_plan", json!({ "plan": plan, "wait_s": 60 }));
    let position_of =
        |words: &str| ended.text.find(words).unwrap_or_else(|| panic!("{words}:\n{}", ended.text));
    assert!(position_of("Output of step `late`") < position_of("Output of step `early`"), "{}", ended.text);
    assert!(quoted_text(&ended.text).contains("\"word\":\"two\""), "{}", ended.text);
    let shown = agent.call_ok("status", json!({ "execution_id": ended.id() }));
    assert!(quoted_text(&shown.text).contains("\"word\":\"one\""), "{}", shown.text);
}

#[test]
fn failure_stands_before_the_outputs_in_the_text() {
    let sandbox = Sandbox::new();
    let failing =
        json!({ "id": "bad", "tool": "files/fail_times", "arguments": { "name": "x", "times": 9 } });
    let plan = work_plan(&[echo_step("early", json!({ "word": "one" })), failing]);
    let blocked = Agent::new(&sandbox).call_ok("execute_plan", json!({ "plan": plan, "wait_s": 45 }));
    let position_of =
        |words: &str| blocked.text.find(words).unwrap_or_else(|| panic!("{words}:\n{}", blocked.text));
    assert!(position_of("Step `bad` is failed") < position_of("Output of step `early`"), "{}", blocked.text);
}

#[test]
fn long_output_is_readable_page_by_page_through_suggested_calls() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let long: String = (0..4_000).map(|n| format!("{n} ")).collect();
    let plan = work_plan(&[echo_step("long", json!({ "long": long }))]);
    let mut shown = agent.call_ok("execute_plan", json!({ "plan": plan, "wait_s": 60 }));
    let (tool, mut arguments) = call_on_line(&shown, "The rest of it: ");
    assert_eq!((tool.as_str(), &arguments["step_id"]), ("status", &json!("long")));
    // Read page by page from the beginning while the text suggests another page.
    arguments.as_object_mut().unwrap().remove("offset");
    let mut whole = String::new();
    loop {
        shown = agent.call_ok("status", arguments);
        assert!(shown.text.len() < 40_000, "a page has {} bytes", shown.text.len());
        let output = shown.text.split("Output (").nth(1).unwrap();
        let lines = output.lines().skip(1).take_while(|line| line.starts_with("  | "));
        whole.extend(lines.map(|line| &line[4..]));
        let Some(next) = shown.text.lines().find_map(|line| line.strip_prefix("Next: ")) else { break };
        arguments = parse_call(next).unwrap().1;
    }
    let output: Value = serde_json::from_str(&whole).unwrap();
    assert_eq!(output["long"], long);
    let id = shown.content["step"]["execution_id"].clone();
    let past =
        agent.call_refused("status", json!({ "execution_id": id, "step_id": "long", "offset": 1_000_000 }));
    assert_eq!(past.content["error"]["path"], "offset");
}

#[test]
fn step_id_shows_attempts_error_approval_and_compensation() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let mut publish = write_step("publish", "public.txt");
    publish["approval"] = json!("required");
    let failing = json!({
        "id": "bad", "tool": "files/fail_times", "arguments": { "name": "x", "times": 9 },
        "depends_on": ["publish"],
        "retry": { "max_attempts": 2, "backoff": "1ms", "on": ["tool_error"] },
    });
    let blocked =
        agent.call_ok("execute_plan", json!({ "plan": work_plan(&[publish, failing]), "wait_s": 60 }));
    let id = blocked.id().to_owned();
    sandbox.expect(0, &["approve", &id, "publish", "--reason", "looked at it"]);
    agent.call_ok("status", json!({ "execution_id": id, "wait_s": 60 }));
    let bad = agent.call_ok("status", json!({ "execution_id": id, "step_id": "bad" }));
    assert_eq!(bad.content["step"]["history"].as_array().unwrap().len(), 2, "{}", bad.text);
    assert!(
        bad.text.contains("is failed, 2 attempts.") && bad.text.contains("Error, tool_error"),
        "{}",
        bad.text
    );
    assert!(
        bad.text.contains("Arguments of attempt 1") && bad.text.contains("Attempt 2: failed"),
        "{}",
        bad.text
    );
    let publish = agent.call_ok("status", json!({ "execution_id": id, "step_id": "publish" }));
    assert!(
        publish.text_after("Approval: approved by person:").contains("\"looked at it\""),
        "{}",
        publish.text
    );
    assert!(publish.text_after("Compensation: ").contains("files/delete_file"), "{}", publish.text);
    agent.call_ok("control", json!({ "execution_id": id, "action": "compensate", "reason": "enough" }));
    agent.call_ok("status", json!({ "execution_id": id, "wait_s": 60 }));
    let undone = agent.call_ok("status", json!({ "execution_id": id, "step_id": "publish" }));
    assert!(undone.text.contains("Compensation 1 of attempt 1: succeeded"), "{}", undone.text);
    let near = agent.call_refused("status", json!({ "execution_id": id, "step_id": "publsh" }));
    assert!(near.text.contains("did you mean `publish`?"), "{}", near.text);
}

#[test]
fn status_without_an_id_lists_results_and_unstarted_plans() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    agent.call_ok("save_plan", json!({ "plan": { "name": "later", "steps": [write_step("a", "a.txt")] } }));
    let own = json!({ "id": "own", "action": "Think" });
    let plan = json!({ "name": "often", "steps": [echo_step("first", json!({ "word": "found" })), own] });
    let saved = agent.call_ok("save_plan", json!({ "plan": plan }));
    let start = json!({ "plan_id": saved.content["plan_id"], "wait_s": 60 });
    let started: Vec<String> =
        (0..12).map(|_| agent.call_ok("execute_plan", start.clone()).id().to_owned()).collect();
    let last = started.last().unwrap();
    let decided = json!({ "execution_id": last, "decision": "wait for the data", "reason": "it is late" });
    agent.call_ok("record_decision", decided);
    agent.call_ok("set_context", json!({ "key": "k", "value": "v", "execution_id": last }));

    let found = Agent::new(&sandbox).call_ok("status", json!({}));
    assert!(
        found.text.contains("2 more are blocked: query_ledger {\"status\":\"blocked\"}"),
        "{}",
        found.text
    );
    assert!(found.text.contains("1 of 2 steps done"), "{}", found.text);
    assert!(
        found.text.contains("last output, of step `first`: \"{\\\"word\\\":\\\"found\\\"}\""),
        "{}",
        found.text
    );
    assert!(found.text.contains("decided \"wait for the data\", because \"it is late\""), "{}", found.text);
    assert!(found.text.contains("1 notes belong to it: query_context"), "{}", found.text);
    let unstarted = call_on_line(&found, "plan `later`");
    assert_eq!(unstarted.0, "execute_plan", "{}", found.text);
    assert!(!found.text.contains("plan `often` v1, 2 steps, saved"), "{}", found.text);
}

#[test]
fn suggested_waits_stay_below_client_timeouts() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let started = agent.call_ok("execute_plan", json!({ "plan": work_plan(&[hold_step("wait")]) }));
    let guide = agent.request("resources/read", json!({ "uri": "actbook://guide" })).unwrap();
    let prompt = |agent: &mut Agent, name: &str, arguments: Value| {
        agent.request("prompts/get", json!({ "name": name, "arguments": arguments })).unwrap().to_string()
    };
    let id = started.id().to_owned();
    let texts = [
        started.text.clone(),
        guide["contents"][0]["text"].as_str().unwrap().to_owned(),
        prompt(&mut agent, "plan_work", json!({ "goal": "anything" })),
        prompt(&mut agent, "recover_execution", json!({ "execution_id": id })),
        prompt(&mut agent, "resume_work", json!({})),
    ];
    sandbox.release();
    for text in texts {
        for rest in text.split("wait_s").skip(1) {
            let figures: String = rest
                .chars()
                .skip_while(|c| "\\\"`: ".contains(*c))
                .take_while(char::is_ascii_digit)
                .collect();
            let seconds: u64 = figures.parse().unwrap_or(0);
            assert!(seconds <= WAIT_S_MAX, "{seconds} s are suggested:\n{text}");
        }
    }
}

#[test]
fn progress_rises_within_a_step_and_has_a_total() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let nap = json!({ "id": "nap", "tool": "files/sleep", "arguments": { "ms": 600_000 }, "timeout": "20m", "read_only": true });
    let started =
        agent.call_ok("execute_plan", json!({ "plan": work_plan(&[write_step("a", "a.txt"), nap]) }));
    let arguments = json!({ "execution_id": started.id(), "wait_s": 120 });
    let params = json!({ "name": "status", "arguments": arguments, "_meta": { "progressToken": "t" } });
    let waiting = agent.send_request("tools/call", params);
    let mut reported: Vec<f64> = Vec::new();
    while reported.iter().filter(|progress| **progress > 1.0).count() < 3 {
        let params = agent.wait_for_notification("notifications/progress")["params"].clone();
        assert_eq!(params["total"], 2.0, "{params}");
        reported.push(params["progress"].as_f64().unwrap());
    }
    assert!(
        reported.is_sorted_by(|a, b| a < b) && reported.iter().all(|progress| *progress < 2.0),
        "{reported:?}"
    );
    sandbox.expect(0, &["cancel", started.id()]);
    agent.answer_to(waiting).unwrap();
}

#[test]
fn repeated_idempotency_key_reports_that_nothing_was_started() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::legacy(&sandbox, &["mcp", "--tools", "full"], "2025-11-25", json!({}));
    let own = work_plan(&[json!({ "id": "own", "action": "Think" })]);
    let started = agent.call_ok("execute_plan", json!({ "plan": own, "idempotency_key": "start" }));
    let id = started.id().to_owned();
    let of = |mut arguments: Value, key: &str| {
        arguments["idempotency_key"] = json!(key);
        arguments
    };
    let calls = [
        ("execute_plan", json!({ "plan": own })),
        ("save_plan", json!({ "plan": { "name": "other", "steps": [write_step("a", "a.txt")] } })),
        ("set_context", json!({ "key": "k", "value": 1 })),
        ("record_action", json!({ "execution_id": id, "description": "looked around" })),
        ("record_decision", json!({ "execution_id": id, "decision": "go on", "reason": "why not" })),
        ("control", json!({ "execution_id": id, "action": "pause" })),
        ("task", json!({ "action": "add", "id": "T-1", "title": "Do it" })),
    ];
    for (tool, arguments) in calls {
        let first = agent.call_ok(tool, of(arguments.clone(), tool));
        assert!(first.content.get("repeated").is_none(), "{tool}: {}", first.text);
        assert!(!first.text.contains("Repeated:"), "{tool}: {}", first.text);
        let again = agent.call_ok(tool, of(arguments, tool));
        assert_eq!(again.content["repeated"], true, "{tool}: {}", again.text);
        assert!(again.text.starts_with("Repeated: ") && again.text.contains("nothing was started"), "{tool}");
    }
}

#[test]
fn request_id_in_use_is_refused_without_a_key() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let journal = sandbox.follow_journal();
    let params = json!({ "name": "execute_plan", "arguments": { "plan": work_plan(&[hold_step("wait")]), "wait_s": 60 } });
    let id = agent.send_request("tools/call", params.clone());
    journal.wait_for("attempt_started", Some("wait"));
    agent.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }));
    let error = agent.answer_to(id).unwrap_err();
    assert_eq!(error["code"], -32600, "{error}");
    assert!(error["message"].as_str().unwrap().contains("idempotency_key"), "{error}");
    sandbox.release();
    assert_eq!(agent.answer_to(id).unwrap()["structuredContent"]["status"], "succeeded");
    assert_eq!(super::count_executions(&sandbox), 1);
    // An id is free again once its request is answered.
    let params = json!({ "name": "status", "arguments": {} });
    agent.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }));
    agent.answer_to(id).unwrap();
}

#[test]
fn note_read_by_key_is_complete_and_history_has_values() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let long: String = (0..1_000).map(|n| format!("{n} ")).collect();
    agent.call_ok("set_context", json!({ "key": "figures", "value": "the first thought" }));
    agent.call_ok("set_context", json!({ "key": "figures", "value": long }));
    let found = agent.call_ok("query_context", json!({ "type": "notes" }));
    let (tool, arguments) = call_on_line(&found, "It is whole in: ");
    let whole = agent.call_ok(&tool, arguments);
    assert!(quoted_text(&whole.text).contains(long.trim_end()), "{}", whole.text);
    let history = agent.call_ok("query_context", json!({ "key": "figures", "history": true }));
    assert!(quoted_text(&history.text).contains("the first thought"), "{}", history.text);
}

#[test]
fn task_status_contains_recorded_remarks_and_errors() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let failing =
        json!({ "id": "bad", "tool": "files/fail_times", "arguments": { "name": "x", "times": 9 } });
    let mut plan = work_plan(&[json!({ "id": "own", "action": "Ask" }), failing]);
    plan["task"] = json!("T-7");
    let id = agent.call_ok("execute_plan", json!({ "plan": plan, "wait_s": 60 })).id().to_owned();
    let remark = json!({ "execution_id": id, "description": "The customer wants it in blue" });
    agent.call_ok("record_action", remark);
    let report = json!({ "execution_id": id, "step_id": "own", "status": "succeeded", "description": "Asked by telephone" });
    agent.call_ok("record_action", report);
    agent.call_ok("status", json!({ "execution_id": id, "wait_s": 60 }));
    let story = agent.call_ok("status", json!({ "task": "T-7" }));
    let quotes = quoted_text(&story.text);
    for words in ["The customer wants it in blue", "Asked by telephone", "step bad failed: tool_error: "] {
        assert!(quotes.contains(words), "{words}:\n{}", story.text);
    }
}

#[test]
fn large_plans_are_checked_and_shown_within_a_token_budget() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::legacy(&sandbox, &["mcp", "--tools", "full"], "2025-11-25", json!({}));
    let list: Vec<Value> = (0..500).map(|n| write_step(&format!("step-{n}"), &format!("{n}.txt"))).collect();
    let counter = tiktoken_rs::o200k_base().unwrap();
    let tokens = |answer: &ToolAnswer| {
        let whole = format!("{}{}", answer.text, answer.content);
        counter.encode_ordinary(&whole).len()
    };
    let check = agent.call_ok("save_plan", json!({ "plan": work_plan(&list), "dry_run": true }));
    assert!(tokens(&check) < 3_000, "a dry run has {} tokens", tokens(&check));
    assert!(check.content["check"]["left_out"]["stopping"].as_u64().unwrap() > 400, "{}", check.content);
    let saved = agent.call_ok("save_plan", json!({ "plan": work_plan(&list) }));
    let mut arguments = json!({ "action": "show", "plan_id": saved.content["plan_id"] });
    let mut whole = String::new();
    loop {
        let page = agent.call_ok("plan", arguments);
        assert!(tokens(&page) < 8_000, "a page has {} tokens", tokens(&page));
        whole.push_str(&quoted_text(&page.text));
        let (tool, next) = page.next_call();
        if tool != "plan" {
            break;
        }
        arguments = next;
    }
    let document: Value = serde_json::from_str(&whole).unwrap();
    assert_eq!(document["steps"].as_array().unwrap().len(), 500);
}
