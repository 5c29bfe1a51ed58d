//! Answers that arrive after their call timed out, on a connection that is still open.

use std::sync::Arc;

use actbook::tools::CallContext;
use tokio::sync::Notify;
use tokio::sync::mpsc::unbounded_channel;

use super::hostile_http::{HostileServer, NEWER_PATH, ServerBehaviour};
use super::hostile_stdio::{hostile_server, hostile_server_with, wait_until_up};
use super::*;
use crate::cli::Sandbox;
use crate::mcp::agent::Agent;

const SHORT_TIMEOUT: Duration = Duration::from_millis(200);

/// A call with a short time-out, and the receiver of its late answer.
fn call_with_late_handler(tool: &str) -> (Call, tokio::sync::mpsc::UnboundedReceiver<CallOutcome>) {
    let (sender, late) = unbounded_channel();
    let context = CallContext {
        on_late: Some(Arc::new(move |ended| sender.send(ended).unwrap())),
        ..CallContext::default()
    };
    (Call { timeout: SHORT_TIMEOUT, context, ..new_call(tool, json!({})) }, late)
}

#[tokio::test]
async fn answer_after_the_timeout_is_delivered_as_late() {
    let (folder, tools) = hostile_server("answers_late");
    wait_until_up(&tools).await;
    let (call, mut late) = call_with_late_handler("zoo/any");
    let (ended, _) = call_until_sent(&tools, call).await;
    assert_eq!(expect_unknown(ended).0, ErrorCategory::Timeout);
    std::fs::write(folder.path().join("go"), "").unwrap();
    let answer = tokio::time::timeout(TIMEOUT, late.recv()).await.expect("the late answer arrives").unwrap();
    assert_eq!(expect_output(answer), json!({ "text": "at last" }));
    tools.shutdown().await;
}

/// A server over HTTP that answers each call with `{result}` in this form once the gate is opened, for each call once.
async fn gated_server(path: &str, answer: &'static str) -> (HostileServer, Tools, Arc<Notify>) {
    let gate = Arc::new(Notify::new());
    let server = HostileServer::with_behaviour(ServerBehaviour::GatedRaw(gate.clone(), answer)).await;
    let folder = tempfile::tempdir().unwrap();
    let tools = tools(folder.path(), json!({ "mcpServers": { "zoo": { "url": server.url(path) } } }));
    wait_until_up(&tools).await;
    (server, tools, gate)
}

const LATE_JSON: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{result}";
const LATE_EVENT: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {result}\n\n";

#[tokio::test]
async fn answer_over_http_after_the_timeout_is_delivered_as_late() {
    for (path, answer) in [("/", LATE_JSON), ("/", LATE_EVENT), (NEWER_PATH, LATE_JSON)] {
        let (server, tools, gate) = gated_server(path, answer).await;
        let (call, mut late) = call_with_late_handler("zoo/any");
        let (ended, _) = call_until_sent(&tools, call).await;
        assert_eq!(expect_unknown(ended).0, ErrorCategory::Timeout);
        poll_until("the call to arrive", || server.calls().len() == 1).await;
        gate.notify_one();
        let came =
            tokio::time::timeout(TIMEOUT, late.recv()).await.expect("the late answer arrives").unwrap();
        assert_eq!(expect_output(came), json!({ "said": "yes" }), "{path} {answer}");
        tools.shutdown().await;
    }
}

#[tokio::test]
async fn late_answers_are_kept_for_the_newest_abandoned_calls() {
    // On a busy machine a call may not have been sent within its timeout; many of those open no circuit here.
    let never_opens = json!({ "breaker": { "after": u32::MAX } });
    let (folder, tools) = hostile_server_with("answers_late", never_opens);
    wait_until_up(&tools).await;
    let mut listening = Vec::new();
    while listening.len() < 70 {
        let (call, late) = call_with_late_handler("zoo/any");
        let call = Call { timeout: Duration::from_millis(5), ..call };
        let outcome = watched_call(&tools, call).await.0;
        if !matches!(outcome, CallOutcome::Failed { sent: false, .. }) {
            assert_eq!(expect_unknown(outcome).0, ErrorCategory::Timeout);
            listening.push(late);
        }
    }
    std::fs::write(folder.path().join("go"), "").unwrap();
    for late in listening.iter_mut().skip(6) {
        tokio::time::timeout(TIMEOUT, late.recv()).await.expect("the late answer arrives").unwrap();
    }
    for late in listening.iter_mut().take(6) {
        assert!(late.recv().await.is_none(), "the oldest calls are evicted");
    }
    tools.shutdown().await;
}

fn late_server_sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let zoo = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/tools/zoo.py");
    let server = json!({ "command": "python3", "args": ["-I", "-S", zoo, "answers_late"] });
    sandbox.write("actbook.yaml", &json!({ "mcpServers": { "zoo": server } }).to_string());
    sandbox
}

/// Runs a plan until its call has timed out; returns the execution's id and the number of the attempt. On a busy
/// machine an attempt may time out unsent, and is repeated.
fn run_until_timed_out(agent: &mut Agent) -> (String, u64) {
    agent.call("list_tools", json!({}));
    let retry = json!({ "max_attempts": 20, "backoff": "1ms", "on": ["timeout"] });
    let step = json!({ "id": "ask", "tool": "zoo/any", "timeout": "200ms", "retry": retry });
    let plan = json!({ "name": "slow", "steps": [step] });
    let ran = agent.call("execute_plan", json!({ "plan": plan, "wait_s": 45 }));
    assert_eq!(ran.content["steps"][0]["status"], "unknown", "{}", ran.text);
    (ran.id().to_owned(), ran.content["steps"][0]["attempts"].as_u64().unwrap())
}

#[test]
fn late_success_settles_the_blocked_step_and_is_shown() {
    let sandbox = late_server_sandbox();
    let mut agent = Agent::legacy(&sandbox, &["mcp"], "2025-11-25", json!({}));
    let (id, attempt) = run_until_timed_out(&mut agent);
    sandbox.write("go", "");
    sandbox.follow_journal().wait_for("late_answer", Some("ask"));
    let ended = agent.call("status", json!({ "execution_id": id, "wait_s": 45 }));
    assert_eq!(ended.content["status"], "succeeded", "{}", ended.text);
    let late = json!([{ "call": "run", "attempt": attempt, "outcome": "succeeded" }]);
    assert_eq!(ended.content["steps"][0]["late"], late);
    let words = format!("the answer to attempt {attempt} came late: succeeded");
    assert!(ended.text.contains(&words), "{}", ended.text);
}

#[test]
fn late_success_after_the_end_is_journaled_and_shown() {
    let sandbox = late_server_sandbox();
    let mut agent = Agent::legacy(&sandbox, &["mcp"], "2025-11-25", json!({}));
    let (id, attempt) = run_until_timed_out(&mut agent);
    sandbox.run(&["decide", &id, "ask", "abandon", "--reason", "it takes too long"]);
    sandbox.follow_journal().wait_for("execution_ended", None);
    sandbox.write("go", "");
    sandbox.follow_journal().wait_for("late_answer", Some("ask"));
    let shown = sandbox.expect(0, &["show", &id]);
    let words = format!("the answer to attempt {attempt} came late: succeeded");
    assert!(shown.contains(&words), "{shown}");
    assert_eq!(sandbox.json(&["show", &id])["status"], "failed");
}
