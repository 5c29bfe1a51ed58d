-- The project that executions, plans, templates, notes and tasks belong to; empty for what was written before there
-- were projects. Each project has names of its own for plans and templates, keys for notes and ids for tasks.
-- Kept in step with ../postgres/0016_projects.sql, table by table.
ALTER TABLE executions ADD COLUMN project TEXT NOT NULL DEFAULT '';

ALTER TABLE plans ADD COLUMN project TEXT NOT NULL DEFAULT '';
ALTER TABLE plans ADD COLUMN everywhere INTEGER NOT NULL DEFAULT 0 CHECK (everywhere IN (0, 1));
DROP INDEX plans_by_name;
CREATE UNIQUE INDEX plans_by_name ON plans (tenant, template, name, project, version) WHERE deleted = 0;

-- SQLite drops a constraint only with the table.
CREATE TABLE notes_anew (
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
    project    TEXT    NOT NULL DEFAULT '',
    everywhere INTEGER NOT NULL DEFAULT 0 CHECK (everywhere IN (0, 1)),
    PRIMARY KEY (tenant, stream),
    UNIQUE (tenant, scope, owner, key, project)
) STRICT, WITHOUT ROWID;
INSERT INTO notes_anew (tenant, stream, scope, owner, key, type, version, position, at, author, expires_at, deleted)
    SELECT tenant, stream, scope, owner, key, type, version, position, at, author, expires_at, deleted FROM notes;
DROP TABLE notes;
ALTER TABLE notes_anew RENAME TO notes;
CREATE UNIQUE INDEX notes_by_position ON notes (tenant, position);
CREATE INDEX notes_by_key ON notes (tenant, key, position);
CREATE INDEX notes_by_owner ON notes (tenant, scope, owner, position);
CREATE INDEX notes_by_type ON notes (tenant, type, position);

CREATE TABLE tasks_anew (
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
    project     TEXT    NOT NULL DEFAULT '',
    PRIMARY KEY (tenant, stream),
    UNIQUE (tenant, id, project)
) STRICT, WITHOUT ROWID;
INSERT INTO tasks_anew (tenant, stream, id, title, status, priority, estimate_ms, parent, type, labels, plan, step,
        version, position, added_at, at, author, fields)
    SELECT tenant, stream, id, title, status, priority, estimate_ms, parent, type, labels, plan, step, version,
        position, added_at, at, author, fields FROM tasks;
DROP TABLE tasks;
ALTER TABLE tasks_anew RENAME TO tasks;
CREATE INDEX tasks_by_status ON tasks (tenant, status, stream);
CREATE INDEX tasks_by_parent ON tasks (tenant, parent, stream) WHERE parent IS NOT NULL;
CREATE INDEX tasks_by_plan ON tasks (tenant, plan, parent) WHERE plan IS NOT NULL;
