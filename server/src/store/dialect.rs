//! The SQL that must differ between SQLite and PostgreSQL, both texts side by side with the reason. All
//! other SQL is written once. The database's time is the view `clock` in both migrations.

/// The SQL dialect of an open database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Sqlite,
    Postgres,
}

/// Appending. SQLite runs in this process, where a statement costs a microsecond, so one statement per row
/// with native placeholders is fastest. PostgreSQL costs a round trip, so a batch is one statement.
pub(super) mod append {
    /// Updates no row if another process has moved the head.
    pub const SQLITE_HEAD: &str =
        "UPDATE head SET position = ?4, hash = ?5 WHERE tenant = ?1 AND position = ?2 AND hash = ?3";
    pub const SQLITE_ENTRY: &str = "INSERT INTO journal \
         (tenant, entry, stream, version, at, actor, kind, body, hash) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    pub const SQLITE_PAGE: &str = "INSERT INTO pages (tenant, stream, page) VALUES (?1, ?2, ?3)";
    pub const SQLITE_PAYLOAD: &str = "INSERT INTO payloads (entry, body) VALUES (?1, ?2)";

    /// Returns one row: 1, or 0 if another process has moved the head. If `$16` is true, a moved head is an
    /// error instead. If `$17` is true, other processes are notified.
    pub const POSTGRES: &str = "WITH moved AS ( \
             UPDATE head SET position = $4, hash = $5 \
             WHERE tenant = $1 AND position = $2 AND hash = $3 RETURNING tenant), \
         entries AS ( \
             INSERT INTO journal (tenant, entry, stream, version, at, actor, kind, body, hash) \
             SELECT $1, entry, stream, version, at, actor, kind, body, hash \
             FROM moved, UNNEST( \
                 $6::BIGINT[], $7::BIGINT[], $8::BIGINT[], $9::BIGINT[], \
                 $10::TEXT[], $11::TEXT[], $12::TEXT[], $13::BYTEA[]) \
                 AS e (entry, stream, version, at, actor, kind, body, hash)), \
         bodies AS ( \
             INSERT INTO payloads (entry, body) \
             SELECT entry, body FROM moved, UNNEST($14::BIGINT[], $15::BYTEA[]) AS p (entry, body)), \
         turned AS ( \
             INSERT INTO pages (tenant, stream, page) \
             SELECT $1, stream, page FROM moved, UNNEST($18::BIGINT[], $19::BIGINT[]) AS t (stream, page)) \
         SELECT CASE WHEN EXISTS (SELECT 1 FROM moved) \
             THEN CASE WHEN $17 \
                 THEN (SELECT 1 FROM pg_notify('actbook', $1::BIGINT || ':' || $4::BIGINT)) ELSE 1 END \
             ELSE head_moved($16) END";

    /// Notifies other processes of batches that were appended without a notification.
    pub const POSTGRES_NOTIFY: &str =
        "SELECT 1::BIGINT FROM pg_notify('actbook', $1::BIGINT || ':' || $2::BIGINT)";

    /// The SQLSTATE that `head_moved` raises.
    pub const POSTGRES_HEAD_MOVED: &str = "AB001";
}

/// Begins a write transaction. SQLite must take the write lock at the start: a transaction that reads first
/// and then writes fails at once, without waiting, if another process wrote in between.
pub(super) mod begin {
    pub const SQLITE: &str = "BEGIN IMMEDIATE";
    pub const POSTGRES: &str = "BEGIN";
}

/// Makes commits return before they are durable: of a connection on SQLite, of one transaction on PostgreSQL.
/// Neither lets a later durable commit survive a power cut without the earlier ones.
pub(super) mod relaxed_durability {
    pub const SQLITE: &str = "PRAGMA synchronous = NORMAL";
    pub const POSTGRES: &str = "SET LOCAL synchronous_commit = off";
}

/// Reads and locks the head: no other process can append until this transaction ends. On SQLite the write
/// lock, taken at the start, is enough; PostgreSQL locks the row and serves waiting transactions in order.
pub(super) mod lock_head {
    pub const SQLITE: &str = crate::store::journal::HEAD;
    pub const POSTGRES: &str = "SELECT position, hash FROM head WHERE tenant = $1 FOR UPDATE";
}

/// Migrating, one process at a time. On SQLite the write lock is enough; PostgreSQL needs an advisory lock,
/// because no table exists yet to lock. The lock's number is arbitrary.
pub(super) mod migrate {
    pub const POSTGRES_LOCK: &str = "SELECT pg_advisory_xact_lock(4700116899)";
    /// Counts a file's tables, and those of them that every version of Actbook has created.
    pub const SQLITE_TABLES: &str = "SELECT count(*), \
         count(*) FILTER (WHERE name IN ('migrations', 'tenants', 'head', 'journal', 'payloads', 'salts')) \
         FROM sqlite_schema WHERE type = 'table'";
    /// The second count of `SQLITE_TABLES` in a database of Actbook.
    pub const SQLITE_OWN_TABLES: i64 = 6;
    pub const SQLITE_HAS_TABLE: &str = "SELECT name FROM sqlite_schema WHERE name = 'migrations'";
    pub const POSTGRES_HAS_TABLE: &str =
        "SELECT 1::BIGINT FROM pg_catalog.pg_class WHERE oid = to_regclass('migrations')";
}

/// Learning of appends by other processes. PostgreSQL pushes notifications; SQLite is polled, which reads
/// only shared memory.
pub(super) mod listen {
    pub const SQLITE: &str = "SELECT data_version FROM pragma_data_version";
    pub const POSTGRES: &str = "LISTEN actbook";
}

/// Reads the entries of stream `$N`, whose first page is `$P`, by the pages it is on. The cross join makes SQLite start with the pages.
/// PostgreSQL overestimates how selective the stream number is and would scan the whole journal; the lateral
/// subquery for each page makes it use the primary key.
pub(super) mod stream_entries {
    macro_rules! from_pages {
        (sqlite, $n:literal, $p:literal) => {
            concat!(from_pages!(leaves, $n, $p), "CROSS JOIN journal ")
        };
        (postgres, $n:literal, $p:literal) => {
            concat!(
                from_pages!(leaves, $n, $p),
                "CROSS JOIN LATERAL (SELECT * FROM journal AS whole WHERE whole.entry >= leaves.page * 128 \
                 AND whole.entry < leaves.page * 128 + 128 OFFSET 0) AS journal "
            )
        };
        (leaves, $n:literal, $p:literal) => {
            concat!(
                "(SELECT CAST($",
                $p,
                " AS BIGINT) AS page UNION ALL SELECT page FROM pages WHERE tenant = $1 AND stream = $",
                $n,
                ") AS leaves "
            )
        };
    }
    macro_rules! is_on_page {
        ($n:literal) => {
            concat!(
                "journal.entry >= leaves.page * 128 AND journal.entry < leaves.page * 128 + 128 \
                 AND journal.stream = $",
                $n
            )
        };
    }
    pub(super) use {from_pages, is_on_page};

    macro_rules! entries {
        ($database:ident) => {
            concat!(
                "SELECT entry, stream, version, at, actor, kind, body, hash FROM ",
                from_pages!($database, 2, 3),
                "WHERE leaves.page >= CAST($4 AS BIGINT) / 128 AND ",
                is_on_page!(2),
                " AND journal.entry > $4 ORDER BY journal.entry"
            )
        };
    }
    macro_rules! payloads {
        ($database:ident) => {
            concat!(
                "SELECT payloads.entry, payloads.body FROM ",
                from_pages!($database, 2, 3),
                "JOIN payloads ON payloads.entry = journal.entry WHERE ",
                is_on_page!(2),
                " ORDER BY payloads.entry"
            )
        };
    }
    macro_rules! erase {
        ($database:ident) => {
            concat!(
                "DELETE FROM payloads WHERE entry IN (SELECT journal.entry FROM ",
                from_pages!($database, 2, 3),
                "WHERE ",
                is_on_page!(2),
                ")"
            )
        };
    }

    pub const SQLITE: &str = entries!(sqlite);
    pub const POSTGRES: &str = entries!(postgres);
    pub const SQLITE_PAYLOADS: &str = payloads!(sqlite);
    pub const POSTGRES_PAYLOADS: &str = payloads!(postgres);
    pub const SQLITE_ERASE: &str = erase!(sqlite);
    pub const POSTGRES_ERASE: &str = erase!(postgres);
}

/// Filters entries by all their attributes. What agents record is in payloads, whose bytes are converted to
/// text differently.
pub(super) mod entries {
    use super::stream_entries::{from_pages, is_on_page};

    macro_rules! matches_word {
        ($word:literal, $recorded:literal) => {
            concat!(
                " AND (CAST($",
                $word,
                " AS TEXT) IS NULL OR lower(kind || ' ' || actor || ' ' || body || ' ' || CASE \
                 WHEN kind IN ('action_recorded.1', 'action_recorded.2', 'decision_recorded.1') THEN COALESCE((SELECT ",
                $recorded,
                " FROM payloads WHERE payloads.entry = journal.entry), '') ELSE '' END) LIKE $",
                $word,
                " ESCAPE '\\')"
            )
        };
    }

    // `1 = (SELECT …)` instead of `EXISTS` makes the planner look up the execution for each row rather than
    // start with all executions.
    macro_rules! filter_sql {
        ($recorded:literal, $from:expr, $stream:expr) => {
            concat!(
                "SELECT entry, stream, version, at, actor, kind, body, hash FROM ",
                $from,
                " WHERE entry > $2 AND entry <= $3 \
                 AND ($4 = '' OR kind = $18 OR substr(kind, 1, length(CAST($4 AS TEXT))) = $4) \
                 AND ($5 = '' OR actor = $5) AND at >= $6 AND at < $7 \
                 AND (CAST($8 AS TEXT) IS NULL OR body LIKE $8)",
                matches_word!(9, $recorded),
                matches_word!(10, $recorded),
                matches_word!(11, $recorded),
                matches_word!(12, $recorded),
                " AND (CAST($14 AS BIGINT) = 0 OR 1 = (SELECT 1 FROM executions WHERE executions.tenant = $1 \
                 AND executions.id = journal.stream AND ($15 = '' OR executions.plan = $15 OR \
                 executions.plan_name = $15) AND ($16 = '' OR executions.task = $16) \
                 AND ($17 = '' OR executions.status = $17)))",
                $stream,
                " ORDER BY entry LIMIT $13"
            )
        };
    }

    // A filter by one stream has its own text, so that its entries are found by the stream's pages.
    pub const SQLITE: &str = filter_sql!("CAST(payloads.body AS TEXT)", "journal", " AND tenant = $1");
    pub const SQLITE_OF_STREAM: &str = filter_sql!(
        "CAST(payloads.body AS TEXT)",
        from_pages!(sqlite, 19, 20),
        concat!(" AND ", is_on_page!(19))
    );
    pub const POSTGRES: &str =
        filter_sql!("convert_from(payloads.body, 'UTF8')", "journal", " AND tenant = $1");
    pub const POSTGRES_OF_STREAM: &str = filter_sql!(
        "convert_from(payloads.body, 'UTF8')",
        from_pages!(postgres, 19, 20),
        concat!(" AND ", is_on_page!(19))
    );
}

/// Full-text search of notes: an FTS5 table, or a `tsvector` with a GIN index. Both get tokens from
/// Actbook's own tokenizer and split only at spaces, so that both find the same notes. The rank is the
/// position, plus 2^42 if a term is in the key: matches in the key come first, then the newest.
pub(super) mod search {
    use crate::store::executions::{within, within_or_everywhere};

    pub const SQLITE_INSERT: &str = "INSERT INTO note_words (rowid, key, value) VALUES ($1, $2, $3)";
    pub const POSTGRES_INSERT: &str =
        "INSERT INTO note_words (rowid, words) VALUES ($1, CAST(CAST($2 AS TEXT) AS TSVECTOR))";

    macro_rules! hits {
        ($hits:literal, $join:literal, $order:literal) => {
            concat!(
                "SELECT stream, scope, owner, key, type, version, position, at, author, expires_at, deleted, \
                 project, everywhere, hits.rank FROM (",
                $hits,
                ") AS hits ",
                $join,
                " notes ON notes.tenant = $1 AND notes.position = hits.found \
                 WHERE hits.rank < $4 AND (notes.expires_at IS NULL OR notes.expires_at > $5) \
                 AND ($6 = '' OR notes.type = $6) AND ($7 = '' OR notes.key = $7) \
                 AND ($8 = '' OR notes.scope = $8 AND notes.owner = $9) AND ",
                within_or_everywhere!(11),
                " ",
                $order,
                "LIMIT $10"
            )
        };
    }

    // Hits are sorted by rank before any note is read, and notes are read until the page is full: a page
    // costs its own notes, not those of every hit.

    /// SQLite runs a subquery with a limit by itself and in its order, and a cross join keeps the order of
    /// its left side. An outer ORDER BY would make it read every note to sort again.
    pub const SQLITE: &str = hits!(
        "SELECT rowid - $12 AS found, rowid - $12 + CASE WHEN rowid IN \
         (SELECT rowid FROM note_words WHERE note_words MATCH $3) THEN 4398046511104 ELSE 0 END AS rank \
         FROM note_words WHERE note_words MATCH $2 \
         AND rowid > $12 AND rowid <= $13 \
         ORDER BY rank DESC LIMIT -1 OFFSET 0",
        "CROSS JOIN",
        ""
    );
    /// The sums keep PostgreSQL from using the primary key for the tenant's range, which would read
    /// every note of the tenant.
    pub const POSTGRES: &str = hits!(
        "SELECT rowid - $12 AS found, rowid - $12 + CASE WHEN \
         words @@ CAST(CAST($3 AS TEXT) AS TSQUERY) THEN 4398046511104 ELSE 0 END AS rank \
         FROM note_words WHERE words @@ CAST(CAST($2 AS TEXT) AS TSQUERY) \
         AND rowid + 0 > $12 AND rowid + 0 <= $13 ORDER BY rank DESC OFFSET 0",
        "JOIN",
        "ORDER BY hits.rank DESC "
    );
}
