//! Updates during an execution: progress, subscriptions of both protocols, and tasks; a client that
//! disconnects or cancels its request stops nothing.

use std::io::{BufRead, BufReader, Write};

use serde_json::{Value, json};

use super::agent::Agent;
use super::serve_process::ServeProcess;
use super::{hold_step, work_plan, write_step};
use crate::cli::Sandbox;

fn held_plan() -> Value {
    work_plan(&[hold_step("wait"), write_step("after", "after.txt")])
}

#[test]
fn waiting_status_sends_progress_and_returns_on_change() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let started = agent.call_ok("execute_plan", json!({ "plan": held_plan() }));
    let (id, since) = (started.id().to_owned(), started.content["position"].clone());
    let arguments = json!({ "execution_id": id, "wait_s": 60 });
    let params = json!({ "name": "status", "arguments": arguments, "_meta": { "progressToken": "t" } });
    let waiting = agent.send_request("tools/call", params);
    // The first progress notification shows that the call waits.
    let first = agent.wait_for_notification("notifications/progress");
    sandbox.release();
    let ended = agent.answer_to(waiting).unwrap();
    assert_eq!(ended["structuredContent"]["status"], "succeeded");
    let later = agent.notifications.iter().filter(|one| one["method"] == "notifications/progress");
    let updates: Vec<&Value> = std::iter::once(&first).chain(later).collect();
    let progress: Vec<f64> = updates.iter().map(|one| one["params"]["progress"].as_f64().unwrap()).collect();
    assert!(progress.is_sorted_by(|a, b| a < b), "{progress:?}");
    assert_eq!(updates[0]["params"]["progressToken"], "t");
    assert!(updates[0]["params"]["message"].as_str().unwrap().contains("of 2 steps done"));
    // A `since` in the past is answered at once.
    let moved = agent.call_ok("status", json!({ "execution_id": id, "since": since, "wait_s": 60 }));
    assert!(moved.content["position"].as_u64() > since.as_u64());
}

#[test]
fn cancel_during_a_call_reports_the_pending_end() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let journal = sandbox.follow_journal();
    let id = agent.call_ok("execute_plan", json!({ "plan": held_plan() })).id().to_owned();
    journal.wait_for("attempt_started", Some("wait"));
    let answer =
        agent.call_ok("control", json!({ "execution_id": id, "action": "cancel", "reason": "enough" }));
    // The call in flight may be abandoned before the answer is written.
    match answer.content["status"].as_str() {
        Some("running") => {
            assert!(answer.text.contains("is running, and will be cancelled"), "{}", answer.text)
        }
        status => assert_eq!(status, Some("cancelled"), "{}", answer.text),
    }
    let ended = agent.call_ok("status", json!({ "execution_id": id, "wait_s": 60 }));
    assert_eq!((&ended.content["status"], &ended.content["ending"]), (&json!("cancelled"), &Value::Null));
}

#[test]
fn cancelled_or_disconnected_request_does_not_stop_the_execution() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let params = json!({ "name": "execute_plan", "arguments": { "plan": held_plan(), "wait_s": 60 } });
    let journal = sandbox.follow_journal();
    let waiting = agent.send_request("tools/call", params);
    journal.wait_for("attempt_started", Some("wait"));
    agent.notify("notifications/cancelled", json!({ "requestId": waiting, "reason": "changed my mind" }));
    let id = sandbox.newest();
    assert_eq!(agent.call_ok("status", json!({ "execution_id": id })).content["status"], "running");

    // Over HTTP, closing the stream cancels the request.
    let server = ServeProcess::start(&sandbox);
    let params = json!({ "name": "execute_plan", "arguments": { "plan": held_plan(), "wait_s": 60 } });
    let mut stream = server.connect();
    stream.write_all(&server.request_bytes("tools/call", params)).unwrap();
    journal.wait_for("attempt_started", Some("wait"));
    drop(stream);
    let second = sandbox.newest();
    assert_ne!(id, second);
    sandbox.release();
    for id in [id, second] {
        let ended = server.call("status", json!({ "execution_id": id, "wait_s": 60 }));
        assert_eq!(ended["structuredContent"]["status"], "succeeded");
    }
}

#[test]
fn legacy_subscription_notifies_updates_until_unsubscribed() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let own = |id: &str| json!({ "id": id, "action": "Something" });
    let started = agent
        .call_ok("execute_plan", json!({ "plan": work_plan(&[own("a"), own("b"), own("c")]), "wait_s": 60 }));
    let id = started.id().to_owned();
    let uri = format!("actbook://executions/{id}");
    agent.request("resources/subscribe", json!({ "uri": uri })).unwrap();
    let report = |step: &str| json!({ "execution_id": id, "step_id": step, "description": "done" });
    agent.call_ok("record_action", report("a"));
    assert_eq!(agent.wait_for_notification("notifications/resources/updated")["params"]["uri"], uri);
    agent.request("resources/unsubscribe", json!({ "uri": uri })).unwrap();
    let refused = agent.request("resources/subscribe", json!({ "uri": "actbook://guide" })).unwrap_err();
    assert!(refused["message"].as_str().unwrap().contains("only executions"));
    // An append of another process is notified as well.
    agent.request("resources/subscribe", json!({ "uri": format!("{uri}/journal") })).unwrap();
    agent.notifications.clear();
    sandbox.expect(0, &["pause", &id]);
    assert_eq!(
        agent.wait_for_notification("notifications/resources/updated")["params"]["uri"],
        format!("{uri}/journal")
    );
}

#[test]
fn modern_subscription_is_a_separate_stream() {
    let sandbox = Sandbox::new();
    let server = ServeProcess::start(&sandbox);
    let started = server.call("execute_plan", json!({ "plan": held_plan() }));
    let id = started["structuredContent"]["id"].as_str().unwrap().to_owned();
    let uri = format!("actbook://executions/{id}");
    let wanted = json!({ "notifications": { "resourceSubscriptions": [uri, "actbook://guide"] } });
    let mut stream = server.connect();
    stream.write_all(&server.request_bytes("subscriptions/listen", wanted)).unwrap();
    let mut events = BufReader::new(stream)
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
    let accepted = events.next().unwrap();
    assert_eq!(accepted["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(accepted["params"]["notifications"]["resourceSubscriptions"], json!([uri]));
    sandbox.release();
    let moved = events.next().unwrap();
    assert_eq!(moved["method"], "notifications/resources/updated");
    assert_eq!(moved["params"]["uri"], uri);
}

fn task_capabilities() -> Value {
    json!({ "elicitation": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } })
}

fn task_request(server: &ServeProcess, method: &str, params: Value) -> Value {
    let reply = server.exchange(&server.request_bytes_as("scripted", task_capabilities(), method, params));
    reply.message()
}

/// Waits until the task no longer runs; returns its state.
fn wait_for_task(server: &ServeProcess, id: &str) -> Value {
    // `status` with `wait_s` returns when the journal changes.
    server.call("status", json!({ "execution_id": id, "wait_s": 60 }));
    task_request(server, "tasks/get", json!({ "taskId": id }))["result"].clone()
}

#[test]
fn execution_task_survives_a_server_restart_and_elicits() {
    let sandbox = Sandbox::new();
    let mut publish = write_step("publish", "public.txt");
    publish["approval"] = json!("required");
    let plan = work_plan(&[hold_step("wait"), publish]);
    let server = ServeProcess::start(&sandbox);
    let call = json!({ "name": "execute_plan", "arguments": { "plan": plan } });
    let created = task_request(&server, "tools/call", call)["result"].clone();
    assert_eq!(created["resultType"], "task", "{created}");
    let id = created["taskId"].as_str().unwrap().to_owned();
    assert_eq!(task_request(&server, "tasks/get", json!({ "taskId": id }))["result"]["status"], "working");
    drop(server);

    sandbox.release();
    let server = ServeProcess::start(&sandbox);
    let mut asks = wait_for_task(&server, &id);
    if asks["status"] != "input_required" {
        // The held call was lost with its server, so its outcome is unknown.
        let name = asks["inputRequests"].as_object().and_then(|all| all.keys().next().cloned());
        assert!(name.is_some(), "{asks}");
    }
    if !asks["inputRequests"].to_string().contains("public.txt") {
        let name = asks["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        let retry = json!({ name: { "action": "accept", "content": { "answer": "retry" } } });
        task_request(&server, "tasks/update", json!({ "taskId": id, "inputResponses": retry }));
        asks = wait_for_task(&server, &id);
    }
    assert_eq!(asks["status"], "input_required", "{asks}");
    let name = asks["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let yes = json!({ name: { "action": "accept", "content": { "answer": "approve" } } });
    let acknowledged = task_request(&server, "tasks/update", json!({ "taskId": id, "inputResponses": yes }));
    assert_eq!(acknowledged["result"]["resultType"], "complete");
    let done = wait_for_task(&server, &id);
    assert_eq!(done["status"], "completed", "{done}");
    assert_eq!(done["result"]["structuredContent"]["status"], "succeeded");
    assert!(sandbox.path("work/public.txt").exists());
    let unknown = task_request(&server, "tasks/get", json!({ "taskId": "nobody" }));
    assert_eq!(unknown["error"]["code"], -32602);
}

#[test]
fn cancelling_a_task_cancels_its_execution_once() {
    let sandbox = Sandbox::new();
    let server = ServeProcess::start(&sandbox);
    let call = json!({ "name": "execute_plan", "arguments": { "plan": held_plan() } });
    let id = task_request(&server, "tools/call", call)["result"]["taskId"].as_str().unwrap().to_owned();
    task_request(&server, "tasks/cancel", json!({ "taskId": id }));
    sandbox.release();
    let ended = wait_for_task(&server, &id);
    assert_eq!(ended["status"], "cancelled", "{ended}");
    let again = task_request(&server, "tasks/cancel", json!({ "taskId": id }));
    assert_eq!(again["result"]["resultType"], "complete", "{again}");
    assert!(!sandbox.path("work/after.txt").exists());
}
