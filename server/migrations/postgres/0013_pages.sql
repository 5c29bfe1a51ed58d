-- Streams are found by the pages of the journal that they are on, 128 entries each, instead of by an index row
-- per entry.
-- Kept in step with ../sqlite/0013_pages.sql.

-- `page` is entry / 128. A stream's first page is that of its number, and is not listed.
CREATE TABLE pages (
    tenant BIGINT NOT NULL,
    stream BIGINT NOT NULL,
    page   BIGINT NOT NULL,
    PRIMARY KEY (tenant, stream, page)
);
INSERT INTO pages (tenant, stream, page)
    SELECT DISTINCT tenant, stream, entry / 128 FROM journal
    WHERE entry / 128 <> (tenant * 1099511627776 + stream) / 128;

ALTER TABLE journal DROP CONSTRAINT journal_tenant_stream_version_key;
