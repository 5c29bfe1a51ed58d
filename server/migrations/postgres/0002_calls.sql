-- What was seen of tools: one row per call, and how far the journal has been read for them.
-- Kept in step with ../sqlite/0002_calls.sql, table by table.

-- `said` is the position of the payload that holds the error's words, so that `cleanup` takes them along.
-- An open call has no outcome; one whose end nobody saw took nobody knows how long.
CREATE TABLE calls (
    tenant       BIGINT NOT NULL,
    stream       BIGINT NOT NULL,
    step         TEXT   COLLATE "C" NOT NULL,
    kind         TEXT   COLLATE "C" NOT NULL CHECK (kind IN ('run', 'probe', 'compensation')),
    number       BIGINT NOT NULL CHECK (number >= 0),
    plan         TEXT   NOT NULL,
    plan_version BIGINT NOT NULL,
    server       TEXT   COLLATE "C",
    tool         TEXT   COLLATE "C",
    agent        BIGINT NOT NULL CHECK (agent IN (0, 1)),
    started_at   BIGINT NOT NULL,
    took_ms      BIGINT,
    outcome      TEXT CHECK (outcome IN ('succeeded', 'failed', 'unknown')),
    category     TEXT,
    sent         BIGINT NOT NULL CHECK (sent IN (0, 1)),
    said         BIGINT,
    PRIMARY KEY (tenant, stream, step, kind, number)
);
CREATE INDEX calls_by_tool ON calls (tenant, tool, started_at);

-- How far a projection that is caught up when asked for has read. Below zero refuses whoever read an
-- older cursor.
CREATE TABLE caught_up (
    tenant   BIGINT NOT NULL,
    name     TEXT   NOT NULL,
    position BIGINT NOT NULL CHECK (position >= 0),
    PRIMARY KEY (tenant, name)
);
