-- What lists, statistics and the dashboard read: written by a projector that follows the journal, not by appends.
-- Kept in step with ../postgres/0018_facets.sql, table by table.

-- Null in rows that a former version wrote. `done` and `first_error` (the position of the first failed step's
-- error) are set while the execution does not run.
ALTER TABLE executions ADD COLUMN done INTEGER;
ALTER TABLE executions ADD COLUMN total INTEGER;
ALTER TABLE executions ADD COLUMN first_error INTEGER;

-- Plans by name, deleted ones included: their executions are still listed.
CREATE INDEX plans_by_any_name ON plans (tenant, name, id);

-- A value by which executions are listed. `latest` is the newest stretch in which it occurs.
CREATE TABLE facets (
    tenant INTEGER NOT NULL,
    id     INTEGER NOT NULL,
    name   TEXT    NOT NULL,
    value  TEXT    NOT NULL,
    latest INTEGER NOT NULL,
    n      INTEGER NOT NULL CHECK (n > 0),
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, name, value)
) STRICT;

-- The executions with a value in one stretch of 65,536 ids. `earlier` is the value's stretch before, -1 if there
-- is none. The stretch comes first, so that the projector writes to few pages.
CREATE TABLE marks (
    tenant  INTEGER NOT NULL,
    stretch INTEGER NOT NULL,
    value   INTEGER NOT NULL,
    earlier INTEGER NOT NULL,
    held    BLOB    NOT NULL,
    PRIMARY KEY (tenant, stretch, value)
) STRICT;

CREATE TABLE totals (
    tenant  INTEGER NOT NULL,
    project TEXT    NOT NULL,
    status  TEXT    NOT NULL,
    n       INTEGER NOT NULL,
    PRIMARY KEY (tenant, project, status)
) STRICT, WITHOUT ROWID;

-- Statistics of an hour (grain 3,600,000) and of a day (grain 86,400,000); `period` is time / grain.
CREATE TABLE counts (
    tenant   INTEGER NOT NULL,
    grain    INTEGER NOT NULL,
    kind     TEXT    NOT NULL,
    period   INTEGER NOT NULL,
    project  TEXT    NOT NULL,
    plan     TEXT    NOT NULL,
    name     TEXT    NOT NULL,
    outcome  TEXT    NOT NULL,
    category TEXT    NOT NULL,
    n        INTEGER NOT NULL,
    total_ms INTEGER NOT NULL,
    top      INTEGER,
    top_at   INTEGER,
    buckets  BLOB    NOT NULL,
    PRIMARY KEY (tenant, grain, kind, period, project, plan, name, outcome, category)
) STRICT, WITHOUT ROWID;

-- The first and the last position with a time in each hour.
CREATE TABLE hours (
    tenant INTEGER NOT NULL,
    hour   INTEGER NOT NULL,
    first  INTEGER NOT NULL,
    last   INTEGER NOT NULL,
    PRIMARY KEY (tenant, hour)
) STRICT, WITHOUT ROWID;

-- Calls that failed or are unknown. The text stays in the payload at `position`, so that `cleanup` erases it; the
-- fingerprint is empty once it has.
CREATE TABLE errors (
    tenant      INTEGER NOT NULL,
    stream      INTEGER NOT NULL,
    position    INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    tool        TEXT    NOT NULL,
    category    TEXT    NOT NULL,
    fingerprint TEXT    NOT NULL,
    PRIMARY KEY (tenant, stream, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX errors_by_time ON errors (tenant, at);

-- Questions that wait for a person.
CREATE TABLE questions (
    tenant   INTEGER NOT NULL,
    stream   INTEGER NOT NULL,
    position INTEGER NOT NULL,
    kind     TEXT    NOT NULL CHECK (kind IN ('approval', 'decision')),
    step     TEXT,
    asked_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, stream, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX questions_by_time ON questions (tenant, asked_at, position);

-- An agent's confidence in a step, in millionths, and the step's outcome.
CREATE TABLE confidences (
    tenant     INTEGER NOT NULL,
    stream     INTEGER NOT NULL,
    position   INTEGER NOT NULL,
    step       TEXT    NOT NULL,
    confidence INTEGER NOT NULL CHECK (confidence >= 0 AND confidence <= 1000000),
    outcome    TEXT CHECK (outcome IN ('succeeded', 'failed', 'unknown')),
    at         INTEGER NOT NULL,
    PRIMARY KEY (tenant, stream, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX confidences_by_time ON confidences (tenant, at);

-- The former projections stay, empty, for a process of the former version that still runs.
DELETE FROM calls;
DELETE FROM troubles;
DELETE FROM waits;
DELETE FROM claims;
DELETE FROM actors;
DELETE FROM caught_up WHERE name = 'calls';
