//! What agents report of their plans' steps, against the calls that hooks have seen.

use super::*;
use crate::mcp::agent::Agent;
use crate::web::server::WebServer;

/// A sandbox that watches calls, and a started plan of five steps by the agent: commands with these words.
fn planned() -> (Sandbox, String) {
    let sandbox = guarded(json!({}));
    let step = |word: &str| json!({ "id": word, "tool": "client/shell", "arguments": { "command": word }, "by": "agent" });
    let steps: Vec<Value> = ["build", "test", "push", "ship", "late"].map(step).into();
    let policy = json!({ "concurrency": 5 });
    sandbox.write("plan.yaml", &json!({ "name": "release", "policy": policy, "steps": steps }).to_string());
    sandbox.expect(3, &["run", "plan.yaml", "--yes"]);
    let id = sandbox.newest();
    (sandbox, id)
}

fn make_call(sandbox: &Sandbox, id: &str, command: &str, succeeds: bool) {
    let call = before(sandbox, id, "Bash", json!({ "command": command, "description": "as planned" }));
    assert_eq!(decide(sandbox, &call), None);
    let mut end = after(&call, json!({ "stdout": "" }));
    if !succeeds {
        (end["hook_event_name"], end["error"]) = (json!("PostToolUseFailure"), json!("exit 1"));
    }
    assert_eq!(decide(sandbox, &end), None);
}

/// What an agent sends to report that a step of the plan succeeded.
fn report(plan: &str, step: &str) -> Value {
    json!({ "execution_id": plan, "step_id": step, "status": "succeeded", "description": "done" })
}

/// The verdict of each step, or of each call that no report is about.
fn verdicts(reports: &Value) -> std::collections::BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let items = reports["items"].as_array().unwrap().iter();
    items
        .map(|item| {
            let at = if item["reported"].is_null() { &item["seen"] } else { &item["reported"] };
            (text(&at["step"]), text(&item["verdict"]))
        })
        .collect()
}

#[test]
fn reports_are_compared_with_the_calls_that_were_seen() {
    let (sandbox, plan) = planned();
    make_call(&sandbox, "t1", "build", true);
    make_call(&sandbox, "t2", "test", false);
    make_call(&sandbox, "t3", "rm -r cache", true);
    let push = before(&sandbox, "t4", "Bash", json!({ "command": "push" }));
    assert_eq!(decide(&sandbox, &push), None);
    let session = sandbox.newest();
    let mut agent = Agent::legacy(&sandbox, &["mcp"], "2025-11-25", json!({}));
    for step in ["build", "test", "push", "ship"] {
        agent.call_ok("record_action", report(&plan, step));
    }
    let view = sandbox.json(&["show", &plan]);
    let expected = [
        ("build", "confirmed"),
        ("push", "claimed_unseen"),
        ("ship", "claimed_unseen"),
        ("test", "contradicted"),
    ];
    let expected = expected.map(|(step, verdict)| (step.to_owned(), verdict.to_owned()));
    assert_eq!(verdicts(&view["reports"]), expected.clone().into(), "{view}");
    let counts =
        ["confirmed", "contradicted", "claimed_unseen", "seen_unclaimed"].map(|of| &view["reports"][of]);
    assert_eq!(counts, [&json!(1), &json!(1), &json!(2), &json!(0)]);

    // The session's view has the same reports, and the call that no report is about.
    let of_session = verdicts(&sandbox.json(&["show", &session])["reports"]);
    assert_eq!(of_session["c3"], "seen_unclaimed", "{of_session:?}");
    assert!(!of_session.contains_key("ship"), "no call of the session is about it: {of_session:?}");

    let shown = sandbox.expect(0, &["show", &plan]);
    let line = format!("test of {plan} contradicted: c2 of {session} did not end as reported");
    assert!(
        shown.contains("1 confirmed, 1 contradicted, 2 claimed_unseen") && shown.contains(&line),
        "{shown}"
    );
    for (tool, arguments) in
        [("status", json!({ "execution_id": plan })), ("query_ledger", json!({ "execution_id": plan }))]
    {
        let answer = agent.request("tools/call", json!({ "name": tool, "arguments": arguments })).unwrap();
        assert!(answer["content"][0]["text"].as_str().unwrap().contains(&line), "{tool}: {answer}");
        assert_eq!(verdicts(&answer["structuredContent"]["reports"]), expected.clone().into(), "{tool}");
    }
    let server = WebServer::start(&sandbox);
    let api = server.get(&format!("/api/v1/executions/{plan}")).json();
    assert_eq!(verdicts(&api["reports"]), expected.into(), "{api}");
    let page = server.get(&format!("/executions/{plan}")).body;
    assert!(page.contains("Reported against seen") && page.contains(&line), "{page}");
}

#[test]
fn without_a_guard_nothing_is_said_of_reports() {
    let (sandbox, plan) = planned();
    let mut agent = Agent::legacy(&sandbox, &["mcp"], "2025-11-25", json!({}));
    agent.call_ok("record_action", report(&plan, "build"));
    assert_eq!(sandbox.json(&["show", &plan])["reports"], Value::Null);
}
