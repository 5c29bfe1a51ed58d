-- The project that executions, plans, templates, notes and tasks belong to; empty for what was written before there
-- were projects. Each project has names of its own for plans and templates, keys for notes and ids for tasks.
-- Kept in step with ../sqlite/0016_projects.sql, table by table.
ALTER TABLE executions ADD COLUMN project TEXT COLLATE "C" NOT NULL DEFAULT '';

ALTER TABLE plans ADD COLUMN project TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE plans ADD COLUMN everywhere BIGINT NOT NULL DEFAULT 0 CHECK (everywhere IN (0, 1));
DROP INDEX plans_by_name;
CREATE UNIQUE INDEX plans_by_name ON plans (tenant, template, name, project, version) WHERE deleted = 0;

ALTER TABLE notes ADD COLUMN project TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE notes ADD COLUMN everywhere BIGINT NOT NULL DEFAULT 0 CHECK (everywhere IN (0, 1));
ALTER TABLE notes DROP CONSTRAINT notes_tenant_scope_owner_key_key;
ALTER TABLE notes ADD UNIQUE (tenant, scope, owner, key, project);

ALTER TABLE tasks ADD COLUMN project TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE tasks DROP CONSTRAINT tasks_tenant_id_key;
ALTER TABLE tasks ADD UNIQUE (tenant, id, project);
