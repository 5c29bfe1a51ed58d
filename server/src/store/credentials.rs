//! The tables of credentials: tokens, sessions and login codes. Secrets are stored and found by their SHA-256
//! alone.

use actbook_engine::id::TenantId;

use super::{Db, Error, Row, Select, SqlValue, Statement};

/// One row of the table `tokens`, without the hash. Times are epoch milliseconds of the database's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRow {
    pub id: String,
    pub prefix: String,
    pub kind: String,
    pub name: String,
    pub role: String,
    pub created_by: String,
    pub created_at: i64,
    pub expires_at: i64,
    pub last_used_at: Option<i64>,
    pub revoked_at: Option<i64>,
    /// The database's time when the row was read.
    pub now_ms: i64,
}

/// One row of the table `sessions`, without the hash. Times are epoch milliseconds of the database's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    pub id: String,
    pub name: String,
    pub role: String,
    pub created_at: i64,
    pub last_used_at: i64,
    /// The database's time when the row was read.
    pub now_ms: i64,
}

/// The name and the role that a redeemed login code signs in with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginRow {
    pub name: String,
    pub role: String,
}

fn decode_token(mut row: Row) -> Result<TokenRow, Error> {
    Ok(TokenRow {
        id: row.take_text(0)?,
        prefix: row.take_text(1)?,
        kind: row.take_text(2)?,
        name: row.take_text(3)?,
        role: row.take_text(4)?,
        created_by: row.take_text(5)?,
        created_at: row.int(6)?,
        expires_at: row.int(7)?,
        last_used_at: row.optional_int(8)?,
        revoked_at: row.optional_int(9)?,
        now_ms: row.int(10)?,
    })
}

/// Decodes a row of `select_sessions!`: the session of a person who has signed in.
fn decode_session(mut row: Row) -> Result<SessionRow, Error> {
    Ok(SessionRow {
        id: row.take_text(0)?,
        name: row.take_text(1)?,
        role: row.take_text(2)?,
        created_at: row.int(3)?,
        last_used_at: row.int(4)?,
        now_ms: row.int(5)?,
    })
}

macro_rules! select_tokens {
    ($condition:literal) => {
        concat!(
            "SELECT id, prefix, kind, name, role, created_by, created_at, expires_at, last_used_at, revoked_at, \
             now_ms FROM tokens CROSS JOIN clock WHERE tenant = $1",
            $condition
        )
    };
}

macro_rules! select_sessions {
    ($condition:literal) => {
        concat!(
            "SELECT id, name, role, created_at, last_used_at, now_ms FROM sessions CROSS JOIN clock \
             WHERE tenant = $1",
            $condition
        )
    };
}

/// The token with this hash, whether it is still good or not.
pub fn token_by_hash(tenant: TenantId, hash: &[u8]) -> Select<TokenRow> {
    Select::new(select_tokens!(" AND hash = $2"), vec![tenant.into(), hash.into()], decode_token)
}

/// The token with this id, whether it is still good or not.
pub fn token_by_id(tenant: TenantId, id: &str) -> Select<TokenRow> {
    Select::new(select_tokens!(" AND id = $2"), vec![tenant.into(), id.into()], decode_token)
}

/// Every token, newest first.
pub fn list_tokens(tenant: TenantId) -> Select<TokenRow> {
    Select::new(select_tokens!(" ORDER BY created_at DESC, id"), vec![tenant.into()], decode_token)
}

/// Inserts a token that expires in `expires_in_ms`.
pub fn insert_token(tenant: TenantId, token: &TokenRow, hash: &[u8], expires_in_ms: i64) -> Statement {
    let sql = "INSERT INTO tokens (tenant, id, hash, prefix, kind, name, role, created_by, created_at, expires_at) \
         SELECT CAST($1 AS BIGINT), $2, $3, $4, $5, $6, $7, $8, now_ms, now_ms + $9 FROM clock";
    let params: Vec<SqlValue> = vec![
        tenant.into(),
        token.id.as_str().into(),
        hash.into(),
        token.prefix.as_str().into(),
        token.kind.as_str().into(),
        token.name.as_str().into(),
        token.role.as_str().into(),
        token.created_by.as_str().into(),
        expires_in_ms.into(),
    ];
    Statement::new(sql, params)
}

/// Lets a token expire in `expires_in_ms`, unless it expires before.
pub fn shorten_token(tenant: TenantId, id: &str, expires_in_ms: i64) -> Statement {
    let sql = "UPDATE tokens SET expires_at = (SELECT now_ms FROM clock) + $3 \
         WHERE tenant = $1 AND id = $2 AND expires_at > (SELECT now_ms FROM clock) + $3";
    Statement::new(sql, vec![tenant.into(), id.into(), expires_in_ms.into()])
}

/// Revokes a token; false: there is none with this id, or it was revoked before.
pub async fn revoke_token(db: &Db, tenant: TenantId, id: &str) -> Result<bool, Error> {
    let sql = "UPDATE tokens SET revoked_at = (SELECT now_ms FROM clock) \
         WHERE tenant = $1 AND id = $2 AND revoked_at IS NULL RETURNING id";
    returns_row(db, Statement::new(sql, vec![tenant.into(), id.into()])).await
}

/// Records the use of a token.
pub fn touch_token(tenant: TenantId, id: &str) -> Statement {
    let sql = "UPDATE tokens SET last_used_at = (SELECT now_ms FROM clock) WHERE tenant = $1 AND id = $2";
    Statement::new(sql, vec![tenant.into(), id.into()])
}

/// The session with this hash, whether it has been idle for too long or not.
pub fn session_by_hash(tenant: TenantId, hash: &[u8]) -> Select<SessionRow> {
    Select::new(select_sessions!(" AND hash = $2"), vec![tenant.into(), hash.into()], decode_session)
}

/// The session with this id, whether it has been idle for too long or not.
pub fn session_by_id(tenant: TenantId, id: &str) -> Select<SessionRow> {
    Select::new(select_sessions!(" AND id = $2"), vec![tenant.into(), id.into()], decode_session)
}

/// Every session, the one used last first.
pub fn list_sessions(tenant: TenantId) -> Select<SessionRow> {
    Select::new(select_sessions!(" ORDER BY last_used_at DESC, id"), vec![tenant.into()], decode_session)
}

/// Inserts a session, and deletes those that were last used more than `idle_ms` ago.
pub async fn insert_session(
    db: &Db,
    tenant: TenantId,
    id: &str,
    hash: &[u8],
    login: &LoginRow,
    idle_ms: i64,
) -> Result<(), Error> {
    let sweep = "DELETE FROM sessions WHERE tenant = $1 AND last_used_at < (SELECT now_ms FROM clock) - $2";
    let insert = "INSERT INTO sessions (tenant, id, hash, name, role, created_at, last_used_at) \
         SELECT CAST($1 AS BIGINT), $2, $3, $4, $5, now_ms, now_ms FROM clock";
    let params: Vec<SqlValue> =
        vec![tenant.into(), id.into(), hash.into(), login.name.as_str().into(), login.role.as_str().into()];
    let statements =
        vec![Statement::new(sweep, vec![tenant.into(), idle_ms.into()]), Statement::new(insert, params)];
    db.transact(statements).await.map(drop)
}

/// Deletes a session; false: there is none with this id.
pub async fn delete_session(db: &Db, tenant: TenantId, id: &str) -> Result<bool, Error> {
    let sql = "DELETE FROM sessions WHERE tenant = $1 AND id = $2 RETURNING id";
    returns_row(db, Statement::new(sql, vec![tenant.into(), id.into()])).await
}

/// Records the use of a session.
pub fn touch_session(tenant: TenantId, id: &str) -> Statement {
    let sql = "UPDATE sessions SET last_used_at = (SELECT now_ms FROM clock) WHERE tenant = $1 AND id = $2";
    Statement::new(sql, vec![tenant.into(), id.into()])
}

/// Inserts a login code that expires in `expires_in_ms`, and deletes those that have expired.
pub async fn insert_login_code(
    db: &Db,
    tenant: TenantId,
    hash: &[u8],
    login: &LoginRow,
    expires_in_ms: i64,
) -> Result<(), Error> {
    let sweep = "DELETE FROM login_codes WHERE expires_at <= (SELECT now_ms FROM clock)";
    let insert = "INSERT INTO login_codes (tenant, hash, name, role, expires_at) \
         SELECT CAST($1 AS BIGINT), $2, $3, $4, now_ms + $5 FROM clock";
    let params: Vec<SqlValue> = vec![
        tenant.into(),
        hash.into(),
        login.name.as_str().into(),
        login.role.as_str().into(),
        expires_in_ms.into(),
    ];
    db.transact(vec![Statement::new(sweep, vec![]), Statement::new(insert, params)]).await.map(drop)
}

/// Deletes a login code, so that it works once, and gives whom it signs in. None: unknown, used or expired.
pub async fn take_login_code(db: &Db, tenant: TenantId, hash: &[u8]) -> Result<Option<LoginRow>, Error> {
    let sql = "DELETE FROM login_codes WHERE tenant = $1 AND hash = $2 \
         AND expires_at > (SELECT now_ms FROM clock) RETURNING name, role";
    let rows = db.transact(vec![Statement::new(sql, vec![tenant.into(), hash.into()])]).await?;
    let first = rows.into_iter().flatten().next();
    first.map(|mut row| Ok(LoginRow { name: row.take_text(0)?, role: row.take_text(1)? })).transpose()
}

/// Whether a statement with RETURNING found a row.
async fn returns_row(db: &Db, statement: Statement) -> Result<bool, Error> {
    Ok(db.transact(vec![statement]).await?.iter().any(|rows| !rows.is_empty()))
}
