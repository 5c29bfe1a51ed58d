-- Notes and tasks, each a stream of the journal, as they stand; and the words by which notes are found.
-- Kept in step with ../sqlite/0010_notes.sql, table by table.

-- `position` is that of the newest entry: whoever lists notes newest first goes by it.
CREATE TABLE notes (
    tenant     BIGINT NOT NULL,
    stream     BIGINT NOT NULL,
    scope      TEXT   COLLATE "C" NOT NULL CHECK (scope IN ('everybody', 'task', 'plan', 'execution')),
    owner      TEXT   COLLATE "C" NOT NULL,
    key        TEXT   COLLATE "C" NOT NULL,
    type       TEXT   COLLATE "C" NOT NULL,
    version    BIGINT NOT NULL CHECK (version > 0),
    position   BIGINT NOT NULL,
    at         BIGINT NOT NULL,
    author     TEXT   NOT NULL,
    expires_at BIGINT,
    deleted    BIGINT NOT NULL DEFAULT 0 CHECK (deleted IN (0, 1)),
    PRIMARY KEY (tenant, stream),
    UNIQUE (tenant, scope, owner, key)
);
CREATE UNIQUE INDEX notes_by_position ON notes (tenant, position);
CREATE INDEX notes_by_key ON notes (tenant, key, position);
CREATE INDEX notes_by_owner ON notes (tenant, scope, owner, position);
CREATE INDEX notes_by_type ON notes (tenant, type, position);

-- One row per note that can be found; rowid is tenant * 2^40 + position of its value. The words are
-- made by Actbook, so that both databases have the same ones; those of the key have weight A.
CREATE TABLE note_words (
    rowid BIGINT   NOT NULL PRIMARY KEY,
    words TSVECTOR NOT NULL
);
-- Without a pending list: a search must not pay for the writes before it.
CREATE INDEX note_words_by_word ON note_words USING GIN (words) WITH (fastupdate = off);

CREATE TABLE tasks (
    tenant      BIGINT NOT NULL,
    stream      BIGINT NOT NULL,
    id          TEXT   COLLATE "C" NOT NULL,
    title       TEXT   NOT NULL,
    status      TEXT   COLLATE "C" NOT NULL
        CHECK (status IN ('open', 'in_progress', 'blocked', 'done', 'cancelled')),
    priority    BIGINT NOT NULL,
    estimate_ms BIGINT,
    parent      TEXT   COLLATE "C",
    type        TEXT,
    labels      TEXT   NOT NULL,
    plan        TEXT,
    step        TEXT,
    version     BIGINT NOT NULL CHECK (version > 0),
    position    BIGINT NOT NULL,
    added_at    BIGINT NOT NULL,
    at          BIGINT NOT NULL,
    author      TEXT   NOT NULL,
    fields      BIGINT,
    PRIMARY KEY (tenant, stream),
    UNIQUE (tenant, id)
);
CREATE INDEX tasks_by_status ON tasks (tenant, status, stream);
CREATE INDEX tasks_by_parent ON tasks (tenant, parent, stream) WHERE parent IS NOT NULL;

-- The outside task that a saved plan belongs to.
ALTER TABLE plans ADD COLUMN task TEXT COLLATE "C";
CREATE INDEX plans_by_task ON plans (tenant, task, position) WHERE task IS NOT NULL;
CREATE INDEX executions_by_task ON executions (tenant, task, id) WHERE task IS NOT NULL;
