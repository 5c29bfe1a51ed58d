//! Payloads are stored beside the journal, keyed by the entry that owns them, so that they can be erased
//! while the hash chain stays verifiable. The salt of their digests is erased with them.

use std::collections::HashMap;

use actbook_engine::id::{StreamId, TenantId};

use super::dialect::stream_entries as text;
use super::journal::{first_page, stream_ranges};
use super::{Db, Dialect, EntryKey, Error, Row, Select, SqlValue, Statement};

/// A payload, with the position of the entry that owns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadRow {
    pub position: u64,
    pub body: Vec<u8>,
}

/// Decodes an entry's key and a body.
fn decode_payload(mut row: Row) -> Result<PayloadRow, Error> {
    Ok(PayloadRow { position: row.position(0)?, body: row.take_bytes(1)? })
}

/// Reads the payload of the entry with this key.
const BY_KEY: &str = "SELECT entry, body FROM payloads WHERE entry = $1";

/// The payload of the entry at a position. No row: the entry has none, or it is erased.
pub fn by_position(tenant: TenantId, position: u64) -> Select<PayloadRow> {
    Select::new(BY_KEY, vec![EntryKey::new(tenant, position).into()], decode_payload)
}

/// Up to this many payloads are read on the calling thread; more are read on another thread.
const INLINE_READ_MAX: usize = 100;

/// The payloads at these positions; erased ones are left out.
pub async fn by_positions(db: &Db, tenant: TenantId, positions: &[u64]) -> Result<Vec<PayloadRow>, Error> {
    let found = match positions.len() {
        0 => return Ok(Vec::new()),
        1..=INLINE_READ_MAX => db.look_up(BY_KEY, param_sets(tenant, positions)).await?,
        _ => db.read_many(BY_KEY, param_sets(tenant, positions)).await?,
    };
    found.into_iter().flatten().map(decode_payload).collect()
}

/// Like `by_positions`, but blocks the calling thread.
pub fn by_positions_blocking(db: &Db, tenant: TenantId, positions: &[u64]) -> Result<Vec<PayloadRow>, Error> {
    let found = db.read_many_blocking(BY_KEY, param_sets(tenant, positions))?;
    found.into_iter().flatten().map(decode_payload).collect()
}

/// One parameter set for each position.
fn param_sets(tenant: TenantId, positions: &[u64]) -> Vec<Vec<SqlValue>> {
    positions.iter().map(|position| vec![EntryKey::new(tenant, *position).into()]).collect()
}

/// All payloads of one stream's entries, in order.
pub fn by_stream(dialect: Dialect, tenant: TenantId, stream: StreamId) -> Select<PayloadRow> {
    let sql = match dialect {
        Dialect::Sqlite => text::SQLITE_PAYLOADS,
        Dialect::Postgres => text::POSTGRES_PAYLOADS,
    };
    Select::new(sql, vec![tenant.into(), stream.into(), first_page(tenant, stream)], decode_payload)
}

/// All payloads after one position, up to and including another, in order: `verify` reads them beside the
/// entries.
pub fn between(tenant: TenantId, after: u64, through: u64) -> Select<PayloadRow> {
    Select::new(
        "SELECT entry, body FROM payloads WHERE entry > $1 AND entry <= $2 ORDER BY entry",
        vec![EntryKey::new(tenant, after).into(), EntryKey::new(tenant, through).into()],
        decode_payload,
    )
}

/// The position of a stray payload or salt, one that no entry can own; see `journal::stray_entry`. None if
/// there is none. The 2^39 keys on either side of the tenant's first key count as this tenant's, so that
/// payloads with a negative position are found too.
pub fn stray_payload_or_salt(tenant: TenantId) -> Select<Option<i64>> {
    Select::new(
        "SELECT MIN(position) FROM (\
         SELECT payloads.entry - $2 AS position FROM head JOIN payloads \
         ON payloads.entry > $2 - 549755813888 AND payloads.entry <= $2 \
         OR payloads.entry > $2 + head.position AND payloads.entry <= $2 + 549755813888 \
         WHERE head.tenant = $1 UNION ALL \
         SELECT stream FROM salts WHERE tenant = $1 AND stream < 1 UNION ALL \
         SELECT salts.stream FROM head JOIN salts \
         ON salts.tenant = head.tenant AND salts.stream > head.position WHERE head.tenant = $1) AS strays",
        vec![tenant.into(), EntryKey::base(tenant).into()],
        |row| row.optional_int(0),
    )
}

/// Deletes all payloads of one stream's entries.
pub fn erase_of_stream(dialect: Dialect, tenant: TenantId, stream: StreamId) -> Statement {
    let sql = match dialect {
        Dialect::Sqlite => text::SQLITE_ERASE,
        Dialect::Postgres => text::POSTGRES_ERASE,
    };
    Statement::new(sql, vec![tenant.into(), stream.into(), first_page(tenant, stream)])
}

pub fn insert_salt(tenant: TenantId, stream: StreamId, salt: &[u8]) -> Statement {
    Statement::new(
        "INSERT INTO salts (tenant, stream, salt) VALUES ($1, $2, $3)",
        vec![tenant.into(), stream.into(), salt.into()],
    )
}

const SALT: &str = "SELECT salt FROM salts WHERE tenant = $1 AND stream = $2";

/// A stream's salt. No row: it is erased.
pub fn salt(tenant: TenantId, stream: StreamId) -> Select<Vec<u8>> {
    Select::new(SALT, vec![tenant.into(), stream.into()], |mut row| row.take_bytes(0))
}

/// Reads the salts of a range of streams.
const SALTS: &str = "SELECT stream, salt FROM salts WHERE tenant = $1 AND stream >= $2 AND stream <= $3";

/// The salt of each stream, empty if it is erased; blocks the calling thread.
pub fn salts_blocking(db: &Db, tenant: TenantId, streams: &[StreamId]) -> Result<Vec<Vec<u8>>, Error> {
    let rows = db.read_many_blocking(SALTS, stream_ranges(tenant, streams))?.into_iter().flatten();
    let salts = rows.map(|mut row| Ok((row.stream(0)?, row.take_bytes(1)?)));
    let mut salts = salts.collect::<Result<HashMap<_, _>, Error>>()?;
    Ok(streams.iter().map(|stream| salts.remove(stream).unwrap_or_default()).collect())
}

/// Stream and salt of the streams that start after one position, up to and including another, in order.
pub fn salts_between(tenant: TenantId, after: u64, through: u64) -> Select<(StreamId, Vec<u8>)> {
    Select::new(
        "SELECT stream, salt FROM salts WHERE tenant = $1 AND stream > $2 AND stream <= $3 ORDER BY stream",
        vec![tenant.into(), after.into(), through.into()],
        |mut row| Ok((row.stream(0)?, row.take_bytes(1)?)),
    )
}

/// Deletes a stream's salt.
pub fn erase_salt(tenant: TenantId, stream: StreamId) -> Statement {
    Statement::new("DELETE FROM salts WHERE tenant = $1 AND stream = $2", vec![tenant.into(), stream.into()])
}
