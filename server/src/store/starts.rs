//! Between which ids the executions of a time range are: for each minute, hour and day the first and the last
//! execution that started in it (table `starts`). Ids and times rise together only nearly, because processes have
//! clocks of their own, so a range of ids may hold executions of other times too, but misses none.

use actbook_engine::id::TenantId;

use super::counts::{DAY_MS, HOUR_MS};
use super::projection_cursor::{self, ProjectionCursor};
use super::{Db, Error, Select, Statement};

const MINUTE_MS: i64 = 60_000;

/// Adds the executions with an id after `from` and up to `to`, and moves the cursor. Adding them twice changes
/// nothing. Must follow statements that keep other projectors from running.
pub fn add(tenant: TenantId, from: u64, to: u64) -> [Statement; 2] {
    [
        Statement::new(
            "INSERT INTO starts (tenant, grain, period, first, last) \
             SELECT $1, grain, started_at / grain, MIN(id), MAX(id) FROM (SELECT CAST(60000 AS BIGINT) AS grain \
             UNION ALL SELECT 3600000 UNION ALL SELECT 86400000) AS grains CROSS JOIN executions \
             WHERE tenant = $1 AND id > $2 AND id <= $3 GROUP BY grain, started_at / grain \
             ON CONFLICT (tenant, grain, period) DO UPDATE SET \
             first = CASE WHEN starts.first < excluded.first THEN starts.first ELSE excluded.first END, \
             last = CASE WHEN starts.last > excluded.last THEN starts.last ELSE excluded.last END",
            vec![tenant.into(), from.into(), to.into()],
        ),
        projection_cursor::set(tenant, ProjectionCursor::Starts, to),
    ]
}

/// The ranges of ids, newest first, in which the executions are that started since `since`, before `until`, and
/// have an id lower than `before`. Each is from the first up to but excluding the second.
pub async fn id_ranges(
    db: &Db,
    tenant: TenantId,
    (since, until): (Option<i64>, Option<i64>),
    before: u64,
) -> Result<Vec<(u64, u64)>, Error> {
    if since.is_none() && until.is_none() {
        return Ok(vec![(0, before)]);
    }
    // The cursor before the rows: rows that are added in between only widen what they cover.
    let known = projection_cursor::position(tenant, ProjectionCursor::Starts).first(db).await?;
    let tail = known.map_or(0, |position| position + 1);
    let first = match since {
        Some(since) => first_since(tenant, since).first(db).await?.flatten().unwrap_or(tail),
        None => 0,
    };
    let end = match until {
        Some(until) => last_before(tenant, until).first(db).await?.flatten().map_or(0, |last| last + 1),
        None => tail,
    };
    let ranges = [(tail, before), (first, end.min(tail).min(before))];
    Ok(ranges.into_iter().filter(|(from, before)| from < before).collect())
}

/// The text that reads whole days, whole hours beside them, and minutes beside those: 1,500 rows at most for a
/// range that ends three years away.
macro_rules! by_grains {
    ($bound:literal) => {
        concat!(
            "SELECT ", $bound, " FROM (\
             SELECT first, last FROM starts WHERE tenant = $1 AND grain = 86400000 AND period >= $2 AND period < $3 \
             UNION ALL SELECT first, last FROM starts WHERE tenant = $1 AND grain = 3600000 AND period >= $4 \
             AND period < $5 UNION ALL SELECT first, last FROM starts WHERE tenant = $1 AND grain = 60000 \
             AND period >= $6 AND period < $7) AS parts"
        )
    };
}

/// The highest id of an execution that started in the minute before `until`, or earlier. None: there is none.
fn last_before(tenant: TenantId, until: i64) -> Select<Option<u64>> {
    let last_ms = until.saturating_sub(1);
    let [day, hour, minute] = [DAY_MS, HOUR_MS, MINUTE_MS].map(|grain| last_ms.div_euclid(grain));
    let ranges =
        [(i64::MIN, day), (day * (DAY_MS / HOUR_MS), hour), (hour * (HOUR_MS / MINUTE_MS), minute + 1)];
    bound(by_grains!("MAX(last)"), tenant, ranges)
}

/// The lowest id of an execution that started in the minute of `since`, or later. None: there is none.
fn first_since(tenant: TenantId, since: i64) -> Select<Option<u64>> {
    let [day, hour, minute] = [DAY_MS, HOUR_MS, MINUTE_MS].map(|grain| since.div_euclid(grain));
    let ranges = [
        (day + 1, i64::MAX),
        (hour + 1, (day + 1) * (DAY_MS / HOUR_MS)),
        (minute, (hour + 1) * (HOUR_MS / MINUTE_MS)),
    ];
    bound(by_grains!("MIN(first)"), tenant, ranges)
}

/// Reads an id from the days, hours and minutes in three ranges, each from the first up to but excluding the second.
fn bound(sql: &'static str, tenant: TenantId, ranges: [(i64, i64); 3]) -> Select<Option<u64>> {
    let mut params = vec![tenant.into()];
    params.extend(ranges.into_iter().flat_map(|(from, to)| [from.into(), to.into()]));
    Select::new(sql, params, |row| if row.is_null(0) { Ok(None) } else { row.uint(0).map(Some) })
}
