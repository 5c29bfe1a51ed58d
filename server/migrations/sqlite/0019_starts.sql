-- The first and the last execution that started in each minute, hour and day (`grain` is its length in ms, `period`
-- is time / grain): where a list by time begins. Filled by the projector, which has a cursor of its own for it.
-- Kept in step with ../postgres/0019_starts.sql.
CREATE TABLE starts (
    tenant INTEGER NOT NULL,
    grain  INTEGER NOT NULL,
    period INTEGER NOT NULL,
    first  INTEGER NOT NULL,
    last   INTEGER NOT NULL,
    PRIMARY KEY (tenant, grain, period)
) STRICT, WITHOUT ROWID;
