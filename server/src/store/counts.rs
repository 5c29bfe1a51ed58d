//! Statistics by hour and by day (table `counts`), and numbers of executions by status (table `totals`).
//! The projector adds differences to them; a question about a time range reads days, and hours at its edges.

use std::collections::BTreeMap;

use actbook_engine::id::TenantId;
use actbook_engine::policy::string_enum;
use serde::{Deserialize, Serialize};

use super::executions::within;
use super::histogram::Histogram;
use super::{Db, Error, Row, Select, SqlValue, Statement};

pub const HOUR_MS: i64 = 3_600_000;
pub const DAY_MS: i64 = 24 * HOUR_MS;

string_enum!(
    /// What is counted. Each item counts in the period in which it began.
    CountKind {
        /// Executions by status (`outcome`); durations of those that have ended.
        Execution = "execution",
        /// Calls that Actbook made and that have ended, by tool (`name`), outcome and category; durations of those
        /// that were sent and seen to end. `top`: start and error position of the last failed or unknown one.
        Call = "call",
        /// Attempts that were sent and seen to end, by step (`name`), tool (`outcome`) and whether an agent made
        /// them (`category`). `top`: the longest and its stream.
        Attempt = "attempt",
        /// Steps with more than one attempt: `steps`, `attempts` beyond the first, `succeeded` in the end.
        Retry = "retry",
        /// Steps that ended failed or unknown, by category.
        Trouble = "trouble",
        /// Answered questions to people, by kind (`name`); how long each waited.
        Wait = "wait",
    }
);

/// What one row counts, without its period.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CountKey {
    pub kind: CountKind,
    /// Empty: from before projects existed.
    pub project: String,
    /// The plan's id.
    pub plan: String,
    pub name: String,
    pub outcome: String,
    pub category: String,
}

/// The largest value that was counted, and the position or stream that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Top {
    pub value: i64,
    /// None: the value has no position.
    pub at: Option<u64>,
}

/// A count, with durations if its kind has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub n: i64,
    pub total_ms: i64,
    pub top: Option<Top>,
    pub durations: Histogram,
}

impl Count {
    /// Adds another count `times` times; -1 takes it away, but not its top, which only grows.
    pub fn merge(&mut self, other: &Count, times: i64) {
        self.n += other.n * times;
        self.total_ms += other.total_ms * times;
        self.durations.merge(&other.durations, times);
        // Of equal values the one that began first stays.
        if times > 0
            && let Some(top) = other.top
            && self.top.is_none_or(|known| (top.value, known.at) > (known.value, top.at))
        {
            self.top = Some(top);
        }
    }

    /// Whether the row has nothing to say.
    pub fn is_zero(&self) -> bool {
        self.n == 0 && self.total_ms == 0 && self.durations.is_empty()
    }
}

/// The length of a counted period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grain {
    Hour,
    Day,
}

impl Grain {
    pub const ALL: [Grain; 2] = [Grain::Hour, Grain::Day];

    pub fn length_ms(self) -> i64 {
        match self {
            Grain::Hour => HOUR_MS,
            Grain::Day => DAY_MS,
        }
    }
}

/// Counts by hour and key.
pub type HourlyCounts = BTreeMap<(i64, CountKey), Count>;

/// Adds `times` times `other` to `counts` (-1 subtracts it), and drops counts that become zero.
pub fn merge_counts(counts: &mut HourlyCounts, other: &HourlyCounts, times: i64) {
    for (key, count) in other {
        let sum = counts.entry(key.clone()).or_default();
        sum.merge(count, times);
        if sum.is_zero() {
            counts.remove(key);
        }
    }
}

/// A row's grain, period and key.
type RowKey<'a> = (Grain, i64, &'a CountKey);

/// The parameters `$1` to `$9`: the row's primary key.
fn key_params(tenant: TenantId, (grain, period, key): RowKey<'_>) -> Vec<SqlValue> {
    let mut params = vec![tenant.into(), grain.length_ms().into(), key.kind.as_str().into(), period.into()];
    params.extend(
        [&key.project, &key.plan, &key.name, &key.outcome, &key.category].map(|text| text.as_str().into()),
    );
    params
}

macro_rules! by_key {
    () => {
        "tenant = $1 AND grain = $2 AND kind = $3 AND period = $4 AND project = $5 AND plan = $6 \
         AND name = $7 AND outcome = $8 AND category = $9"
    };
}

/// Decodes `n`, `total_ms`, `top`, `top_at` and `buckets`, from column `first` on.
fn decode_count(row: &Row, first: usize) -> Result<Count, Error> {
    let top = row.optional_int(first + 2)?;
    let at = row.optional_int(first + 3)?.and_then(|at| u64::try_from(at).ok());
    Ok(Count {
        n: row.int(first)?,
        total_ms: row.int(first + 1)?,
        top: top.map(|value| Top { value, at }),
        durations: Histogram::decode(row.bytes(first + 4)?)?,
    })
}

/// The statements that add a difference to the rows of hours and days. Reads the rows: no other projector may
/// write before the statements run, which the cursor ensures.
pub fn add_blocking(db: &Db, tenant: TenantId, difference: &HourlyCounts) -> Result<Vec<Statement>, Error> {
    let mut rows: BTreeMap<RowKey<'_>, Count> = BTreeMap::new();
    for ((hour, key), count) in difference {
        for grain in Grain::ALL {
            let period = (hour * HOUR_MS).div_euclid(grain.length_ms());
            rows.entry((grain, period, key)).or_default().merge(count, 1);
        }
    }
    let read = concat!("SELECT n, total_ms, top, top_at, buckets FROM counts WHERE ", by_key!());
    let found = db.read_many_blocking(read, rows.keys().map(|key| key_params(tenant, *key)).collect())?;
    let mut statements = Vec::with_capacity(rows.len());
    for ((key, added), found) in rows.into_iter().zip(found) {
        let mut count = found.first().map(|row| decode_count(row, 0)).transpose()?.unwrap_or_default();
        count.merge(&added, 1);
        statements.push(if count.is_zero() {
            Statement::new(concat!("DELETE FROM counts WHERE ", by_key!()), key_params(tenant, key))
        } else {
            upsert(tenant, key, &count)
        });
    }
    Ok(statements)
}

fn upsert(tenant: TenantId, key: RowKey<'_>, count: &Count) -> Statement {
    let mut params = key_params(tenant, key);
    params.extend([
        count.n.into(),
        count.total_ms.into(),
        count.top.map(|top| top.value).into(),
        count.top.and_then(|top| top.at).into(),
        count.durations.encode().into(),
    ]);
    Statement::new(
        "INSERT INTO counts (tenant, grain, kind, period, project, plan, name, outcome, category, n, total_ms, \
         top, top_at, buckets) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) \
         ON CONFLICT (tenant, grain, kind, period, project, plan, name, outcome, category) DO UPDATE SET \
         n = excluded.n, total_ms = excluded.total_ms, top = excluded.top, top_at = excluded.top_at, \
         buckets = excluded.buckets",
        params,
    )
}

/// A count with its period and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountRow {
    pub period: i64,
    pub key: CountKey,
    pub count: Count,
}

/// The counts of one kind, of the periods from `from` up to but excluding `to`, within the project boundary.
pub fn between(
    tenant: TenantId,
    kind: CountKind,
    (grain, from, to): (Grain, i64, i64),
    within: Option<&str>,
) -> Select<CountRow> {
    Select::new(
        concat!(
            "SELECT period, kind, project, plan, name, outcome, category, n, total_ms, top, top_at, buckets \
             FROM counts WHERE tenant = $1 AND grain = $2 AND kind = $6 AND period >= $3 AND period < $4 AND ",
            within!(5)
        ),
        vec![
            tenant.into(),
            grain.length_ms().into(),
            from.into(),
            to.into(),
            within.unwrap_or_default().into(),
            kind.as_str().into(),
        ],
        decode_row,
    )
}

/// Decodes a row of `between`.
fn decode_row(mut row: Row) -> Result<CountRow, Error> {
    let key = CountKey {
        kind: row.parsed(1)?,
        project: row.take_text(2)?,
        plan: row.take_text(3)?,
        name: row.take_text(4)?,
        outcome: row.take_text(5)?,
        category: row.take_text(6)?,
    };
    Ok(CountRow { period: row.int(0)?, key, count: decode_count(&row, 7)? })
}

/// Adds to the number of a project's executions with a status.
pub fn add_total(tenant: TenantId, project: &str, status: &str, n: i64) -> Statement {
    Statement::new(
        "INSERT INTO totals (tenant, project, status, n) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (tenant, project, status) DO UPDATE SET n = totals.n + excluded.n",
        vec![tenant.into(), project.into(), status.into(), n.into()],
    )
}

/// Deletes the totals that have become zero.
pub fn drop_empty_totals(tenant: TenantId) -> Statement {
    Statement::new("DELETE FROM totals WHERE tenant = $1 AND n = 0", vec![tenant.into()])
}

/// The number of executions by status, within the project boundary; only statuses that occur.
pub fn totals(tenant: TenantId, within: Option<&str>) -> Select<(String, u64)> {
    Select::new(
        concat!(
            "SELECT status, CAST(SUM(n) AS BIGINT) FROM totals WHERE tenant = $1 AND ",
            within!(2),
            " GROUP BY status HAVING SUM(n) > 0 ORDER BY status"
        ),
        vec![tenant.into(), within.unwrap_or_default().into()],
        |mut row| Ok((row.take_text(0)?, row.uint(1)?)),
    )
}

/// Widens the range of positions with a time in the hour.
pub fn widen_hour(tenant: TenantId, hour: i64, first: u64, last: u64) -> Statement {
    Statement::new(
        "INSERT INTO hours (tenant, hour, first, last) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (tenant, hour) DO UPDATE SET \
         first = CASE WHEN hours.first < excluded.first THEN hours.first ELSE excluded.first END, \
         last = CASE WHEN hours.last > excluded.last THEN hours.last ELSE excluded.last END",
        vec![tenant.into(), hour.into(), first.into(), last.into()],
    )
}

/// The first and the last position with a time in the hours from `from` through `to`. None: there is none.
pub fn positions_in_hours(tenant: TenantId, from: i64, to: i64) -> Select<Option<(u64, u64)>> {
    Select::new(
        "SELECT MIN(first), MAX(last) FROM hours WHERE tenant = $1 AND hour >= $2 AND hour <= $3",
        vec![tenant.into(), from.into(), to.into()],
        |row| if row.is_null(0) { Ok(None) } else { Ok(Some((row.uint(0)?, row.uint(1)?))) },
    )
}

/// The first and the last hour with an entry. None: there is none.
pub fn hour_range(tenant: TenantId) -> Select<Option<(i64, i64)>> {
    Select::new("SELECT MIN(hour), MAX(hour) FROM hours WHERE tenant = $1", vec![tenant.into()], |row| {
        Ok(row.optional_int(0)?.zip(row.optional_int(1)?))
    })
}
