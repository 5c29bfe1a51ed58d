//! Request keys: what makes a repeated command answer as it did the first time. Written in the
//! same transaction as the entries of the command.

use super::{Error, Row, Select, Statement};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub digest: Vec<u8>,
    pub result: String,
    pub at: i64,
}

fn request(mut row: Row) -> Result<Request, Error> {
    Ok(Request { digest: row.take_bytes(0)?, result: row.take_text(1)?, at: row.int(2)? })
}

pub fn find(tenant: i64, caller: &str, key: &str) -> Select<Request> {
    Select::new(
        "SELECT digest, result, at FROM requests WHERE tenant = $1 AND caller = $2 AND key = $3",
        vec![tenant.into(), caller.into(), key.into()],
        request,
    )
}

pub fn insert(tenant: i64, caller: &str, key: &str, request: &Request) -> Statement {
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

pub fn erase_before(tenant: i64, at: i64) -> Statement {
    Statement::new("DELETE FROM requests WHERE tenant = $1 AND at < $2", vec![tenant.into(), at.into()])
}
