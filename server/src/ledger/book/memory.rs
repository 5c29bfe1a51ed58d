//! Notes and tasks: streams of their own that are never folded as a whole. Where one stands is found in
//! its row, or, while that is on its way, here.

use std::sync::Arc;

use actbook_engine::event::{NoteDeleted, PayloadsErased};
use actbook_engine::execution::{Fresh, Recorded, Refusal};
use actbook_engine::note::{self, Before, Scope};
use actbook_engine::task;

use super::super::{Error, NoteAsked, Reply, Start, TaskAsked};
use super::{Book, Stands};
use crate::store::{notes, payloads, project, tasks};

/// A row that is ahead of the database, and the salt of its stream.
#[derive(Clone, Debug)]
struct Held<T> {
    row: T,
    salt: Arc<[u8]>,
}

/// A note's project, scope and key.
pub(super) type NoteName = (Option<String>, Scope, String);
/// A task's project and id.
type TaskName = (Option<String>, String);

#[derive(Debug, Default)]
pub(super) struct Memory {
    notes: std::collections::HashMap<NoteName, Held<notes::Note>>,
    tasks: std::collections::HashMap<TaskName, Held<tasks::Task>>,
}

impl Memory {
    pub fn clear(&mut self) {
        self.notes.clear();
        self.tasks.clear();
    }

    /// What the database has itself needs not be held.
    pub fn durable(&mut self, position: u64) {
        self.notes.retain(|_, held| held.row.position > position);
        self.tasks.retain(|_, held| held.row.position > position);
    }
}

impl Book {
    pub(super) fn set_note(&mut self, asked: &NoteAsked, actor: &Arc<str>) -> Result<Reply, Error> {
        let place = (asked.note.project.clone(), asked.note.scope.clone(), asked.note.key.clone());
        let before = self.note(&place)?;
        let salt = before.as_ref().map_or_else(|| asked.salt.clone(), |held| held.salt.clone());
        let was = before.as_ref().map(|held| &held.row).filter(|row| !row.deleted);
        let was = was.map(|row| Before { r#type: &row.r#type, everywhere: row.everywhere });
        let fresh = note::set(&asked.note, was, &salt)?;
        let row = before.map(|held| held.row);
        let (written, recorded) = self.append_to(row.as_ref().map(stand), fresh, &salt, actor);
        let entry = written.as_written(actor, &recorded);
        let note = project::note(None, &entry).expect("the entry sets a note");
        let changes = notes::put(self.db.dialect(), self.tenant, row.as_ref(), &note, Some(&asked.words));
        self.queue.others.extend(changes);
        self.memory.notes.insert(place, Held { row: note, salt });
        Ok(Reply::Recorded(recorded.position))
    }

    pub(super) fn delete_note(&mut self, place: NoteName, actor: &Arc<str>) -> Result<Reply, Error> {
        let (_, scope, key) = &place;
        let found = self.note(&place)?.filter(|held| !held.row.deleted);
        let Held { row, salt } = found.ok_or_else(|| no_such_note(key))?;
        let deleted = Fresh::from(NoteDeleted { key: key.clone(), scope: scope.clone() });
        let (written, recorded) = self.append_to(Some(stand(&row)), deleted, &salt, actor);
        let entry = written.as_written(actor, &recorded);
        let note = project::note(Some(row.clone()), &entry).expect("the entry deletes a note that is there");
        self.queue.others.extend(notes::put(self.db.dialect(), self.tenant, Some(&row), &note, None));
        self.memory.notes.insert(place, Held { row: note, salt });
        Ok(Reply::Recorded(recorded.position))
    }

    /// Erases what a note's entries keep. A note that moved meanwhile is left alone.
    pub(super) fn erase_note(&mut self, stream: u64, version: u64, actor: &Arc<str>) -> Result<Reply, Error> {
        let ahead = self.memory.notes.values().any(|held| held.row.stream == stream);
        let row = notes::by_stream(self.tenant, stream).first_blocking(&self.db)?;
        if let Some(row) = row.filter(|row| !ahead && row.version == version) {
            let stands = Stands { version, position: row.position };
            self.append(stream, stands, PayloadsErased {}.into(), actor);
            self.queue.others.push(payloads::erase_of_stream(self.db.dialect(), self.tenant, stream));
            self.queue.others.push(payloads::erase_salt(self.tenant, stream));
            self.queue.others.extend(notes::erase(self.tenant, &row));
        }
        Ok(Reply::Deleted)
    }

    /// All of them, or none: each is looked at before the first is written. `fresh`: refused where one of
    /// them is there already.
    pub(super) fn set_tasks(
        &mut self,
        asked: &[(task::Task, Arc<[u8]>)],
        fresh: bool,
        actor: &Arc<str>,
    ) -> Result<Reply, Error> {
        let mut decided = Vec::with_capacity(asked.len());
        for (index, (task, salt)) in asked.iter().enumerate() {
            let before = self.task(&(task.project.clone(), task.id.clone()))?;
            let twice = asked[..index].iter().any(|(other, _)| other.id == task.id);
            refuse_task(&task.id, before.is_some() || twice, fresh)?;
            let salt = before.as_ref().map_or_else(|| salt.clone(), |held| held.salt.clone());
            decided.push((before.map(|held| held.row), task::set(task, &salt)?, salt));
        }
        let mut reply = Reply::Deleted;
        for (before, event, salt) in decided {
            let stands = before
                .as_ref()
                .map(|row| (row.stream, Stands { version: row.version, position: row.position }));
            let (written, recorded) = self.append_to(stands, event, &salt, actor);
            let entry = written.as_written(actor, &recorded);
            let row = project::task(before, &entry).expect("the entry sets a task");
            self.queue.others.push(tasks::put(self.tenant, &row));
            let name = (row.project.clone(), row.id.clone());
            self.memory.tasks.insert(name, Held { row, salt });
            reply = Reply::Recorded(recorded.position);
        }
        Ok(reply)
    }

    /// What can be refused comes first, so that nothing of it stands where something is.
    pub(super) fn add_task(&mut self, asked: &TaskAsked, actor: &Arc<str>) -> Result<Reply, Error> {
        self.look_at_library(|_| ())?;
        self.set_tasks(&[(asked.task.clone(), asked.salt.clone())], true, actor)?;
        let saved = self.save(&asked.plan, actor)?;
        match (&asked.start, &saved) {
            (Some(start), Reply::Saved { plan, .. }) => {
                let start = Start { plan_ref: plan.clone(), ..start.clone() };
                Ok(Reply::Moved(Box::new(self.start(&start, actor)?)))
            }
            (_, _) => Ok(saved),
        }
    }

    fn note(&self, place: &NoteName) -> Result<Option<Held<notes::Note>>, Error> {
        if let Some(held) = self.memory.notes.get(place) {
            return Ok(Some(held.clone()));
        }
        let (project, scope, key) = place;
        let row = notes::of_key(self.tenant, project.as_deref(), scope, key).first_blocking(&self.db)?;
        row.map(|row| Ok(Held { salt: self.salt_of(row.stream)?, row })).transpose()
    }

    fn task(&self, name: &TaskName) -> Result<Option<Held<tasks::Task>>, Error> {
        if let Some(held) = self.memory.tasks.get(name) {
            return Ok(Some(held.clone()));
        }
        let (project, id) = name;
        let row = tasks::of_project(self.tenant, project.as_deref(), id).first_blocking(&self.db)?;
        row.map(|row| Ok(Held { salt: self.salt_of(row.stream)?, row })).transpose()
    }

    fn salt_of(&self, stream: u64) -> Result<Arc<[u8]>, Error> {
        let salt = payloads::salt(self.tenant, stream).first_blocking(&self.db)?;
        salt.map(Into::into).ok_or_else(|| Error::Corrupt(format!("the salt of stream {stream} is gone")))
    }

    /// One more entry of a stream that stands at a version, or the first of a new one.
    fn append_to(
        &mut self,
        stands: Option<(u64, Stands)>,
        fresh: Fresh,
        salt: &[u8],
        actor: &Arc<str>,
    ) -> (Place, Recorded) {
        let (stream, stands) = stands.unwrap_or_else(|| {
            let stream = self.next_position().0;
            self.queue.others.push(payloads::insert_salt(self.tenant, stream, salt));
            (stream, Stands::begins(stream))
        });
        let recorded = self.append(stream, stands, fresh, actor);
        (Place { stream, version: stands.version + 1 }, recorded)
    }
}

struct Place {
    stream: u64,
    version: u64,
}

impl Place {
    fn as_written<'a>(&self, author: &'a str, recorded: &'a Recorded) -> notes::Written<'a> {
        notes::Written { stream: self.stream, version: self.version, author, recorded }
    }
}

fn stand(row: &notes::Note) -> (u64, Stands) {
    (row.stream, Stands { version: row.version, position: row.position })
}

fn refuse_task(id: &str, there: bool, fresh: bool) -> Result<(), Refusal> {
    match (there, fresh) {
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
