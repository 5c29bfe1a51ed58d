//! Idempotency keys of requests: a repeated command gets its first result again. Rows are written in the same
//! transaction as the entries of the command.

use actbook_engine::id::TenantId;

use super::{Error, Row, Select, Statement};

/// A request with an idempotency key that was answered before: repeated, it gets the same result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRow {
    /// Digest of the request, to detect another request under the same key.
    pub digest: Vec<u8>,
    pub result: String,
    /// When it was answered, in epoch milliseconds.
    pub at: i64,
}

/// Decodes a row.
fn decode_request(mut row: Row) -> Result<RequestRow, Error> {
    Ok(RequestRow { digest: row.take_bytes(0)?, result: row.take_text(1)?, at: row.int(2)? })
}

/// The caller's earlier request with this key.
pub fn by_key(tenant: TenantId, caller: &str, key: &str) -> Select<RequestRow> {
    Select::new(
        "SELECT digest, result, at FROM requests WHERE tenant = $1 AND caller = $2 AND key = $3",
        vec![tenant.into(), caller.into(), key.into()],
        decode_request,
    )
}

pub fn insert(tenant: TenantId, caller: &str, key: &str, request: &RequestRow) -> Statement {
    Statement::new(
        "INSERT INTO requests (tenant, caller, key, digest, result, at) VALUES ($1, $2, $3, $4, $5, $6)",
        vec![
            tenant.into(),
            caller.into(),
            key.into(),
            request.digest.as_slice().into(),
            request.result.as_str().into(),
            request.at.into(),
        ],
    )
}

/// Deletes requests that were answered before `at`, in epoch milliseconds.
pub fn erase_before(tenant: TenantId, at: i64) -> Statement {
    Statement::new("DELETE FROM requests WHERE tenant = $1 AND at < $2", vec![tenant.into(), at.into()])
}
