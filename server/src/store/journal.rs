//! The journal's rows: entries and head, and the reads of them. Only INSERT (through the appender) and
//! SELECT; hashes are computed and checked elsewhere.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use actbook_engine::id::{StreamId, TenantId};
use actbook_engine::policy::{ErrorCategory, ExecutionStatus};

use super::dialect::{entries, stream_entries};
use super::{Db, Dialect, EntryKey, Error, Row, Select, SqlValue, Statement};

/// Position and hash of a tenant's last entry; both zero before the first entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalHead {
    pub position: u64,
    pub hash: [u8; 32],
}

/// One journal entry. `payload` and `is_first_on_page` are set only for appending, never when read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub position: u64,
    pub stream: StreamId,
    /// Its number within the stream, from 1.
    pub version: u64,
    /// Epoch milliseconds of the journal's clock.
    pub at: i64,
    pub actor: Arc<str>,
    pub kind: Cow<'static, str>,
    pub body: String,
    pub hash: [u8; 32],
    pub payload: Option<Vec<u8>>,
    /// This is its stream's first entry on a page other than the stream's first page.
    pub is_first_on_page: bool,
}

/// The page of a position. A page is 128 consecutive entries. A stream's entries are found by the pages it
/// is on, which need far fewer rows than an index of entries. A stream's first page follows from its number;
/// the table `pages` holds its other pages.
pub fn page_of(position: u64) -> u64 {
    position / 128
}

/// What one transaction appends: entries that lead from head `old` to head `new`, and statements for the
/// other rows that change with them (projections, salts, request keys). Without entries the head does not
/// move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    pub tenant: TenantId,
    pub old: JournalHead,
    pub new: JournalHead,
    pub entries: Vec<Entry>,
    pub other_statements: Vec<Statement>,
    /// Another process may have to act on it, so it is notified with the commit. A driver's progress is not
    /// urgent: others only watch it, and may be notified a little later.
    pub urgent: bool,
}

impl Batch {
    /// Asserts that the entries lead from `old` to `new` without a gap: the last check before writing.
    pub(super) fn assert_gapless(&self) {
        assert!(
            !self.entries.is_empty() || !self.other_statements.is_empty(),
            "an empty batch writes nothing"
        );
        let mut head = self.old;
        for entry in &self.entries {
            assert_eq!(entry.position, head.position + 1, "entries must follow the head without a gap");
            head = JournalHead { position: entry.position, hash: entry.hash };
        }
        assert_eq!(head, self.new, "the last entry must be the new head");
    }
}

/// The result of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// The whole batch is committed.
    Done,
    /// Another process appended first; nothing was written.
    HeadMoved,
}

/// Reads a tenant's head: its position and hash.
pub(super) const HEAD: &str = "SELECT position, hash FROM head WHERE tenant = $1";

/// The position of a stray entry, one before the first position or after the head; None if there is none. A
/// single statement, so that an append in between is not mistaken for a stray.
pub fn stray_entry(tenant: TenantId) -> Select<Option<i64>> {
    Select::new(
        "SELECT MIN(entry) - $2 FROM journal WHERE tenant = $1 \
         AND (entry <= $2 OR entry > $2 + (SELECT position FROM head WHERE tenant = $1))",
        vec![tenant.into(), EntryKey::base(tenant).into()],
        |row| row.optional_int(0),
    )
}

/// Reads the hash of the entry at a position.
pub(super) const HASH_AT: &str = "SELECT hash FROM journal WHERE entry = $1";

pub fn head(tenant: TenantId) -> Select<JournalHead> {
    Select::new(HEAD, vec![tenant.into()], |row| decode_head(&row))
}

/// The head row and the journal's last entry, read by one statement, so that a concurrent append changes
/// both or neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadAndLast {
    pub head: JournalHead,
    /// None: the journal is empty.
    pub last: Option<LastEntry>,
}

/// Position, hash and time of the journal's last entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastEntry {
    pub at: i64,
    pub head: JournalHead,
}

impl HeadAndLast {
    /// Whether the head row matches the last entry, or the journal is empty and the head is zero.
    pub fn is_consistent(&self) -> bool {
        let empty = JournalHead { position: 0, hash: [0; 32] };
        self.head == self.last.map_or(empty, |last| last.head)
    }

    /// The last entry's position; 0 if the journal is empty.
    pub fn last_position(&self) -> u64 {
        self.last.map_or(0, |last| last.head.position)
    }
}

/// The tenant's head row together with its last entry.
pub fn head_and_last(tenant: TenantId) -> Select<HeadAndLast> {
    Select::new(
        "SELECT head.position, head.hash, last.position, last.hash, last.at FROM head LEFT JOIN \
         (SELECT entry - $2 AS position, hash, at FROM journal WHERE entry > $2 AND entry <= $3 \
         ORDER BY entry DESC LIMIT 1) AS last ON TRUE WHERE head.tenant = $1",
        key_range(tenant, 0, u64::MAX),
        |row| {
            let last = match row.optional_int(2)? {
                None => None,
                Some(_) => {
                    let head = JournalHead { position: row.uint(2)?, hash: row.hash(3)? };
                    Some(LastEntry { at: row.int(4)?, head })
                }
            };
            Ok(HeadAndLast { head: decode_head(&row)?, last })
        },
    )
}

/// The parameters `$1` to `$3`: the tenant, and the keys of two positions.
pub(super) fn key_range(tenant: TenantId, after: u64, through: u64) -> Vec<SqlValue> {
    vec![tenant.into(), EntryKey::new(tenant, after).into(), EntryKey::new(tenant, through).into()]
}

pub(super) fn decode_head(row: &Row) -> Result<JournalHead, Error> {
    Ok(JournalHead { position: row.uint(0)?, hash: row.hash(1)? })
}

macro_rules! select_entries {
    ($rest:literal) => {
        concat!("SELECT entry, stream, version, at, actor, kind, body, hash FROM journal WHERE ", $rest)
    };
}

/// Decodes a row of `select_entries!`.
fn decode_entry(mut row: Row) -> Result<Entry, Error> {
    Ok(Entry {
        position: row.position(0)?,
        stream: row.stream(1)?,
        version: row.uint(2)?,
        at: row.int(3)?,
        actor: row.take_text(4)?.into(),
        kind: row.take_text(5)?.into(),
        body: row.take_text(6)?,
        hash: row.hash(7)?,
        payload: None,
        is_first_on_page: false,
    })
}

pub fn by_position(tenant: TenantId, position: u64) -> Select<Entry> {
    Select::new(
        select_entries!("tenant = $1 AND entry = $2"),
        vec![tenant.into(), EntryKey::new(tenant, position).into()],
        decode_entry,
    )
}

/// The entries at these positions, in one round trip.
pub async fn by_positions(db: &Db, tenant: TenantId, positions: &[u64]) -> Result<Vec<Entry>, Error> {
    if positions.is_empty() {
        return Ok(Vec::new());
    }
    let params = |position: &u64| vec![tenant.into(), EntryKey::new(tenant, *position).into()];
    let param_sets = positions.iter().map(params).collect();
    let found = db.look_up(select_entries!("tenant = $1 AND entry = $2"), param_sets).await?;
    found.into_iter().flatten().map(decode_entry).collect()
}

/// The actor of the entry at each position. None: there is no entry.
pub async fn actors_at(db: &Db, tenant: TenantId, positions: &[u64]) -> Result<Vec<Option<String>>, Error> {
    let params = |position: &u64| vec![EntryKey::new(tenant, *position).into()];
    let param_sets = positions.iter().map(params).collect();
    let found = db.look_up("SELECT actor FROM journal WHERE entry = $1", param_sets).await?;
    found
        .into_iter()
        .map(|rows| rows.into_iter().next().map(|mut row| row.take_text(0)).transpose())
        .collect()
}

/// One stream's entries after a position, in order, for folding.
pub fn by_stream(dialect: Dialect, tenant: TenantId, stream: StreamId, after: u64) -> Select<Entry> {
    let sql = match dialect {
        Dialect::Sqlite => stream_entries::SQLITE,
        Dialect::Postgres => stream_entries::POSTGRES,
    };
    let after = EntryKey::new(tenant, after).into();
    Select::new(sql, vec![tenant.into(), stream.into(), first_page(tenant, stream), after], decode_entry)
}

/// The page of a stream's first entry.
pub(super) fn first_page(tenant: TenantId, stream: StreamId) -> SqlValue {
    EntryKey::new(tenant, stream.0).page().into()
}

/// The pages of a range of streams, without each stream's first page.
const PAGES: &str = "SELECT stream, page FROM pages WHERE tenant = $1 AND stream >= $2 AND stream <= $3";
const ON_PAGE: &str = select_entries!(
    "entry >= CAST($2 AS BIGINT) * 128 AND entry < CAST($2 AS BIGINT) * 128 + 128 \
     AND tenant = $1 ORDER BY entry"
);

/// Parameter sets for reading rows of many streams by range: streams that begin on the same page share one
/// range, from the first of them to the last. A range may contain streams that were not requested.
pub(super) fn stream_ranges(tenant: TenantId, streams: &[StreamId]) -> Vec<Vec<SqlValue>> {
    let mut ranges = BTreeMap::new();
    for stream in streams {
        let (first, last) = ranges.entry(page_of(stream.0)).or_insert((*stream, *stream));
        (*first, *last) = ((*first).min(*stream), (*last).max(*stream));
    }
    ranges.into_values().map(|(first, last)| vec![tenant.into(), first.into(), last.into()]).collect()
}

/// All entries of each stream, in two round trips on the calling thread. Streams that ran at the same time
/// share pages, and each page is read once.
pub fn by_streams_blocking(
    db: &Db,
    tenant: TenantId,
    streams: &[StreamId],
) -> Result<Vec<Vec<Entry>>, Error> {
    let mut found: HashMap<StreamId, Vec<Entry>> =
        streams.iter().map(|stream| (*stream, Vec::new())).collect();
    let mut pages: BTreeSet<i64> =
        streams.iter().map(|stream| EntryKey::new(tenant, stream.0).page()).collect();
    for row in db.read_many_blocking(PAGES, stream_ranges(tenant, streams))?.into_iter().flatten() {
        if found.contains_key(&row.stream(0)?) {
            pages.insert(row.int(1)?);
        }
    }
    let param_sets = pages.into_iter().map(|page| vec![tenant.into(), page.into()]).collect();
    for row in db.read_many_blocking(ON_PAGE, param_sets)?.into_iter().flatten() {
        if let Some(entries) = found.get_mut(&row.stream(1)?) {
            entries.push(decode_entry(row)?);
        }
    }
    Ok(streams.iter().map(|stream| found.remove(stream).unwrap_or_default()).collect())
}

/// Derives the rows of `pages` from the journal.
const INSERT_PAGES: &str = "INSERT INTO pages (tenant, stream, page) \
     SELECT DISTINCT tenant, stream, entry / 128 FROM journal \
     WHERE tenant = $1 AND entry / 128 <> ($2 + stream) / 128";

/// Rebuilds the table `pages` from the journal. Must not run while another process appends.
pub fn rebuild_pages(tenant: TenantId) -> Vec<Statement> {
    let erase = Statement::new("DELETE FROM pages WHERE tenant = $1", vec![tenant.into()]);
    vec![erase, Statement::new(INSERT_PAGES, vec![tenant.into(), EntryKey::base(tenant).into()])]
}

/// The first position whose page is missing in `pages`, so that a read of its stream would skip it; None if
/// there is none.
pub fn entry_without_page(tenant: TenantId) -> Select<Option<i64>> {
    Select::new(
        "SELECT MIN(entry) - $2 FROM journal WHERE tenant = $1 \
         AND entry / 128 <> ($2 + stream) / 128 AND NOT EXISTS (SELECT 1 FROM pages \
         WHERE pages.tenant = $1 AND pages.stream = journal.stream AND pages.page = journal.entry / 128)",
        vec![tenant.into(), EntryKey::base(tenant).into()],
        |row| row.optional_int(0),
    )
}

/// All entries after one position, up to and including another, in order.
pub fn between(tenant: TenantId, after: u64, through: u64) -> Select<Entry> {
    Select::new(
        select_entries!("entry > $2 AND entry <= $3 AND tenant = $1 ORDER BY entry"),
        key_range(tenant, after, through),
        decode_entry,
    )
}

/// All streams but the plan library's (stream 0), in order of their start. A stream's number is the position
/// of its first entry.
pub fn streams(tenant: TenantId) -> Select<StreamId> {
    Select::new(
        "SELECT stream FROM journal WHERE tenant = $1 AND version = 1 \
         AND entry = $2 + stream ORDER BY entry",
        vec![tenant.into(), EntryKey::base(tenant).into()],
        |row| row.stream(0),
    )
}

/// The streams whose first entry has one of these kinds, in order of their start.
pub fn streams_starting_with(tenant: TenantId, kinds: [&str; 4]) -> Select<StreamId> {
    Select::new(
        "SELECT stream FROM journal WHERE tenant = $1 AND version = 1 AND kind IN ($3, $4, $5, $6) \
         AND entry = $2 + stream ORDER BY entry",
        [tenant.into(), EntryKey::base(tenant).into()].into_iter().chain(kinds.map(SqlValue::from)).collect(),
        |row| row.stream(0),
    )
}

/// Streams of recorded actions that belong to no execution, were recorded before `at`, and are not erased
/// yet: erasing adds a second entry to such a stream. Scans the whole journal, so only `cleanup` uses it.
pub fn standalone_actions_before(tenant: TenantId, at: i64, after: u64, limit: u64) -> Select<StreamId> {
    let (after, base) = (EntryKey::new(tenant, after).into(), EntryKey::base(tenant).into());
    Select::new(
        "SELECT stream FROM journal WHERE tenant = $1 AND entry > $2 AND version = 1 \
         AND entry = $5 + stream AND kind IN ('action_recorded.1', 'action_recorded.2') AND at < $3 \
         AND NOT EXISTS (SELECT 1 FROM pages WHERE pages.tenant = $1 AND pages.stream = journal.stream) \
         AND NOT EXISTS (SELECT 1 FROM journal AS later WHERE later.entry > journal.entry \
         AND later.entry < (journal.entry / 128 + 1) * 128 AND later.stream = journal.stream) \
         ORDER BY entry LIMIT $4",
        vec![tenant.into(), after, at.into(), limit.into(), base],
        |row| row.stream(0),
    )
}

/// The streams with entries after one position, up to and including another, in no order.
pub fn streams_between(tenant: TenantId, after: u64, through: u64) -> Select<StreamId> {
    Select::new(
        "SELECT DISTINCT stream FROM journal WHERE tenant = $1 AND entry > $2 AND entry <= $3",
        key_range(tenant, after, through),
        |row| row.stream(0),
    )
}

/// Maximum number of words in one search.
pub const WORDS_MAX: usize = 4;

/// Which entries to list. A field that is None does not restrict.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntryFilter {
    pub stream: Option<StreamId>,
    /// Prefix of the kind.
    pub kind: Option<String>,
    /// An older version of the kind, which passes as well.
    pub kind_older: Option<String>,
    pub actor: Option<String>,
    pub since: Option<i64>,
    pub until: Option<i64>,
    /// Error category in the entry's body.
    pub category: Option<ErrorCategory>,
    /// Each word must occur in the kind, the actor, the body or the recorded payload, ignoring case.
    pub words: Vec<String>,
    /// Only entries of executions of this plan (its id or name).
    pub plan: Option<String>,
    /// Only entries of executions of this task.
    pub task: Option<String>,
    /// Only entries of executions with this status.
    pub status: Option<ExecutionStatus>,
    /// Only positions after this one.
    pub after: u64,
    /// Last position, inclusive.
    pub through: Option<u64>,
}

/// At most `limit` entries that pass the filter, oldest first.
pub fn list(dialect: Dialect, tenant: TenantId, filter: &EntryFilter, limit: u64) -> Select<Entry> {
    let text = |text: Option<&str>| text.unwrap_or_default().into();
    let mut params = key_range(tenant, filter.after, filter.through.unwrap_or(u64::MAX));
    params.extend([&filter.kind, &filter.actor].map(|word| text(word.as_deref())));
    params.extend([filter.since.unwrap_or(i64::MIN).into(), filter.until.unwrap_or(i64::MAX).into()]);
    params.push(filter.category.map(|category| format!("%\"category\":\"{category}\"%")).into());
    params.extend(like_patterns(&filter.words));
    params.push(limit.into());
    let status = filter.status.map(ExecutionStatus::as_str);
    let by_execution = [filter.plan.as_deref(), filter.task.as_deref(), status];
    params.push(by_execution.iter().any(|value| value.is_some()).into());
    params.extend(by_execution.map(text));
    params.push(text(filter.kind_older.as_deref().or(filter.kind.as_deref())));
    let texts = match dialect {
        Dialect::Sqlite => [entries::SQLITE, entries::SQLITE_OF_STREAM],
        Dialect::Postgres => [entries::POSTGRES, entries::POSTGRES_OF_STREAM],
    };
    let sql = match filter.stream {
        None => texts[0],
        Some(stream) => {
            params.extend([stream.into(), first_page(tenant, stream)]);
            texts[1]
        }
    };
    Select::new(sql, params, decode_entry)
}

/// The LIKE patterns for the words of a search, padded with NULL. The caller has refused more than
/// `WORDS_MAX` words.
pub(super) fn like_patterns(words: &[String]) -> [SqlValue; WORDS_MAX] {
    std::array::from_fn(|index| words.get(index).map(|word| like_pattern(word)).into())
}

/// The LIKE pattern for lower-case texts that contain `word` literally; wildcards in `word` are escaped.
pub(super) fn like_pattern(word: &str) -> String {
    let mut pattern = String::from("%");
    for character in word.to_lowercase().chars() {
        if matches!(character, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push('%');
    pattern
}
