//! The projections that are caught up when somebody asks, so that no step pays for figures that nobody
//! reads. Streams that moved since the cursor are read again and their rows replaced, cursor and all, in
//! one transaction; the index of stretches takes in what has been filled since.

use std::collections::{BTreeMap, BTreeSet};

use actbook_engine::event::Event;
use actbook_engine::execution::Recorded;
use serde_json::Value;

use super::Error;
use super::book::DRIVER;
use super::fold::{LIBRARY, Plans, folded, recorded};
use crate::store::caught_up::{self, Cursor};
use crate::store::project::{self, Told};
use crate::store::seen::{self, Actor, Seen};
use crate::store::{self, Db, Entry, journal, payloads, stretches};

/// Entries that one transaction takes in at most.
const ROUND_ENTRIES: u64 = 20_000;
/// The index of stretches is small beside what it is made from.
const ROUND_STRETCHES: u64 = 200 * stretches::ENTRIES;
/// Streams that are read in one flight.
const FLIGHT: usize = 100;
/// How often another process may get in between before it is left to it.
const TRIES: usize = 20;
const MILLION: f64 = 1_000_000.0;

/// Brings what was seen of executions up to the head as it is when this is called.
pub async fn catch_up_seen(db: &Db, tenant: i64, plans: &Plans) -> Result<(), Error> {
    let head = journal::head(tenant).first(db).await?.map_or(0, |head| head.position);
    let mut tries = 0;
    loop {
        let from = caught_up::position(tenant, Cursor::Seen).first(db).await?.unwrap_or(0);
        if from >= head {
            return Ok(());
        }
        let done = round(db, tenant, plans, from, head.min(from + ROUND_ENTRIES)).await;
        again(done, &mut tries)?;
    }
}

/// Brings the index of stretches up to the last full one, and gives the position where that ends.
pub async fn catch_up_stretches(db: &Db, tenant: i64) -> Result<u64, Error> {
    let head = journal::head(tenant).first(db).await?.map_or(0, |head| head.position);
    let full = head - head % stretches::ENTRIES;
    let mut tries = 0;
    loop {
        let from = caught_up::position(tenant, Cursor::Stretches).first(db).await?.unwrap_or(0);
        if from >= full {
            return Ok(from);
        }
        let to = full.min(from + ROUND_STRETCHES);
        let held = stretches::read(db, tenant, from, to).await?;
        let done = stretches::add(db, tenant, (from, to), &held).await;
        again(done.map_err(Error::from), &mut tries)?;
    }
}

/// Somebody else who caught up first is no failure.
fn again(done: Result<(), Error>, tries: &mut usize) -> Result<(), Error> {
    match done {
        Err(Error::Store(store::Error::Constraint(_) | store::Error::Lost(_))) if *tries < TRIES => {
            *tries += 1;
            Ok(())
        }
        done => done,
    }
}

async fn round(db: &Db, tenant: i64, plans: &Plans, from: u64, to: u64) -> Result<(), Error> {
    let mut streams = journal::streams_between(tenant, from, to).all(db).await?;
    streams.retain(|stream| *stream != LIBRARY);
    let seen = {
        let (db, plans, streams) = (db.clone(), plans.clone(), streams.clone());
        let reading = tokio::task::spawn_blocking(move || of_streams(&db, tenant, &plans, &streams));
        reading.await.map_err(|stopped| store::Error::Failed(stopped.to_string()))??
    };
    Ok(seen::replace(db, tenant, (from, to), &streams, &seen).await?)
}

fn of_streams(db: &Db, tenant: i64, plans: &Plans, streams: &[u64]) -> Result<Seen, Error> {
    let mut seen = Seen::default();
    for flight in streams.chunks(FLIGHT) {
        let entries = journal::of_streams_blocking(db, tenant, flight)?;
        for (stream, entries) in flight.iter().zip(&entries) {
            seen.extend(of_stream(db, tenant, plans, *stream, entries)?);
        }
    }
    Ok(seen)
}

fn of_stream(db: &Db, tenant: i64, plans: &Plans, stream: u64, entries: &[Entry]) -> Result<Seen, Error> {
    let decoded = entries.iter().map(recorded).collect::<Result<Vec<Recorded>, Error>>()?;
    let Some(Recorded { event: Event::ExecutionStarted(started), .. }) = decoded.first() else {
        return Ok(Seen::default());
    };
    let plan = plans.load(db, tenant, &started.plan)?;
    let told = decoded.iter().zip(entries);
    let told = told.map(|(recorded, entry)| Told { recorded, by_somebody: *entry.actor != *DRIVER });
    let project::Waits { answered: mut waits, open } = project::waits(stream, told);
    if !open.is_empty()
        && let Some(execution) = folded(db, tenant, entries, Vec::new(), plans)?
    {
        waits.extend(project::standing(open, &execution));
    }
    let actors: BTreeSet<&str> = entries.iter().map(|entry| &*entry.actor).collect();
    Ok(Seen {
        calls: project::calls(stream, &started.plan, &plan, &decoded),
        troubles: project::troubles(stream, &decoded),
        claims: project::claims(stream, &decoded, &confidences(db, tenant, &decoded)?),
        waits,
        actors: actors.into_iter().map(|actor| Actor { stream, actor: actor.to_owned() }).collect(),
    })
}

/// How sure the records of steps say that they are, in millionths, by position. What was erased says nothing.
fn confidences(db: &Db, tenant: i64, entries: &[Recorded]) -> Result<BTreeMap<u64, i64>, Error> {
    let of_a_step = |recorded: &&Recorded| matches!(&recorded.event, Event::ActionRecorded(action) if action.step.is_some());
    let records: Vec<u64> = entries.iter().filter(of_a_step).map(|recorded| recorded.position.0).collect();
    let mut confidences = BTreeMap::new();
    if records.is_empty() {
        return Ok(confidences);
    }
    for payload in payloads::at_each_blocking(db, tenant, &records)? {
        let facts: Value = serde_json::from_slice(&payload.body).unwrap_or_default();
        if let Some(confidence) = facts.get("confidence").and_then(Value::as_f64) {
            let millionths = (confidence.clamp(0.0, 1.0) * MILLION).round() as i64;
            confidences.insert(payload.position, millionths);
        }
    }
    Ok(confidences)
}
