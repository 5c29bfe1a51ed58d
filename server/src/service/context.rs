//! Notes: writing, searching, listing with history, deleting. Secrets are redacted before a note is stored or
//! indexed. A note's value is data, shown with its author and its journal position.

mod excerpt;

use actbook_engine::event::Event;
use actbook_engine::id::{ExecutionId, PlanId, Position, StreamId};
use actbook_engine::note::{Note, NoteScope};
use serde::Serialize;
use serde_json::{Value, json};

use super::Service;
use super::quote::require_plain_name;
use super::view::format_time;
use crate::caller::Caller;
use crate::error::{Ambiguity, Corruption, Error};
use crate::ledger::{DeleteNoteRequest, SetNoteRequest};
use crate::random;
use crate::store::tokenizer::{NoteTokens, SearchQuery, json_to_text};
use crate::store::{journal, notes, payloads};

/// At most this many notes with the same key are considered when one of them is looked up.
const SAME_KEY_MAX: u64 = 200;
/// At most this many values are shown in a note's history; older ones are in the journal.
const HISTORY_MAX: usize = 200;

/// Names the owner of a note: at most one of the fields is set; none means that no task, plan or execution
/// owns it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoteOwnerRef {
    pub task: Option<String>,
    /// A plan's name or id.
    pub plan: Option<String>,
    /// An execution's id or a unique prefix of it.
    pub execution: Option<String>,
}

/// A note to write.
#[derive(Clone, Debug, Default)]
pub struct NoteSpec {
    pub key: String,
    pub value: Value,
    pub r#type: Option<String>,
    pub owner: NoteOwnerRef,
    pub metadata: Option<Value>,
    pub expires_in_ms: Option<i64>,
    /// Whether every project sees the note. `None`: unchanged, or false for a new note.
    pub everywhere: Option<bool>,
}

impl NoteSpec {
    /// A note without an owner.
    pub fn new(key: impl Into<String>, value: impl Into<Value>) -> Self {
        Self { key: key.into(), value: value.into(), ..Self::default() }
    }
}

/// Which notes to find. A field that is not set does not filter.
#[derive(Clone, Debug, Default)]
pub struct NoteFilter {
    /// Words, prefixes (`begin*`) and quoted phrases that must all occur.
    pub search: Option<String>,
    pub key: Option<String>,
    pub r#type: Option<String>,
    pub owner: NoteOwnerRef,
    /// `NotePage::cursor` of the previous page.
    pub cursor: Option<u64>,
    /// Include every earlier value, and deleted notes.
    pub history: bool,
}

/// A note as it is shown.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize)]
pub struct NoteView {
    pub key: String,
    pub r#type: String,
    pub value: Value,
    pub metadata: Option<Value>,
    #[serde(flatten)]
    pub owner: NoteOwner,
    pub project: Option<String>,
    /// Every project sees the note.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub everywhere: bool,
    pub author: String,
    pub at: String,
    /// Position of the entry that holds the value.
    pub position: u64,
    /// How many entries the note has.
    pub version: u64,
    pub expires_at: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
    /// The text around the first match, with matches between `**`. `None`: not found by a search.
    pub excerpt: Option<String>,
    /// `key` or `value`: where a search found it.
    pub found_in: Option<&'static str>,
    /// Every value, newest first. `None`: not asked for.
    pub history: Option<Vec<NoteValueView>>,
}

/// The owner of a note: at most one of the fields is set.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NoteOwner {
    pub task: Option<String>,
    pub plan_id: Option<String>,
    pub execution_id: Option<String>,
}

/// A value that a note has or had. `deleted`: the entry holds no value, since it deleted the note or its
/// value was erased.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize)]
pub struct NoteValueView {
    pub position: u64,
    pub at: String,
    pub author: String,
    pub value: Option<Value>,
    pub metadata: Option<Value>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
}

/// One page of notes.
#[derive(Clone, Debug, Serialize)]
pub struct NotePage {
    pub notes: Vec<NoteView>,
    /// For the next page. `None`: this is the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<u64>,
}

/// What the journal entry that wrote or deleted a note says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NoteReceipt {
    pub key: String,
    /// `None`: the note was deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<String>,
    #[serde(flatten)]
    pub owner: NoteOwner,
    pub author: String,
    pub at: String,
    pub position: u64,
    pub version: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
}

/// Notes, which outlive a conversation: writing, finding and deleting them.
#[derive(Clone, Copy, Debug)]
pub struct Notes<'a>(pub(super) &'a Service);

impl Notes<'_> {
    /// Writes a note under its key, with secrets redacted; a note with that key and owner gets a new version.
    pub async fn set(self, caller: &Caller, mut given: NoteSpec) -> Result<NoteReceipt, Error> {
        require_plain_name("key", &given.key)?;
        self.0.tools.redact_text(&mut given.key);
        self.0.tools.redact(&mut given.value);
        given.metadata.iter_mut().for_each(|metadata| self.0.tools.redact(metadata));
        self.0.require_may_share(caller, given.everywhere.unwrap_or(false))?;
        let scope = self.resolve_scope(&given.owner).await?.unwrap_or_default();
        let project = self.project_of(&scope, &given.key).await?;
        let words = NoteTokens::from_key_and_value(&given.key, &json_to_text(&given.value));
        let mut payload = json!({ "value": given.value });
        if let Some(metadata) = given.metadata {
            payload["metadata"] = metadata;
        }
        let note = Note {
            key: given.key,
            scope,
            r#type: given.r#type,
            expires_at_ms: given.expires_in_ms.map(|ms| self.0.ledger.clock().now_ms().saturating_add(ms)),
            project,
            everywhere: given.everywhere,
            payload: payload.to_string().into_bytes(),
        };
        let salt = random::bytes::<16>().to_vec().into();
        let request = SetNoteRequest { note, tokens: words, salt };
        self.receipt(self.0.submit_recorded(caller, request).await?).await
    }

    /// Deletes a note: searches no longer find it; its values stay in the journal. Refused if several notes
    /// have this key and `owner` does not tell them apart.
    pub async fn delete(
        self,
        caller: &Caller,
        key: &str,
        owner: &NoteOwnerRef,
    ) -> Result<NoteReceipt, Error> {
        let scope = self.resolve_scope(owner).await?;
        let (project, scope) = match self.0.previous_result(caller).await? {
            Some(_) => (None, scope.unwrap_or_default()),
            None => self.find_to_delete(scope, key, caller.is_agent()).await?,
        };
        let request = DeleteNoteRequest { project, scope, key: key.to_owned() };
        self.receipt(self.0.submit_recorded(caller, request).await?).await
    }

    /// One page of at most `limit` notes: the best matches of a search first, otherwise the newest first.
    pub async fn list(self, filter: &NoteFilter, limit: u64) -> Result<NotePage, Error> {
        let row_filter = notes::NoteRowFilter {
            key: filter.key.clone(),
            r#type: filter.r#type.clone(),
            scope: self.resolve_scope(&filter.owner).await?,
            before: filter.cursor,
            with_deleted: filter.history,
            ..self.filter()
        };
        self.0.require_unwithheld_search(filter.search.is_some())?;
        let query = filter.search.as_deref().map(parse_search).transpose()?;
        let hits = match &query {
            Some(query) => {
                let search = notes::search(self.0.db.dialect(), self.0.tenant, query, &row_filter, limit);
                search.all(&self.0.db).await?
            }
            None => {
                let listed = notes::list(self.0.tenant, &row_filter, limit).all(&self.0.db).await?;
                listed.into_iter().map(|note| notes::NoteHit { rank: note.position, note }).collect()
            }
        };
        let cursor = hits.last().filter(|_| hits.len() as u64 == limit).map(|hit| hit.rank);
        let mut notes = self.views(&hits, query.as_ref()).await?;
        if filter.history {
            for view in &mut notes {
                let hit = hits.iter().find(|hit| hit.note.position == view.position);
                let stream = hit.expect("every view is made from a hit").note.stream;
                view.history = Some(self.history(stream).await?);
            }
        }
        Ok(NotePage { notes, cursor })
    }

    /// The newest note that matches, this project's before another's. `None`: no note matches.
    pub async fn get(self, filter: &NoteFilter) -> Result<Option<NoteView>, Error> {
        let mut found = self.list(filter, SAME_KEY_MAX).await?.notes;
        let own = found.iter().position(|note| note.project.as_deref() == Some(self.0.project()));
        let index = own.unwrap_or(0);
        Ok((index < found.len()).then(|| found.swap_remove(index)))
    }

    /// Views of notes with their values loaded; with excerpts if they were found by `query`. Notes that were
    /// erased meanwhile are left out.
    pub(super) async fn views(
        self,
        hits: &[notes::NoteHit],
        query: Option<&SearchQuery>,
    ) -> Result<Vec<NoteView>, Error> {
        let positions: Vec<u64> = hits.iter().map(|hit| hit.note.position).collect();
        let mut kept: std::collections::BTreeMap<u64, Vec<u8>> =
            payloads::by_positions(&self.0.db, self.0.tenant, &positions)
                .await?
                .into_iter()
                .map(|payload| (payload.position, payload.body))
                .collect();
        // A note that is not deleted and has no payload was erased after its row was read.
        let found = hits.iter().map(|hit| (hit, kept.remove(&hit.note.position)));
        let found = found.filter(|(hit, body)| hit.note.deleted || body.is_some());
        let view = |(hit, body): (&notes::NoteHit, Option<Vec<u8>>)| {
            let mut view = note_view(hit, body.as_deref(), query)?;
            self.0.withhold_note(&mut view);
            Ok(view)
        };
        found.map(view).collect()
    }

    /// Every value that the note of this stream has had, newest first, `HISTORY_MAX` at most.
    async fn history(self, stream: StreamId) -> Result<Vec<NoteValueView>, Error> {
        let entries =
            journal::by_stream(self.0.db.dialect(), self.0.tenant, stream, 0).all(&self.0.db).await?;
        let kept = payloads::by_stream(self.0.db.dialect(), self.0.tenant, stream).all(&self.0.db).await?;
        let value_of = |entry: &journal::Entry| -> Result<NoteValueView, Error> {
            let kept = kept.iter().find(|payload| payload.position == entry.position);
            let (value, metadata) = match kept {
                Some(payload) => {
                    parse_payload(&payload.body).map(|(value, metadata)| (Some(value), metadata))?
                }
                None => (None, None),
            };
            let deleted = value.is_none();
            let (position, at, author) = (entry.position, format_time(entry.at), entry.actor.to_string());
            let mut view = NoteValueView { position, at, author, value, metadata, deleted };
            self.0.withhold_note_value(&mut view);
            Ok(view)
        };
        entries.iter().rev().take(HISTORY_MAX).map(value_of).collect()
    }

    /// The scope of an owner that is given by name. `None`: no owner is given. Refused if several are given,
    /// or the plan or execution does not exist.
    async fn resolve_scope(self, owner: &NoteOwnerRef) -> Result<Option<NoteScope>, Error> {
        match (&owner.task, &owner.plan, &owner.execution) {
            (None, None, None) => Ok(None),
            (Some(task), None, None) => Ok(Some(NoteScope::Task(task.clone()))),
            (None, Some(plan), None) => {
                Ok(Some(NoteScope::Plan(PlanId::new(self.0.plans().row(plan).await?.id))))
            }
            (None, None, Some(id)) => Ok(Some(NoteScope::Execution(self.0.executions().find(id).await?.id))),
            (_, _, _) => Err(Error::SeveralOwners),
        }
    }

    /// The project and the scope of the only note with this key, within `scope` if it is given. An agent
    /// (`by_agent`) that gives none finds only a note without an owner. This project's notes come first; a
    /// confined service does not find another project's shared notes, which only that project may delete.
    async fn find_to_delete(
        self,
        scope: Option<NoteScope>,
        key: &str,
        by_agent: bool,
    ) -> Result<(Option<String>, NoteScope), Error> {
        let unowned_only = by_agent && scope.is_none();
        let filter = notes::NoteRowFilter { key: Some(key.to_owned()), scope, now_ms: 0, ..self.filter() };
        let mut found = notes::list(self.0.tenant, &filter, SAME_KEY_MAX).all(&self.0.db).await?;
        let own = |note: &notes::NoteRow| note.project.as_deref() == Some(self.0.project());
        if self.0.boundary().is_some() {
            found.retain(|note| own(note) || note.project.is_none());
        }
        if found.iter().any(own) {
            found.retain(own);
        }
        let is_unowned = |note: &notes::NoteRow| scope_of_row(note) == NoteScope::Everybody;
        if unowned_only && !found.is_empty() {
            if !found.iter().any(is_unowned) {
                return Err(owned_note_error(key, &found));
            }
            found.retain(is_unowned);
        }
        match found.as_slice() {
            [] => Err(Error::NoSuchNote { key: key.to_owned() }),
            [only] => Ok((only.project.clone(), scope_of_row(only))),
            [_, ..] => Err(Error::Ambiguous(Ambiguity::NoteKey { key: key.to_owned() })),
        }
    }

    /// Reads the entry of a note at this position. Err `Corrupt`: there is no such entry.
    async fn receipt(self, Position(position): Position) -> Result<NoteReceipt, Error> {
        let corrupt = |why: String| Error::Corrupt(Corruption::Entry(why));
        let entry = journal::by_position(self.0.tenant, position).first(&self.0.db).await?;
        let entry = entry.ok_or_else(|| corrupt(format!("entry {position} is missing")))?;
        let event = Event::decode(&entry.kind, &entry.body).map_err(|error| corrupt(error.to_string()))?;
        let (key, named, of) = match event {
            Event::NoteSet(set) => (set.key, Some(set.r#type), NoteOwner::from_scope(&set.scope)),
            Event::NoteDeleted(deleted) => (deleted.key, None, NoteOwner::from_scope(&deleted.scope)),
            other => return Err(corrupt(format!("entry {position} is `{}`, no note", other.kind()))),
        };
        let (author, at, deleted) = (entry.actor.to_string(), format_time(entry.at), named.is_none());
        Ok(NoteReceipt {
            key,
            r#type: named,
            owner: of,
            author,
            at,
            position,
            version: entry.version,
            deleted,
        })
    }
}

impl NoteOwner {
    /// The owner that a scope names; without any field for a note that nothing owns.
    pub fn from_scope(scope: &NoteScope) -> Self {
        let mut owner = Self::default();
        match scope {
            NoteScope::Everybody => {}
            NoteScope::Task(task) => owner.task = Some(task.clone()),
            NoteScope::Plan(plan) => owner.plan_id = Some(plan.to_string()),
            NoteScope::Execution(execution) => owner.execution_id = Some(execution.to_string()),
        }
        owner
    }
}

/// The refusal to delete a note by its key alone although a task, plan or execution owns it; lists the
/// owners.
fn owned_note_error(key: &str, found: &[notes::NoteRow]) -> Error {
    let owners = found.iter().map(|note| format!("{} `{}`", note.scope, note.owner));
    Error::Ambiguous(Ambiguity::NoteOwner { key: key.to_owned(), owners: owners.collect() })
}

/// The scope that is stored in a note's row.
fn scope_of_row(note: &notes::NoteRow) -> NoteScope {
    match note.scope.as_str() {
        "task" => NoteScope::Task(note.owner.clone()),
        "plan" => NoteScope::Plan(PlanId::new(note.owner.as_str())),
        "execution" => NoteScope::Execution(ExecutionId::new(note.owner.as_str())),
        _ => NoteScope::Everybody,
    }
}

/// Parses a search text; refused if there is no word in it.
fn parse_search(text: &str) -> Result<SearchQuery, Error> {
    SearchQuery::parse(text).ok_or_else(|| Error::NoWords { text: text.to_owned() })
}

/// The fields `value` and `metadata` of the JSON object in a note's payload. Err `Corrupt`: it is not JSON.
fn parse_payload(payload: &[u8]) -> Result<(Value, Option<Value>), Error> {
    let corrupt = |error: serde_json::Error| Error::Corrupt(Corruption::Entry(error.to_string()));
    let mut payload: Value = serde_json::from_slice(payload).map_err(corrupt)?;
    let metadata = payload.get_mut("metadata").map(Value::take);
    Ok((payload.get_mut("value").map(Value::take).unwrap_or_default(), metadata))
}

/// The view of a note; without a payload its value is null. `query`: the search that found it.
fn note_view(
    hit: &notes::NoteHit,
    payload: Option<&[u8]>,
    query: Option<&SearchQuery>,
) -> Result<NoteView, Error> {
    let (value, metadata) = payload.map_or(Ok((Value::Null, None)), parse_payload)?;
    let note = &hit.note;
    let found_in = query.map(|_| if hit.is_in_key() { "key" } else { "value" });
    Ok(NoteView {
        key: note.key.clone(),
        r#type: note.r#type.clone(),
        excerpt: query.map(|query| excerpt::make_excerpt(&json_to_text(&value), query)),
        value,
        metadata,
        owner: NoteOwner::from_scope(&scope_of_row(note)),
        project: note.project.clone(),
        everywhere: note.everywhere,
        author: note.author.clone(),
        at: format_time(note.at),
        position: note.position,
        version: note.version,
        expires_at: note.expires_at.map(format_time),
        deleted: note.deleted,
        found_in,
        history: None,
    })
}
