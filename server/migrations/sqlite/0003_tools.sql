-- Tools as they were described when a plan was saved or an operator accepted them, secrets struck out:
-- what a tool that changed is compared with.
-- Kept in step with ../postgres/0003_tools.sql, table by table.

CREATE TABLE tools (
    tenant INTEGER NOT NULL,
    digest TEXT    NOT NULL,
    name   TEXT    NOT NULL,
    object TEXT    NOT NULL,
    PRIMARY KEY (tenant, digest)
) STRICT, WITHOUT ROWID;
