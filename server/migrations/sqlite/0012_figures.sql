-- More that is caught up when somebody asks, beside `calls`: what statistics and lists of the past are
-- made from. Nobody writes here while executions run.
-- Kept in step with ../postgres/0012_figures.sql, table by table.

-- Steps that were left failed or unknown, one row per entry that says so.
CREATE TABLE troubles (
    tenant   INTEGER NOT NULL,
    stream   INTEGER NOT NULL,
    position INTEGER NOT NULL,
    step     TEXT    NOT NULL,
    outcome  TEXT    NOT NULL CHECK (outcome IN ('failed', 'unknown')),
    category TEXT    NOT NULL,
    at       INTEGER NOT NULL,
    PRIMARY KEY (tenant, stream, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX troubles_by_category ON troubles (tenant, category, stream);

-- Questions that people were asked; `took_ms` is null while one waits.
CREATE TABLE waits (
    tenant   INTEGER NOT NULL,
    stream   INTEGER NOT NULL,
    position INTEGER NOT NULL,
    kind     TEXT    NOT NULL CHECK (kind IN ('approval', 'decision')),
    step     TEXT,
    asked_at INTEGER NOT NULL,
    took_ms  INTEGER,
    PRIMARY KEY (tenant, stream, position)
) STRICT, WITHOUT ROWID;

-- How sure an agent said it was of a step, in millionths, and what came of the step.
CREATE TABLE claims (
    tenant     INTEGER NOT NULL,
    stream     INTEGER NOT NULL,
    position   INTEGER NOT NULL,
    step       TEXT    NOT NULL,
    confidence INTEGER NOT NULL CHECK (confidence >= 0 AND confidence <= 1000000),
    outcome    TEXT CHECK (outcome IN ('succeeded', 'failed', 'unknown')),
    at         INTEGER NOT NULL,
    PRIMARY KEY (tenant, stream, position)
) STRICT, WITHOUT ROWID;

-- Who has entries in an execution.
CREATE TABLE actors (
    tenant INTEGER NOT NULL,
    actor  TEXT    NOT NULL,
    stream INTEGER NOT NULL,
    PRIMARY KEY (tenant, actor, stream)
) STRICT, WITHOUT ROWID;
CREATE INDEX actors_by_stream ON actors (tenant, stream);

-- What is in which stretch of the journal, so that whoever looks for something rare reads only the
-- stretches that hold it.
CREATE TABLE stretches (
    tenant   INTEGER NOT NULL,
    name     TEXT    NOT NULL CHECK (name IN ('any', 'kind', 'actor', 'plan', 'task', 'category')),
    value    TEXT    NOT NULL,
    stretch  INTEGER NOT NULL,
    first_at INTEGER NOT NULL,
    last_at  INTEGER NOT NULL,
    PRIMARY KEY (tenant, name, value, stretch)
) STRICT, WITHOUT ROWID;

-- The whole journal is read again for the new tables.
DELETE FROM caught_up WHERE name = 'calls';
