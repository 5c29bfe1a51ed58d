//! The true differences between SQLite and PostgreSQL, both texts side by side with the reason.
//! Everything else is written once. Database time is the view `clock` in both migrations.

/// Appending. SQLite runs in this process, so a statement costs a microsecond and one row each is
/// fastest; PostgreSQL is a round trip away, so a batch is one statement.
pub(super) mod append {
    /// Zero rows: the head is elsewhere.
    pub const SQLITE_HEAD: &str =
        "UPDATE head SET position = $4, hash = $5 WHERE tenant = $1 AND position = $2 AND hash = $3";
    pub const SQLITE_ENTRY: &str = "INSERT INTO journal \
         (tenant, entry, stream, version, at, actor, kind, body, hash) \
         VALUES ($1, $1 * 1099511627776 + $2, $3, $4, $5, $6, $7, $8, $9)";
    pub const SQLITE_PAYLOAD: &str =
        "INSERT INTO payloads (entry, body) VALUES ($1 * 1099511627776 + $2, $3)";

    /// One row with 1, or 0 where the head is elsewhere; with `$16`, an error instead of the 0.
    pub const POSTGRES: &str = "WITH moved AS ( \
             UPDATE head SET position = $4, hash = $5 \
             WHERE tenant = $1 AND position = $2 AND hash = $3 RETURNING tenant), \
         entries AS ( \
             INSERT INTO journal (tenant, entry, stream, version, at, actor, kind, body, hash) \
             SELECT $1, $1 * 1099511627776 + position, stream, version, at, actor, kind, body, hash \
             FROM moved, UNNEST( \
                 $6::BIGINT[], $7::BIGINT[], $8::BIGINT[], $9::BIGINT[], \
                 $10::TEXT[], $11::TEXT[], $12::TEXT[], $13::BYTEA[]) \
                 AS e (position, stream, version, at, actor, kind, body, hash)), \
         bodies AS ( \
             INSERT INTO payloads (entry, body) \
             SELECT $1 * 1099511627776 + position, body \
             FROM moved, UNNEST($14::BIGINT[], $15::BYTEA[]) AS p (position, body)) \
         SELECT CASE WHEN EXISTS (SELECT 1 FROM moved) \
             THEN (SELECT 1 FROM pg_notify('actbook', $1::BIGINT || ':' || $4::BIGINT)) \
             ELSE head_moved($16) END";

    /// What `head_moved` raises.
    pub const POSTGRES_HEAD_MOVED: &str = "AB001";
}

/// A transaction that means to write. SQLite must say so at its start: one that begins with a read
/// and then writes is refused, without waiting, when another process wrote in between.
pub(super) mod begin {
    pub const SQLITE: &str = "BEGIN IMMEDIATE";
    pub const POSTGRES: &str = "BEGIN";
}

/// The head, held: nobody else appends until this transaction ends. SQLite's write lock, taken at
/// the start, already is that; PostgreSQL locks the row, and those who wait are served in turn.
pub(super) mod hold {
    pub const SQLITE: &str = crate::store::journal::HEAD;
    pub const POSTGRES: &str = "SELECT position, hash FROM head WHERE tenant = $1 FOR UPDATE";
}

/// Alone while migrating. SQLite's write lock already is that; PostgreSQL needs a lock that exists
/// before the first table does. The number is arbitrary and only ours.
pub(super) mod migrate {
    pub const POSTGRES_LOCK: &str = "SELECT pg_advisory_xact_lock(4700116899)";
    pub const SQLITE_HAS_TABLE: &str = "SELECT name FROM sqlite_schema WHERE name = 'migrations'";
    pub const POSTGRES_HAS_TABLE: &str =
        "SELECT 1::BIGINT FROM pg_catalog.pg_class WHERE oid = to_regclass('migrations')";
}

/// Another process's word. PostgreSQL tells; SQLite has to be asked, and answers from shared memory.
pub(super) mod listen {
    pub const SQLITE: &str = "SELECT data_version FROM pragma_data_version";
    pub const POSTGRES: &str = "LISTEN actbook";
}
