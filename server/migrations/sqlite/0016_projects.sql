-- The project that an execution belongs to; empty for what was started before there were projects.
-- Kept in step with ../postgres/0016_projects.sql.
ALTER TABLE executions ADD COLUMN project TEXT NOT NULL DEFAULT '';
