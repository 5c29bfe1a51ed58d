//! Notes and tasks, which outlive executions.

use serde_json::json;

use super::Client;
use crate::error::Error;
use crate::service::{
    AddedTask, NoteFilter, NoteOwnerRef, NotePage, NoteReceipt, NoteSpec, NoteView, TaskHistory, TaskSpec,
    TaskStatus, TaskView,
};

impl Client {
    /// Writes a note; the newest value of a key wins, and earlier ones stay in its history.
    pub async fn set_note(&self, note: NoteSpec) -> Result<NoteReceipt, Error> {
        let NoteSpec { key, value, r#type, owner: belongs, metadata, expires_in_ms, everywhere } = &note;
        let mut request = vec![json!([key, value, r#type, belongs_json(belongs), metadata, expires_in_ms])];
        request.extend(everywhere.map(|everywhere| json!(everywhere)));
        let caller =
            self.caller_for(&json!([json!("set_note")].into_iter().chain(request).collect::<Vec<_>>()));
        self.service().notes().set(&caller, note).await
    }

    /// The newest note under a key, whatever it belongs to; notes of the own project come first.
    pub async fn note(&self, key: &str) -> Result<Option<NoteView>, Error> {
        let filter = NoteFilter { key: Some(key.to_owned()), ..NoteFilter::default() };
        self.service().notes().get(&filter).await
    }

    /// Notes that pass the filter, newest first; in a search, those with the words in their key come first.
    pub async fn notes(&self, filter: &NoteFilter, limit: u64) -> Result<NotePage, Error> {
        self.service().notes().list(filter, limit).await
    }

    /// Searches notes by words, prefixes (`begin*`) and phrases (`"so called"`); the result has marked
    /// excerpts.
    pub async fn search_notes(&self, words: &str, limit: u64) -> Result<NotePage, Error> {
        let filter = NoteFilter { search: Some(words.to_owned()), ..NoteFilter::default() };
        self.notes(&filter, limit).await
    }

    /// Deletes a note: searches no longer find it, its history stays.
    pub async fn delete_note(&self, key: &str, belongs: &NoteOwnerRef) -> Result<NoteReceipt, Error> {
        let caller = self.caller_for(&json!(["delete_note", key, belongs_json(belongs)]));
        self.service().notes().delete(&caller, key, belongs).await
    }

    /// Creates a task; if a rule of the config matches it, the rule's plan is saved and perhaps started.
    pub async fn add_task(&self, task: TaskSpec) -> Result<AddedTask, Error> {
        self.check_open()?;
        let caller = self.caller_for(&json!(["add_task", task_json(&task)]));
        let mut added = self.service().tasks().add(&caller, task, true).await?;
        if let Some(progress) = added.drive.take() {
            self.service().background().drive_claimed(progress);
        }
        Ok(added)
    }

    /// Changes a task; fields that are left out stay as they are.
    pub async fn change_task(&self, task: TaskSpec) -> Result<TaskView, Error> {
        let caller = self.caller_for(&json!(["change_task", task_json(&task)]));
        self.service().tasks().change(&caller, task).await
    }

    /// Creates one subtask for each step of a saved plan; their status follows the plan's executions.
    pub async fn split_task(&self, id: &str, plan: &str) -> Result<Vec<TaskView>, Error> {
        self.service().tasks().split(&self.caller_for(&json!(["split_task", id, plan])), id, plan).await
    }

    /// The current view of a task.
    pub async fn task(&self, id: &str) -> Result<TaskView, Error> {
        self.service().tasks().get(id).await
    }

    /// Top-level tasks: open ones first, then by priority.
    pub async fn tasks(&self, status: Option<TaskStatus>) -> Result<Vec<TaskView>, Error> {
        self.service().tasks().list(status).await
    }

    /// A task's history: its subtasks, plans, executions, decisions and notes, by time.
    pub async fn task_story(&self, id: &str) -> Result<TaskHistory, Error> {
        self.service().tasks().history(id).await
    }
}

/// What a note belongs to, for the digest of the request.
fn belongs_json(belongs: &NoteOwnerRef) -> serde_json::Value {
    let NoteOwnerRef { task, plan, execution } = belongs;
    json!([task, plan, execution])
}

/// The task's fields, for the digest of the request.
fn task_json(given: &TaskSpec) -> serde_json::Value {
    let TaskSpec { id, title, status, priority, estimate_ms, parent, r#type, labels, fields } = given;
    json!([id, title, status, priority, estimate_ms, parent, r#type, labels, fields])
}
