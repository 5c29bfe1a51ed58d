-- Notes and tasks, each a stream of the journal, as they stand; and the words by which notes are found.
-- Kept in step with ../postgres/0010_notes.sql, table by table.

-- `position` is that of the newest entry: whoever lists notes newest first goes by it.
CREATE TABLE notes (
    tenant     INTEGER NOT NULL,
    stream     INTEGER NOT NULL,
    scope      TEXT    NOT NULL CHECK (scope IN ('everybody', 'task', 'plan', 'execution')),
    owner      TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    type       TEXT    NOT NULL,
    version    INTEGER NOT NULL CHECK (version > 0),
    position   INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    author     TEXT    NOT NULL,
    expires_at INTEGER,
    deleted    INTEGER NOT NULL DEFAULT 0 CHECK (deleted IN (0, 1)),
    PRIMARY KEY (tenant, stream),
    UNIQUE (tenant, scope, owner, key)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX notes_by_position ON notes (tenant, position);
CREATE INDEX notes_by_key ON notes (tenant, key, position);
CREATE INDEX notes_by_owner ON notes (tenant, scope, owner, position);
CREATE INDEX notes_by_type ON notes (tenant, type, position);

-- One row per note that can be found; rowid is tenant * 2^40 + position of its value. The words are
-- made by Actbook, so that both databases have the same ones; this tokenizer only splits at spaces.
CREATE VIRTUAL TABLE note_words USING fts5 (key, value, tokenize = 'ascii');
-- A word that was deleted must not stay in the index.
INSERT INTO note_words (note_words, rank) VALUES ('secure-delete', 1);

CREATE TABLE tasks (
    tenant      INTEGER NOT NULL,
    stream      INTEGER NOT NULL,
    id          TEXT    NOT NULL,
    title       TEXT    NOT NULL,
    status      TEXT    NOT NULL CHECK (status IN ('open', 'in_progress', 'blocked', 'done', 'cancelled')),
    priority    INTEGER NOT NULL,
    estimate_ms INTEGER,
    parent      TEXT,
    type        TEXT,
    labels      TEXT    NOT NULL,
    plan        TEXT,
    step        TEXT,
    version     INTEGER NOT NULL CHECK (version > 0),
    position    INTEGER NOT NULL,
    added_at    INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    author      TEXT    NOT NULL,
    fields      INTEGER,
    PRIMARY KEY (tenant, stream),
    UNIQUE (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX tasks_by_status ON tasks (tenant, status, stream);
CREATE INDEX tasks_by_parent ON tasks (tenant, parent, stream) WHERE parent IS NOT NULL;

-- The outside task that a saved plan belongs to.
ALTER TABLE plans ADD COLUMN task TEXT;
CREATE INDEX plans_by_task ON plans (tenant, task, position) WHERE task IS NOT NULL;
CREATE INDEX executions_by_task ON executions (tenant, task, id) WHERE task IS NOT NULL;
