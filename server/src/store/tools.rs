//! Recorded tool definitions, by the digest that plans are pinned to. Not derived from the journal; used
//! only to show how a tool has changed.

use actbook_engine::id::TenantId;

use super::{Error, Row, Select, Statement};

/// One row of the table `tools`: a tool's definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolRow {
    pub digest: String,
    /// `server/tool` of the first tool seen with this definition; another server may offer the same.
    pub name: String,
    /// The definition as JSON. Secrets are redacted, so its digest may differ from `digest`.
    pub definition: String,
}

/// Inserts a definition, unless its digest is known.
pub fn insert(tenant: TenantId, tool: &ToolRow) -> Statement {
    Statement::new(
        "INSERT INTO tools (tenant, digest, name, object) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (tenant, digest) DO NOTHING",
        vec![
            tenant.into(),
            tool.digest.as_str().into(),
            tool.name.as_str().into(),
            tool.definition.as_str().into(),
        ],
    )
}

/// Decodes a row.
fn decode_tool(mut row: Row) -> Result<ToolRow, Error> {
    Ok(ToolRow { digest: row.take_text(0)?, name: row.take_text(1)?, definition: row.take_text(2)? })
}

/// The definition with this digest.
pub fn by_digest(tenant: TenantId, digest: &str) -> Select<ToolRow> {
    Select::new(
        "SELECT digest, name, object FROM tools WHERE tenant = $1 AND digest = $2",
        vec![tenant.into(), digest.into()],
        decode_tool,
    )
}
