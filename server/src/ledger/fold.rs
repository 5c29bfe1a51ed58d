//! Folds streams from their entries in the database. What is read here is durable; the ledger's own
//! cache may already be ahead of it.

use std::collections::HashMap;
use std::sync::Arc;

use actbook_engine::chain::{Digest, Hash};
use actbook_engine::event::{Event, ExecutionStarted, PlanRef};
use actbook_engine::execution::{Execution, RecordedEvent, evolve, initial_state};
use actbook_engine::id::{Position, StreamId, TenantId};
use actbook_engine::library::PlanLibrary;
use actbook_engine::plan::Plan;
use actbook_engine::standalone_action::{self, StandaloneAction};
use parking_lot::Mutex;

use super::Error;
use crate::store::{Db, Entry, journal, payloads, plans, run_blocking};

/// The stream that holds the tenant's plans; executions are numbered by positions, which start at 1.
pub const LIBRARY_STREAM: StreamId = StreamId(0);

/// Parsed plans by digest: many executions share one. Clones share the cache.
#[derive(Clone, Debug, Default)]
pub struct PlanCache {
    parsed: Arc<Mutex<HashMap<Hash, Arc<Plan>>>>,
    /// The positions of plan documents that are known without a query.
    positions: Arc<HashMap<Hash, u64>>,
}

/// A plan of 10,000 steps takes megabytes; at this many plans the cache is emptied.
const PLANS_MAX: usize = 64;

impl PlanCache {
    pub fn get(&self, digest: &Digest) -> Option<Arc<Plan>> {
        self.parsed.lock().get(&digest.0).cloned()
    }

    pub fn insert(&self, plan: Arc<Plan>) {
        let mut plans = self.parsed.lock();
        if plans.len() >= PLANS_MAX {
            plans.clear();
        }
        plans.insert(plan.digest.0, plan);
    }

    /// A cache that finds every plan version by the journal alone, for a rebuild of the plan rows.
    pub(super) fn from_library(db: &Db, tenant: TenantId) -> Result<Self, Error> {
        let mut positions = HashMap::new();
        for entry in journal::by_stream(db.dialect(), tenant, LIBRARY_STREAM, 0).all_blocking(db)? {
            if let Event::PlanSaved(saved) = decode_entry(&entry)?.event {
                positions.insert(saved.digest.0, entry.position);
            }
        }
        Ok(Self { positions: Arc::new(positions), ..Self::default() })
    }

    /// The position of the plan's document; None: there is no such version.
    fn document_position(
        &self,
        db: &Db,
        tenant: TenantId,
        reference: &PlanRef,
    ) -> Result<Option<u64>, Error> {
        if let Some(position) = self.positions.get(&reference.digest.0) {
            return Ok(Some(*position));
        }
        let version = plans::by_version(tenant, reference.id.as_str(), u64::from(reference.version));
        Ok(version.first_blocking(db)?.map(|row| row.position))
    }

    /// The plan with which an execution starts: the empty one of a session, else its plan version.
    pub(super) fn load_for_start(
        &self,
        db: &Db,
        tenant: TenantId,
        started: &ExecutionStarted,
    ) -> Result<Arc<Plan>, Error> {
        match &started.session {
            Some(_) => Ok(Arc::new(Plan::of_session(&started.plan.name))),
            None => self.load(db, tenant, &started.plan),
        }
    }

    /// The plan from the cache, or read and parsed. `Err(Corrupt)`: it is missing or its digest differs.
    fn load(&self, db: &Db, tenant: TenantId, reference: &PlanRef) -> Result<Arc<Plan>, Error> {
        if let Some(plan) = self.get(&reference.digest) {
            return Ok(plan);
        }
        let lost =
            || Error::Corrupt(format!("plan `{}` version {} is missing", reference.name, reference.version));
        let position = self.document_position(db, tenant, reference)?.ok_or_else(lost)?;
        let document = payloads::by_position(tenant, position).first_blocking(db)?.ok_or_else(lost)?;
        if Digest::of(&document.body) != reference.digest {
            return Err(Error::Corrupt(format!("plan `{}` is not what its digest says", reference.name)));
        }
        let text = String::from_utf8(document.body).map_err(|_| lost())?;
        let plan = Plan::parse(&text).map(Arc::new).map_err(|_| lost())?;
        self.insert(plan.clone());
        Ok(plan)
    }
}

/// The event of an entry, decoded. `Err(Corrupt)`: its kind or body cannot be decoded.
pub(super) fn decode_entry(entry: &Entry) -> Result<RecordedEvent, Error> {
    let event = Event::decode(&entry.kind, &entry.body).map_err(|error| Error::Corrupt(error.to_string()))?;
    Ok(RecordedEvent { position: Position(entry.position), at_ms: entry.at, event })
}

/// Folds an execution from its durable entries, on Tokio's blocking pool: they may be thousands. None as with
/// `fold_execution`.
pub async fn load_execution(
    db: &Db,
    tenant: TenantId,
    stream: StreamId,
    plans: &PlanCache,
) -> Result<Option<Execution>, Error> {
    let plans = plans.clone();
    run_blocking(db, move |db| fold_execution(&db, tenant, stream, &plans)).await
}

/// Folds an execution from its durable entries. None: no such stream, or it is not an execution's.
pub fn fold_execution(
    db: &Db,
    tenant: TenantId,
    stream: StreamId,
    plans: &PlanCache,
) -> Result<Option<Execution>, Error> {
    let entries = journal::by_stream(db.dialect(), tenant, stream, 0).all_blocking(db)?;
    let salt = payloads::salt(tenant, stream).first_blocking(db)?.unwrap_or_default();
    fold_entries(db, tenant, &entries, salt, plans)
}

/// Folds an execution like `load_execution`, and collects what `observe` makes of each entry after the first and of the
/// state before it.
pub async fn replay_execution<T: Send + 'static>(
    db: &Db,
    tenant: TenantId,
    stream: StreamId,
    plans: &PlanCache,
    observe: impl Fn(&Execution, &RecordedEvent) -> Option<T> + Send + 'static,
) -> Result<Option<(Execution, Vec<T>)>, Error> {
    let plans = plans.clone();
    run_blocking(db, move |db| {
        let entries = journal::by_stream(db.dialect(), tenant, stream, 0).all_blocking(&db)?;
        let salt = payloads::salt(tenant, stream).first_blocking(&db)?.unwrap_or_default();
        let first = entries.get(..1).unwrap_or_default();
        let Some(mut execution) = fold_entries(&db, tenant, first, salt, &plans)? else { return Ok(None) };
        let mut observed = Vec::new();
        for entry in entries.iter().skip(1) {
            observed.extend(observe(&execution, &decode_entry(entry)?));
            execution = apply_entry(execution, entry)?;
        }
        Ok(Some((execution, observed)))
    })
    .await
}

/// Folds many executions with a few bulk reads, for a node that claims a thousand of them.
pub fn fold_executions(
    db: &Db,
    tenant: TenantId,
    streams: &[StreamId],
    plans: &PlanCache,
) -> Result<Vec<Option<Execution>>, Error> {
    let entries = journal::by_streams_blocking(db, tenant, streams)?;
    let salts = payloads::salts_blocking(db, tenant, streams)?;
    let streams = entries.into_iter().zip(salts);
    streams.map(|(entries, salt)| fold_entries(db, tenant, &entries, salt, plans)).collect()
}

/// Folds an execution from all entries of its stream; None as with `fold_execution`.
pub(super) fn fold_entries(
    db: &Db,
    tenant: TenantId,
    entries: &[Entry],
    salt: Vec<u8>,
    plans: &PlanCache,
) -> Result<Option<Execution>, Error> {
    let Some((first, rest)) = entries.split_first() else { return Ok(None) };
    let RecordedEvent { position, at_ms, event } = decode_entry(first)?;
    if standalone_action::starts_standalone_stream(&event) {
        return Ok(None);
    }
    let Event::ExecutionStarted(started) = event else {
        return Err(Error::Corrupt(format!(
            "stream {} does not begin with an execution's start",
            first.stream
        )));
    };
    let plan = plans.load_for_start(db, tenant, &started)?;
    let mut execution = initial_state(started, position, at_ms, plan, salt.into());
    for entry in rest {
        execution = apply_entry(execution, entry)?;
    }
    Ok(Some(execution))
}

/// Applies the entries that were appended since the execution's position. On `Err`, and if it is dropped
/// before it is ready, the execution is unchanged.
pub async fn catch_up(
    db: &Db,
    tenant: TenantId,
    stream: StreamId,
    execution: &mut Arc<Execution>,
) -> Result<(), Error> {
    let newer = journal::by_stream(db.dialect(), tenant, stream, execution.position.0);
    let entries = newer.look_up(db).await?;
    if !entries.is_empty() {
        *execution = Arc::new(entries.iter().try_fold(Execution::clone(execution), apply_entry)?);
    }
    Ok(())
}

/// The execution after one more entry. `Err(Corrupt)`: a version is missing in between.
fn apply_entry(execution: Execution, entry: &Entry) -> Result<Execution, Error> {
    if entry.version != execution.version + 1 {
        let why = format!("version {} of stream {} is missing", execution.version + 1, entry.stream);
        return Err(Error::Corrupt(why));
    }
    Ok(evolve(execution, &decode_entry(entry)?)?)
}

/// Folds an act that belongs to no execution; None: the stream is not one.
pub fn fold_act(db: &Db, tenant: TenantId, stream: StreamId) -> Result<Option<StandaloneAction>, Error> {
    let entries = journal::by_stream(db.dialect(), tenant, stream, 0).all_blocking(db)?;
    let entries: Vec<RecordedEvent> = entries.iter().map(decode_entry).collect::<Result<_, _>>()?;
    Ok(StandaloneAction::fold(&entries)?)
}

/// Folds the tenant's library of plans and accepted tools.
pub fn fold_library(db: &Db, tenant: TenantId) -> Result<PlanLibrary, Error> {
    let mut library = PlanLibrary::default();
    for entry in journal::by_stream(db.dialect(), tenant, LIBRARY_STREAM, 0).all_blocking(db)? {
        library = library.evolve(&decode_entry(&entry)?)?;
    }
    Ok(library)
}
