-- Streams are found by the pages of the journal that they are on, 128 entries each, instead of by an index row
-- per entry.
-- Kept in step with ../postgres/0013_pages.sql.

-- `page` is entry / 128. A stream's first page is that of its number, and is not listed.
CREATE TABLE pages (
    tenant INTEGER NOT NULL,
    stream INTEGER NOT NULL,
    page   INTEGER NOT NULL,
    PRIMARY KEY (tenant, stream, page)
) STRICT, WITHOUT ROWID;
INSERT INTO pages (tenant, stream, page)
    SELECT DISTINCT tenant, stream, entry / 128 FROM journal
    WHERE entry / 128 <> (tenant * 1099511627776 + stream) / 128;

-- The journal without its index: SQLite drops a constraint only with the table.
CREATE TABLE journal_anew (
    entry    INTEGER NOT NULL PRIMARY KEY,
    tenant   INTEGER NOT NULL,
    stream   INTEGER NOT NULL CHECK (stream >= 0),
    version  INTEGER NOT NULL CHECK (version > 0),
    at       INTEGER NOT NULL,
    actor    TEXT    NOT NULL,
    kind     TEXT    NOT NULL,
    body     TEXT    NOT NULL,
    hash     BLOB    NOT NULL CHECK (length(hash) = 32),
    CHECK (entry > tenant * 1099511627776 AND entry < (tenant + 1) * 1099511627776)
) STRICT;
INSERT INTO journal_anew SELECT entry, tenant, stream, version, at, actor, kind, body, hash FROM journal
    ORDER BY entry;
DROP TABLE journal;
ALTER TABLE journal_anew RENAME TO journal;

CREATE TRIGGER journal_refuses_update BEFORE UPDATE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER journal_refuses_delete BEFORE DELETE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
