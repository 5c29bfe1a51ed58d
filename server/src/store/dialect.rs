//! The true differences between SQLite and PostgreSQL, both texts side by side with the reason.
//! Everything else is written once. Database time is the view `clock` in both migrations.

/// Which of the two texts to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Sqlite,
    Postgres,
}

/// Appending. SQLite runs in this process, so a statement costs a microsecond and one row each is
/// fastest, in its own way of writing; PostgreSQL is a round trip away, so a batch is one statement.
pub(super) mod append {
    /// Zero rows: the head is elsewhere.
    pub const SQLITE_HEAD: &str =
        "UPDATE head SET position = ?4, hash = ?5 WHERE tenant = ?1 AND position = ?2 AND hash = ?3";
    pub const SQLITE_ENTRY: &str = "INSERT INTO journal \
         (tenant, entry, stream, version, at, actor, kind, body, hash) \
         VALUES (?1, ?1 * 1099511627776 + ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    pub const SQLITE_PAGE: &str =
        "INSERT INTO pages (tenant, stream, page) VALUES (?1, ?2, (?1 * 1099511627776 + ?3) / 128)";
    pub const SQLITE_PAYLOAD: &str =
        "INSERT INTO payloads (entry, body) VALUES (?1 * 1099511627776 + ?2, ?3)";

    /// One row with 1, or 0 where the head is elsewhere; with `$16`, an error instead of the 0. With `$17` the others are told.
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
             FROM moved, UNNEST($14::BIGINT[], $15::BYTEA[]) AS p (position, body)), \
         turned AS ( \
             INSERT INTO pages (tenant, stream, page) \
             SELECT $1, stream, ($1 * 1099511627776 + position) / 128 \
             FROM moved, UNNEST($18::BIGINT[], $19::BIGINT[]) AS t (stream, position)) \
         SELECT CASE WHEN EXISTS (SELECT 1 FROM moved) \
             THEN CASE WHEN $17 \
                 THEN (SELECT 1 FROM pg_notify('actbook', $1::BIGINT || ':' || $4::BIGINT)) ELSE 1 END \
             ELSE head_moved($16) END";

    /// What was appended without a word, told afterwards.
    pub const POSTGRES_RING: &str =
        "SELECT 1::BIGINT FROM pg_notify('actbook', $1::BIGINT || ':' || $2::BIGINT)";

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
    /// How many tables a file has, and how many of them every database of Actbook's has had since the first.
    pub const SQLITE_TABLES: &str = "SELECT count(*), \
         count(*) FILTER (WHERE name IN ('migrations', 'tenants', 'head', 'journal', 'payloads', 'salts')) \
         FROM sqlite_schema WHERE type = 'table'";
    pub const SQLITE_OWN_TABLES: i64 = 6;
    pub const SQLITE_HAS_TABLE: &str = "SELECT name FROM sqlite_schema WHERE name = 'migrations'";
    pub const POSTGRES_HAS_TABLE: &str =
        "SELECT 1::BIGINT FROM pg_catalog.pg_class WHERE oid = to_regclass('migrations')";
}

/// Another process's word. PostgreSQL tells; SQLite has to be asked, and answers from shared memory.
pub(super) mod listen {
    pub const SQLITE: &str = "SELECT data_version FROM pragma_data_version";
    pub const POSTGRES: &str = "LISTEN actbook";
}

/// The stream `$N` by the pages it is on. The cross join has SQLite begin with them. PostgreSQL thinks so much
/// of the stream's number that it would rather read the whole journal for it; asked for each page by itself, it
/// goes by the key.
pub(super) mod of_stream {
    macro_rules! on_pages {
        (sqlite, $n:literal) => {
            concat!(on_pages!(leaves, $n), "CROSS JOIN journal ")
        };
        (postgres, $n:literal) => {
            concat!(
                on_pages!(leaves, $n),
                "CROSS JOIN LATERAL (SELECT * FROM journal AS whole WHERE whole.entry >= leaves.page * 128 \
                 AND whole.entry < leaves.page * 128 + 128 OFFSET 0) AS journal "
            )
        };
        (leaves, $n:literal) => {
            concat!(
                "(SELECT ($1 * 1099511627776 + $",
                $n,
                ") / 128 AS page UNION ALL SELECT page FROM pages WHERE tenant = $1 AND stream = $",
                $n,
                ") AS leaves "
            )
        };
    }
    macro_rules! is_there {
        ($n:literal) => {
            concat!(
                "journal.entry >= leaves.page * 128 AND journal.entry < leaves.page * 128 + 128 \
                 AND journal.stream = $",
                $n
            )
        };
    }
    pub(super) use {is_there, on_pages};

    macro_rules! entries {
        ($database:ident) => {
            concat!(
                "SELECT entry - $1 * 1099511627776, stream, version, at, actor, kind, body, hash FROM ",
                on_pages!($database, 2),
                "WHERE leaves.page >= ($1 * 1099511627776 + $3) / 128 AND ",
                is_there!(2),
                " AND journal.entry > $1 * 1099511627776 + $3 ORDER BY journal.entry"
            )
        };
    }
    macro_rules! payloads {
        ($database:ident) => {
            concat!(
                "SELECT payloads.entry - $1 * 1099511627776, payloads.body FROM ",
                on_pages!($database, 2),
                "JOIN payloads ON payloads.entry = journal.entry WHERE ",
                is_there!(2),
                " ORDER BY payloads.entry"
            )
        };
    }
    macro_rules! erase {
        ($database:ident) => {
            concat!(
                "DELETE FROM payloads WHERE entry IN (SELECT journal.entry FROM ",
                on_pages!($database, 2),
                "WHERE ",
                is_there!(2),
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

/// Entries by everything that is known of them. What agents put on record lies in payloads, whose bytes
/// become a text in different ways.
pub(super) mod entries {
    use super::of_stream::{is_there, on_pages};

    macro_rules! holds {
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

    // The execution is looked up row by row, by a number that is compared, so that no plan begins with
    // all executions instead.
    macro_rules! filtered {
        ($recorded:literal, $from:expr, $stream:expr) => {
            concat!(
                "SELECT entry - $1 * 1099511627776, stream, version, at, actor, kind, body, hash FROM ",
                $from,
                " WHERE entry > $1 * 1099511627776 + $2 AND entry <= $1 * 1099511627776 + $3 \
                 AND ($4 = '' OR kind = $18 OR substr(kind, 1, length(CAST($4 AS TEXT))) = $4) \
                 AND ($5 = '' OR actor = $5) AND at >= $6 AND at < $7 \
                 AND (CAST($8 AS TEXT) IS NULL OR body LIKE $8)",
                holds!(9, $recorded),
                holds!(10, $recorded),
                holds!(11, $recorded),
                holds!(12, $recorded),
                " AND (CAST($14 AS BIGINT) = 0 OR 1 = (SELECT 1 FROM executions WHERE executions.tenant = $1 \
                 AND executions.id = journal.stream AND ($15 = '' OR executions.plan = $15 OR \
                 executions.plan_name = $15) AND ($16 = '' OR executions.task = $16) \
                 AND ($17 = '' OR executions.status = $17)))",
                $stream,
                " ORDER BY entry LIMIT $13"
            )
        };
    }

    // One execution's entries have a text of their own, so that they are found by its pages.
    pub const SQLITE: &str = filtered!("CAST(payloads.body AS TEXT)", "journal", " AND tenant = $1");
    pub const SQLITE_OF_STREAM: &str =
        filtered!("CAST(payloads.body AS TEXT)", on_pages!(sqlite, 19), concat!(" AND ", is_there!(19)));
    pub const POSTGRES: &str =
        filtered!("convert_from(payloads.body, 'UTF8')", "journal", " AND tenant = $1");
    pub const POSTGRES_OF_STREAM: &str = filtered!(
        "convert_from(payloads.body, 'UTF8')",
        on_pages!(postgres, 19),
        concat!(" AND ", is_there!(19))
    );
}

/// Notes by their words: FTS5's own table and operators, or a `tsvector` with a GIN index. Both are
/// handed words that Actbook has made and split at spaces only, so that both find the same. The rank
/// is the position, with 2^42 added where a term is in the key: key before value, then newest first.
pub(super) mod search {
    use crate::store::executions::{within, within_or_everywhere};

    pub const SQLITE_INSERT: &str =
        "INSERT INTO note_words (rowid, key, value) VALUES ($1 * 1099511627776 + $2, $3, $4)";
    pub const POSTGRES_INSERT: &str = "INSERT INTO note_words (rowid, words) \
         VALUES ($1 * 1099511627776 + $2, CAST(CAST($3 AS TEXT) AS TSVECTOR))";

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

    // The ranks are put in order before any note is read, and notes are read until the page is full:
    // a page costs its own notes, not those of every hit.

    /// A subquery with a limit is run by itself and in its order, and a cross join keeps the order of
    /// its left side; with an order outside too, SQLite would read every note to sort it again.
    pub const SQLITE: &str = hits!(
        "SELECT rowid - $1 * 1099511627776 AS found, rowid - $1 * 1099511627776 + CASE WHEN rowid IN \
         (SELECT rowid FROM note_words WHERE note_words MATCH $3) THEN 4398046511104 ELSE 0 END AS rank \
         FROM note_words WHERE note_words MATCH $2 \
         AND rowid > $1 * 1099511627776 AND rowid < ($1 + 1) * 1099511627776 \
         ORDER BY rank DESC LIMIT -1 OFFSET 0",
        "CROSS JOIN",
        ""
    );
    /// The division keeps the tenant's range out of the primary key's index, which knows nothing of
    /// words and would give every note of the tenant.
    pub const POSTGRES: &str = hits!(
        "SELECT rowid - $1 * 1099511627776 AS found, rowid - $1 * 1099511627776 + CASE WHEN \
         words @@ CAST(CAST($3 AS TEXT) AS TSQUERY) THEN 4398046511104 ELSE 0 END AS rank \
         FROM note_words WHERE words @@ CAST(CAST($2 AS TEXT) AS TSQUERY) \
         AND rowid / 1099511627776 = $1 ORDER BY rank DESC OFFSET 0",
        "JOIN",
        "ORDER BY hits.rank DESC "
    );
}
