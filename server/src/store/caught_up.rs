//! How far the journal has been read for the projections that are made when somebody asks for them.

use super::{Select, Statement};

/// Which projection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cursor {
    /// Everything that is made from whole executions; see `seen`.
    Seen,
    Stretches,
}

impl Cursor {
    fn name(self) -> &'static str {
        match self {
            Cursor::Seen => "calls",
            Cursor::Stretches => "stretches",
        }
    }
}

/// The position up to which the journal is in the rows; none: nobody has asked yet.
pub fn position(tenant: i64, cursor: Cursor) -> Select<u64> {
    Select::new(
        "SELECT position FROM caught_up WHERE tenant = $1 AND name = $2",
        vec![tenant.into(), cursor.name().into()],
        |row| row.count(0),
    )
}

/// Moves the cursor, first of all statements of its transaction: it takes the row, so that two who catch
/// up at once do so one after the other, and the constraint ends whoever began from another position.
pub fn advance(tenant: i64, cursor: Cursor, from: u64, to: u64) -> [Statement; 2] {
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

/// The next who asks reads everything again.
pub fn forget(tenant: i64) -> Statement {
    Statement::new("DELETE FROM caught_up WHERE tenant = $1", vec![tenant.into()])
}
