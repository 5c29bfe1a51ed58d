//! The projection of notes: one row per key as it stands, and the words by which it is found. Values
//! are payloads of the journal's entries; older ones are entries of the same stream.

use actbook_engine::execution::Recorded;
use actbook_engine::note::Scope;

use super::executions::{read_project, stored, within, within_or_everywhere};
use super::words::{Sought, Words};
use super::{Dialect, Error, Row, Select, Statement, dialect};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    pub stream: u64,
    pub scope: String,
    /// Whose it is, within the scope.
    pub owner: String,
    pub key: String,
    pub r#type: String,
    /// How many entries it has.
    pub version: u64,
    /// Of the newest entry.
    pub position: u64,
    pub at: i64,
    pub author: String,
    pub expires_at: Option<i64>,
    pub deleted: bool,
    /// None: it is older than projects.
    pub project: Option<String>,
    /// Every project sees it.
    pub everywhere: bool,
}

/// An entry as a projection sees it.
#[derive(Debug, Clone, Copy)]
pub struct Written<'a> {
    pub stream: u64,
    pub version: u64,
    pub author: &'a str,
    pub recorded: &'a Recorded,
}

/// What the row of a note and its words turn into. `words`: none where it cannot be found any more.
pub fn put(
    dialect: Dialect,
    tenant: i64,
    before: Option<&Note>,
    note: &Note,
    words: Option<&Words>,
) -> Vec<Statement> {
    let mut statements = Vec::with_capacity(3);
    if let Some(before) = before.filter(|before| !before.deleted) {
        statements.push(forget_words(tenant, before.position));
    }
    statements.push(if before.is_some() { update(tenant, note) } else { insert(tenant, note) });
    statements.extend(words.map(|words| insert_words(dialect, tenant, note.position, words)));
    statements
}

/// Nothing of it is kept any more.
pub fn erase(tenant: i64, note: &Note) -> Vec<Statement> {
    let row = "DELETE FROM notes WHERE tenant = $1 AND stream = $2";
    vec![forget_words(tenant, note.position), Statement::new(row, vec![tenant.into(), note.stream.into()])]
}

/// What `rebuild` begins with.
pub fn erase_all(tenant: i64) -> Vec<Statement> {
    let words =
        "DELETE FROM note_words WHERE rowid > $1 * 1099511627776 AND rowid < ($1 + 1) * 1099511627776";
    vec![
        Statement::new("DELETE FROM notes WHERE tenant = $1", vec![tenant.into()]),
        Statement::new(words, vec![tenant.into()]),
    ]
}

fn insert(tenant: i64, note: &Note) -> Statement {
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
            stored(note.project.as_deref()),
            note.everywhere.into(),
        ],
    )
}

fn update(tenant: i64, note: &Note) -> Statement {
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

fn insert_words(dialect: Dialect, tenant: i64, position: u64, words: &Words) -> Statement {
    let mut params = vec![tenant.into(), position.into()];
    let sql = match dialect {
        Dialect::Sqlite => {
            let (key, value) = words.plain();
            params.extend([key.into(), value.into()]);
            dialect::search::SQLITE_INSERT
        }
        Dialect::Postgres => {
            params.push(words.vector().into());
            dialect::search::POSTGRES_INSERT
        }
    };
    Statement::new(sql, params)
}

fn forget_words(tenant: i64, position: u64) -> Statement {
    Statement::new(
        "DELETE FROM note_words WHERE rowid = $1 * 1099511627776 + $2",
        vec![tenant.into(), position.into()],
    )
}

macro_rules! notes {
    ($($rest:expr),+ $(,)?) => {
        concat!(
            "SELECT stream, scope, owner, key, type, version, position, at, author, expires_at, deleted, project, \
             everywhere FROM notes ",
            $($rest),+
        )
    };
}

fn note(mut row: Row) -> Result<Note, Error> {
    Ok(Note {
        stream: row.count(0)?,
        scope: row.take_text(1)?,
        owner: row.take_text(2)?,
        key: row.take_text(3)?,
        r#type: row.take_text(4)?,
        version: row.count(5)?,
        position: row.count(6)?,
        at: row.int(7)?,
        author: row.take_text(8)?,
        expires_at: row.maybe_int(9)?,
        deleted: row.flag(10)?,
        project: read_project(&mut row, 11)?,
        everywhere: row.flag(12)?,
    })
}

/// A project's note of a key, deleted or not; no project: the one that is older than projects.
pub fn of_key(tenant: i64, project: Option<&str>, scope: &Scope, key: &str) -> Select<Note> {
    Select::new(
        notes!("WHERE tenant = $1 AND scope = $2 AND owner = $3 AND key = $4 AND project = $5"),
        vec![tenant.into(), scope.word().into(), scope.owner().into(), key.into(), stored(project)],
        note,
    )
}

/// The note that a project writes on under this key: its own, else the one that is older than projects.
pub fn to_write(tenant: i64, project: &str, scope: &Scope, key: &str) -> Select<Note> {
    Select::new(
        notes!(
            "WHERE tenant = $1 AND scope = $2 AND owner = $3 AND key = $4 \
             AND (project = $5 OR project = '' AND deleted = 0) ORDER BY project DESC LIMIT 1"
        ),
        vec![tenant.into(), scope.word().into(), scope.owner().into(), key.into(), project.into()],
        note,
    )
}

pub fn by_stream(tenant: i64, stream: u64) -> Select<Note> {
    Select::new(notes!("WHERE tenant = $1 AND stream = $2"), vec![tenant.into(), stream.into()], note)
}

/// Every row, by stream: what a rebuilt projection is compared by.
pub fn all(tenant: i64) -> Select<Note> {
    Select::new(notes!("WHERE tenant = $1 ORDER BY stream"), vec![tenant.into()], note)
}

/// Which notes to find. Everything left out lets all pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    pub key: Option<String>,
    pub r#type: Option<String>,
    pub scope: Option<Scope>,
    /// Notes that expired before are not found.
    pub now_ms: i64,
    /// The rank of the last one shown, to go on from there.
    pub before: Option<u64>,
    /// Those that were deleted, too.
    pub with_deleted: bool,
    /// The boundary: only this project's, those older than projects, and those that every project sees.
    pub within: Option<String>,
}

/// Newest first.
pub fn list(tenant: i64, filter: &Filter, limit: u64) -> Select<Note> {
    let word = |word: Option<&str>| word.unwrap_or_default().into();
    let before = filter.before.unwrap_or(u64::MAX);
    let mut params = vec![tenant.into(), before.into(), filter.now_ms.into(), limit.into()];
    params.push(word(filter.r#type.as_deref()));
    params.push(word(filter.key.as_deref()));
    params.push(word(filter.scope.as_ref().map(Scope::word)));
    params.push(word(filter.scope.as_ref().map(Scope::owner)));
    params.push(filter.with_deleted.into());
    params.push(stored(filter.within.as_deref()));
    // Written out, so that the index that narrows most is used.
    let sql = match (&filter.key, &filter.scope, &filter.r#type) {
        (Some(_), _, _) => notes!(
            "WHERE tenant = $1 AND key = $6 AND position < $2 AND deleted <= $9 \
             AND (expires_at IS NULL OR expires_at > $3) AND ($5 = '' OR type = $5) \
             AND ($7 = '' OR scope = $7 AND owner = $8) AND ",
            within_or_everywhere!(10),
            " ORDER BY position DESC LIMIT $4"
        ),
        (None, Some(_), _) => notes!(
            "WHERE tenant = $1 AND scope = $7 AND owner = $8 AND position < $2 AND deleted <= $9 \
             AND (expires_at IS NULL OR expires_at > $3) AND ($5 = '' OR type = $5) AND $6 = '' \
             AND ",
            within_or_everywhere!(10),
            " ORDER BY position DESC LIMIT $4"
        ),
        (None, None, Some(_)) => notes!(
            "WHERE tenant = $1 AND type = $5 AND position < $2 AND deleted <= $9 \
             AND (expires_at IS NULL OR expires_at > $3) AND $6 = '' AND $7 = '' AND $8 = '' \
             AND ",
            within_or_everywhere!(10),
            " ORDER BY position DESC LIMIT $4"
        ),
        (None, None, None) => notes!(
            "WHERE tenant = $1 AND position < $2 AND deleted <= $9 \
             AND (expires_at IS NULL OR expires_at > $3) AND $5 = '' AND $6 = '' AND $7 = '' AND $8 = '' \
             AND ",
            within_or_everywhere!(10),
            " ORDER BY position DESC LIMIT $4"
        ),
    };
    Select::new(sql, params, note)
}

/// A note that a search found, and its rank: what came to light later, or in the key, ranks higher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    pub note: Note,
    pub rank: u64,
}

/// Ranks of notes that hold a term in their key begin here.
const IN_KEY: u64 = 1 << 42;

impl Hit {
    pub fn in_key(&self) -> bool {
        self.rank >= IN_KEY
    }
}

/// By words: key before value, then newest first.
pub fn search(dialect: Dialect, tenant: i64, sought: &Sought, filter: &Filter, limit: u64) -> Select<Hit> {
    let (sql, (all, in_key)) = match dialect {
        Dialect::Sqlite => (dialect::search::SQLITE, sought.matches()),
        Dialect::Postgres => (dialect::search::POSTGRES, sought.queries()),
    };
    let word = |word: Option<&str>| word.unwrap_or_default().into();
    let mut params = vec![tenant.into(), all.into(), in_key.into()];
    params.extend([filter.before.unwrap_or(u64::MAX).into(), filter.now_ms.into()]);
    params.push(word(filter.r#type.as_deref()));
    params.push(word(filter.key.as_deref()));
    params.push(word(filter.scope.as_ref().map(Scope::word)));
    params.push(word(filter.scope.as_ref().map(Scope::owner)));
    params.push(limit.into());
    params.push(stored(filter.within.as_deref()));
    Select::new(sql, params, |row| Ok(Hit { rank: row.count(13)?, note: note(row)? }))
}

/// What `cleanup` erases: deleted or expired before a time, or of an execution that ended before it.
pub fn past(tenant: i64, within: Option<&str>, at: i64, after: u64, limit: u64) -> Select<Note> {
    Select::new(
        notes!(
            "WHERE tenant = $1 AND stream > $3 AND (deleted = 1 AND at < $2 OR expires_at < $2 \
             OR scope = 'execution' AND EXISTS (SELECT 1 FROM executions WHERE executions.tenant = $1 \
             AND executions.public_id = notes.owner AND executions.ended_at < $2)) AND ",
            within!(5),
            " ORDER BY stream LIMIT $4"
        ),
        vec![tenant.into(), at.into(), after.into(), limit.into(), stored(within)],
        note,
    )
}
