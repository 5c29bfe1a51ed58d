//! A coarse index of the journal (table `stretches`): for each kind, actor, plan, task and category, the
//! segments that contain it, with the first and the last time. A search for something rare reads only those
//! segments. A segment is indexed once it is full, and then never changes.

use std::collections::BTreeMap;

use actbook_engine::id::TenantId;
use actbook_engine::policy::ErrorCategory;

use super::journal::key_range;
use super::projection_cursor::{self, ProjectionCursor};
use super::{Db, EntryKey, Error, Select, SqlValue, Statement};

/// Entries per segment; segment `n` starts at position `n * ENTRIES_PER_SEGMENT + 1`.
pub const ENTRIES_PER_SEGMENT: u64 = 500;

/// A value that occurs in a segment: key of the index.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentKey {
    /// `any`, `kind`, `actor`, `plan`, `task` or `category`.
    pub name: &'static str,
    pub value: String,
    pub segment: u64,
}

/// Time of the first and of the last entry in the segment that has the value, in epoch milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeRange {
    pub first_at: i64,
    pub last_at: i64,
}

/// Rows of the index.
pub type SegmentRows = BTreeMap<SegmentKey, TimeRange>;

/// Computes the index rows of the full segments after one position, up to and including another.
pub async fn compute_rows(db: &Db, tenant: TenantId, after: u64, through: u64) -> Result<SegmentRows, Error> {
    let base = EntryKey::base(tenant).into();
    let params: Vec<SqlValue> = key_range(tenant, after, through).into_iter().chain([base]).collect();
    let mut rows = SegmentRows::new();
    for (segment, kind, actor, times) in kinds_and_actors(params.clone()).all(db).await? {
        add_value(&mut rows, "any", String::new(), segment, times);
        add_value(&mut rows, "kind", kind, segment, times);
        add_value(&mut rows, "actor", actor, segment, times);
    }
    for (segment, [plan, task], times) in plans_and_tasks(params.clone()).all(db).await? {
        add_value(&mut rows, "plan", plan, segment, times);
        add_value(&mut rows, "task", task, segment, times);
    }
    for (segment, at, body) in entries_with_category(params).all(db).await? {
        let times = TimeRange { first_at: at, last_at: at };
        add_value(&mut rows, "category", parse_category(&body).to_owned(), segment, times);
    }
    rows.retain(|key, _| key.name == "any" || !key.value.is_empty());
    Ok(rows)
}

/// Adds a value to the rows, or widens the time range of its row.
fn add_value(rows: &mut SegmentRows, name: &'static str, value: String, segment: u64, times: TimeRange) {
    let row = rows.entry(SegmentKey { name, value, segment }).or_insert(times);
    row.first_at = row.first_at.min(times.first_at);
    row.last_at = row.last_at.max(times.last_at);
}

fn kinds_and_actors(params: Vec<SqlValue>) -> Select<(u64, String, String, TimeRange)> {
    Select::new(
        "SELECT (entry - $4 - 1) / 500, kind, actor, MIN(at), MAX(at) FROM journal \
         WHERE entry > $2 AND entry <= $3 AND +tenant = $1 \
         GROUP BY 1, 2, 3",
        params,
        |mut row| {
            let times = TimeRange { first_at: row.int(3)?, last_at: row.int(4)? };
            Ok((row.uint(0)?, row.take_text(1)?, row.take_text(2)?, times))
        },
    )
}

/// The plan names and tasks in each segment. The cross join makes SQLite start with the entries.
fn plans_and_tasks(params: Vec<SqlValue>) -> Select<(u64, [String; 2], TimeRange)> {
    Select::new(
        "SELECT (entry - $4 - 1) / 500, plan_name, COALESCE(task, ''), \
         MIN(at), MAX(at) FROM journal CROSS JOIN executions \
         WHERE entry > $2 AND entry <= $3 \
         AND +journal.tenant = $1 AND executions.tenant = $1 AND executions.id = journal.stream \
         GROUP BY 1, 2, 3",
        params,
        |mut row| {
            let times = TimeRange { first_at: row.int(3)?, last_at: row.int(4)? };
            Ok((row.uint(0)?, [row.take_text(1)?, row.take_text(2)?], times))
        },
    )
}

/// The entries with an error category: segment, time and body.
fn entries_with_category(params: Vec<SqlValue>) -> Select<(u64, i64, String)> {
    Select::new(
        "SELECT (entry - $4 - 1) / 500, at, body FROM journal \
         WHERE entry > $2 AND entry <= $3 AND +tenant = $1 \
         AND body LIKE '%\"category\":\"%'",
        params,
        |mut row| Ok((row.uint(0)?, row.int(1)?, row.take_text(2)?)),
    )
}

/// Extracts the category from an entry's body; empty if there is none. A text search is enough, because
/// bodies are written without spaces and quotes inside texts are escaped.
fn parse_category(body: &str) -> &str {
    let value = body.split_once("\"category\":\"").map_or("", |(_, after)| after);
    value.split_once('"').map_or("", |(category, _)| category)
}

/// Inserts index rows and moves the cursor, in one transaction. `Error::Constraint`: another process moved
/// it first.
pub async fn insert_rows(
    db: &Db,
    tenant: TenantId,
    (from, to): (u64, u64),
    rows: &SegmentRows,
) -> Result<(), Error> {
    let mut statements =
        Vec::from(projection_cursor::advance(tenant, ProjectionCursor::JournalIndex, from, to));
    statements.extend(rows.iter().map(|(key, times)| {
        Statement::new(
            "INSERT INTO stretches (tenant, name, value, stretch, first_at, last_at) \
             VALUES ($1, $2, $3, $4, $5, $6)",
            vec![
                tenant.into(),
                key.name.into(),
                key.value.as_str().into(),
                key.segment.into(),
                times.first_at.into(),
                times.last_at.into(),
            ],
        )
    }));
    db.transact(statements).await.map(drop)
}

/// Which segments to find. A field that is None does not restrict.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SegmentFilter {
    pub kind: Option<String>,
    /// An older version of the kind, which passes as well.
    pub kind_older: Option<String>,
    pub actor: Option<String>,
    /// The plan's name.
    pub plan: Option<String>,
    pub task: Option<String>,
    pub category: Option<ErrorCategory>,
    pub since: Option<i64>,
    pub until: Option<i64>,
}

macro_rules! segments_with {
    ($name:literal, $value:literal) => {
        concat!(
            "SELECT name, stretch FROM stretches WHERE tenant = $1 AND name = '",
            $name,
            "' AND value ",
            $value,
            " AND stretch >= $2 AND last_at >= $3 AND first_at < $4"
        )
    };
}

/// Finds the segments that contain all `$11` values.
const MATCHING_SEGMENTS: &str = concat!(
    "SELECT stretch FROM (",
    segments_with!("any", "= $5"),
    " UNION ALL ",
    segments_with!("kind", "IN ($6, $13)"),
    " UNION ALL ",
    segments_with!("actor", "= $7"),
    " UNION ALL ",
    segments_with!("plan", "= $8"),
    " UNION ALL ",
    segments_with!("task", "= $9"),
    " UNION ALL ",
    segments_with!("category", "= $10"),
    ") AS found GROUP BY stretch HAVING COUNT(DISTINCT name) = $11 ORDER BY stretch LIMIT $12"
);

/// At most `limit` indexed segments that contain every value of the filter, in order, starting with segment
/// `from`.
pub fn matching_segments(tenant: TenantId, filter: &SegmentFilter, from: u64, limit: u64) -> Select<u64> {
    let SegmentFilter { kind, kind_older, actor, plan, task, category, since, until } = filter;
    let [kind, actor, plan, task] = [kind, actor, plan, task].map(Option::as_deref);
    let values = [kind, actor, plan, task, category.map(ErrorCategory::as_str)];
    let count = values.iter().filter(|value| value.is_some()).count();
    // Every full segment has a row `any` with an empty value. It is needed only if the filter has no other
    // value.
    let any = if count == 0 { "" } else { "none" };
    let mut params: Vec<SqlValue> = vec![tenant.into(), from.into()];
    params.extend([since.unwrap_or(i64::MIN).into(), until.unwrap_or(i64::MAX).into(), any.into()]);
    params.extend(values.map(|value| value.unwrap_or_default().into()));
    params.extend([(count.max(1) as u64).into(), limit.into()]);
    params.push(kind_older.as_deref().or(kind).unwrap_or_default().into());
    Select::new(MATCHING_SEGMENTS, params, |row| row.uint(0))
}
