//! Extends the journal index by the segments that are full since it was last queried.

use actbook_engine::id::TenantId;

use super::Error;
use crate::store::projection_cursor::{self, ProjectionCursor};
use crate::store::{self, Db, journal, journal_index};

/// Entries that one transaction of the journal index covers: its rows are few for each entry.
const ROUND_INDEX_ENTRIES: u64 = 200 * journal_index::ENTRIES_PER_SEGMENT;
/// How often another process may win the race for the cursor before that is an error.
const RACES_MAX: usize = 20;

/// Brings the journal index up to the last full segment, and returns the position where that ends.
pub async fn catch_up_journal_index(db: &Db, tenant: TenantId) -> Result<u64, Error> {
    let head = journal::head(tenant).first(db).await?.map_or(0, |head| head.position);
    let full = head - head % journal_index::ENTRIES_PER_SEGMENT;
    let mut tries = 0;
    loop {
        let from =
            projection_cursor::position(tenant, ProjectionCursor::JournalIndex).first(db).await?.unwrap_or(0);
        if from >= full {
            return Ok(from);
        }
        let to = full.min(from + ROUND_INDEX_ENTRIES);
        let rows = journal_index::compute_rows(db, tenant, from, to).await?;
        let result = journal_index::insert_rows(db, tenant, (from, to), &rows).await;
        tolerate_race(result.map_err(Error::from), &mut tries)?;
    }
}

/// Turns a violated constraint (another process has advanced the cursor) and a lost connection (whether the
/// write was committed is unknown) into `Ok`, so that the caller reads the cursor again and goes on. `tries`
/// counts them; after `RACES_MAX` the error is returned.
pub(super) fn tolerate_race(result: Result<(), Error>, tries: &mut usize) -> Result<(), Error> {
    match result {
        Err(Error::Store(store::Error::Constraint(_) | store::Error::ConnectionLost(_)))
            if *tries < RACES_MAX =>
        {
            *tries += 1;
            Ok(())
        }
        result => result,
    }
}
