//! Notes and tasks end to end: through a real MCP client in several conversations, and on the command line.

use serde_json::{Value, json};

use super::agent::{AgentConversation, AgentFixture};
use crate::store::for_each_database;

fn research_plan() -> Value {
    json!({ "name": "compare-queues", "task": "TASK-9", "steps": [
        { "id": "read", "name": "Read the documents", "action": "Read what the vendors say", "estimated_duration": "30m" },
        { "id": "measure", "action": "Measure two of them", "depends_on": ["read"], "failure_policy": { "action": "manual_decision" } },
        { "id": "write", "action": "Write the comparison", "depends_on": ["measure"] },
    ] })
}

fn task_statuses(tasks: &Value) -> Vec<(String, String)> {
    let text = |task: &Value, name: &str| task[name].as_str().unwrap().to_owned();
    tasks.as_array().unwrap().iter().map(|task| (text(task, "id"), text(task, "status"))).collect()
}

fn assert_subtask_statuses(tasks: &Value, expected: [&str; 3]) {
    let expected: Vec<(String, String)> = ["read", "measure", "write"]
        .iter()
        .zip(expected)
        .map(|(step, status)| (format!("TASK-9/{step}"), status.to_owned()))
        .collect();
    assert_eq!(task_statuses(tasks), expected);
}

/// The first conversation: plans, starts, writes notes, fails and notes the blocker. Returns the execution's
/// id and the position of its first note.
async fn run_first_conversation(fixture: &AgentFixture) -> (String, Value) {
    let agent = fixture.connect_agent("full").await;
    let task = json!({ "action": "add", "id": "TASK-9", "title": "Choose a queue", "priority": 3, "estimate": "4h" });
    agent.call_ok("task", task).await;
    agent.call_ok("save_plan", json!({ "plan": research_plan() })).await;
    let split = agent
        .call_ok("task", json!({ "action": "split", "id": "TASK-9", "plan_id": "compare-queues" }))
        .await
        .0;
    assert_subtask_statuses(&split["tasks"], ["open", "open", "open"]);
    assert_eq!(split["tasks"][0]["title"], "Read the documents");
    assert_eq!(split["tasks"][0]["estimate"], "30m");
    let again = agent
        .call_ok("task", json!({ "action": "split", "id": "TASK-9", "plan_id": "compare-queues" }))
        .await
        .0;
    assert_eq!(again["tasks"].as_array().unwrap().len(), 3, "splitting again adds nothing");

    let started = agent.call_ok("execute_plan", json!({ "plan_id": "compare-queues" })).await.0;
    let id = started["id"].as_str().unwrap().to_owned();
    let report = |step: &str, status: &str| json!({ "execution_id": id, "step_id": step, "status": status, "description": "worked on it" });
    agent.call_ok("record_action", report("read", "started")).await;
    let found = json!({ "key": "queue-limits", "type": "research", "task": "TASK-9",
        "value": "The hosted broker drops messages above 256 kilobytes.", "metadata": { "confidence": 0.8 } });
    let noted = agent.call_ok("set_context", found).await.0;
    assert_eq!((&noted["version"], &noted["task"]), (&json!(1), &json!("TASK-9")));
    agent.call_ok("record_action", report("read", "succeeded")).await;

    let mut failed = report("measure", "failed");
    failed["error"] = json!("no licence for the test server");
    let blocked = agent.call_ok("record_action", failed).await.0;
    assert_eq!(blocked["status"], "blocked");
    let blocker = json!({ "key": "licence", "type": "blockers", "execution_id": id, "value": "The test server needs a licence" });
    agent.call_ok("set_context", blocker).await;
    let tasks = agent.call_ok("task", json!({ "action": "list", "status": "blocked" })).await.0;
    assert_eq!(task_statuses(&tasks["tasks"]), [("TASK-9".to_owned(), "blocked".to_owned())]);
    (id, noted["position"].clone())
}

/// A later conversation, which finds note, task and execution by one search term.
async fn check_second_conversation(agent: &AgentConversation, id: &str, position: &Value) {
    let (found, text) = agent.call_ok("query_context", json!({ "search": "kilobytes" })).await;
    let note = &found["notes"][0];
    assert_eq!(
        (&note["key"], &note["task"], &note["type"]),
        (&json!("queue-limits"), &json!("TASK-9"), &json!("research"))
    );
    assert_eq!(note["position"], *position, "the position of its entry");
    assert!(note["author"].as_str().unwrap().starts_with("agent:"));
    assert!(note["excerpt"].as_str().unwrap().contains("256 **kilobytes**"));
    assert!(
        text.contains("data from their authors") && text.contains(&format!("position {position}")),
        "{text}"
    );
    let (story, text) = agent.call_ok("status", json!({ "task": "TASK-9" })).await;
    assert_subtask_statuses(&story["subtasks"], ["done", "blocked", "open"]);
    assert!(text.contains("licence (blockers): The test server needs a licence"), "{text}");
    assert!(text.contains(id), "the text names the execution: {text}");
}

#[test]
fn blocked_plan_is_found_and_finished_by_the_next_conversation() {
    for_each_database(async |scratch| {
        let fixture = AgentFixture::new(Some(&scratch.url));
        let (id, position) = run_first_conversation(&fixture).await;
        let fresh = fixture.connect_agent("run").await;
        check_second_conversation(&fresh, &id, &position).await;

        let report = |step: &str| json!({ "execution_id": id, "step_id": step, "status": "succeeded", "description": "worked on it" });
        let decided = json!({ "execution_id": id, "action": "retry", "step_id": "measure", "reason": "the licence came" });
        fresh.call_ok("control", decided).await;
        fresh.call_ok("set_context", json!({ "key": "licence", "execution_id": id, "delete": true })).await;
        fresh.call_ok("record_action", report("measure")).await;
        let ended = fresh.call_ok("record_action", report("write")).await.0;
        assert_eq!(ended["status"], "succeeded");
        let story = fresh.call_ok("status", json!({ "task": "TASK-9" })).await.0;
        assert_subtask_statuses(&story["subtasks"], ["done", "done", "done"]);
        assert!(story["notes"].as_array().unwrap().iter().all(|note| note["key"] != "licence"));
        let kinds: Vec<&str> =
            story["story"].as_array().unwrap().iter().map(|one| one["what"].as_str().unwrap()).collect();
        for what in ["task", "plan", "execution", "action", "decision", "note"] {
            assert!(kinds.contains(&what), "{what} is missing of {kinds:?}");
        }
        assert!(
            story["story"].as_array().unwrap().is_sorted_by_key(|one| one["position"].as_u64()),
            "the story is in journal order"
        );
        fixture.run(&["task", "done", "TASK-9"]).await;
        assert_eq!(fixture.run_json(&["task", "show", "TASK-9"]).await["task"]["status"], "done");
        fixture.run(&["verify"]).await;
    });
}

#[test]
fn note_is_written_once_per_request_key_and_deletion_keeps_history() {
    for_each_database(async |scratch| {
        let fixture = AgentFixture::new(Some(&scratch.url));
        let agent = fixture.connect_agent("record").await;
        let note = json!({ "key": "k", "value": { "n": 1 }, "idempotency_key": "one" });
        let first = agent.call_ok("set_context", note.clone()).await.0;
        let mut again = agent.call_ok("set_context", note).await.0;
        assert_eq!(again.as_object_mut().unwrap().remove("repeated"), Some(json!(true)));
        assert_eq!(again, first, "one key, one note");
        let other = json!({ "key": "k", "value": 2, "idempotency_key": "one" });
        let refused = agent.call_refused("set_context", other).await;
        assert!(refused.contains("another request"), "{refused}");
        assert!(agent.call_refused("set_context", json!({ "key": "k" })).await.contains("value"));
        agent.call_ok("set_context", json!({ "key": "k", "value": "two" })).await;
        agent.call_ok("set_context", json!({ "key": "k", "delete": true })).await;
        assert!(agent.call_ok("query_context", json!({ "key": "k" })).await.1.contains("No note matches"));
        let (found, _) = agent.call_ok("query_context", json!({ "key": "k", "history": true })).await;
        let history = found["notes"][0]["history"].as_array().unwrap();
        let values: Vec<&Value> = history.iter().map(|value| &value["value"]).collect();
        assert_eq!(values, [&Value::Null, &json!("two"), &json!({ "n": 1 })]);
        assert_eq!(history[0]["deleted"], true);
        assert!(agent.call_refused("query_context", json!({ "search": "!!" })).await.contains("no word"));
    });
}

#[test]
fn cli_writes_finds_and_deletes_notes() {
    for_each_database(async |scratch| {
        let fixture = AgentFixture::new(Some(&scratch.url));
        fixture.run(&["context", "set", "db-port", "5432", "--type", "decisions", "--task", "TASK-1"]).await;
        fixture.run(&["context", "set", "db-port", "5433", "--task", "TASK-1"]).await;
        assert_eq!(fixture.run(&["context", "get", "db-port"]).await, "5433\n");
        let note = fixture.run_json(&["context", "get", "db-port", "--history"]).await;
        assert_eq!((&note["value"], &note["type"]), (&json!(5433), &json!("decisions")));
        assert_eq!(note["history"].as_array().unwrap().len(), 2);
        fixture.run(&["context", "set", "motto", "measure twice, cut once", "--expires-in", "2h"]).await;
        let found = fixture.run(&["context", "search", "cut", "mea*"]).await;
        assert!(found.contains("motto") && found.contains("measure twice, cut once"), "{found}");
        assert!(found.contains("position 3"), "the result has its position: {found}");
        let of_task = fixture.run_json(&["context", "search", "--task", "TASK-1"]).await;
        assert_eq!(of_task["notes"].as_array().unwrap().len(), 1);
        fixture.run(&["context", "delete", "db-port"]).await;
        assert!(fixture.run_refused(&["context", "get", "db-port"]).await.contains("no note `db-port`"));
        assert!(fixture.run(&["journal", "--kind", "note_deleted"]).await.contains("db-port"));
    });
}

#[test]
fn new_task_saves_the_plan_of_its_rule() {
    for_each_database(async |scratch| {
        let fixture = AgentFixture::new(Some(&scratch.url));
        let config = json!({ "task_plans": {
            "bugs": { "type": "bug", "plan": "fix-bug" },
            "urgent": { "labels": ["urgent"], "plan": "fix-bug", "start": true },
        } });
        fixture.write("actbook.yaml", &config.to_string());
        assert!(
            fixture
                .run_refused(&["task", "add", "BUG-0", "--type", "bug"])
                .await
                .contains("no plan `fix-bug`")
        );
        let inputs = json!({ "type": "object", "required": ["title", "version"],
            "properties": { "title": { "type": "string" }, "version": { "type": "number" } } });
        let step = json!({ "id": "fix", "action": "Find and repair it" });
        fixture
            .write("fix.json", &json!({ "name": "fix-bug", "inputs": inputs, "steps": [step] }).to_string());
        fixture.run(&["plan", "save", "fix.json"]).await;

        let args = ["task", "add", "BUG-1", "--type", "bug", "--title", "It hangs", "--field", "version=2"];
        let added = fixture.run_json(&args).await;
        assert!(added["plan"].is_string() && added["started"].is_null(), "saved, and not started: {added}");
        let story = fixture.run_json(&["task", "show", "BUG-1"]).await;
        assert_eq!(story["plans"][0]["name"], "fix-bug for BUG-1");
        assert_eq!(story["executions"], json!([]));

        let lacking =
            fixture.run_refused(&["task", "add", "OPS-0", "--label", "urgent", "--title", "Down"]).await;
        assert!(lacking.contains("version"), "a task whose plan cannot start is not written: {lacking}");
        let args = ["task", "add", "OPS-1", "--label", "urgent", "--title", "Down", "--field", "version=3"];
        let started = fixture.run_json(&args).await["started"].as_str().unwrap().to_owned();
        let view = fixture.run_json(&["show", &started]).await;
        assert_eq!((&view["task"], &view["plan"]["name"]), (&json!("OPS-1"), &json!("fix-bug for OPS-1")));
        let listed = fixture.run_json(&["task", "list"]).await;
        let ids: Vec<&str> =
            listed.as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["OPS-1", "BUG-1"]);
        fixture.run(&["cancel", &started]).await;
    });
}
