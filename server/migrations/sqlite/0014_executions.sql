-- An execution that runs and succeeds touches as few pages as can be: it is found by its number, its id, and
-- while it runs by when to look at it.
-- Kept in step with ../postgres/0014_executions.sql.
CREATE TABLE executions_anew (
    tenant        INTEGER NOT NULL,
    id            INTEGER NOT NULL,
    public_id     TEXT    NOT NULL,
    plan          TEXT    NOT NULL,
    plan_name     TEXT    NOT NULL,
    plan_version  INTEGER NOT NULL,
    task          TEXT,
    status        TEXT    NOT NULL,
    place         TEXT    NOT NULL,
    seat          TEXT,
    epoch         INTEGER NOT NULL CHECK (epoch >= 0),
    started_at    INTEGER NOT NULL,
    ended_at      INTEGER,
    look_again_at INTEGER,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, public_id),
    -- No IN: SQLite would build a table of the words for every row.
    CHECK (CASE WHEN ended_at IS NULL
        THEN status = 'running' OR status = 'paused' OR status = 'blocked' OR status = 'compensating'
        ELSE status = 'succeeded' OR status = 'failed' OR status = 'cancelled' OR status = 'compensated' END)
) STRICT, WITHOUT ROWID;
INSERT INTO executions_anew
    SELECT tenant, id, public_id, plan, plan_name, plan_version, task, status, place, seat, epoch, started_at,
        ended_at, look_again_at
    FROM executions ORDER BY tenant, id;
DROP TABLE executions;
ALTER TABLE executions_anew RENAME TO executions;
CREATE INDEX executions_to_look_at ON executions (tenant, look_again_at) WHERE look_again_at IS NOT NULL;
CREATE INDEX executions_by_task ON executions (tenant, task, id) WHERE task IS NOT NULL;
-- Those that run are looked at, and those that succeeded are most of all.
CREATE INDEX executions_by_status ON executions (tenant, status, id)
    WHERE status <> 'running' AND status <> 'succeeded';
