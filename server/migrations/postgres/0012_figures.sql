-- More that is caught up when somebody asks, beside `calls`: what statistics and lists of the past are
-- made from. Nobody writes here while executions run.
-- Kept in step with ../sqlite/0012_figures.sql, table by table.

-- Steps that were left failed or unknown, one row per entry that says so.
CREATE TABLE troubles (
    tenant   BIGINT NOT NULL,
    stream   BIGINT NOT NULL,
    position BIGINT NOT NULL,
    step     TEXT   COLLATE "C" NOT NULL,
    outcome  TEXT   NOT NULL CHECK (outcome IN ('failed', 'unknown')),
    category TEXT   COLLATE "C" NOT NULL,
    at       BIGINT NOT NULL,
    PRIMARY KEY (tenant, stream, position)
);
CREATE INDEX troubles_by_category ON troubles (tenant, category, stream);

-- Questions that people were asked; `took_ms` is null while one waits.
CREATE TABLE waits (
    tenant   BIGINT NOT NULL,
    stream   BIGINT NOT NULL,
    position BIGINT NOT NULL,
    kind     TEXT   NOT NULL CHECK (kind IN ('approval', 'decision')),
    step     TEXT   COLLATE "C",
    asked_at BIGINT NOT NULL,
    took_ms  BIGINT,
    PRIMARY KEY (tenant, stream, position)
);

-- How sure an agent said it was of a step, in millionths, and what came of the step.
CREATE TABLE claims (
    tenant     BIGINT NOT NULL,
    stream     BIGINT NOT NULL,
    position   BIGINT NOT NULL,
    step       TEXT   COLLATE "C" NOT NULL,
    confidence BIGINT NOT NULL CHECK (confidence >= 0 AND confidence <= 1000000),
    outcome    TEXT CHECK (outcome IN ('succeeded', 'failed', 'unknown')),
    at         BIGINT NOT NULL,
    PRIMARY KEY (tenant, stream, position)
);

-- Who has entries in an execution.
CREATE TABLE actors (
    tenant BIGINT NOT NULL,
    actor  TEXT   COLLATE "C" NOT NULL,
    stream BIGINT NOT NULL,
    PRIMARY KEY (tenant, actor, stream)
);
CREATE INDEX actors_by_stream ON actors (tenant, stream);

-- What is in which stretch of the journal, so that whoever looks for something rare reads only the
-- stretches that hold it.
CREATE TABLE stretches (
    tenant   BIGINT NOT NULL,
    name     TEXT   COLLATE "C" NOT NULL CHECK (name IN ('any', 'kind', 'actor', 'plan', 'task', 'category')),
    value    TEXT   COLLATE "C" NOT NULL,
    stretch  BIGINT NOT NULL,
    first_at BIGINT NOT NULL,
    last_at  BIGINT NOT NULL,
    PRIMARY KEY (tenant, name, value, stretch)
);

-- The whole journal is read again for the new tables.
DELETE FROM caught_up WHERE name = 'calls';
