-- An execution that runs and succeeds touches as few pages as can be: it is found by its number, its id, and
-- while it runs by when to look at it.
-- Kept in step with ../sqlite/0014_executions.sql.
DROP INDEX executions_by_start;
DROP INDEX executions_by_status;
-- Those that run are looked at, and those that succeeded are most of all.
CREATE INDEX executions_by_status ON executions (tenant, status, id)
    WHERE status <> 'running' AND status <> 'succeeded';
