//! Checks the whole journal: the chain, the order within each stream, and every payload against the
//! digest that its entry holds. Names the first position that does not hold.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use actbook_engine::act;
use actbook_engine::chain::{self, Digest, GENESIS, Hash, Parts};
use actbook_engine::event::{Event, Kept};
use actbook_engine::id::Position;
use serde::Serialize;

use crate::error::Error;
use crate::ledger;
use crate::store::{self, Db, Entry, journal, payloads};

/// Entries checked between two looks at their payloads.
const CHUNK: u64 = 10_000;
const ERASED: &str = "payloads_erased.1";

#[derive(Clone, Debug, Default, Serialize)]
pub struct Verified {
    pub ok: bool,
    pub entries: u64,
    pub payloads: u64,
    /// Executions, and acts outside of any, whose payloads `cleanup` has erased.
    pub erased: u64,
    pub position: u64,
    pub hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bad: Option<Bad>,
    /// What an export cannot show though it holds; empty for the journal itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The first place where the journal is not what was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bad {
    pub position: u64,
    pub why: String,
}

pub(super) fn hex(hash: &[u8]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The hash of an entry as it is stored.
pub(super) fn entry_hash(tenant: i64, entry: &Entry) -> Hash {
    chain::entry_hash(&Parts {
        tenant: tenant as u64,
        position: Position(entry.position),
        stream: entry.stream,
        version: entry.version,
        at_ms: entry.at,
        actor: &entry.actor,
        kind: &entry.kind,
        body: &entry.body,
    })
}

struct Walk {
    tenant: i64,
    position: u64,
    hash: Hash,
    versions: BTreeMap<u64, u64>,
    salts: BTreeMap<u64, Vec<u8>>,
    chunk: Chunk,
    payloads: u64,
    erased: u64,
}

/// What the entries of the chunk at hand say of the rows beside them.
#[derive(Default)]
struct Chunk {
    /// Executions and single acts that begin here: each has a salt.
    begun: BTreeSet<u64>,
    /// Payloads, with the stream of their owner.
    kept: BTreeMap<u64, (u64, Kept)>,
    erased: BTreeSet<u64>,
}

/// Something that does not hold, unless its stream is being erased while we look.
struct Doubt {
    why: &'static str,
    stream: Option<u64>,
}

pub(super) async fn journal(db: &Db, tenant: i64) -> Result<Verified, Error> {
    let head = match journal::head(tenant).first(db).await {
        Ok(Some(head)) => head,
        Ok(None) => return Ok(bad(0, "the journal has no head")),
        Err(unreadable @ store::Error::Column { .. }) => {
            return Ok(bad(0, format!("the head: {unreadable}")));
        }
        Err(error) => return Err(error.into()),
    };
    let mut walk = Walk {
        tenant,
        position: 0,
        hash: GENESIS,
        versions: BTreeMap::new(),
        salts: BTreeMap::new(),
        chunk: Chunk::default(),
        payloads: 0,
        erased: 0,
    };
    while walk.position < head.position {
        let (from, through) = (walk.position, (walk.position + CHUNK).min(head.position));
        if let Some(found) = walk.chunk(db, from, through).await? {
            return Ok(Verified { bad: Some(found), ..Verified::default() });
        }
    }
    if let Some(stray) = journal::outside(tenant).first(db).await?.flatten() {
        return Ok(outside(stray, "an entry lies behind the head"));
    }
    if let Some(lost) = journal::off_its_page(tenant).first(db).await?.flatten() {
        return Ok(outside(lost, "its stream would be read without it: run `actbook rebuild`"));
    }
    if walk.hash != head.hash {
        return Ok(bad(head.position, "the head does not match the last entry"));
    }
    if let Some(stray) = payloads::outside(tenant).first(db).await?.flatten() {
        return Ok(outside(stray, "a payload or a salt lies behind the head"));
    }
    Ok(Verified {
        ok: true,
        entries: walk.position,
        payloads: walk.payloads,
        erased: walk.erased,
        position: head.position,
        hash: hex(&head.hash),
        bad: None,
        notes: Vec::new(),
    })
}

fn bad(position: u64, why: impl Into<String>) -> Verified {
    Verified { bad: Some(Bad { position, why: why.into() }), ..Verified::default() }
}

/// A row where none can be: put there by somebody who did not come through the door.
fn outside(position: i64, why: &str) -> Verified {
    bad(u64::try_from(position).unwrap_or(0), why)
}

impl Walk {
    async fn chunk(&mut self, db: &Db, from: u64, through: u64) -> Result<Option<Bad>, Error> {
        let entries = journal::between(self.tenant, from, through);
        let flow = entries.each(db, |entry| match self.entry(&entry) {
            Ok(()) => ControlFlow::Continue(()),
            Err(found) => ControlFlow::Break(found),
        });
        match flow.await {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(found)) => return Ok(Some(found)),
            Err(unreadable @ store::Error::Column { .. }) => {
                return Ok(Some(Bad { position: self.position + 1, why: unreadable.to_string() }));
            }
            Err(error) => return Err(error.into()),
        }
        if self.position < through {
            return Ok(Some(Bad { position: self.position + 1, why: "the entry is missing".into() }));
        }
        self.beside(db, from, through).await
    }

    fn entry(&mut self, entry: &Entry) -> Result<(), Bad> {
        let expected = self.position + 1;
        if entry.position < expected {
            return Err(Bad { position: entry.position, why: "the entry is there twice".into() });
        }
        let found = |why: String| Bad { position: expected, why };
        if entry.position > expected {
            return Err(found("the entry is missing".into()));
        }
        let hash = chain::chain_hash(&self.hash, &entry_hash(self.tenant, entry));
        if hash != entry.hash {
            return Err(found("the entry is not the one that was written: its hash does not follow".into()));
        }
        let version = self.versions.entry(entry.stream).or_default();
        *version += 1;
        if entry.version != *version {
            return Err(found(format!("version {} of its stream is missing", *version)));
        }
        let event = Event::decode(&entry.kind, &entry.body).map_err(|error| found(error.to_string()))?;
        self.chunk.note(entry, &event);
        self.erased += u64::from(matches!(event, Event::PayloadsErased(_)));
        self.position = entry.position;
        self.hash = hash;
        Ok(())
    }

    /// The rows beside the chunk's entries: every payload and every salt, and no other.
    async fn beside(&mut self, db: &Db, from: u64, through: u64) -> Result<Option<Bad>, Error> {
        let Chunk { mut begun, mut kept, erased } = std::mem::take(&mut self.chunk);
        let mut doubts = BTreeMap::new();
        for (stream, salt) in payloads::salts_between(self.tenant, from, through).all(db).await? {
            if !begun.remove(&stream) {
                doubts.insert(stream, Doubt { why: "a salt that nothing owns", stream: None });
            }
            self.salts.insert(stream, salt);
        }
        let flow = payloads::between(self.tenant, from, through).each(db, |payload| {
            self.payloads += 1;
            let doubt = match kept.remove(&payload.position) {
                None => Some(Doubt { why: "a payload that no entry owns", stream: None }),
                Some((stream, kept)) => self.mismatch(stream, kept, &payload.body),
            };
            if let Some(doubt) = doubt {
                doubts.insert(payload.position, doubt);
            }
            ControlFlow::<()>::Continue(())
        });
        let _to_the_end = flow.await?;
        let missing = |why, stream| Doubt { why, stream: Some(stream) };
        for stream in begun {
            doubts.entry(stream).or_insert(missing("its salt is missing", stream));
        }
        for (position, (stream, _)) in kept {
            doubts.entry(position).or_insert(missing("its payload is missing", stream));
        }
        for stream in erased.into_iter().filter(|stream| self.salts.contains_key(stream)) {
            // It may have been read a moment before its erasure.
            if payloads::salt(self.tenant, stream).first(db).await?.is_some() {
                doubts.insert(stream, Doubt { why: "its salt was erased and is back", stream: None });
            }
        }
        self.first_of(db, doubts).await
    }

    /// Absence is accepted only where the journal itself says that the rows were erased. A row that was
    /// read a moment before its erasure is as good as absent.
    async fn first_of(&self, db: &Db, doubts: BTreeMap<u64, Doubt>) -> Result<Option<Bad>, Error> {
        for (position, Doubt { why, stream }) in doubts {
            if let Some(stream) = stream
                && self.is_erased(db, stream).await?
                && payloads::at(self.tenant, position).first(db).await?.is_none()
            {
                continue;
            }
            return Ok(Some(Bad { position, why: why.into() }));
        }
        Ok(None)
    }

    async fn is_erased(&self, db: &Db, stream: u64) -> Result<bool, Error> {
        let kind = Some(ERASED.into());
        let filter = journal::Filter { kind, stream: Some(stream), ..journal::Filter::default() };
        Ok(journal::filtered(db.dialect(), self.tenant, &filter, 1).first(db).await?.is_some())
    }

    fn mismatch(&self, stream: u64, kept: Kept, body: &[u8]) -> Option<Doubt> {
        let none = Vec::new();
        let salt = match stream {
            ledger::LIBRARY => &none,
            _ => self.salts.get(&stream).unwrap_or(&none),
        };
        let same = body.len() as u64 == kept.size && Digest::salted(salt, body) == kept.digest;
        let why = "its payload is not the one that was written";
        if same { None } else { Some(Doubt { why, stream: Some(stream) }) }
    }
}

impl Chunk {
    fn note(&mut self, entry: &Entry, event: &Event) {
        let begins = entry.version == 1 && act::stands_alone(event);
        if begins || matches!(event, Event::ExecutionStarted(_)) {
            self.begun.insert(entry.stream);
        }
        if matches!(event, Event::PayloadsErased(_)) {
            self.erased.insert(entry.stream);
        }
        if let Some(kept) = event.kept() {
            self.kept.insert(entry.position, (entry.stream, kept));
        }
    }
}
