//! Data that persists across conversations: notes and their search, tasks, and the history with its
//! statistics. On both databases.

mod agent;
mod history;
mod history_queries;
mod interfaces;
mod notes;
mod projects;
pub mod random_history;
mod recount;
mod search;
mod stats;
mod task_plans;
mod tasks;

use actbook::service::{NoteFilter, NoteOwnerRef, NoteReceipt, NoteSpec, NoteView};
use serde_json::Value;

use crate::durability::fixture::ServiceFixture;

fn note(key: &str, value: impl Into<Value>) -> NoteSpec {
    NoteSpec {
        key: key.to_owned(),
        value: value.into(),
        r#type: None,
        owner: NoteOwnerRef::default(),
        metadata: None,
        ..NoteSpec::default()
    }
}

fn task_owner(task: &str) -> NoteOwnerRef {
    NoteOwnerRef { task: Some(task.to_owned()), ..NoteOwnerRef::default() }
}

async fn set_note(fixture: &ServiceFixture, given: NoteSpec) -> NoteReceipt {
    fixture.service.notes().set(&fixture.caller, given).await.expect("the note is written")
}

async fn find_notes(fixture: &ServiceFixture, filter: NoteFilter) -> Vec<NoteView> {
    fixture.service.notes().list(&filter, 100).await.expect("notes can be queried").notes
}

fn by_key(key: &str) -> NoteFilter {
    NoteFilter { key: Some(key.to_owned()), ..NoteFilter::default() }
}

fn by_search(search: &str) -> NoteFilter {
    NoteFilter { search: Some(search.to_owned()), ..NoteFilter::default() }
}
