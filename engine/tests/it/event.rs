//! Journal compatibility: older versions of an event's body are readable, and the newest one round-trips.

use actbook_engine::event::{ApprovalScope, Event, ExecutionStarted, StepAdded};
use serde_json::{Value, json};

fn started_body() -> Value {
    let digest = "A".repeat(43);
    json!({
        "id": "e-1",
        "plan": { "id": "p-1", "name": "notes", "version": 1, "digest": digest },
        "place": digest,
        "task": "TASK-1",
    })
}

fn decode_started(kind: &str, body: &Value) -> ExecutionStarted {
    match Event::decode(kind, &body.to_string()) {
        Ok(Event::ExecutionStarted(started)) => started,
        other => panic!("{kind} reads as {other:?}"),
    }
}

#[test]
fn execution_started_1_reads_without_a_project() {
    let old = decode_started("execution_started.1", &started_body());
    assert_eq!((old.project, old.agents_may_approve), (None, false));
    assert_eq!(old.task.as_deref(), Some("TASK-1"), "the other fields are read");
}

#[test]
fn execution_started_2_keeps_its_project() {
    let mut body = started_body();
    body["project"] = json!("/srv/site");
    body["agents_may_approve"] = json!(true);
    let new = decode_started("execution_started.2", &body);
    let event = Event::from(new);
    assert_eq!(event.kind(), "execution_started.3");
    assert_eq!(event.project(), Some("/srv/site"));
    assert_eq!(serde_json::from_str::<Value>(&event.body()).unwrap(), body);
}

#[test]
fn every_written_kind_can_be_read() {
    assert!(Event::KINDS.iter().all(|kind| Event::KINDS_READ.contains(kind)));
    assert!(Event::KINDS_READ.contains(&"execution_started.1"));
}

#[test]
fn older_versions_of_session_kinds_read_with_defaults() {
    let read = |kind: &str, body: Value| Event::decode(kind, &body.to_string()).expect("an old body reads");
    let started = read("attempt_started.1", json!({ "step": "a", "attempt": 1 }));
    assert!(matches!(&started, Event::AttemptStarted(event) if event.node.is_none()));
    let approved = read("step_approved.1", json!({ "step": "a" }));
    assert!(matches!(&approved, Event::StepApproved(event) if event.scope == ApprovalScope::Once));
    let unwinding = read("unwind_started.2", json!({ "reason": "why" }));
    assert!(matches!(&unwinding, Event::UnwindStarted(event) if event.steps.is_none()));
    let asked = read("undo_asked.1", json!({}));
    assert!(matches!(&asked, Event::UndoAsked(event) if event.steps.is_none()));
    let arguments = format!("{}.2", "A".repeat(43));
    let added = read("step_added.1", json!({ "step": "c1", "tool": "client/shell", "arguments": arguments }));
    let binds =
        |event: &StepAdded| event.client_tool.is_some() || event.folder.is_some() || event.secrets.is_some();
    assert!(matches!(&added, Event::StepAdded(event) if !binds(event)));
    // Entries of plans keep the bodies that they had.
    assert_eq!(started.body(), r#"{"step":"a","attempt":1}"#);
    assert_eq!(approved.body(), r#"{"step":"a"}"#);
    assert_eq!(asked.body(), "{}");
}
