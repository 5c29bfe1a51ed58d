//! Checks the whole journal: the chain, the order within each stream, and every payload against the
//! digest that its entry holds. Names the first position that does not hold.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use actbook_engine::chain::{self, Digest, GENESIS, Hash, Parts};
use actbook_engine::event::{Event, Kept};
use actbook_engine::id::Position;
use serde::Serialize;

use crate::error::Error;
use crate::ledger;
use crate::store::{Db, Entry, journal, payloads};

/// Entries checked between two looks at their payloads.
const CHUNK: u64 = 10_000;

#[derive(Clone, Debug, Default, Serialize)]
pub struct Verified {
    pub ok: bool,
    pub entries: u64,
    pub payloads: u64,
    /// Executions whose payloads `cleanup` has erased.
    pub erased: u64,
    pub position: u64,
    pub hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bad: Option<Bad>,
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
    /// What the entries of the chunk at hand say of their payloads, with their streams.
    claims: BTreeMap<u64, (u64, Kept)>,
    salts: BTreeMap<u64, Vec<u8>>,
    erased: BTreeSet<u64>,
    payloads: u64,
}

pub(super) async fn journal(db: &Db, tenant: i64) -> Result<Verified, Error> {
    let head = journal::head(tenant).first(db).await?;
    let Some(head) = head else {
        return Ok(bad(0, "the journal has no head"));
    };
    let mut walk = Walk {
        tenant,
        position: 0,
        hash: GENESIS,
        versions: BTreeMap::new(),
        claims: BTreeMap::new(),
        salts: payloads::salts(tenant).all(db).await?.into_iter().collect(),
        erased: erased_streams(db, tenant).await?,
        payloads: 0,
    };
    while walk.position < head.position {
        let (from, through) = (walk.position, (walk.position + CHUNK).min(head.position));
        if let Some(found) = walk.chunk(db, from, through).await? {
            return Ok(Verified { bad: Some(found), ..Verified::default() });
        }
    }
    if let Some(found) = beyond(db, tenant, head.position).await? {
        return Ok(Verified { bad: Some(found), ..Verified::default() });
    }
    if walk.hash != head.hash {
        return Ok(bad(head.position, "the head does not match the last entry"));
    }
    Ok(Verified {
        ok: true,
        entries: walk.position,
        payloads: walk.payloads,
        erased: walk.erased.len() as u64,
        position: head.position,
        hash: hex(&head.hash),
        bad: None,
    })
}

fn bad(position: u64, why: &str) -> Verified {
    Verified { bad: Some(Bad { position, why: why.to_owned() }), ..Verified::default() }
}

/// Rows behind the head: put there by somebody who did not come through the door.
async fn beyond(db: &Db, tenant: i64, head: u64) -> Result<Option<Bad>, Error> {
    let end = i64::MAX as u64;
    let entry =
        journal::between(tenant, head, end).each(db, |entry| ControlFlow::Break(entry.position)).await?;
    if let ControlFlow::Break(position) = entry {
        return Ok(Some(Bad { position, why: "an entry lies behind the head".into() }));
    }
    let payload =
        payloads::between(tenant, head, end).each(db, |payload| ControlFlow::Break(payload.position)).await?;
    Ok(match payload {
        ControlFlow::Break(position) => Some(Bad { position, why: "a payload lies behind the head".into() }),
        ControlFlow::Continue(()) => None,
    })
}

/// Absence of payloads is accepted only where the journal itself says that they were erased.
async fn erased_streams(db: &Db, tenant: i64) -> Result<BTreeSet<u64>, Error> {
    let filter = journal::Filter { kind: Some("payloads_erased.1".into()), ..journal::Filter::default() };
    let entries = journal::filtered(tenant, &filter, i64::MAX as u64)?.all(db).await?;
    Ok(entries.into_iter().map(|entry| entry.stream).collect())
}

impl Walk {
    async fn chunk(&mut self, db: &Db, from: u64, through: u64) -> Result<Option<Bad>, Error> {
        self.claims.clear();
        let entries = journal::between(self.tenant, from, through);
        let flow = entries.each(db, |entry| match self.entry(&entry) {
            Ok(()) => ControlFlow::Continue(()),
            Err(why) => ControlFlow::Break(Bad { position: self.position + 1, why }),
        });
        if let ControlFlow::Break(found) = flow.await? {
            return Ok(Some(found));
        }
        if self.position < through {
            return Ok(Some(Bad { position: self.position + 1, why: "the entry is missing".into() }));
        }
        self.check_payloads(db, from, through).await
    }

    fn entry(&mut self, entry: &Entry) -> Result<(), String> {
        if entry.position != self.position + 1 {
            return Err("the entry is missing".into());
        }
        let hash = chain::chain_hash(&self.hash, &entry_hash(self.tenant, entry));
        if hash != entry.hash {
            return Err("the entry is not the one that was written: its hash does not follow".into());
        }
        let version = self.versions.entry(entry.stream).or_default();
        *version += 1;
        if entry.version != *version {
            return Err(format!("version {} of its stream is missing", *version));
        }
        let event = Event::decode(&entry.kind, &entry.body).map_err(|error| error.to_string())?;
        if let Some(kept) = event.kept() {
            self.claims.insert(entry.position, (entry.stream, kept));
        }
        self.position = entry.position;
        self.hash = hash;
        Ok(())
    }

    async fn check_payloads(&mut self, db: &Db, from: u64, through: u64) -> Result<Option<Bad>, Error> {
        let mut claims = std::mem::take(&mut self.claims);
        let mut first_bad: Option<Bad> = None;
        let flow = payloads::between(self.tenant, from, through).each(db, |payload| {
            self.payloads += 1;
            let why = match claims.remove(&payload.position) {
                None => Some("a payload that no entry owns"),
                Some((stream, kept)) => self.mismatch(stream, kept, &payload.body),
            };
            match why {
                None => ControlFlow::Continue(()),
                Some(why) => ControlFlow::Break(Bad { position: payload.position, why: why.into() }),
            }
        });
        if let ControlFlow::Break(found) = flow.await? {
            first_bad = Some(found);
        }
        let before = first_bad.as_ref().map_or(u64::MAX, |found| found.position);
        let missing = claims
            .iter()
            .find(|(position, (stream, _))| **position < before && !self.erased.contains(stream));
        let missing =
            missing.map(|(position, _)| Bad { position: *position, why: "its payload is missing".into() });
        Ok(missing.or(first_bad))
    }

    fn mismatch(&self, stream: u64, kept: Kept, body: &[u8]) -> Option<&'static str> {
        let none = Vec::new();
        let salt = match stream {
            ledger::LIBRARY => &none,
            _ => self.salts.get(&stream).unwrap_or(&none),
        };
        let same = body.len() as u64 == kept.size && Digest::salted(salt, body) == kept.digest;
        if same { None } else { Some("its payload is not the one that was written") }
    }
}
