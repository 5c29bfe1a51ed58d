-- Templates lie among the plans, with names of their own.
-- Kept in step with ../sqlite/0011_templates.sql.
ALTER TABLE plans ADD COLUMN template BIGINT NOT NULL DEFAULT 0 CHECK (template IN (0, 1));
DROP INDEX plans_by_name;
CREATE UNIQUE INDEX plans_by_name ON plans (tenant, template, name, version) WHERE deleted = 0;

-- Whose subtasks follow a plan that has changed.
CREATE INDEX tasks_by_plan ON tasks (tenant, plan, parent) WHERE plan IS NOT NULL;
