//! Cursors of the projections that follow the journal: how far each has read it.

use actbook_engine::id::TenantId;

use super::{Select, Statement};

/// A projection that follows the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectionCursor {
    /// The tables that the projector writes: `facets`, `counts` and others.
    Executions,
    /// The table `starts`.
    Starts,
    /// The index of journal segments; see `journal_index`.
    JournalIndex,
}

impl ProjectionCursor {
    /// The cursor's name in the table.
    fn name(self) -> &'static str {
        match self {
            ProjectionCursor::Executions => "executions",
            ProjectionCursor::Starts => "starts",
            ProjectionCursor::JournalIndex => "stretches",
        }
    }
}

/// The last position that the projection has read. No row: it was never built.
pub fn position(tenant: TenantId, cursor: ProjectionCursor) -> Select<u64> {
    Select::new(
        "SELECT position FROM caught_up WHERE tenant = $1 AND name = $2",
        vec![tenant.into(), cursor.name().into()],
        |row| row.uint(0),
    )
}

/// Moves the cursor from `from` to `to`. Must be the first statements of their transaction: the update locks
/// the row, so that concurrent builders run one after the other, and one that did not start at `from` would
/// write -1, which violates the table's constraint.
pub fn advance(tenant: TenantId, cursor: ProjectionCursor, from: u64, to: u64) -> [Statement; 2] {
    [
        Statement::new(
            "INSERT INTO caught_up (tenant, name, position) VALUES ($1, $2, 0) ON CONFLICT DO NOTHING",
            vec![tenant.into(), cursor.name().into()],
        ),
        Statement::new(
            "UPDATE caught_up SET position = \
             CASE WHEN position = $3 THEN CAST($4 AS BIGINT) ELSE CAST(-1 AS BIGINT) END \
             WHERE tenant = $1 AND name = $2",
            vec![tenant.into(), cursor.name().into(), from.into(), to.into()],
        ),
    ]
}

/// Sets a cursor, without a comparison: for rows that do not change if they are written again.
pub fn set(tenant: TenantId, cursor: ProjectionCursor, to: u64) -> Statement {
    Statement::new(
        "INSERT INTO caught_up (tenant, name, position) VALUES ($1, $2, $3) \
         ON CONFLICT (tenant, name) DO UPDATE SET position = excluded.position",
        vec![tenant.into(), cursor.name().into(), to.into()],
    )
}

/// Deletes all cursors, so that the next reader builds the projections from the beginning.
pub fn reset(tenant: TenantId) -> Statement {
    Statement::new("DELETE FROM caught_up WHERE tenant = $1", vec![tenant.into()])
}
