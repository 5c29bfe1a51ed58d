-- The first and the last execution that started in each minute, hour and day (`grain` is its length in ms, `period`
-- is time / grain): where a list by time begins. Filled by the projector, which has a cursor of its own for it.
-- Kept in step with ../sqlite/0019_starts.sql.
CREATE TABLE starts (
    tenant BIGINT NOT NULL,
    grain  BIGINT NOT NULL,
    period BIGINT NOT NULL,
    first  BIGINT NOT NULL,
    last   BIGINT NOT NULL,
    PRIMARY KEY (tenant, grain, period)
);
