//! Notes: written, found by words or filters, listed with their history, deleted. Secrets are struck out
//! before anything is kept. What a note says is data, shown with who wrote it and where it stands.

mod excerpt;

use actbook_engine::event::Event;
use actbook_engine::id::{ExecutionId, PlanId, Position};
use actbook_engine::note::{Note, Scope};
use serde::Serialize;
use serde_json::{Value, json};

use super::Service;
use super::quote::plain_name;
use super::view::time;
use crate::caller::Caller;
use crate::error::Error;
use crate::ledger::{NoteAsked, Reply, Request};
use crate::random;
use crate::store::words::{Sought, Words, readable};
use crate::store::{journal, notes, payloads};

/// Notes of one key that are looked through for the one that is meant.
const SAME_KEY_MAX: u64 = 200;
/// Older values than these are in the journal.
const HISTORY_MAX: usize = 200;

/// What a note belongs to: one of these, or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Belongs {
    pub task: Option<String>,
    /// A plan's name or id.
    pub plan: Option<String>,
    pub execution: Option<String>,
}

/// A note to be put down.
#[derive(Clone, Debug, Default)]
pub struct NoteGiven {
    pub key: String,
    pub value: Value,
    pub r#type: Option<String>,
    pub belongs: Belongs,
    pub metadata: Option<Value>,
    pub expires_in_ms: Option<i64>,
    /// Every project sees it; none: as it was, or not.
    pub everywhere: Option<bool>,
}

impl NoteGiven {
    /// A note that belongs to nothing in particular.
    pub fn new(key: impl Into<String>, value: impl Into<Value>) -> Self {
        Self { key: key.into(), value: value.into(), ..Self::default() }
    }
}

/// Which notes to find. Everything left out lets all pass.
#[derive(Clone, Debug, Default)]
pub struct NoteFilter {
    pub search: Option<String>,
    pub key: Option<String>,
    pub r#type: Option<String>,
    pub belongs: Belongs,
    /// From the page before.
    pub cursor: Option<u64>,
    /// With every earlier value, and with notes that were deleted.
    pub history: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct NoteView {
    pub key: String,
    pub r#type: String,
    pub value: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    #[serde(flatten)]
    pub of: Owner,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Every project sees it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub everywhere: bool,
    pub author: String,
    pub at: String,
    /// Of the entry that holds the value.
    pub position: u64,
    /// How often it was written.
    pub version: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
    /// What was found in it, marked with `**`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excerpt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found_in: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<ValueView>>,
}

/// What it belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Owner {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
}

/// A value that a note has or had.
#[derive(Clone, Debug, Serialize)]
pub struct ValueView {
    pub position: u64,
    pub at: String,
    pub author: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct NotesFound {
    pub notes: Vec<NoteView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<u64>,
}

/// Where a note was put down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NoteWritten {
    pub key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<String>,
    #[serde(flatten)]
    pub of: Owner,
    pub author: String,
    pub at: String,
    pub position: u64,
    pub version: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
}

impl Service {
    pub async fn set_note(&self, caller: &Caller, mut given: NoteGiven) -> Result<NoteWritten, Error> {
        plain_name("key", &given.key)?;
        self.tools.redact_text(&mut given.key);
        self.tools.redact(&mut given.value);
        given.metadata.iter_mut().for_each(|metadata| self.tools.redact(metadata));
        self.require_sharer(caller, given.everywhere.unwrap_or(false))?;
        let scope = self.scope(&given.belongs).await?.unwrap_or_default();
        let project = self.project_of_note(&scope, &given.key).await?;
        let words = Words::of(&given.key, &readable(&given.value));
        let mut payload = json!({ "value": given.value });
        if let Some(metadata) = given.metadata {
            payload["metadata"] = metadata;
        }
        let note = Note {
            key: given.key,
            scope,
            r#type: given.r#type,
            expires_at_ms: given.expires_in_ms.map(|ms| self.ledger.clock().now_ms().saturating_add(ms)),
            project,
            everywhere: given.everywhere,
            payload: payload.to_string().into_bytes(),
        };
        let salt = random::bytes::<16>().to_vec().into();
        let request = Request::SetNote(Box::new(NoteAsked { note, words, salt }));
        self.written(self.ask(caller, request).await?).await
    }

    /// It is not found any more; what it was stays in the journal.
    pub async fn delete_note(
        &self,
        caller: &Caller,
        key: &str,
        belongs: &Belongs,
    ) -> Result<NoteWritten, Error> {
        let scope = self.scope(belongs).await?;
        let (project, scope) = match self.repeated(caller).await? {
            Some(_) => (None, scope.unwrap_or_default()),
            None => self.note_to_delete(scope, key).await?,
        };
        let request = Request::DeleteNote { project, scope, key: key.to_owned() };
        self.written(self.ask(caller, request).await?).await
    }

    pub async fn notes(&self, filter: &NoteFilter, limit: u64) -> Result<NotesFound, Error> {
        let rows = notes::Filter {
            key: filter.key.clone(),
            r#type: filter.r#type.clone(),
            scope: self.scope(&filter.belongs).await?,
            before: filter.cursor,
            with_deleted: filter.history,
            ..self.note_filter()
        };
        let sought = filter.search.as_deref().map(sought).transpose()?;
        let hits = match &sought {
            Some(sought) => {
                let search = notes::search(self.db.dialect(), self.tenant, sought, &rows, limit);
                search.all(&self.db).await?
            }
            None => {
                let listed = notes::list(self.tenant, &rows, limit).all(&self.db).await?;
                listed.into_iter().map(|note| notes::Hit { rank: note.position, note }).collect()
            }
        };
        let cursor = hits.last().filter(|_| hits.len() as u64 == limit).map(|hit| hit.rank);
        let mut notes = self.views(&hits, sought.as_ref()).await?;
        if filter.history {
            for view in &mut notes {
                let hit = hits.iter().find(|hit| hit.note.position == view.position);
                let stream = hit.expect("every view is made from a hit").note.stream;
                view.history = Some(self.history(stream).await?);
            }
        }
        Ok(NotesFound { notes, cursor })
    }

    /// The newest note that fits, the own project's before another's.
    pub async fn note(&self, filter: &NoteFilter) -> Result<Option<NoteView>, Error> {
        let mut found = self.notes(filter, SAME_KEY_MAX).await?.notes;
        let own = found.iter().position(|note| note.project.as_deref() == Some(self.project()));
        let wanted = own.unwrap_or(0);
        Ok((wanted < found.len()).then(|| found.swap_remove(wanted)))
    }

    pub(super) async fn views(
        &self,
        hits: &[notes::Hit],
        sought: Option<&Sought>,
    ) -> Result<Vec<NoteView>, Error> {
        let positions: Vec<u64> = hits.iter().map(|hit| hit.note.position).collect();
        let mut kept: std::collections::BTreeMap<u64, Vec<u8>> =
            payloads::at_each(&self.db, self.tenant, &positions)
                .await?
                .into_iter()
                .map(|payload| (payload.position, payload.body))
                .collect();
        // Where the payload is gone of a note that is there, it was erased since its row was read.
        let found = hits.iter().map(|hit| (hit, kept.remove(&hit.note.position)));
        let found = found.filter(|(hit, body)| hit.note.deleted || body.is_some());
        found.map(|(hit, body)| view(hit, body.as_deref(), sought)).collect()
    }

    /// Every value that a note had, newest first.
    async fn history(&self, stream: u64) -> Result<Vec<ValueView>, Error> {
        let entries = journal::of_stream(self.db.dialect(), self.tenant, stream, 0).all(&self.db).await?;
        let kept = payloads::of_stream(self.db.dialect(), self.tenant, stream).all(&self.db).await?;
        let value_of = |entry: &journal::Entry| -> Result<ValueView, Error> {
            let kept = kept.iter().find(|payload| payload.position == entry.position);
            let (value, metadata) = match kept {
                Some(payload) => parts(&payload.body).map(|(value, metadata)| (Some(value), metadata))?,
                None => (None, None),
            };
            let deleted = value.is_none();
            let (position, at, author) = (entry.position, time(entry.at), entry.actor.to_string());
            Ok(ValueView { position, at, author, value, metadata, deleted })
        };
        entries.iter().rev().take(HISTORY_MAX).map(value_of).collect()
    }

    async fn scope(&self, belongs: &Belongs) -> Result<Option<Scope>, Error> {
        match (&belongs.task, &belongs.plan, &belongs.execution) {
            (None, None, None) => Ok(None),
            (Some(task), None, None) => Ok(Some(Scope::Task(task.clone()))),
            (None, Some(plan), None) => Ok(Some(Scope::Plan(PlanId::new(self.plan_row(plan).await?.id)))),
            (None, None, Some(id)) => Ok(Some(Scope::Execution(self.find(id).await?.id))),
            (_, _, _) => {
                let message = "a note belongs to a task, to a plan or to an execution, not to several";
                Err(Error::new("several_owners", message, "name the narrowest one"))
            }
        }
    }

    /// The project and the scope of the one note that bears this key, in this scope where one is given. The own
    /// project's come first; what another project shares is its own to delete.
    async fn note_to_delete(
        &self,
        scope: Option<Scope>,
        key: &str,
    ) -> Result<(Option<String>, Scope), Error> {
        let filter = notes::Filter { key: Some(key.to_owned()), scope, now_ms: 0, ..self.note_filter() };
        let mut found = notes::list(self.tenant, &filter, SAME_KEY_MAX).all(&self.db).await?;
        let own = |note: &notes::Note| note.project.as_deref() == Some(self.project());
        if self.boundary().is_some() {
            found.retain(|note| own(note) || note.project.is_none());
        }
        if found.iter().any(own) {
            found.retain(own);
        }
        match found.as_slice() {
            [] => {
                let message = format!("there is no note `{key}`");
                Err(Error::new("no_such_note", message, "`actbook context search WORDS` finds notes"))
            }
            [only] => Ok((only.project.clone(), scope_of(only))),
            [_, ..] => {
                let message = format!("more than one note bears the key `{key}`");
                Err(Error::new("ambiguous", message, "name its task, its plan or its execution"))
            }
        }
    }

    /// What an entry of a note says, by its place.
    async fn written(&self, reply: Reply) -> Result<NoteWritten, Error> {
        let corrupt = |why: String| Error::new("corrupt", why, "run `actbook verify`");
        let position = match reply {
            Reply::Recorded(Position(position)) => position,
            Reply::Repeated(result) => {
                result.parse().map_err(|_| corrupt(format!("a key gave the position `{result}`")))?
            }
            Reply::Saved { .. } | Reply::Accepted { .. } | Reply::Deleted | Reply::Moved(_) => {
                unreachable!("a note gives its place")
            }
        };
        let entry = journal::at(self.tenant, position).first(&self.db).await?;
        let entry = entry.ok_or_else(|| corrupt(format!("entry {position} is missing")))?;
        let event = Event::decode(&entry.kind, &entry.body).map_err(|error| corrupt(error.to_string()))?;
        let (key, named, of) = match event {
            Event::NoteSet(set) => (set.key, Some(set.r#type), Owner::of(&set.scope)),
            Event::NoteDeleted(deleted) => (deleted.key, None, Owner::of(&deleted.scope)),
            other => return Err(corrupt(format!("entry {position} is `{}`, no note", other.kind()))),
        };
        let (author, at, deleted) = (entry.actor.to_string(), time(entry.at), named.is_none());
        Ok(NoteWritten { key, r#type: named, of, author, at, position, version: entry.version, deleted })
    }
}

impl Owner {
    pub fn of(scope: &Scope) -> Self {
        let mut owner = Self::default();
        match scope {
            Scope::Everybody => {}
            Scope::Task(task) => owner.task = Some(task.clone()),
            Scope::Plan(plan) => owner.plan_id = Some(plan.to_string()),
            Scope::Execution(execution) => owner.execution_id = Some(execution.to_string()),
        }
        owner
    }
}

fn scope_of(note: &notes::Note) -> Scope {
    match note.scope.as_str() {
        "task" => Scope::Task(note.owner.clone()),
        "plan" => Scope::Plan(PlanId::new(note.owner.as_str())),
        "execution" => Scope::Execution(ExecutionId::new(note.owner.as_str())),
        _ => Scope::Everybody,
    }
}

fn sought(text: &str) -> Result<Sought, Error> {
    Sought::read(text).ok_or_else(|| {
        let message = format!("there is no word in `{text}`");
        Error::new("no_words", message, "search for words, the beginning of one (begin*), or \"a phrase\"")
    })
}

fn parts(payload: &[u8]) -> Result<(Value, Option<Value>), Error> {
    let strange = |error: serde_json::Error| Error::new("corrupt", error.to_string(), "run `actbook verify`");
    let mut payload: Value = serde_json::from_slice(payload).map_err(strange)?;
    let metadata = payload.get_mut("metadata").map(Value::take);
    Ok((payload["value"].take(), metadata))
}

fn view(hit: &notes::Hit, payload: Option<&[u8]>, sought: Option<&Sought>) -> Result<NoteView, Error> {
    let (value, metadata) = payload.map_or(Ok((Value::Null, None)), parts)?;
    let note = &hit.note;
    let found_in = sought.map(|_| if hit.in_key() { "key" } else { "value" });
    Ok(NoteView {
        key: note.key.clone(),
        r#type: note.r#type.clone(),
        excerpt: sought.map(|sought| excerpt::of(&readable(&value), sought)),
        value,
        metadata,
        of: Owner::of(&scope_of(note)),
        project: note.project.clone(),
        everywhere: note.everywhere,
        author: note.author.clone(),
        at: time(note.at),
        position: note.position,
        version: note.version,
        expires_at: note.expires_at.map(time),
        deleted: note.deleted,
        found_in,
        history: None,
    })
}
