//! What outlives an execution: notes and tasks.

use serde_json::json;

use super::Client;
use crate::error::Error;
use crate::service::{
    Belongs, NoteFilter, NoteGiven, NoteView, NoteWritten, NotesFound, Story, TaskAdded, TaskGiven,
    TaskStatus, TaskView,
};

impl Client {
    /// Writes a note; the newest value of a key wins, and earlier ones stay in its history.
    pub async fn set_note(&self, note: NoteGiven) -> Result<NoteWritten, Error> {
        let NoteGiven { key, value, r#type, belongs, metadata, expires_in_ms, everywhere } = &note;
        let mut request = vec![json!([key, value, r#type, owner(belongs), metadata, expires_in_ms])];
        request.extend(everywhere.map(|everywhere| json!(everywhere)));
        let caller = self.asking(&json!([json!("set_note")].into_iter().chain(request).collect::<Vec<_>>()));
        self.service().set_note(&caller, note).await
    }

    /// The newest note under a key, whatever it belongs to; the own project's before another's.
    pub async fn note(&self, key: &str) -> Result<Option<NoteView>, Error> {
        let filter = NoteFilter { key: Some(key.to_owned()), ..NoteFilter::default() };
        self.service().note(&filter).await
    }

    /// Notes that fit, newest first; where words are sought, those with the words in their key first.
    pub async fn notes(&self, filter: &NoteFilter, limit: u64) -> Result<NotesFound, Error> {
        self.service().notes(filter, limit).await
    }

    /// Notes by words, beginnings (`begin*`) and phrases (`"so called"`), with marked excerpts.
    pub async fn search_notes(&self, words: &str, limit: u64) -> Result<NotesFound, Error> {
        let filter = NoteFilter { search: Some(words.to_owned()), ..NoteFilter::default() };
        self.notes(&filter, limit).await
    }

    /// Deletes a note: it is found no more, and its history keeps that it was there.
    pub async fn delete_note(&self, key: &str, belongs: &Belongs) -> Result<NoteWritten, Error> {
        let caller = self.asking(&json!(["delete_note", key, owner(belongs)]));
        self.service().delete_note(&caller, key, belongs).await
    }

    /// Puts a task down; where a rule of the config fits it, its plan is saved and perhaps started.
    pub async fn add_task(&self, task: TaskGiven) -> Result<TaskAdded, Error> {
        self.still_open()?;
        let caller = self.asking(&json!(["add_task", words(&task)]));
        let mut added = self.service().add_task(&caller, task, true).await?;
        if let Some(progress) = added.drive.take() {
            self.house.background.keep(progress);
        }
        Ok(added)
    }

    /// Changes a task; what is left out stays as it was.
    pub async fn change_task(&self, task: TaskGiven) -> Result<TaskView, Error> {
        let caller = self.asking(&json!(["change_task", words(&task)]));
        self.service().change_task(&caller, task).await
    }

    /// Makes one subtask for each step of a saved plan; they follow its executions.
    pub async fn split_task(&self, id: &str, plan: &str) -> Result<Vec<TaskView>, Error> {
        self.service().split_task(&self.asking(&json!(["split_task", id, plan])), id, plan).await
    }

    /// A task as it is.
    pub async fn task(&self, id: &str) -> Result<TaskView, Error> {
        self.service().task(id).await
    }

    /// Tasks that belong under no other: what is open first, the most urgent first.
    pub async fn tasks(&self, status: Option<TaskStatus>) -> Result<Vec<TaskView>, Error> {
        self.service().tasks(status).await
    }

    /// A task's whole story: its subtasks, plans, executions, decisions and notes, in time.
    pub async fn task_story(&self, id: &str) -> Result<Story, Error> {
        self.service().task_story(id).await
    }
}

fn owner(belongs: &Belongs) -> serde_json::Value {
    let Belongs { task, plan, execution } = belongs;
    json!([task, plan, execution])
}

fn words(given: &TaskGiven) -> serde_json::Value {
    let TaskGiven { id, title, status, priority, estimate_ms, parent, r#type, labels, fields } = given;
    json!([id, title, status, priority, estimate_ms, parent, r#type, labels, fields])
}
