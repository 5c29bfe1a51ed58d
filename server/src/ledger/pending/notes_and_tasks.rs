//! Standalone actions, notes and tasks: each has a stream of its own that is never folded as a whole. The
//! newest version of a note or task is found in its row in the database or, until that row is durable, among
//! the unwritten rows here.

use std::sync::Arc;

use actbook_engine::event::{NoteDeleted, PayloadsErased};
use actbook_engine::execution::{NewEvent, RecordedEvent};
use actbook_engine::id::{Position, StreamId};
use actbook_engine::note::{self, NoteScope, PreviousNote};
use actbook_engine::refusal::Refusal;
use actbook_engine::{standalone_action, task};

use super::super::{
    AddTaskReply, AddTaskRequest, DeleteNoteRequest, EraseActionRequest, EraseNoteRequest, Error,
    LedgerRequest, RecordActionRequest, SetNoteRequest, SetTasksRequest, StartRequest, TaskPlanRequest,
};
use super::{PendingState, StreamHead, fold, no_such_execution};
use crate::store::tokenizer::NoteTokens;
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

impl LedgerRequest for RecordActionRequest {
    type Reply = Position;

    fn decide(&self, pending: &mut PendingState, actor: &Arc<str>) -> Result<Position, Error> {
        let Self { facts, status, project, salt } = self;
        let new_event = standalone_action::build_action_event(facts, *status, project.as_deref(), salt)?;
        Ok(pending.append_to_stream(None, new_event, salt, actor).1.position)
    }
}

impl LedgerRequest for EraseActionRequest {
    type Reply = ();

    /// Queues the erasure, unless the action is erased or pending. Err: no such action.
    fn decide(&self, pending: &mut PendingState, actor: &Arc<str>) -> Result<(), Error> {
        let stream = self.stream;
        let action = fold::fold_act(&pending.db, pending.tenant, stream)?.ok_or_else(no_such_execution)?;
        let writing = pending.in_flight.iter().flat_map(|batch| &batch.entries);
        let is_pending = pending.queue.entries.iter().chain(writing).any(|entry| entry.stream == stream);
        if let Some(erased) = action.erase_event().filter(|_| !is_pending) {
            let last = StreamHead { version: action.version, position: stream.0 };
            pending.append(stream, last, erased.into(), actor);
            pending.queue_erasure(stream);
        }
        Ok(())
    }
}

impl LedgerRequest for SetNoteRequest {
    type Reply = Position;

    /// Queues a new value of the note, or its first.
    fn decide(&self, pending: &mut PendingState, actor: &Arc<str>) -> Result<Position, Error> {
        let name = (self.note.project.clone(), self.note.scope.clone(), self.note.key.clone());
        let before = pending.find_note(&name)?;
        let salt = before.as_ref().map_or_else(|| self.salt.clone(), |found| found.salt.clone());
        let live = before.as_ref().map(|found| &found.row).filter(|row| !row.deleted);
        let live = live.map(|row| PreviousNote { r#type: &row.r#type, everywhere: row.everywhere });
        let new_event = note::build_note_event(&self.note, live, &salt)?;
        let row = before.map(|found| found.row);
        let (written, recorded) =
            pending.append_to_stream(row.as_ref().map(note_stream_head), new_event, &salt, actor);
        let entry = written.to_stream_entry(actor, &recorded);
        let note = projection::note_row(None, &entry).expect("the entry sets a note");
        pending.queue_note(name, row.as_ref(), SaltedRow { row: note, salt }, Some(&self.tokens));
        Ok(recorded.position)
    }
}

impl LedgerRequest for DeleteNoteRequest {
    type Reply = Position;

    /// Queues the note's deletion; refused where there is no such note.
    fn decide(&self, pending: &mut PendingState, actor: &Arc<str>) -> Result<Position, Error> {
        let Self { project, scope, key } = self.clone();
        let name = (project, scope, key);
        let found = pending.find_note(&name)?.filter(|found| !found.row.deleted);
        let SaltedRow { row, salt } = found.ok_or_else(|| no_such_note(&self.key))?;
        let deleted = NewEvent::from(NoteDeleted { key: self.key.clone(), scope: self.scope.clone() });
        let (written, recorded) =
            pending.append_to_stream(Some(note_stream_head(&row)), deleted, &salt, actor);
        let entry = written.to_stream_entry(actor, &recorded);
        let note =
            projection::note_row(Some(row.clone()), &entry).expect("the entry deletes a note that is there");
        pending.queue_note(name, Some(&row), SaltedRow { row: note, salt }, None);
        Ok(recorded.position)
    }
}

impl LedgerRequest for EraseNoteRequest {
    type Reply = ();

    /// Erases the payloads of a note's entries, unless the note is past `version`.
    fn decide(&self, pending: &mut PendingState, actor: &Arc<str>) -> Result<(), Error> {
        let Self { stream, version } = *self;
        let is_pending = pending.unwritten_rows.notes.values().any(|pending| pending.row.stream == stream);
        let row = notes::by_stream(pending.tenant, stream).first_blocking(&pending.db)?;
        if let Some(row) = row.filter(|row| !is_pending && row.version == version) {
            let last = StreamHead { version, position: row.position };
            pending.append(stream, last, PayloadsErased {}.into(), actor);
            pending.queue_erasure(stream);
            pending.queue.statements.extend(notes::erase(pending.tenant, &row));
        }
        Ok(())
    }
}

impl LedgerRequest for SetTasksRequest {
    type Reply = Position;

    /// Creates or changes all the tasks, or none: each is checked before the first is queued. With `create`
    /// an existing task is refused, without it a missing one.
    fn decide(&self, pending: &mut PendingState, actor: &Arc<str>) -> Result<Position, Error> {
        let Self { tasks, create } = self;
        let mut decided = Vec::with_capacity(tasks.len());
        for (index, (task, salt)) in tasks.iter().enumerate() {
            let before = pending.find_task(&(task.project.clone(), task.id.clone()))?;
            let is_repeated = tasks[..index].iter().any(|(other, _)| other.id == task.id);
            check_task_existence(&task.id, before.is_some() || is_repeated, *create)?;
            let salt = before.as_ref().map_or_else(|| salt.clone(), |found| found.salt.clone());
            decided.push((before.map(|found| found.row), task::build_task_event(task, &salt)?, salt));
        }
        let mut position = Position(0);
        for (before, event, salt) in decided {
            let last = before
                .as_ref()
                .map(|row| (row.stream, StreamHead { version: row.version, position: row.position }));
            let (written, recorded) = pending.append_to_stream(last, event, &salt, actor);
            let entry = written.to_stream_entry(actor, &recorded);
            let row = projection::task_row(before, &entry).expect("the entry sets a task");
            pending.queue.statements.push(tasks::upsert(pending.tenant, &row));
            let name = (row.project.clone(), row.id.clone());
            pending.unwritten_rows.tasks.insert(name, SaltedRow { row, salt });
            position = recorded.position;
        }
        Ok(position)
    }
}

impl LedgerRequest for AddTaskRequest {
    type Reply = AddTaskReply;

    /// Queues the task, its plan and the execution. The steps that can fail come first, so that a refusal
    /// leaves nothing behind.
    fn decide(&self, pending: &mut PendingState, actor: &Arc<str>) -> Result<AddTaskReply, Error> {
        if self.plan.is_some() {
            pending.with_library(|_| ())?;
        }
        let tasks = vec![(self.task.clone(), self.salt.clone())];
        let position = SetTasksRequest { tasks, create: true }.decide(pending, actor)?;
        let Some(TaskPlanRequest { save, start }) = &self.plan else {
            return Ok(AddTaskReply { position, plan: None, started: None });
        };
        let saved = save.decide(pending, actor)?;
        let start = start.clone().map(|start| StartRequest { plan_ref: saved.plan.clone(), ..start });
        let started = start.map(|start| start.decide(pending, actor)).transpose()?;
        Ok(AddTaskReply { position, plan: Some(saved), started })
    }
}

impl PendingState {
    /// Queues the statements that replace a note's row (`before`: the old one) and its search tokens, and
    /// keeps the row as the newest one. `tokens`: `None` if searches must no longer find the note.
    fn queue_note(
        &mut self,
        name: NoteKey,
        before: Option<&notes::NoteRow>,
        note: SaltedRow<notes::NoteRow>,
        tokens: Option<&NoteTokens>,
    ) {
        let changes = notes::upsert(self.db.dialect(), self.tenant, before, &note.row, tokens);
        self.queue.statements.extend(changes);
        self.unwritten_rows.notes.insert(name, note);
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

    /// Reads the salt of a stream from the database; that of a stream that is not durable yet is not found.
    /// `Err(Corrupt)`: there is none, as after an erasure.
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
    /// The queued entry as input of the projection that computes the note's or task's new row.
    fn to_stream_entry<'a>(&self, author: &'a str, recorded: &'a RecordedEvent) -> notes::StreamEntry<'a> {
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
        (true, true) => Err(Refusal::TaskExists { id: id.to_owned() }),
        (false, false) => Err(Refusal::NoSuchTask { id: id.to_owned() }),
        (true, false) | (false, true) => Ok(()),
    }
}

fn no_such_note(key: &str) -> Error {
    Refusal::NoSuchNote { key: key.to_owned() }.into()
}
