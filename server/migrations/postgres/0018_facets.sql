-- What lists, statistics and the dashboard read: written by a projector that follows the journal, not by appends.
-- Kept in step with ../sqlite/0018_facets.sql, table by table.

-- Null in rows that a former version wrote. `done` and `first_error` (the position of the first failed step's
-- error) are set while the execution does not run.
ALTER TABLE executions ADD COLUMN done BIGINT;
ALTER TABLE executions ADD COLUMN total BIGINT;
ALTER TABLE executions ADD COLUMN first_error BIGINT;

-- Plans by name, deleted ones included: their executions are still listed.
CREATE INDEX plans_by_any_name ON plans (tenant, name, id);

-- A value by which executions are listed. `latest` is the newest stretch in which it occurs.
CREATE TABLE facets (
    tenant BIGINT NOT NULL,
    id     BIGINT NOT NULL,
    name   TEXT COLLATE "C" NOT NULL,
    value  TEXT COLLATE "C" NOT NULL,
    latest BIGINT NOT NULL,
    n      BIGINT NOT NULL CHECK (n > 0),
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, name, value)
);

-- The executions with a value in one stretch of 65,536 ids. `earlier` is the value's stretch before, -1 if there
-- is none. The stretch comes first, so that the projector writes to few pages.
CREATE TABLE marks (
    tenant  BIGINT NOT NULL,
    stretch BIGINT NOT NULL,
    value   BIGINT NOT NULL,
    earlier BIGINT NOT NULL,
    held    BYTEA    NOT NULL,
    PRIMARY KEY (tenant, stretch, value)
);

CREATE TABLE totals (
    tenant  BIGINT NOT NULL,
    project TEXT COLLATE "C" NOT NULL,
    status  TEXT COLLATE "C" NOT NULL,
    n       BIGINT NOT NULL,
    PRIMARY KEY (tenant, project, status)
);

-- Statistics of an hour (grain 3,600,000) and of a day (grain 86,400,000); `period` is time / grain.
CREATE TABLE counts (
    tenant   BIGINT NOT NULL,
    grain    BIGINT NOT NULL,
    kind     TEXT COLLATE "C" NOT NULL,
    period   BIGINT NOT NULL,
    project  TEXT COLLATE "C" NOT NULL,
    plan     TEXT COLLATE "C" NOT NULL,
    name     TEXT COLLATE "C" NOT NULL,
    outcome  TEXT COLLATE "C" NOT NULL,
    category TEXT COLLATE "C" NOT NULL,
    n        BIGINT NOT NULL,
    total_ms BIGINT NOT NULL,
    top      BIGINT,
    top_at   BIGINT,
    buckets  BYTEA    NOT NULL,
    PRIMARY KEY (tenant, grain, kind, period, project, plan, name, outcome, category)
);

-- The first and the last position with a time in each hour.
CREATE TABLE hours (
    tenant BIGINT NOT NULL,
    hour   BIGINT NOT NULL,
    first  BIGINT NOT NULL,
    last   BIGINT NOT NULL,
    PRIMARY KEY (tenant, hour)
);

-- Calls that failed or are unknown. The text stays in the payload at `position`, so that `cleanup` erases it; the
-- fingerprint is empty once it has.
CREATE TABLE errors (
    tenant      BIGINT NOT NULL,
    stream      BIGINT NOT NULL,
    position    BIGINT NOT NULL,
    at          BIGINT NOT NULL,
    tool        TEXT COLLATE "C" NOT NULL,
    category    TEXT COLLATE "C" NOT NULL,
    fingerprint TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, stream, position)
);
CREATE INDEX errors_by_time ON errors (tenant, at);

-- Questions that wait for a person.
CREATE TABLE questions (
    tenant   BIGINT NOT NULL,
    stream   BIGINT NOT NULL,
    position BIGINT NOT NULL,
    kind     TEXT COLLATE "C" NOT NULL CHECK (kind IN ('approval', 'decision')),
    step     TEXT,
    asked_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, stream, position)
);
CREATE INDEX questions_by_time ON questions (tenant, asked_at, position);

-- An agent's confidence in a step, in millionths, and the step's outcome.
CREATE TABLE confidences (
    tenant     BIGINT NOT NULL,
    stream     BIGINT NOT NULL,
    position   BIGINT NOT NULL,
    step       TEXT COLLATE "C" NOT NULL,
    confidence BIGINT NOT NULL CHECK (confidence >= 0 AND confidence <= 1000000),
    outcome    TEXT CHECK (outcome IN ('succeeded', 'failed', 'unknown')),
    at         BIGINT NOT NULL,
    PRIMARY KEY (tenant, stream, position)
);
CREATE INDEX confidences_by_time ON confidences (tenant, at);

-- The former projections stay, empty, for a process of the former version that still runs.
DELETE FROM calls;
DELETE FROM troubles;
DELETE FROM waits;
DELETE FROM claims;
DELETE FROM actors;
DELETE FROM caught_up WHERE name = 'calls';
