//! What outlives a conversation: notes, how they are found, tasks, and the history with its figures. On
//! both databases.

mod agent;
mod brought;
mod chance;
mod doors;
mod figures;
mod history;
mod looking;
mod notes;
mod projects;
mod raw;
mod search;
mod tasks;

use actbook::service::{NoteFilter, NoteOwnerRef, NoteReceipt, NoteSpec, NoteView};
use serde_json::Value;

use crate::durability::book::Book;

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

fn of_task(task: &str) -> NoteOwnerRef {
    NoteOwnerRef { task: Some(task.to_owned()), ..NoteOwnerRef::default() }
}

async fn set(book: &Book, given: NoteSpec) -> NoteReceipt {
    book.service.set_note(&book.caller, given).await.expect("it is noted")
}

async fn find(book: &Book, filter: NoteFilter) -> Vec<NoteView> {
    book.service.notes(&filter, 100).await.expect("it can be asked").notes
}

fn by_key(key: &str) -> NoteFilter {
    NoteFilter { key: Some(key.to_owned()), ..NoteFilter::default() }
}

fn by_words(words: &str) -> NoteFilter {
    NoteFilter { search: Some(words.to_owned()), ..NoteFilter::default() }
}
