//! The executions that the entries of a round belong to, each before and after them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use actbook_engine::event::Event;
use actbook_engine::execution::{Execution, evolve, initial_state};
use actbook_engine::id::{StreamId, TenantId};

use super::payload_facts::PayloadFacts;
use crate::ledger::fold::{LIBRARY_STREAM, PlanCache, decode_entry};
use crate::ledger::{DRIVER_ACTOR, Error};
use crate::store::counts::{HOUR_MS, HourlyCounts, merge_counts};
use crate::store::facets::Facet;
use crate::store::projection::{ActorEntry, ExecutionHistory, StreamFigures, stream_figures};
use crate::store::stream_rows::StreamRows;
use crate::store::{Db, Entry, journal};

/// Streams that one bulk read covers.
const STREAMS_PER_READ: usize = 100;
/// Entries of open executions that are kept in memory between rounds; beyond that all are dropped and read
/// again.
const CACHED_ENTRIES_MAX: usize = 200_000;

/// What the entries of one round change.
#[derive(Debug, Default)]
pub struct RoundChanges {
    /// Streams that have a facet since.
    pub facets: BTreeMap<Facet, BTreeSet<u64>>,
    pub counts: HourlyCounts,
    /// Rows that replace those of their stream.
    pub rows: BTreeMap<StreamId, StreamRows>,
    /// Streams that began in this round: they have no rows yet.
    pub new_streams: BTreeSet<StreamId>,
    /// The first and the last position of each hour.
    pub hours: BTreeMap<i64, (u64, u64)>,
}

/// An execution as of the last entry that was projected.
#[derive(Debug)]
struct ProjectedStream {
    execution: Execution,
    entries: Vec<ActorEntry>,
    facts: PayloadFacts,
    figures: StreamFigures,
}

/// Open executions, kept from round to round.
#[derive(Debug, Default)]
pub struct StreamCache(HashMap<StreamId, ProjectedStream>);

impl StreamCache {
    /// Takes the execution whose next version is `next`. None: it is not cached, or was cached at another version.
    fn take(&mut self, stream: StreamId, next: u64) -> Option<ProjectedStream> {
        self.0.remove(&stream).filter(|cached| cached.execution.version + 1 == next)
    }

    /// Keeps an execution that may get more entries soon.
    fn put(&mut self, stream: StreamId, projected: ProjectedStream) {
        if projected.execution.ended.is_none() {
            self.0.insert(stream, projected);
        }
    }

    fn evict(&mut self) {
        if self.0.values().map(|cached| cached.entries.len()).sum::<usize>() > CACHED_ENTRIES_MAX {
            self.0.clear();
        }
    }
}

/// Entries of one stream.
#[derive(Debug, Default)]
struct StreamPart {
    /// The version of the first one.
    version: u64,
    entries: Vec<ActorEntry>,
}

impl StreamPart {
    /// Decodes an entry and appends it.
    fn push(&mut self, entry: &Entry) -> Result<(), Error> {
        if self.entries.is_empty() {
            self.version = entry.version;
        }
        let by_caller = *entry.actor != *DRIVER_ACTOR;
        self.entries.push(ActorEntry {
            recorded: decode_entry(entry)?,
            actor: entry.actor.clone(),
            by_caller,
        });
        Ok(())
    }
}

impl ProjectedStream {
    /// The execution that begins with these entries. None: they begin something else.
    fn begin(db: &Db, tenant: TenantId, plans: &PlanCache, part: StreamPart) -> Result<Option<Self>, Error> {
        let mut entries = part.entries.into_iter();
        let Some(first) = entries.next().filter(|_| part.version == 1) else { return Ok(None) };
        let Event::ExecutionStarted(started) = &first.recorded.event else { return Ok(None) };
        let plan = plans.load_for_start(db, tenant, started)?;
        let (position, at_ms) = (first.recorded.position, first.recorded.at_ms);
        let execution = initial_state(started.clone(), position, at_ms, plan, Vec::new().into());
        let stream = Self {
            execution,
            entries: vec![first],
            facts: PayloadFacts::default(),
            figures: StreamFigures::default(),
        };
        stream.extend(entries).map(Some)
    }

    /// The same after further entries.
    fn extend(self, new_entries: impl Iterator<Item = ActorEntry>) -> Result<Self, Error> {
        let Self { mut execution, mut entries, facts, figures } = self;
        for entry in new_entries {
            execution = evolve(execution, &entry.recorded)?;
            entries.push(entry);
        }
        Ok(Self { execution, entries, facts, figures })
    }

    /// The figures of the current state.
    fn compute_figures(&self, stream: StreamId, includes: impl Fn(i64) -> bool) -> StreamFigures {
        let PayloadFacts { confidences, fingerprints } = &self.facts;
        let (execution, entries) = (&self.execution, self.entries.as_slice());
        let history = ExecutionHistory { stream, execution, entries, confidences, fingerprints };
        stream_figures(history, includes)
    }
}

/// Reads the entries after `from` up to `to`, and returns what they change.
pub fn read_changes(
    db: &Db,
    tenant: TenantId,
    plans: &PlanCache,
    cache: &mut StreamCache,
    (from, to): (u64, u64),
) -> Result<RoundChanges, Error> {
    let mut changes = RoundChanges::default();
    let mut parts: BTreeMap<StreamId, StreamPart> = BTreeMap::new();
    for entry in journal::between(tenant, from, to).all_blocking(db)? {
        let hour = changes.hours.entry(entry.at.div_euclid(HOUR_MS)).or_insert((entry.position, 0));
        hour.1 = entry.position;
        if entry.stream != LIBRARY_STREAM {
            parts.entry(entry.stream).or_default().push(&entry)?;
        }
    }
    let facts = PayloadFacts::read(db, tenant, parts.values().flat_map(|part| &part.entries))?;
    let mut earlier = load_earlier(db, tenant, plans, cache, &parts, from)?;
    for (stream, part) in parts {
        let is_new = part.version == 1;
        let erases =
            part.entries.iter().any(|entry| matches!(entry.recorded.event, Event::PayloadsErased(_)));
        let projected = match earlier.remove(&stream) {
            Some(known) => Some(known.extend(part.entries.into_iter())?),
            None => ProjectedStream::begin(db, tenant, plans, part)?,
        };
        let Some(mut projected) = projected else { continue };
        projected.facts.take_of(&facts, &projected.entries, erases);
        let after = projected.compute_figures(stream, |_| true);
        let before = std::mem::replace(&mut projected.figures, after);
        changes.add(stream, &before, &projected.figures, erases);
        if is_new {
            changes.new_streams.insert(stream);
        }
        cache.put(stream, projected);
    }
    cache.evict();
    Ok(changes)
}

impl RoundChanges {
    /// Adds what differs between two states of an execution: new facets, changed counts, and its rows if they
    /// changed or its payloads were erased in between (`erases`).
    fn add(&mut self, stream: StreamId, before: &StreamFigures, after: &StreamFigures, erases: bool) {
        for facet in after.facets.difference(&before.facets) {
            self.facets.entry(facet.clone()).or_default().insert(stream.0);
        }
        merge_counts(&mut self.counts, &after.counts, 1);
        merge_counts(&mut self.counts, &before.counts, -1);
        // The rows before may have been written when the payloads were still there.
        if erases || before.rows != after.rows {
            self.rows.insert(stream, after.rows.clone());
        }
    }
}

/// The executions that began up to `from` and have further entries, as they were at `from`.
fn load_earlier(
    db: &Db,
    tenant: TenantId,
    plans: &PlanCache,
    cache: &mut StreamCache,
    parts: &BTreeMap<StreamId, StreamPart>,
    from: u64,
) -> Result<HashMap<StreamId, ProjectedStream>, Error> {
    let mut loaded = HashMap::new();
    let mut missing = Vec::new();
    for (stream, part) in parts.iter().filter(|(_, part)| part.version > 1) {
        match cache.take(*stream, part.version) {
            Some(cached) => drop(loaded.insert(*stream, cached)),
            None => missing.push(*stream),
        }
    }
    for (stream, mut projected) in load_streams(db, tenant, plans, &missing, from)? {
        projected.figures = projected.compute_figures(stream, |_| true);
        loaded.insert(stream, projected);
    }
    Ok(loaded)
}

/// The executions among these streams, folded from the journal up to `through`; their `figures` (statistics)
/// are left empty.
fn load_streams(
    db: &Db,
    tenant: TenantId,
    plans: &PlanCache,
    streams: &[StreamId],
    through: u64,
) -> Result<Vec<(StreamId, ProjectedStream)>, Error> {
    let mut loaded = Vec::new();
    for chunk in streams.chunks(STREAMS_PER_READ) {
        for (stream, entries) in chunk.iter().zip(journal::by_streams_blocking(db, tenant, chunk)?) {
            let mut part = StreamPart::default();
            for entry in entries.iter().filter(|entry| entry.position <= through) {
                part.push(entry)?;
            }
            let facts = PayloadFacts::read(db, tenant, part.entries.iter())?;
            if let Some(projected) = ProjectedStream::begin(db, tenant, plans, part)? {
                loaded.push((*stream, ProjectedStream { facts, ..projected }));
            }
        }
    }
    Ok(loaded)
}

/// The counts of these executions at a position, of items that began at a time that `includes` accepts.
pub fn counts_of_streams(
    db: &Db,
    tenant: TenantId,
    plans: &PlanCache,
    streams: &[StreamId],
    through: u64,
    includes: &dyn Fn(i64) -> bool,
) -> Result<HourlyCounts, Error> {
    let mut counts = HourlyCounts::new();
    for chunk in streams.chunks(STREAMS_PER_READ) {
        for (stream, projected) in load_streams(db, tenant, plans, chunk, through)? {
            merge_counts(&mut counts, &projected.compute_figures(stream, includes).counts, 1);
        }
    }
    Ok(counts)
}
