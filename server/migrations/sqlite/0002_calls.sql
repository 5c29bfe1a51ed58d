-- What was seen of tools: one row per call, and how far the journal has been read for them.
-- Kept in step with ../postgres/0002_calls.sql, table by table.

-- `said` is the position of the payload that holds the error's words, so that `cleanup` takes them along.
-- An open call has no outcome; one whose end nobody saw took nobody knows how long.
CREATE TABLE calls (
    tenant       INTEGER NOT NULL,
    stream       INTEGER NOT NULL,
    step         TEXT    NOT NULL,
    kind         TEXT    NOT NULL CHECK (kind IN ('run', 'probe', 'compensation')),
    number       INTEGER NOT NULL CHECK (number >= 0),
    plan         TEXT    NOT NULL,
    plan_version INTEGER NOT NULL,
    server       TEXT,
    tool         TEXT,
    agent        INTEGER NOT NULL CHECK (agent IN (0, 1)),
    started_at   INTEGER NOT NULL,
    took_ms      INTEGER,
    outcome      TEXT CHECK (outcome IN ('succeeded', 'failed', 'unknown')),
    category     TEXT,
    sent         INTEGER NOT NULL CHECK (sent IN (0, 1)),
    said         INTEGER,
    PRIMARY KEY (tenant, stream, step, kind, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX calls_by_tool ON calls (tenant, tool, started_at);

-- How far a projection that is caught up when asked for has read. Below zero refuses whoever read an
-- older cursor.
CREATE TABLE caught_up (
    tenant   INTEGER NOT NULL,
    name     TEXT    NOT NULL,
    position INTEGER NOT NULL CHECK (position >= 0),
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
