//! Payloads lie beside the journal, keyed by the entry that owns them, so that they can be erased
//! while the chain stays whole. The salt of their digests goes with them.

use std::collections::HashMap;

use super::dialect::of_stream as text;
use super::journal::{neighbours, place};
use super::{Db, Dialect, Error, Row, Select, Statement, Value};

/// A payload and the position of its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    pub position: u64,
    pub body: Vec<u8>,
}

fn payload(mut row: Row) -> Result<Payload, Error> {
    Ok(Payload { position: row.count(0)?, body: row.take_bytes(1)? })
}

const AT: &str =
    "SELECT entry - $1 * 1099511627776, body FROM payloads WHERE entry = $1 * 1099511627776 + $2";

pub fn at(tenant: i64, position: u64) -> Select<Payload> {
    Select::new(AT, vec![tenant.into(), position.into()], payload)
}

/// More payloads than this are read on another thread.
const LOOKED_UP_MAX: usize = 100;

/// The payloads at these positions; an erased one is simply not among them.
pub async fn at_each(db: &Db, tenant: i64, positions: &[u64]) -> Result<Vec<Payload>, Error> {
    let found = match positions.len() {
        0 => return Ok(Vec::new()),
        1..=LOOKED_UP_MAX => db.look_up(AT, sets(tenant, positions)).await?,
        _ => db.read_many(AT, sets(tenant, positions)).await?,
    };
    found.into_iter().flatten().map(payload).collect()
}

/// The same, on the caller's own thread.
pub fn at_each_blocking(db: &Db, tenant: i64, positions: &[u64]) -> Result<Vec<Payload>, Error> {
    let found = db.read_many_blocking(AT, sets(tenant, positions))?;
    found.into_iter().flatten().map(payload).collect()
}

fn sets(tenant: i64, positions: &[u64]) -> Vec<Vec<Value>> {
    positions.iter().map(|position| vec![tenant.into(), (*position).into()]).collect()
}

/// All payloads that one execution's entries own, in order.
pub fn of_stream(dialect: Dialect, tenant: i64, stream: u64) -> Select<Payload> {
    let sql = match dialect {
        Dialect::Sqlite => text::SQLITE_PAYLOADS,
        Dialect::Postgres => text::POSTGRES_PAYLOADS,
    };
    Select::new(sql, vec![tenant.into(), stream.into()], payload)
}

/// All payloads after one position and up to another, in order: what `verify` reads beside the entries.
pub fn between(tenant: i64, after: u64, through: u64) -> Select<Payload> {
    Select::new(
        "SELECT entry - $1 * 1099511627776, body FROM payloads \
         WHERE entry > $1 * 1099511627776 + $2 AND entry <= $1 * 1099511627776 + $3 ORDER BY entry",
        vec![tenant.into(), place(after), place(through)],
        payload,
    )
}

/// A payload or a salt at a position that no entry may have; see `journal::outside`. The keys right
/// below a tenant's first are taken for positions below one, those right above its last for later ones.
pub fn outside(tenant: i64) -> Select<Option<i64>> {
    Select::new(
        "SELECT MIN(position) FROM (\
         SELECT payloads.entry - $1 * 1099511627776 AS position FROM head JOIN payloads \
         ON payloads.entry > $1 * 1099511627776 - 549755813888 AND payloads.entry <= $1 * 1099511627776 \
         OR payloads.entry > $1 * 1099511627776 + head.position \
         AND payloads.entry <= $1 * 1099511627776 + 549755813888 WHERE head.tenant = $1 UNION ALL \
         SELECT stream FROM salts WHERE tenant = $1 AND stream < 1 UNION ALL \
         SELECT salts.stream FROM head JOIN salts \
         ON salts.tenant = head.tenant AND salts.stream > head.position WHERE head.tenant = $1) AS strays",
        vec![tenant.into()],
        |row| row.maybe_int(0),
    )
}

pub fn erase_of_stream(dialect: Dialect, tenant: i64, stream: u64) -> Statement {
    let sql = match dialect {
        Dialect::Sqlite => text::SQLITE_ERASE,
        Dialect::Postgres => text::POSTGRES_ERASE,
    };
    Statement::new(sql, vec![tenant.into(), stream.into()])
}

pub fn insert_salt(tenant: i64, stream: u64, salt: &[u8]) -> Statement {
    Statement::new(
        "INSERT INTO salts (tenant, stream, salt) VALUES ($1, $2, $3)",
        vec![tenant.into(), stream.into(), salt.into()],
    )
}

const SALT: &str = "SELECT salt FROM salts WHERE tenant = $1 AND stream = $2";

pub fn salt(tenant: i64, stream: u64) -> Select<Vec<u8>> {
    Select::new(SALT, vec![tenant.into(), stream.into()], |mut row| row.take_bytes(0))
}

const SALTS: &str = "SELECT stream, salt FROM salts WHERE tenant = $1 AND stream >= $2 AND stream <= $3";

/// The salt of each stream, empty where it is erased.
pub fn salts_blocking(db: &Db, tenant: i64, streams: &[u64]) -> Result<Vec<Vec<u8>>, Error> {
    let rows = db.read_many_blocking(SALTS, neighbours(tenant, streams))?.into_iter().flatten();
    let kept = rows.map(|mut row| Ok((row.count(0)?, row.take_bytes(1)?)));
    let mut kept = kept.collect::<Result<HashMap<_, _>, Error>>()?;
    Ok(streams.iter().map(|stream| kept.remove(stream).unwrap_or_default()).collect())
}

/// The salts of the streams that began after one position and up to another, in order.
pub fn salts_between(tenant: i64, after: u64, through: u64) -> Select<(u64, Vec<u8>)> {
    Select::new(
        "SELECT stream, salt FROM salts WHERE tenant = $1 AND stream > $2 AND stream <= $3 ORDER BY stream",
        vec![tenant.into(), after.into(), through.into()],
        |mut row| Ok((row.count(0)?, row.take_bytes(1)?)),
    )
}

pub fn erase_salt(tenant: i64, stream: u64) -> Statement {
    Statement::new("DELETE FROM salts WHERE tenant = $1 AND stream = $2", vec![tenant.into(), stream.into()])
}
