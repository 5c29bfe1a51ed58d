//! Notes and tasks: each has a stream of its own that is never folded as a whole. Its newest version is
//! found in its row in the database or, until that row is durable, among the unwritten rows here.

use std::sync::Arc;

use actbook_engine::event::{NoteDeleted, PayloadsErased};
use actbook_engine::execution::{NewEvent, RecordedEvent, Refusal};
use actbook_engine::id::StreamId;
use actbook_engine::note::{self, NoteScope, PreviousNote};
use actbook_engine::task;

use super::super::{AddTaskRequest, Error, LedgerReply, SetNoteRequest, StartRequest};
use super::{PendingState, StreamHead};
use crate::store::{notes, payloads, projection, tasks};

/// A row, which may be ahead of the database, and the salt of its stream.
#[derive(Clone, Debug)]
struct SaltedRow<T> {
    row: T,
    salt: Arc<[u8]>,
}

/// A note's project, scope and key.
pub(super) type NoteKey = (Option<String>, NoteScope, String);
/// A task's project and id.
type TaskKey = (Option<String>, String);

/// The newest rows of notes and tasks whose batch is not durable; they are read before the database's.
#[derive(Debug, Default)]
pub(super) struct UnwrittenRows {
    notes: std::collections::HashMap<NoteKey, SaltedRow<notes::NoteRow>>,
    tasks: std::collections::HashMap<TaskKey, SaltedRow<tasks::TaskRow>>,
}

impl UnwrittenRows {
    pub fn clear(&mut self) {
        self.notes.clear();
        self.tasks.clear();
    }

    /// Drops the rows up to this position, which the database has now.
    pub fn drop_durable(&mut self, position: u64) {
        self.notes.retain(|_, pending| pending.row.position > position);
        self.tasks.retain(|_, pending| pending.row.position > position);
    }
}

impl PendingState {
    /// Queues a new value of the note, or its first.
    pub(super) fn set_note(
        &mut self,
        request: &SetNoteRequest,
        actor: &Arc<str>,
    ) -> Result<LedgerReply, Error> {
        let name = (request.note.project.clone(), request.note.scope.clone(), request.note.key.clone());
        let before = self.find_note(&name)?;
        let salt = before.as_ref().map_or_else(|| request.salt.clone(), |found| found.salt.clone());
        let live = before.as_ref().map(|found| &found.row).filter(|row| !row.deleted);
        let live = live.map(|row| PreviousNote { r#type: &row.r#type, everywhere: row.everywhere });
        let new_event = note::build_note_event(&request.note, live, &salt)?;
        let row = before.map(|found| found.row);
        let (written, recorded) =
            self.append_to_stream(row.as_ref().map(note_stream_head), new_event, &salt, actor);
        let entry = written.as_written(actor, &recorded);
        let note = projection::note_row(None, &entry).expect("the entry sets a note");
        let changes =
            notes::upsert(self.db.dialect(), self.tenant, row.as_ref(), &note, Some(&request.tokens));
        self.queue.statements.extend(changes);
        self.unwritten_rows.notes.insert(name, SaltedRow { row: note, salt });
        Ok(LedgerReply::Recorded(recorded.position))
    }

    /// Queues the note's deletion; refused where there is no such note.
    pub(super) fn delete_note(&mut self, name: NoteKey, actor: &Arc<str>) -> Result<LedgerReply, Error> {
        let (_, scope, key) = &name;
        let found = self.find_note(&name)?.filter(|found| !found.row.deleted);
        let SaltedRow { row, salt } = found.ok_or_else(|| no_such_note(key))?;
        let deleted = NewEvent::from(NoteDeleted { key: key.clone(), scope: scope.clone() });
        let (written, recorded) = self.append_to_stream(Some(note_stream_head(&row)), deleted, &salt, actor);
        let entry = written.as_written(actor, &recorded);
        let note =
            projection::note_row(Some(row.clone()), &entry).expect("the entry deletes a note that is there");
        self.queue.statements.extend(notes::upsert(self.db.dialect(), self.tenant, Some(&row), &note, None));
        self.unwritten_rows.notes.insert(name, SaltedRow { row: note, salt });
        Ok(LedgerReply::Recorded(recorded.position))
    }

    /// Erases the payloads of a note's entries, unless the note is past `version`.
    pub(super) fn erase_note(
        &mut self,
        stream: StreamId,
        version: u64,
        actor: &Arc<str>,
    ) -> Result<LedgerReply, Error> {
        let is_pending = self.unwritten_rows.notes.values().any(|pending| pending.row.stream == stream);
        let row = notes::by_stream(self.tenant, stream).first_blocking(&self.db)?;
        if let Some(row) = row.filter(|row| !is_pending && row.version == version) {
            let last = StreamHead { version, position: row.position };
            self.append(stream, last, PayloadsErased {}.into(), actor);
            self.queue.statements.push(payloads::erase_of_stream(self.db.dialect(), self.tenant, stream));
            self.queue.statements.push(payloads::erase_salt(self.tenant, stream));
            self.queue.statements.extend(notes::erase(self.tenant, &row));
        }
        Ok(LedgerReply::Done)
    }

    /// Creates or changes all the tasks, or none: each is checked before the first is queued. With `create`
    /// an existing task is refused, without it a missing one.
    pub(super) fn set_tasks(
        &mut self,
        tasks: &[(task::Task, Arc<[u8]>)],
        create: bool,
        actor: &Arc<str>,
    ) -> Result<LedgerReply, Error> {
        let mut decided = Vec::with_capacity(tasks.len());
        for (index, (task, salt)) in tasks.iter().enumerate() {
            let before = self.find_task(&(task.project.clone(), task.id.clone()))?;
            let is_repeated = tasks[..index].iter().any(|(other, _)| other.id == task.id);
            check_task_existence(&task.id, before.is_some() || is_repeated, create)?;
            let salt = before.as_ref().map_or_else(|| salt.clone(), |found| found.salt.clone());
            decided.push((before.map(|found| found.row), task::build_task_event(task, &salt)?, salt));
        }
        let mut reply = LedgerReply::Done;
        for (before, event, salt) in decided {
            let last = before
                .as_ref()
                .map(|row| (row.stream, StreamHead { version: row.version, position: row.position }));
            let (written, recorded) = self.append_to_stream(last, event, &salt, actor);
            let entry = written.as_written(actor, &recorded);
            let row = projection::task_row(before, &entry).expect("the entry sets a task");
            self.queue.statements.push(tasks::upsert(self.tenant, &row));
            let name = (row.project.clone(), row.id.clone());
            self.unwritten_rows.tasks.insert(name, SaltedRow { row, salt });
            reply = LedgerReply::Recorded(recorded.position);
        }
        Ok(reply)
    }

    /// Queues the task, its plan and the execution. The steps that can fail come first, so that a refusal
    /// leaves nothing behind.
    pub(super) fn add_task(
        &mut self,
        request: &AddTaskRequest,
        actor: &Arc<str>,
    ) -> Result<LedgerReply, Error> {
        self.with_library(|_| ())?;
        self.set_tasks(&[(request.task.clone(), request.salt.clone())], true, actor)?;
        let saved = self.save_plan(&request.plan, actor)?;
        if let (Some(start), LedgerReply::PlanSaved { plan, .. }) = (&request.start, &saved) {
            let start = StartRequest { plan_ref: plan.clone(), ..start.clone() };
            return Ok(LedgerReply::Advanced(Box::new(self.start(&start, actor)?)));
        }
        Ok(saved)
    }

    /// The note's newest row, deleted ones included; None: the key was never used.
    fn find_note(&self, name: &NoteKey) -> Result<Option<SaltedRow<notes::NoteRow>>, Error> {
        if let Some(pending) = self.unwritten_rows.notes.get(name) {
            return Ok(Some(pending.clone()));
        }
        let (project, scope, key) = name;
        let row = notes::by_key(self.tenant, project.as_deref(), scope, key).first_blocking(&self.db)?;
        row.map(|row| Ok(SaltedRow { salt: self.read_salt(row.stream)?, row })).transpose()
    }

    /// The task's newest row; None: there is no such task.
    fn find_task(&self, name: &TaskKey) -> Result<Option<SaltedRow<tasks::TaskRow>>, Error> {
        if let Some(pending) = self.unwritten_rows.tasks.get(name) {
            return Ok(Some(pending.clone()));
        }
        let (project, id) = name;
        let row = tasks::by_id_in_project(self.tenant, project.as_deref(), id).first_blocking(&self.db)?;
        row.map(|row| Ok(SaltedRow { salt: self.read_salt(row.stream)?, row })).transpose()
    }

    fn read_salt(&self, stream: StreamId) -> Result<Arc<[u8]>, Error> {
        let salt = payloads::salt(self.tenant, stream).first_blocking(&self.db)?;
        salt.map(Into::into).ok_or_else(|| Error::Corrupt(format!("the salt of stream {stream} is gone")))
    }

    /// Queues an entry after the stream's `last` one; without `last`, begins a stream that has this `salt`.
    fn append_to_stream(
        &mut self,
        last: Option<(StreamId, StreamHead)>,
        new_event: NewEvent,
        salt: &[u8],
        actor: &Arc<str>,
    ) -> (StreamVersion, RecordedEvent) {
        let (stream, last) = last.unwrap_or_else(|| {
            let stream = StreamId::starting_at(self.next_position());
            self.queue.statements.push(payloads::insert_salt(self.tenant, stream, salt));
            (stream, StreamHead::before_first(stream))
        });
        let recorded = self.append(stream, last, new_event, actor);
        (StreamVersion { stream, version: last.version + 1 }, recorded)
    }
}

/// The stream and the version of an entry that was queued.
struct StreamVersion {
    stream: StreamId,
    version: u64,
}

impl StreamVersion {
    fn as_written<'a>(&self, author: &'a str, recorded: &'a RecordedEvent) -> notes::StreamEntry<'a> {
        notes::StreamEntry { stream: self.stream, version: self.version, author, recorded }
    }
}

/// The stream of a note and its last entry.
fn note_stream_head(row: &notes::NoteRow) -> (StreamId, StreamHead) {
    (row.stream, StreamHead { version: row.version, position: row.position })
}

/// Refuses to create a task that exists, or to change one that does not.
fn check_task_existence(id: &str, exists: bool, create: bool) -> Result<(), Refusal> {
    match (exists, create) {
        (true, true) => {
            let message = format!("there is a task `{id}` already");
            Err(Refusal::new("task_exists", message, "choose another id, or change that one"))
        }
        (false, false) => {
            let message = format!("there is no task `{id}`");
            Err(Refusal::new("no_such_task", message, "`actbook task list` shows them"))
        }
        (true, false) | (false, true) => Ok(()),
    }
}

fn no_such_note(key: &str) -> Error {
    Refusal::new("no_such_note", format!("there is no note `{key}` here"), "search for it").into()
}
