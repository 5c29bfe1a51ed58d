-- Who may call over HTTP: tokens of programs and people, sessions of browsers, and one-time login codes. Only
-- hashes of secrets are stored. Times are epoch milliseconds.
-- Kept in step with ../postgres/0017_credentials.sql, table by table.
CREATE TABLE tokens (
    tenant       INTEGER NOT NULL,
    id           TEXT    NOT NULL,
    hash         BLOB    NOT NULL UNIQUE CHECK (length(hash) = 32),
    -- The first characters of the token, to tell tokens apart in a list.
    prefix       TEXT    NOT NULL,
    kind         TEXT    NOT NULL CHECK (kind IN ('program', 'person')),
    name         TEXT    NOT NULL,
    role         TEXT    NOT NULL CHECK (role IN ('viewer', 'agent', 'operator', 'approver', 'admin')),
    created_by   TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    last_used_at INTEGER,
    revoked_at   INTEGER,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    tenant       INTEGER NOT NULL,
    id           TEXT    NOT NULL,
    hash         BLOB    NOT NULL UNIQUE CHECK (length(hash) = 32),
    name         TEXT    NOT NULL,
    role         TEXT    NOT NULL CHECK (role IN ('viewer', 'agent', 'operator', 'approver', 'admin')),
    created_at   INTEGER NOT NULL,
    last_used_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE login_codes (
    tenant     INTEGER NOT NULL,
    hash       BLOB    NOT NULL PRIMARY KEY CHECK (length(hash) = 32),
    name       TEXT    NOT NULL,
    role       TEXT    NOT NULL CHECK (role IN ('viewer', 'agent', 'operator', 'approver', 'admin')),
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Where the process serves HTTP, as in `http://127.0.0.1:4700`; null: it does not.
ALTER TABLE seats ADD COLUMN url TEXT;
