//! Tools as they were described once, by the digest that plans are pinned to. Beside the journal, not
//! derived from it: only what a changed tool is compared with.

use super::{Error, Row, Select, Statement};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    pub digest: String,
    /// `server/tool`, as it was first seen; another server may offer the very same one.
    pub name: String,
    /// JSON, with secrets struck out: it need not give the digest again.
    pub object: String,
}

pub fn insert(tenant: i64, tool: &Tool) -> Statement {
    Statement::new(
        "INSERT INTO tools (tenant, digest, name, object) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (tenant, digest) DO NOTHING",
        vec![
            tenant.into(),
            tool.digest.as_str().into(),
            tool.name.as_str().into(),
            tool.object.as_str().into(),
        ],
    )
}

fn tool(mut row: Row) -> Result<Tool, Error> {
    Ok(Tool { digest: row.take_text(0)?, name: row.take_text(1)?, object: row.take_text(2)? })
}

pub fn find(tenant: i64, digest: &str) -> Select<Tool> {
    Select::new(
        "SELECT digest, name, object FROM tools WHERE tenant = $1 AND digest = $2",
        vec![tenant.into(), digest.into()],
        tool,
    )
}
