-- Who may call over HTTP: tokens of programs and people, sessions of browsers, and one-time login codes. Only
-- hashes of secrets are stored. Times are epoch milliseconds.
-- Kept in step with ../sqlite/0017_credentials.sql, table by table.
CREATE TABLE tokens (
    tenant       BIGINT NOT NULL,
    id           TEXT   COLLATE "C" NOT NULL,
    hash         BYTEA  NOT NULL UNIQUE CHECK (length(hash) = 32),
    -- The first characters of the token, to tell tokens apart in a list.
    prefix       TEXT   COLLATE "C" NOT NULL,
    kind         TEXT   COLLATE "C" NOT NULL CHECK (kind IN ('program', 'person')),
    name         TEXT   COLLATE "C" NOT NULL,
    role         TEXT   COLLATE "C" NOT NULL CHECK (role IN ('viewer', 'agent', 'operator', 'approver', 'admin')),
    created_by   TEXT   COLLATE "C" NOT NULL,
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    last_used_at BIGINT,
    revoked_at   BIGINT,
    PRIMARY KEY (tenant, id)
);

CREATE TABLE sessions (
    tenant       BIGINT NOT NULL,
    id           TEXT   COLLATE "C" NOT NULL,
    hash         BYTEA  NOT NULL UNIQUE CHECK (length(hash) = 32),
    name         TEXT   COLLATE "C" NOT NULL,
    role         TEXT   COLLATE "C" NOT NULL CHECK (role IN ('viewer', 'agent', 'operator', 'approver', 'admin')),
    created_at   BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE TABLE login_codes (
    tenant     BIGINT NOT NULL,
    hash       BYTEA  NOT NULL PRIMARY KEY CHECK (length(hash) = 32),
    name       TEXT   COLLATE "C" NOT NULL,
    role       TEXT   COLLATE "C" NOT NULL CHECK (role IN ('viewer', 'agent', 'operator', 'approver', 'admin')),
    expires_at BIGINT NOT NULL
);

-- Where the process serves HTTP, as in `http://127.0.0.1:4700`; null: it does not.
ALTER TABLE seats ADD COLUMN url TEXT;
