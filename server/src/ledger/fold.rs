//! Streams as they stand in the database, folded. What is read here is durable; the ledger's own
//! cache may already be ahead of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use actbook_engine::act::{self, Act};
use actbook_engine::chain::{Digest, Hash};
use actbook_engine::event::{Event, PlanRef};
use actbook_engine::execution::{Execution, Recorded, evolve, open};
use actbook_engine::id::Position;
use actbook_engine::library::Library;
use actbook_engine::plan::Plan;

use super::Error;
use crate::store::{Db, Entry, journal, payloads, plans};

/// The stream that holds the tenant's plans; executions are numbered by positions, which start at 1.
pub const LIBRARY: u64 = 0;

/// Parsed plans by digest: many executions share one.
#[derive(Clone, Debug, Default)]
pub struct Plans {
    parsed: Arc<Mutex<HashMap<Hash, Arc<Plan>>>>,
    /// Where documents lie, where that is known without asking.
    positions: Arc<HashMap<Hash, u64>>,
}

/// A plan of 10,000 steps takes megabytes; past this many the cache starts anew.
const PLANS_MAX: usize = 64;

impl Plans {
    pub fn get(&self, digest: &Digest) -> Option<Arc<Plan>> {
        self.parsed.lock().unwrap_or_else(PoisonError::into_inner).get(&digest.0).cloned()
    }

    pub fn put(&self, plan: Arc<Plan>) {
        let mut plans = self.parsed.lock().unwrap_or_else(PoisonError::into_inner);
        if plans.len() >= PLANS_MAX {
            plans.clear();
        }
        plans.insert(plan.digest.0, plan);
    }

    /// Every version in the library, found by the journal alone: what `rebuild` needs when the rows are wrong.
    pub(super) fn from_library(db: &Db, tenant: i64) -> Result<Self, Error> {
        let mut positions = HashMap::new();
        for entry in journal::of_stream(db.dialect(), tenant, LIBRARY, 0).all_blocking(db)? {
            if let Event::PlanSaved(saved) = recorded(&entry)?.event {
                positions.insert(saved.digest.0, entry.position);
            }
        }
        Ok(Self { positions: Arc::new(positions), ..Self::default() })
    }

    fn position(&self, db: &Db, tenant: i64, reference: &PlanRef) -> Result<Option<u64>, Error> {
        if let Some(position) = self.positions.get(&reference.digest.0) {
            return Ok(Some(*position));
        }
        let version = plans::version(tenant, reference.id.as_str(), u64::from(reference.version));
        Ok(version.first_blocking(db)?.map(|row| row.position))
    }

    pub(super) fn load(&self, db: &Db, tenant: i64, reference: &PlanRef) -> Result<Arc<Plan>, Error> {
        if let Some(plan) = self.get(&reference.digest) {
            return Ok(plan);
        }
        let lost =
            || Error::Corrupt(format!("plan `{}` version {} is missing", reference.name, reference.version));
        let position = self.position(db, tenant, reference)?.ok_or_else(lost)?;
        let document = payloads::at(tenant, position).first_blocking(db)?.ok_or_else(lost)?;
        if Digest::of(&document.body) != reference.digest {
            return Err(Error::Corrupt(format!("plan `{}` is not what its digest says", reference.name)));
        }
        let text = String::from_utf8(document.body).map_err(|_| lost())?;
        let plan = Plan::parse(&text).map(Arc::new).map_err(|_| lost())?;
        self.put(plan.clone());
        Ok(plan)
    }
}

pub(super) fn recorded(entry: &Entry) -> Result<Recorded, Error> {
    let event = Event::decode(&entry.kind, &entry.body).map_err(|error| Error::Corrupt(error.to_string()))?;
    Ok(Recorded { position: Position(entry.position), at_ms: entry.at, event })
}

/// An execution from its durable entries; none: there is no such stream, or it is another's.
pub fn fold(db: &Db, tenant: i64, stream: u64, plans: &Plans) -> Result<Option<Execution>, Error> {
    let entries = journal::of_stream(db.dialect(), tenant, stream, 0).all_blocking(db)?;
    let salt = payloads::salt(tenant, stream).first_blocking(db)?.unwrap_or_default();
    folded(db, tenant, &entries, salt, plans)
}

/// Many at once, in three flights: what a process does that takes up a thousand executions.
pub fn fold_each(
    db: &Db,
    tenant: i64,
    streams: &[u64],
    plans: &Plans,
) -> Result<Vec<Option<Execution>>, Error> {
    let entries = journal::of_streams_blocking(db, tenant, streams)?;
    let salts = payloads::salts_blocking(db, tenant, streams)?;
    let both = entries.into_iter().zip(salts);
    both.map(|(entries, salt)| folded(db, tenant, &entries, salt, plans)).collect()
}

pub(super) fn folded(
    db: &Db,
    tenant: i64,
    entries: &[Entry],
    salt: Vec<u8>,
    plans: &Plans,
) -> Result<Option<Execution>, Error> {
    let Some((first, rest)) = entries.split_first() else { return Ok(None) };
    let Recorded { position, at_ms, event } = recorded(first)?;
    if act::stands_alone(&event) {
        return Ok(None);
    }
    let Event::ExecutionStarted(started) = event else {
        return Err(Error::Corrupt(format!(
            "stream {} does not begin with an execution's start",
            first.stream
        )));
    };
    let plan = plans.load(db, tenant, &started.plan)?;
    let mut execution = open(&started, position, at_ms, plan, salt.into());
    for entry in rest {
        execution = grown(execution, entry)?;
    }
    Ok(Some(execution))
}

/// The same execution with whatever has been appended since.
pub fn catch_up(db: &Db, tenant: i64, stream: u64, execution: Execution) -> Result<Execution, Error> {
    since(db, tenant, stream, &execution)?.iter().try_fold(execution, grown)
}

/// Brings it there, if anything was; what cannot be read leaves it as it was.
pub fn look_again(db: &Db, tenant: i64, stream: u64, execution: &mut Execution) -> Result<(), Error> {
    let since = since(db, tenant, stream, execution)?;
    if !since.is_empty() {
        *execution = since.iter().try_fold(execution.clone(), grown)?;
    }
    Ok(())
}

fn since(db: &Db, tenant: i64, stream: u64, execution: &Execution) -> Result<Vec<Entry>, Error> {
    Ok(journal::of_stream(db.dialect(), tenant, stream, execution.position.0).all_blocking(db)?)
}

fn grown(execution: Execution, entry: &Entry) -> Result<Execution, Error> {
    if entry.version != execution.version + 1 {
        let why = format!("version {} of stream {} is missing", execution.version + 1, entry.stream);
        return Err(Error::Corrupt(why));
    }
    Ok(evolve(execution, &recorded(entry)?)?)
}

/// An act that belongs to no execution.
pub fn fold_act(db: &Db, tenant: i64, stream: u64) -> Result<Option<Act>, Error> {
    let entries = journal::of_stream(db.dialect(), tenant, stream, 0).all_blocking(db)?;
    let entries: Vec<Recorded> = entries.iter().map(recorded).collect::<Result<_, _>>()?;
    Ok(Act::open(&entries)?)
}

pub fn fold_library(db: &Db, tenant: i64) -> Result<Library, Error> {
    let mut library = Library::default();
    for entry in journal::of_stream(db.dialect(), tenant, LIBRARY, 0).all_blocking(db)? {
        library = library.evolve(&recorded(&entry)?)?;
    }
    Ok(library)
}
