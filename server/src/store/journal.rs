//! The journal as rows: entries, the head, and what can be asked of them. Only INSERT (through the
//! appender) and SELECT; the hashes are made and checked elsewhere.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::dialect::{entries, of_stream};
use super::{Db, Dialect, Error, Row, Select, Statement, Value};

/// The last entry's position and hash; zero before the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub position: u64,
    pub hash: [u8; 32],
}

/// One stored entry; its payload only on the way in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub position: u64,
    pub stream: u64,
    pub version: u64,
    pub at: i64,
    pub actor: Arc<str>,
    pub kind: Cow<'static, str>,
    pub body: String,
    pub hash: [u8; 32],
    pub payload: Option<Vec<u8>>,
    /// Its stream comes to a page on which it had nothing yet. Only on the way in.
    pub turns_page: bool,
}

/// The journal in pages of 128 entries: a stream is found by the pages it is on, which cost far fewer rows
/// than its entries. It begins on the page of its number; the table `pages` has the others.
pub fn page_of(position: u64) -> u64 {
    position / 128
}

/// What one transaction appends: entries that lead from `old` to `new`, and the other rows that
/// change with them (projections, salts, request keys). Without entries the head stays where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    pub tenant: i64,
    pub old: Head,
    pub new: Head,
    pub entries: Vec<Entry>,
    pub others: Vec<Statement>,
    /// Somebody in another process may have to act on it. A driver's progress is merely watched, and
    /// may be told a moment later.
    pub urgent: bool,
}

impl Batch {
    /// Gapless from `old` to `new`: the last look before the journal is written.
    pub(super) fn assert_follows(&self) {
        assert!(!self.entries.is_empty() || !self.others.is_empty(), "an empty batch writes nothing");
        let mut at = self.old;
        for entry in &self.entries {
            assert_eq!(entry.position, at.position + 1, "entries must follow the head without a gap");
            at = Head { position: entry.position, hash: entry.hash };
        }
        assert_eq!(at, self.new, "the last entry must be the new head");
    }
}

/// A position in a range; entries are keyed by tenant * 2^40 + position, so none lies beyond.
pub(super) fn place(position: u64) -> Value {
    position.min((1 << 40) - 1).into()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    Done,
    /// Another process appended first; nothing was written.
    HeadMoved,
}

pub(super) const HEAD: &str = "SELECT position, hash FROM head WHERE tenant = $1";

/// Something at a position that no entry may have: before the first, or behind the head. One
/// statement, so that whoever appends meanwhile is not taken for an intruder.
pub fn outside(tenant: i64) -> Select<Option<i64>> {
    Select::new(
        "SELECT MIN(entry) - $1 * 1099511627776 FROM journal WHERE tenant = $1 \
         AND (entry <= $1 * 1099511627776 \
         OR entry > $1 * 1099511627776 + (SELECT position FROM head WHERE tenant = $1))",
        vec![tenant.into()],
        |row| row.maybe_int(0),
    )
}

pub(super) const HASH_AT: &str = "SELECT hash FROM journal WHERE entry = $1 * 1099511627776 + $2";

pub fn head(tenant: i64) -> Select<Head> {
    Select::new(HEAD, vec![tenant.into()], |row| read_head(&row))
}

/// The head row and the journal's last entry as one statement sees them; whoever appends meanwhile moves both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadAndLast {
    pub head: Head,
    /// None: the journal has no entry.
    pub last: Option<LastEntry>,
}

/// Where the journal's last entry is, and when it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastEntry {
    pub at: i64,
    pub head: Head,
}

impl HeadAndLast {
    /// The head row names the last entry, or the start of an empty journal.
    pub fn agree(&self) -> bool {
        let empty = Head { position: 0, hash: [0; 32] };
        self.head == self.last.map_or(empty, |last| last.head)
    }

    /// The last entry's position; 0 without one.
    pub fn last_position(&self) -> u64 {
        self.last.map_or(0, |last| last.head.position)
    }
}

pub fn head_and_last(tenant: i64) -> Select<HeadAndLast> {
    Select::new(
        "SELECT head.position, head.hash, last.position, last.hash, last.at FROM head LEFT JOIN \
         (SELECT entry - $1 * 1099511627776 AS position, hash, at FROM journal \
         WHERE entry > $1 * 1099511627776 AND entry < ($1 + 1) * 1099511627776 \
         ORDER BY entry DESC LIMIT 1) AS last ON TRUE WHERE head.tenant = $1",
        vec![tenant.into()],
        |row| {
            let last = match row.maybe_int(2)? {
                None => None,
                Some(_) => {
                    let head = Head { position: row.count(2)?, hash: row.hash(3)? };
                    Some(LastEntry { at: row.int(4)?, head })
                }
            };
            Ok(HeadAndLast { head: read_head(&row)?, last })
        },
    )
}

pub(super) fn read_head(row: &Row) -> Result<Head, Error> {
    Ok(Head { position: row.count(0)?, hash: row.hash(1)? })
}

macro_rules! entries {
    ($rest:literal) => {
        concat!(
            "SELECT entry - $1 * 1099511627776, stream, version, at, actor, kind, body, hash FROM journal \
             WHERE ",
            $rest
        )
    };
}

fn entry(mut row: Row) -> Result<Entry, Error> {
    Ok(Entry {
        position: row.count(0)?,
        stream: row.count(1)?,
        version: row.count(2)?,
        at: row.int(3)?,
        actor: row.take_text(4)?.into(),
        kind: row.take_text(5)?.into(),
        body: row.take_text(6)?,
        hash: row.hash(7)?,
        payload: None,
        turns_page: false,
    })
}

pub fn at(tenant: i64, position: u64) -> Select<Entry> {
    Select::new(
        entries!("tenant = $1 AND entry = $1 * 1099511627776 + $2"),
        vec![tenant.into(), position.into()],
        entry,
    )
}

/// One stream's entries in order, after a position: what is folded.
pub fn of_stream(dialect: Dialect, tenant: i64, stream: u64, after: u64) -> Select<Entry> {
    let sql = match dialect {
        Dialect::Sqlite => of_stream::SQLITE,
        Dialect::Postgres => of_stream::POSTGRES,
    };
    Select::new(sql, vec![tenant.into(), stream.into(), place(after)], entry)
}

const PAGES: &str = "SELECT stream, page FROM pages WHERE tenant = $1 AND stream >= $2 AND stream <= $3";
const ON_PAGE: &str = entries!(
    "entry >= CAST($2 AS BIGINT) * 128 AND entry < CAST($2 AS BIGINT) * 128 + 128 \
     AND tenant = $1 ORDER BY entry"
);

/// Streams that began on the same page, from the first of them to the last: what is kept of each is found
/// together.
pub(super) fn neighbours(tenant: i64, streams: &[u64]) -> Vec<Vec<Value>> {
    let mut reaches = BTreeMap::new();
    for stream in streams {
        let (first, last) = reaches.entry(page_of(*stream)).or_insert((*stream, *stream));
        (*first, *last) = ((*first).min(*stream), (*last).max(*stream));
    }
    reaches.into_values().map(|(first, last)| vec![tenant.into(), first.into(), last.into()]).collect()
}

/// The same for many streams, each from its beginning, in two flights: those that ran at the same time share
/// their pages, and each page is read once.
pub fn of_streams_blocking(db: &Db, tenant: i64, streams: &[u64]) -> Result<Vec<Vec<Entry>>, Error> {
    let mut found: HashMap<u64, Vec<Entry>> = streams.iter().map(|stream| (*stream, Vec::new())).collect();
    // A tenant has 2^40 keys, and so 2^33 pages.
    let mut pages: BTreeSet<i64> =
        streams.iter().map(|stream| (tenant << 33) + page_of(*stream) as i64).collect();
    for row in db.read_many_blocking(PAGES, neighbours(tenant, streams))?.into_iter().flatten() {
        if found.contains_key(&row.count(0)?) {
            pages.insert(row.int(1)?);
        }
    }
    let sets = pages.into_iter().map(|page| vec![tenant.into(), page.into()]).collect();
    for row in db.read_many_blocking(ON_PAGE, sets)?.into_iter().flatten() {
        if let Some(entries) = found.get_mut(&row.count(1)?) {
            entries.push(entry(row)?);
        }
    }
    Ok(streams.iter().map(|stream| found.remove(stream).unwrap_or_default()).collect())
}

const FILL_PAGES: &str = "INSERT INTO pages (tenant, stream, page) \
     SELECT DISTINCT tenant, stream, entry / 128 FROM journal \
     WHERE tenant = $1 AND entry / 128 <> (tenant * 1099511627776 + stream) / 128";

/// Finds every stream's pages anew, while nobody appends.
pub fn fill_pages(tenant: i64) -> Vec<Statement> {
    let erase = Statement::new("DELETE FROM pages WHERE tenant = $1", vec![tenant.into()]);
    vec![erase, Statement::new(FILL_PAGES, vec![tenant.into()])]
}

/// An entry that its stream would not be found by.
pub fn off_its_page(tenant: i64) -> Select<Option<i64>> {
    Select::new(
        "SELECT MIN(entry) - $1 * 1099511627776 FROM journal WHERE tenant = $1 \
         AND entry / 128 <> (tenant * 1099511627776 + stream) / 128 AND NOT EXISTS (SELECT 1 FROM pages \
         WHERE pages.tenant = $1 AND pages.stream = journal.stream AND pages.page = journal.entry / 128)",
        vec![tenant.into()],
        |row| row.maybe_int(0),
    )
}

/// All entries after one position and up to another, in order.
pub fn between(tenant: i64, after: u64, through: u64) -> Select<Entry> {
    Select::new(
        entries!(
            "entry > $1 * 1099511627776 + $2 AND entry <= $1 * 1099511627776 + $3 \
             AND tenant = $1 ORDER BY entry"
        ),
        vec![tenant.into(), place(after), place(through)],
        entry,
    )
}

/// The streams of executions and of single acts, in order of their start: each begins where its number says.
pub fn streams(tenant: i64) -> Select<u64> {
    Select::new(
        "SELECT stream FROM journal WHERE tenant = $1 AND version = 1 \
         AND entry = $1 * 1099511627776 + stream ORDER BY entry",
        vec![tenant.into()],
        |row| row.count(0),
    )
}

/// The streams that begin with one of these kinds, in order of their start.
pub fn streams_of(tenant: i64, kinds: [&str; 4]) -> Select<u64> {
    Select::new(
        "SELECT stream FROM journal WHERE tenant = $1 AND version = 1 AND kind IN ($2, $3, $4, $5) \
         AND entry = $1 * 1099511627776 + stream ORDER BY entry",
        std::iter::once(tenant.into()).chain(kinds.map(Value::from)).collect(),
        |row| row.count(0),
    )
}

/// Acts that belong to no execution and were recorded before a time, those that are erased left out: a
/// stream of two entries is one. Reads the journal from end to end, for `cleanup` alone.
pub fn acts_before(tenant: i64, at: i64, after: u64, limit: u64) -> Select<u64> {
    Select::new(
        "SELECT stream FROM journal WHERE tenant = $1 AND entry > $1 * 1099511627776 + $2 AND version = 1 \
         AND entry = $1 * 1099511627776 + stream AND kind IN ('action_recorded.1', 'action_recorded.2') AND at < $3 \
         AND NOT EXISTS (SELECT 1 FROM pages WHERE pages.tenant = $1 AND pages.stream = journal.stream) \
         AND NOT EXISTS (SELECT 1 FROM journal AS later WHERE later.entry > journal.entry \
         AND later.entry < (journal.entry / 128 + 1) * 128 AND later.stream = journal.stream) \
         ORDER BY entry LIMIT $4",
        vec![tenant.into(), place(after), at.into(), limit.into()],
        |row| row.count(0),
    )
}

/// The streams that were appended to after one position and up to another.
pub fn streams_between(tenant: i64, after: u64, through: u64) -> Select<u64> {
    Select::new(
        "SELECT DISTINCT stream FROM journal WHERE tenant = $1 \
         AND entry > $1 * 1099511627776 + $2 AND entry <= $1 * 1099511627776 + $3",
        vec![tenant.into(), place(after), place(through)],
        |row| row.count(0),
    )
}

/// How many words one search may name.
pub const WORDS_MAX: usize = 4;

/// Which entries to list. Everything left out lets all pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    pub stream: Option<u64>,
    /// What the kind begins with.
    pub kind: Option<String>,
    /// An older version of the kind, which passes too.
    pub kind_older: Option<String>,
    pub actor: Option<String>,
    pub since: Option<i64>,
    pub until: Option<i64>,
    /// Of what went wrong.
    pub category: Option<String>,
    /// Each must occur in the kind, the actor, the body or what was put on record, in any case.
    pub words: Vec<String>,
    /// Of executions of this plan (its id or name), of this task, with this status.
    pub plan: Option<String>,
    pub task: Option<String>,
    pub status: Option<String>,
    pub after: u64,
    pub through: Option<u64>,
}

/// The entries that pass, oldest first, at most `limit`.
pub fn filtered(dialect: Dialect, tenant: i64, filter: &Filter, limit: u64) -> Select<Entry> {
    let word = |word: &Option<String>| word.as_deref().unwrap_or_default().into();
    let mut params: Vec<Value> = vec![tenant.into(), place(filter.after)];
    params.push(place(filter.through.unwrap_or(u64::MAX)));
    params.extend([word(&filter.kind), word(&filter.actor)]);
    params.extend([filter.since.unwrap_or(i64::MIN).into(), filter.until.unwrap_or(i64::MAX).into()]);
    params.push(filter.category.as_ref().map(|category| format!("%\"category\":\"{category}\"%")).into());
    params.extend(patterns(&filter.words));
    params.push(limit.into());
    let owned = [&filter.plan, &filter.task, &filter.status];
    params.push(owned.iter().any(|word| word.is_some()).into());
    params.extend(owned.map(word));
    params.push(word(if filter.kind_older.is_some() { &filter.kind_older } else { &filter.kind }));
    let texts = match dialect {
        Dialect::Sqlite => [entries::SQLITE, entries::SQLITE_OF_STREAM],
        Dialect::Postgres => [entries::POSTGRES, entries::POSTGRES_OF_STREAM],
    };
    let sql = match filter.stream {
        None => texts[0],
        Some(stream) => {
            params.push(stream.into());
            texts[1]
        }
    };
    Select::new(sql, params, entry)
}

/// What the words of a search become, with nulls where there are fewer. More than `WORDS_MAX` are refused
/// before.
pub(super) fn patterns(words: &[String]) -> [Value; WORDS_MAX] {
    std::array::from_fn(|at| words.get(at).map(|word| contains(word)).into())
}

/// The pattern for texts that hold `word` as it stands, whatever signs it has.
fn contains(word: &str) -> String {
    let mut pattern = String::from("%");
    for sign in word.to_lowercase().chars() {
        if matches!(sign, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(sign);
    }
    pattern.push('%');
    pattern
}
