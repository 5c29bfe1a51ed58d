-- The journal, what it owns, and the projections that lists and searches read.
-- Kept in step with ../postgres/0001_journal.sql, table by table.

CREATE TABLE tenants (
    id   INTEGER NOT NULL PRIMARY KEY,
    name TEXT    NOT NULL UNIQUE
) STRICT;
INSERT INTO tenants (id, name) VALUES (1, 'default');

-- The one lock: whoever moves this row from (position, hash) appends what follows.
CREATE TABLE head (
    tenant   INTEGER NOT NULL PRIMARY KEY REFERENCES tenants (id),
    position INTEGER NOT NULL CHECK (position >= 0),
    hash     BLOB    NOT NULL CHECK (length(hash) = 32)
) STRICT;
INSERT INTO head (tenant, position, hash) VALUES (1, 0, zeroblob(32));

-- `entry` is tenant * 2^40 + position: one number, so that rows are only ever added at the end and
-- none moves between pages.
CREATE TABLE journal (
    entry    INTEGER NOT NULL PRIMARY KEY,
    tenant   INTEGER NOT NULL,
    stream   INTEGER NOT NULL CHECK (stream >= 0),
    version  INTEGER NOT NULL CHECK (version > 0),
    at       INTEGER NOT NULL,
    actor    TEXT    NOT NULL,
    kind     TEXT    NOT NULL,
    body     TEXT    NOT NULL,
    hash     BLOB    NOT NULL CHECK (length(hash) = 32),
    UNIQUE (tenant, stream, version),
    CHECK (entry > tenant * 1099511627776 AND entry < (tenant + 1) * 1099511627776)
) STRICT;

CREATE TRIGGER journal_refuses_update BEFORE UPDATE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER journal_refuses_delete BEFORE DELETE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;

CREATE TABLE payloads (
    entry INTEGER NOT NULL PRIMARY KEY,
    body  BLOB    NOT NULL
) STRICT;

CREATE TABLE salts (
    tenant INTEGER NOT NULL,
    stream INTEGER NOT NULL,
    salt   BLOB    NOT NULL,
    PRIMARY KEY (tenant, stream)
) STRICT, WITHOUT ROWID;

CREATE TABLE plans (
    tenant   INTEGER NOT NULL,
    id       TEXT    NOT NULL,
    name     TEXT    NOT NULL,
    version  INTEGER NOT NULL CHECK (version > 0),
    digest   TEXT    NOT NULL,
    position INTEGER NOT NULL,
    saved_at INTEGER NOT NULL,
    steps    INTEGER NOT NULL CHECK (steps >= 0),
    deleted  INTEGER NOT NULL DEFAULT 0 CHECK (deleted IN (0, 1)),
    PRIMARY KEY (tenant, id, version)
) STRICT;
CREATE UNIQUE INDEX plans_by_name ON plans (tenant, name, version) WHERE deleted = 0;

CREATE TABLE executions (
    tenant        INTEGER NOT NULL,
    id            INTEGER NOT NULL,
    public_id     TEXT    NOT NULL,
    plan          TEXT    NOT NULL,
    plan_name     TEXT    NOT NULL,
    plan_version  INTEGER NOT NULL,
    task          TEXT,
    status        TEXT    NOT NULL,
    place         TEXT    NOT NULL,
    seat          TEXT,
    epoch         INTEGER NOT NULL CHECK (epoch >= 0),
    started_at    INTEGER NOT NULL,
    ended_at      INTEGER,
    look_again_at INTEGER,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, public_id),
    -- No IN: SQLite would build a table of the words for every row.
    CHECK (CASE WHEN ended_at IS NULL
        THEN status = 'running' OR status = 'paused' OR status = 'blocked' OR status = 'compensating'
        ELSE status = 'succeeded' OR status = 'failed' OR status = 'cancelled' OR status = 'compensated' END)
) STRICT;
CREATE INDEX executions_to_look_at ON executions (tenant, look_again_at) WHERE look_again_at IS NOT NULL;
CREATE INDEX executions_by_status ON executions (tenant, status, id);
CREATE INDEX executions_by_start ON executions (tenant, started_at);

CREATE TABLE requests (
    tenant INTEGER NOT NULL,
    caller TEXT    NOT NULL,
    key    TEXT    NOT NULL,
    digest BLOB    NOT NULL,
    result TEXT    NOT NULL,
    at     INTEGER NOT NULL,
    PRIMARY KEY (tenant, caller, key)
) STRICT, WITHOUT ROWID;

-- One row per living process; a lease runs out in database time.
CREATE TABLE seats (
    seat    TEXT    NOT NULL PRIMARY KEY,
    host    TEXT    NOT NULL,
    boot    TEXT    NOT NULL,
    process INTEGER NOT NULL,
    until   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Database time, so that statements need not differ.
CREATE VIEW clock AS SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) AS now_ms;
