//! The projection of notes: one row per key with its current state, and its tokens for full-text search.
//! Values are payloads of journal entries; older values are entries of the same stream.

use actbook_engine::execution::RecordedEvent;
use actbook_engine::id::{StreamId, TenantId};
use actbook_engine::note::NoteScope;

use super::executions::{decode_project, project_param, within, within_or_everywhere};
use super::tokenizer::{NoteTokens, SearchQuery};
use super::{Dialect, EntryKey, Error, Row, Select, Statement, dialect};

/// One row of the table `notes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoteRow {
    pub stream: StreamId,
    pub scope: String,
    /// The task, plan or execution that the note belongs to, by the scope.
    pub owner: String,
    pub key: String,
    pub r#type: String,
    /// Number of entries in its stream.
    pub version: u64,
    /// Position of its newest entry.
    pub position: u64,
    /// Time of its newest entry, in epoch milliseconds.
    pub at: i64,
    pub author: String,
    pub expires_at: Option<i64>,
    pub deleted: bool,
    /// None: the note was written before projects existed.
    pub project: Option<String>,
    /// The note is visible in every project.
    pub everywhere: bool,
}

/// An entry of a note or a task, as input of a projection.
#[derive(Debug, Clone, Copy)]
pub struct StreamEntry<'a> {
    pub stream: StreamId,
    pub version: u64,
    pub author: &'a str,
    pub recorded: &'a RecordedEvent,
}

/// Statements that replace a note's row (`before`: the old one) and its search tokens. `words`: None if
/// searches must no longer find the note.
pub fn upsert(
    dialect: Dialect,
    tenant: TenantId,
    before: Option<&NoteRow>,
    note: &NoteRow,
    words: Option<&NoteTokens>,
) -> Vec<Statement> {
    let mut statements = Vec::with_capacity(3);
    if let Some(before) = before.filter(|before| !before.deleted) {
        statements.push(delete_tokens(tenant, before.position));
    }
    statements.push(if before.is_some() { update(tenant, note) } else { insert(tenant, note) });
    statements.extend(words.map(|words| insert_tokens(dialect, tenant, note.position, words)));
    statements
}

/// Statements that delete a note's row and its search tokens.
pub fn erase(tenant: TenantId, note: &NoteRow) -> Vec<Statement> {
    let row = "DELETE FROM notes WHERE tenant = $1 AND stream = $2";
    vec![delete_tokens(tenant, note.position), Statement::new(row, vec![tenant.into(), note.stream.into()])]
}

/// Deletes all notes, before `rebuild` inserts them again.
pub fn erase_all(tenant: TenantId) -> Vec<Statement> {
    let (first, last) = (EntryKey::base(tenant).into(), EntryKey::new(tenant, u64::MAX).into());
    vec![
        Statement::new("DELETE FROM notes WHERE tenant = $1", vec![tenant.into()]),
        Statement::new("DELETE FROM note_words WHERE rowid > $1 AND rowid <= $2", vec![first, last]),
    ]
}

fn insert(tenant: TenantId, note: &NoteRow) -> Statement {
    Statement::new(
        "INSERT INTO notes (tenant, stream, scope, owner, key, type, version, position, at, author, \
         expires_at, deleted, project, everywhere) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
        vec![
            tenant.into(),
            note.stream.into(),
            note.scope.as_str().into(),
            note.owner.as_str().into(),
            note.key.as_str().into(),
            note.r#type.as_str().into(),
            note.version.into(),
            note.position.into(),
            note.at.into(),
            note.author.as_str().into(),
            note.expires_at.into(),
            note.deleted.into(),
            project_param(note.project.as_deref()),
            note.everywhere.into(),
        ],
    )
}

fn update(tenant: TenantId, note: &NoteRow) -> Statement {
    Statement::new(
        "UPDATE notes SET type = $3, version = $4, position = $5, at = $6, author = $7, expires_at = $8, \
         deleted = $9, everywhere = $10 WHERE tenant = $1 AND stream = $2",
        vec![
            tenant.into(),
            note.stream.into(),
            note.r#type.as_str().into(),
            note.version.into(),
            note.position.into(),
            note.at.into(),
            note.author.as_str().into(),
            note.expires_at.into(),
            note.deleted.into(),
            note.everywhere.into(),
        ],
    )
}

fn insert_tokens(dialect: Dialect, tenant: TenantId, position: u64, words: &NoteTokens) -> Statement {
    let mut params = vec![EntryKey::new(tenant, position).into()];
    let sql = match dialect {
        Dialect::Sqlite => {
            let (key, value) = words.fts5_columns();
            params.extend([key.into(), value.into()]);
            dialect::search::SQLITE_INSERT
        }
        Dialect::Postgres => {
            params.push(words.tsvector().into());
            dialect::search::POSTGRES_INSERT
        }
    };
    Statement::new(sql, params)
}

/// Deletes the search tokens of the note at `position`.
fn delete_tokens(tenant: TenantId, position: u64) -> Statement {
    let key = EntryKey::new(tenant, position);
    Statement::new("DELETE FROM note_words WHERE rowid = $1", vec![key.into()])
}

macro_rules! select_notes {
    ($($rest:expr),+ $(,)?) => {
        concat!(
            "SELECT stream, scope, owner, key, type, version, position, at, author, expires_at, deleted, project, \
             everywhere FROM notes ",
            $($rest),+
        )
    };
}

/// Decodes a row of `select_notes!`.
fn decode_note(mut row: Row) -> Result<NoteRow, Error> {
    Ok(NoteRow {
        stream: row.stream(0)?,
        scope: row.take_text(1)?,
        owner: row.take_text(2)?,
        key: row.take_text(3)?,
        r#type: row.take_text(4)?,
        version: row.uint(5)?,
        position: row.uint(6)?,
        at: row.int(7)?,
        author: row.take_text(8)?,
        expires_at: row.optional_int(9)?,
        deleted: row.flag(10)?,
        project: decode_project(&mut row, 11)?,
        everywhere: row.flag(12)?,
    })
}

/// A project's note with this key, deleted or not. `project` None: the note from before projects existed.
pub fn by_key(tenant: TenantId, project: Option<&str>, scope: &NoteScope, key: &str) -> Select<NoteRow> {
    Select::new(
        select_notes!("WHERE tenant = $1 AND scope = $2 AND owner = $3 AND key = $4 AND project = $5"),
        vec![
            tenant.into(),
            scope.as_str().into(),
            scope.owner_id().into(),
            key.into(),
            project_param(project),
        ],
        decode_note,
    )
}

/// The note that a write to this key updates: the project's own, else the one from before projects existed.
pub fn writable_by_key(tenant: TenantId, project: &str, scope: &NoteScope, key: &str) -> Select<NoteRow> {
    Select::new(
        select_notes!(
            "WHERE tenant = $1 AND scope = $2 AND owner = $3 AND key = $4 \
             AND (project = $5 OR project = '' AND deleted = 0) ORDER BY project DESC LIMIT 1"
        ),
        vec![tenant.into(), scope.as_str().into(), scope.owner_id().into(), key.into(), project.into()],
        decode_note,
    )
}

pub fn by_stream(tenant: TenantId, stream: StreamId) -> Select<NoteRow> {
    Select::new(
        select_notes!("WHERE tenant = $1 AND stream = $2"),
        vec![tenant.into(), stream.into()],
        decode_note,
    )
}

/// Every row, by stream: for comparing a rebuilt projection.
pub fn all(tenant: TenantId) -> Select<NoteRow> {
    Select::new(select_notes!("WHERE tenant = $1 ORDER BY stream"), vec![tenant.into()], decode_note)
}

/// Which notes to find. A field that is None does not restrict.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NoteRowFilter {
    pub key: Option<String>,
    pub r#type: Option<String>,
    pub scope: Option<NoteScope>,
    /// Notes that expired by this time, in epoch milliseconds, are not found.
    pub now_ms: i64,
    /// Cursor of the next page: the last note's position in `list`, its rank in `search`.
    pub before: Option<u64>,
    /// Include deleted notes.
    pub with_deleted: bool,
    /// Project boundary: only notes of this project, from before projects existed, or visible in every
    /// project.
    pub within: Option<String>,
}

/// Notes that pass the filter, newest first.
pub fn list(tenant: TenantId, filter: &NoteRowFilter, limit: u64) -> Select<NoteRow> {
    let text = |text: Option<&str>| text.unwrap_or_default().into();
    let before = filter.before.unwrap_or(u64::MAX);
    let mut params = vec![tenant.into(), before.into(), filter.now_ms.into(), limit.into()];
    params.push(text(filter.r#type.as_deref()));
    params.push(text(filter.key.as_deref()));
    params.push(text(filter.scope.as_ref().map(NoteScope::as_str)));
    params.push(text(filter.scope.as_ref().map(NoteScope::owner_id)));
    params.push(filter.with_deleted.into());
    params.push(project_param(filter.within.as_deref()));
    // Separate texts, so that the planner uses the most selective index.
    let sql = match (&filter.key, &filter.scope, &filter.r#type) {
        (Some(_), _, _) => select_notes!(
            "WHERE tenant = $1 AND key = $6 AND position < $2 AND deleted <= $9 \
             AND (expires_at IS NULL OR expires_at > $3) AND ($5 = '' OR type = $5) \
             AND ($7 = '' OR scope = $7 AND owner = $8) AND ",
            within_or_everywhere!(10),
            " ORDER BY position DESC LIMIT $4"
        ),
        (None, Some(_), _) => select_notes!(
            "WHERE tenant = $1 AND scope = $7 AND owner = $8 AND position < $2 AND deleted <= $9 \
             AND (expires_at IS NULL OR expires_at > $3) AND ($5 = '' OR type = $5) AND $6 = '' \
             AND ",
            within_or_everywhere!(10),
            " ORDER BY position DESC LIMIT $4"
        ),
        (None, None, Some(_)) => select_notes!(
            "WHERE tenant = $1 AND type = $5 AND position < $2 AND deleted <= $9 \
             AND (expires_at IS NULL OR expires_at > $3) AND $6 = '' AND $7 = '' AND $8 = '' \
             AND ",
            within_or_everywhere!(10),
            " ORDER BY position DESC LIMIT $4"
        ),
        (None, None, None) => select_notes!(
            "WHERE tenant = $1 AND position < $2 AND deleted <= $9 \
             AND (expires_at IS NULL OR expires_at > $3) AND $5 = '' AND $6 = '' AND $7 = '' AND $8 = '' \
             AND ",
            within_or_everywhere!(10),
            " ORDER BY position DESC LIMIT $4"
        ),
    };
    Select::new(sql, params, decode_note)
}

/// A note that a search found. The rank is higher for a match in the key, then for a newer note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoteHit {
    pub note: NoteRow,
    pub rank: u64,
}

/// Lowest rank of notes with a match in the key.
const KEY_RANK_MIN: u64 = 1 << 42;

impl NoteHit {
    /// Whether a search term is in the note's key.
    pub fn is_in_key(&self) -> bool {
        self.rank >= KEY_RANK_MIN
    }
}

/// Notes that match the query and pass the filter: matches in the key first, then the newest.
pub fn search(
    dialect: Dialect,
    tenant: TenantId,
    query: &SearchQuery,
    filter: &NoteRowFilter,
    limit: u64,
) -> Select<NoteHit> {
    let (sql, (all, in_key)) = match dialect {
        Dialect::Sqlite => (dialect::search::SQLITE, query.fts5_queries()),
        Dialect::Postgres => (dialect::search::POSTGRES, query.tsqueries()),
    };
    let text = |text: Option<&str>| text.unwrap_or_default().into();
    let mut params = vec![tenant.into(), all.into(), in_key.into()];
    params.extend([filter.before.unwrap_or(u64::MAX).into(), filter.now_ms.into()]);
    params.push(text(filter.r#type.as_deref()));
    params.push(text(filter.key.as_deref()));
    params.push(text(filter.scope.as_ref().map(NoteScope::as_str)));
    params.push(text(filter.scope.as_ref().map(NoteScope::owner_id)));
    params.push(limit.into());
    params.push(project_param(filter.within.as_deref()));
    params.extend([EntryKey::base(tenant).into(), EntryKey::new(tenant, u64::MAX).into()]);
    Select::new(sql, params, |row| Ok(NoteHit { rank: row.uint(13)?, note: decode_note(row)? }))
}

/// Notes for `cleanup` to erase: deleted or expired before `at`, or of an execution that ended before it.
/// `within`: the project whose notes count, beside those from before projects existed; `None`: every project.
/// `after`: the cursor of the next page.
pub fn erasable_before(
    tenant: TenantId,
    within: Option<&str>,
    at: i64,
    after: u64,
    limit: u64,
) -> Select<NoteRow> {
    Select::new(
        select_notes!(
            "WHERE tenant = $1 AND stream > $3 AND (deleted = 1 AND at < $2 OR expires_at < $2 \
             OR scope = 'execution' AND EXISTS (SELECT 1 FROM executions WHERE executions.tenant = $1 \
             AND executions.public_id = notes.owner AND executions.ended_at < $2)) AND ",
            within!(5),
            " ORDER BY stream LIMIT $4"
        ),
        vec![tenant.into(), at.into(), after.into(), limit.into(), project_param(within)],
        decode_note,
    )
}
