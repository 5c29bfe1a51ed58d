//! Notes and tasks of two projects, and legacy ones without a project, as confined services see them.

use std::sync::Arc;

use actbook::caller::Caller;
use actbook::config::{Config, DatabaseOptions};
use actbook::ledger::{Ledger, SetNoteRequest, SetTasksRequest};
use actbook::notify::Notifier;
use actbook::service::{NoteFilter, NoteSpec, Service, StatsFilter, TaskSpec};
use actbook::store::tokenizer::NoteTokens;
use actbook_engine::note::Note;
use actbook_engine::task::Task;
use serde_json::json;

use super::{by_key, by_search};
use crate::store::{ScratchDatabase, TENANT, for_each_database};

/// A service of a project, not confined to it.
async fn service(scratch: &ScratchDatabase, project: &str) -> Service {
    let config = Config { project: Some(project.to_owned()), ..Config::default() };
    Service::open(&scratch.url, DatabaseOptions::default(), &config).await.unwrap()
}

fn agent() -> Caller {
    Caller::new("agent:scripted")
}

/// Writes a note and a task without a project, as older versions did.
async fn write_legacy_note_and_task(scratch: &ScratchDatabase) {
    let db = scratch.db.clone();
    let ledger = Ledger::open(db.clone(), TENANT, Notifier::new(db, TENANT)).unwrap();
    let salt: Arc<[u8]> = Arc::from(*b"salt");
    let payload = json!({ "value": "ancient words" });
    let note = Note {
        key: "older".into(),
        scope: Default::default(),
        r#type: None,
        expires_at_ms: None,
        project: None,
        everywhere: None,
        payload: payload.to_string().into_bytes(),
    };
    let words = NoteTokens::from_key_and_value("older", "ancient words");
    let note = SetNoteRequest { note, tokens: words, salt: salt.clone() };
    let task = Task { id: "T-0".into(), title: Some("ancient".into()), ..Task::default() };
    let task = SetTasksRequest { tasks: vec![(task, salt)], create: true };
    ledger.submit(&"person:ada".into(), note).await.unwrap();
    ledger.submit(&"person:ada".into(), task).await.unwrap();
}

async fn values(service: &Service, filter: NoteFilter) -> Vec<serde_json::Value> {
    service.notes().list(&filter, 10).await.unwrap().notes.into_iter().map(|note| note.value).collect()
}

#[test]
fn legacy_note_and_task_are_visible_to_every_project() {
    for_each_database(async |scratch| {
        write_legacy_note_and_task(&scratch).await;
        let [one, two] =
            [service(&scratch, "one").await.confined(), service(&scratch, "two").await.confined()];
        for service in [&one, &two] {
            assert_eq!(values(service, by_key("older")).await, ["ancient words"]);
            assert_eq!(values(service, by_search("ancient")).await, ["ancient words"]);
            assert_eq!(service.tasks().get("T-0").await.unwrap().title, "ancient");
        }
        one.notes().set(&agent(), NoteSpec::new("older", "newer words")).await.unwrap();
        assert_eq!(values(&two, by_key("older")).await, ["newer words"], "the legacy note stays one note");
        let title = Some("changed".to_owned());
        one.tasks()
            .change(&agent(), TaskSpec { id: "T-0".into(), title, ..TaskSpec::default() })
            .await
            .unwrap();
        assert_eq!(two.tasks().get("T-0").await.unwrap().title, "changed");
        let again = TaskSpec { id: "T-0".into(), ..TaskSpec::default() };
        assert_eq!(two.tasks().add(&agent(), again, false).await.unwrap_err().code(), "task_exists");
    });
}

#[test]
fn project_notes_and_tasks_are_private_until_shared() {
    for_each_database(async |scratch| {
        let [all_of_one, all_of_two] = [service(&scratch, "one").await, service(&scratch, "two").await];
        let (one, two) = (all_of_one.confined(), all_of_two.confined());
        one.notes().set(&agent(), NoteSpec::new("port", "5433 here")).await.unwrap();
        let id = || TaskSpec { id: "T-1".into(), ..TaskSpec::default() };
        one.tasks().add(&agent(), id(), false).await.unwrap();
        assert_eq!(values(&one, by_key("port")).await, ["5433 here"]);
        for filter in [by_key("port"), by_search("5433"), NoteFilter::default()] {
            assert!(values(&two, filter).await.is_empty());
        }
        assert_eq!(two.tasks().get("T-1").await.unwrap_err().code(), "no_such_task");
        assert!(two.tasks().list(None).await.unwrap().is_empty());
        assert_eq!(values(&all_of_two, by_key("port")).await, ["5433 here"], "a person sees both");
        assert_eq!(
            two.notes().delete(&agent(), "port", &Default::default()).await.unwrap_err().code(),
            "no_such_note"
        );
        two.tasks().add(&agent(), id(), false).await.unwrap();

        let shared = NoteSpec { everywhere: Some(true), ..NoteSpec::new("port", "5434 for all") };
        assert_eq!(one.notes().set(&agent(), shared.clone()).await.unwrap_err().code(), "needs_a_person");
        all_of_one.notes().set(&Caller::new("person:ada"), shared).await.unwrap();
        assert_eq!(values(&two, by_key("port")).await, ["5434 for all"]);
        one.notes().set(&agent(), NoteSpec::new("port", "5435")).await.unwrap();
        assert_eq!(
            values(&two, by_search("5435")).await,
            ["5435"],
            "a shared note stays shared after an update"
        );
        let stats = two.journal().stats(&StatsFilter::default()).await.unwrap();
        assert_eq!(stats.executions.total, 0);
        let rows = one.journal().rebuild().await.unwrap();
        assert_eq!(rows, 3, "a note and two tasks");
        assert_eq!(values(&two, by_key("port")).await, ["5435"]);
    });
}
