//! Projections that are caught up when they are queried, so that no step pays for statistics that are
//! never read. Streams with entries after the cursor are read again, and their rows and the cursor are
//! replaced in one transaction. The journal index is extended by the segments that are full since.

use std::collections::{BTreeMap, BTreeSet};

use actbook_engine::event::Event;
use actbook_engine::execution::RecordedEvent;
use actbook_engine::id::{StreamId, TenantId};
use serde_json::Value;

use super::Error;
use super::fold::{LIBRARY_STREAM, PlanCache, decode_entry, fold_entries};
use super::pending::DRIVER_ACTOR;
use crate::store::call_stats::{self, ActorRow, CallStats};
use crate::store::projection::{self, AuthoredEntry};
use crate::store::projection_cursor::{self, ProjectionCursor};
use crate::store::{self, Db, Entry, journal, journal_index, payloads, run_blocking};

/// Entries that one transaction covers at most.
const ROUND_ENTRIES: u64 = 20_000;
/// Entries that one transaction of the journal index covers: its rows are few for each entry.
const ROUND_INDEX_ENTRIES: u64 = 200 * journal_index::ENTRIES_PER_SEGMENT;
/// Streams that one bulk read covers.
const STREAMS_PER_READ: usize = 100;
/// How often another process may win the race for the cursor before that is an error.
const RACES_MAX: usize = 20;
const MILLION: f64 = 1_000_000.0;

/// Brings the statistics of calls, waits and claims up to the head as it is at the time of the call.
pub async fn catch_up_call_stats(db: &Db, tenant: TenantId, plans: &PlanCache) -> Result<(), Error> {
    let head = journal::head(tenant).first(db).await?.map_or(0, |head| head.position);
    let mut tries = 0;
    loop {
        let from =
            projection_cursor::position(tenant, ProjectionCursor::CallStats).first(db).await?.unwrap_or(0);
        if from >= head {
            return Ok(());
        }
        let result = catch_up_round(db, tenant, plans, from, head.min(from + ROUND_ENTRIES)).await;
        tolerate_race(result, &mut tries)?;
    }
}

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

/// Turns errors after which the cursor must be read again (another process caught up first, or the connection
/// was lost and the round may be committed) into `Ok`, up to `RACES_MAX` times.
fn tolerate_race(result: Result<(), Error>, tries: &mut usize) -> Result<(), Error> {
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

/// Replaces the rows of all executions with entries after `from` up to `to`, and moves the cursor to `to`.
async fn catch_up_round(
    db: &Db,
    tenant: TenantId,
    plans: &PlanCache,
    from: u64,
    to: u64,
) -> Result<(), Error> {
    let mut streams = journal::streams_between(tenant, from, to).all(db).await?;
    streams.retain(|stream| *stream != LIBRARY_STREAM);
    let (plans, read) = (plans.clone(), streams.clone());
    let stats = run_blocking(db, move |db| stats_of_streams(&db, tenant, &plans, &read)).await?;
    Ok(call_stats::replace_streams(db, tenant, (from, to), &streams, &stats).await?)
}

fn stats_of_streams(
    db: &Db,
    tenant: TenantId,
    plans: &PlanCache,
    streams: &[StreamId],
) -> Result<CallStats, Error> {
    let mut stats = CallStats::default();
    for chunk in streams.chunks(STREAMS_PER_READ) {
        let entries = journal::by_streams_blocking(db, tenant, chunk)?;
        for (stream, entries) in chunk.iter().zip(&entries) {
            stats.extend(stats_of_stream(db, tenant, plans, *stream, entries)?);
        }
    }
    Ok(stats)
}

/// The statistics of one stream; empty if it is not an execution's.
fn stats_of_stream(
    db: &Db,
    tenant: TenantId,
    plans: &PlanCache,
    stream: StreamId,
    entries: &[Entry],
) -> Result<CallStats, Error> {
    let decoded = entries.iter().map(decode_entry).collect::<Result<Vec<RecordedEvent>, Error>>()?;
    let Some(RecordedEvent { event: Event::ExecutionStarted(started), .. }) = decoded.first() else {
        return Ok(CallStats::default());
    };
    let plan = plans.load(db, tenant, &started.plan)?;
    let pairs = decoded.iter().zip(entries);
    let events =
        pairs.map(|(recorded, entry)| AuthoredEntry { recorded, by_caller: *entry.actor != *DRIVER_ACTOR });
    let projection::Waits { answered: mut waits, open } = projection::collect_waits(stream, events);
    if !open.is_empty()
        && let Some(execution) = fold_entries(db, tenant, entries, Vec::new(), plans)?
    {
        waits.extend(projection::still_open(open, &execution));
    }
    let actors: BTreeSet<&str> = entries.iter().map(|entry| &*entry.actor).collect();
    Ok(CallStats {
        calls: projection::call_rows(stream, &started.plan, &plan, &decoded),
        troubles: projection::trouble_rows(stream, &decoded),
        claims: projection::claim_rows(stream, &decoded, &confidences(db, tenant, &decoded)?),
        waits,
        actors: actors.into_iter().map(|actor| ActorRow { stream, actor: actor.to_owned() }).collect(),
    })
}

/// The confidences that agents gave in records of steps, in millionths, by position; erased ones are left
/// out.
fn confidences(db: &Db, tenant: TenantId, entries: &[RecordedEvent]) -> Result<BTreeMap<u64, i64>, Error> {
    let has_step = |recorded: &&RecordedEvent| matches!(&recorded.event, Event::ActionRecorded(action) if action.step.is_some());
    let records: Vec<u64> = entries.iter().filter(has_step).map(|recorded| recorded.position.0).collect();
    let mut confidences = BTreeMap::new();
    if records.is_empty() {
        return Ok(confidences);
    }
    for payload in payloads::by_positions_blocking(db, tenant, &records)? {
        let facts: Value = serde_json::from_slice(&payload.body).unwrap_or_default();
        if let Some(confidence) = facts.get("confidence").and_then(Value::as_f64) {
            let millionths = (confidence.clamp(0.0, 1.0) * MILLION).round() as i64;
            confidences.insert(payload.position, millionths);
        }
    }
    Ok(confidences)
}
