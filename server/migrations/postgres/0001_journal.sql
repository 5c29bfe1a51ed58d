-- The journal, what it owns, and the projections that lists and searches read.
-- Kept in step with ../sqlite/0001_journal.sql, table by table. Text that is compared or sorted is
-- COLLATE "C", so that a prefix is a range here too.

CREATE TABLE tenants (
    id   BIGINT NOT NULL PRIMARY KEY,
    name TEXT   NOT NULL UNIQUE
);
INSERT INTO tenants (id, name) VALUES (1, 'default');

-- The one lock: whoever moves this row from (position, hash) appends what follows. Half of each
-- page stays free, so that the update of every append finds room beside the old row.
CREATE TABLE head (
    tenant   BIGINT NOT NULL PRIMARY KEY REFERENCES tenants (id),
    position BIGINT NOT NULL CHECK (position >= 0),
    hash     BYTEA  NOT NULL CHECK (length(hash) = 32)
) WITH (fillfactor = 50);
INSERT INTO head (tenant, position, hash) VALUES (1, 0, decode(repeat('00', 32), 'hex'));

-- `entry` is tenant * 2^40 + position.
CREATE TABLE journal (
    entry    BIGINT NOT NULL PRIMARY KEY,
    tenant   BIGINT NOT NULL,
    stream   BIGINT NOT NULL CHECK (stream >= 0),
    version  BIGINT NOT NULL CHECK (version > 0),
    at       BIGINT NOT NULL,
    actor    TEXT   NOT NULL,
    kind     TEXT   NOT NULL,
    body     TEXT   NOT NULL,
    hash     BYTEA  NOT NULL CHECK (length(hash) = 32),
    UNIQUE (tenant, stream, version),
    CHECK (entry > tenant * 1099511627776 AND entry < (tenant + 1) * 1099511627776)
);

CREATE FUNCTION journal_refuses() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the journal is append-only'; END $$;
CREATE TRIGGER journal_refuses_change BEFORE UPDATE OR DELETE OR TRUNCATE ON journal
FOR EACH STATEMENT EXECUTE FUNCTION journal_refuses();

-- Ends a transaction whose first statement found the head elsewhere, so that the statements sent
-- along with it, the COMMIT included, write nothing.
CREATE FUNCTION head_moved(strict BOOLEAN) RETURNS BIGINT LANGUAGE plpgsql AS
$$ BEGIN
    IF strict THEN RAISE EXCEPTION 'the head moved' USING ERRCODE = 'AB001'; END IF;
    RETURN 0;
END $$;

CREATE TABLE payloads (
    entry BIGINT NOT NULL PRIMARY KEY,
    body  BYTEA  NOT NULL
);

CREATE TABLE salts (
    tenant BIGINT NOT NULL,
    stream BIGINT NOT NULL,
    salt   BYTEA  NOT NULL,
    PRIMARY KEY (tenant, stream)
);

CREATE TABLE plans (
    tenant   BIGINT NOT NULL,
    id       TEXT   COLLATE "C" NOT NULL,
    name     TEXT   COLLATE "C" NOT NULL,
    version  BIGINT NOT NULL CHECK (version > 0),
    digest   TEXT   NOT NULL,
    position BIGINT NOT NULL,
    saved_at BIGINT NOT NULL,
    steps    BIGINT NOT NULL CHECK (steps >= 0),
    deleted  BIGINT NOT NULL DEFAULT 0 CHECK (deleted IN (0, 1)),
    PRIMARY KEY (tenant, id, version)
);
CREATE UNIQUE INDEX plans_by_name ON plans (tenant, name, version) WHERE deleted = 0;

CREATE TABLE executions (
    tenant        BIGINT NOT NULL,
    id            BIGINT NOT NULL,
    public_id     TEXT   COLLATE "C" NOT NULL,
    plan          TEXT   NOT NULL,
    plan_name     TEXT   NOT NULL,
    plan_version  BIGINT NOT NULL,
    task          TEXT,
    status        TEXT   COLLATE "C" NOT NULL CHECK (status IN
        ('running', 'paused', 'blocked', 'compensating', 'succeeded', 'failed', 'cancelled', 'compensated')),
    place         TEXT   NOT NULL,
    seat          TEXT,
    epoch         BIGINT NOT NULL CHECK (epoch >= 0),
    started_at    BIGINT NOT NULL,
    ended_at      BIGINT,
    look_again_at BIGINT,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, public_id),
    CHECK ((ended_at IS NULL) = (status IN ('running', 'paused', 'blocked', 'compensating')))
);
CREATE INDEX executions_to_look_at ON executions (tenant, look_again_at) WHERE look_again_at IS NOT NULL;
CREATE INDEX executions_by_status ON executions (tenant, status, id);
CREATE INDEX executions_by_start ON executions (tenant, started_at);

CREATE TABLE requests (
    tenant BIGINT NOT NULL,
    caller TEXT   COLLATE "C" NOT NULL,
    key    TEXT   COLLATE "C" NOT NULL,
    digest BYTEA  NOT NULL,
    result TEXT   NOT NULL,
    at     BIGINT NOT NULL,
    PRIMARY KEY (tenant, caller, key)
);

-- One row per living process; a lease runs out in database time.
CREATE TABLE seats (
    seat    TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    host    TEXT   NOT NULL,
    boot    TEXT   NOT NULL,
    process BIGINT NOT NULL,
    until   BIGINT NOT NULL
);

-- Database time, so that statements need not differ.
CREATE VIEW clock AS SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT) AS now_ms;
