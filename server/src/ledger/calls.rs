//! The projection that is caught up when somebody asks, so that no step pays for figures that nobody
//! reads. Streams that moved since the cursor are read again and their rows replaced, cursor and all, in
//! one transaction.

use actbook_engine::event::Event;
use actbook_engine::execution::Recorded;

use super::Error;
use super::fold::{LIBRARY, Plans, recorded};
use crate::store::calls::{self, Call};
use crate::store::{self, Db, Entry, journal, project};

/// Entries that one transaction takes in at most.
const ROUND_ENTRIES: u64 = 20_000;
/// Streams that are read in one flight.
const FLIGHT: usize = 100;
/// How often another process may get in between before it is left to it.
const TRIES: usize = 20;

/// Brings the rows up to the head as it is when this is called.
pub async fn catch_up_calls(db: &Db, tenant: i64, plans: &Plans) -> Result<(), Error> {
    let head = journal::head(tenant).first(db).await?.map_or(0, |head| head.position);
    let mut tries = 0;
    loop {
        let cursor = calls::caught_up(tenant).first(db).await?.unwrap_or(0);
        if cursor >= head {
            return Ok(());
        }
        match round(db, tenant, plans, cursor, head.min(cursor + ROUND_ENTRIES)).await {
            Err(Error::Store(store::Error::Constraint(_) | store::Error::Lost(_))) if tries < TRIES => {
                tries += 1;
            }
            done => done?,
        }
    }
}

async fn round(db: &Db, tenant: i64, plans: &Plans, from: u64, to: u64) -> Result<(), Error> {
    let mut streams = journal::streams_between(tenant, from, to).all(db).await?;
    streams.retain(|stream| *stream != LIBRARY);
    let rows = {
        let (db, plans, streams) = (db.clone(), plans.clone(), streams.clone());
        let reading = tokio::task::spawn_blocking(move || rows(&db, tenant, &plans, &streams));
        reading.await.map_err(|stopped| store::Error::Failed(stopped.to_string()))??
    };
    Ok(calls::replace(db, tenant, (from, to), &streams, &rows).await?)
}

fn rows(db: &Db, tenant: i64, plans: &Plans, streams: &[u64]) -> Result<Vec<Call>, Error> {
    let mut rows = Vec::new();
    for flight in streams.chunks(FLIGHT) {
        let entries = journal::of_streams_blocking(db, tenant, flight)?;
        for (stream, entries) in flight.iter().zip(&entries) {
            rows.extend(of_stream(db, tenant, plans, *stream, entries)?);
        }
    }
    Ok(rows)
}

fn of_stream(
    db: &Db,
    tenant: i64,
    plans: &Plans,
    stream: u64,
    entries: &[Entry],
) -> Result<Vec<Call>, Error> {
    let entries = entries.iter().map(recorded).collect::<Result<Vec<Recorded>, Error>>()?;
    let Some(Recorded { event: Event::ExecutionStarted(started), .. }) = entries.first() else {
        return Ok(Vec::new());
    };
    let plan = plans.load(db, tenant, &started.plan)?;
    Ok(project::calls(stream, &started.plan, &plan, &entries))
}
