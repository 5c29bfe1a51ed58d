//! Verifies the whole journal: the chain, the order within each stream, every payload against the digest
//! that its entry holds, and the list of executions against what the journal says. Reports the first position
//! that fails.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use actbook_engine::chain::{self, Digest, EntryParts, GENESIS, Hash};
use actbook_engine::event::{Event, PayloadDigest};
use actbook_engine::id::{Position, StreamId, TenantId};
use actbook_engine::standalone_action;
use serde::Serialize;

use crate::error::Error;
use crate::ledger::{self, RowDifference};
use crate::store::{self, Db, Entry, journal, payloads, run_blocking};

/// How many entries are read before their payloads are read.
const CHUNK_ENTRIES: u64 = 10_000;
/// The kind of the entry that says that a stream's payloads were erased.
const ERASED_KIND: &str = "payloads_erased.1";

/// The result of verifying the journal or an export.
#[derive(Clone, Debug, Default, Serialize)]
pub struct VerifyReport {
    pub ok: bool,
    pub entries: u64,
    pub payloads: u64,
    /// Executions and standalone actions whose payloads `cleanup` has erased.
    pub erased: u64,
    /// The last position, and the chain hash there in hexadecimal.
    pub position: u64,
    pub hash: String,
    /// The first failure. `None`: everything holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bad: Option<VerifyFailure>,
    /// The journal is whole, and `bad` is a difference of the list of executions from it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub list_differs: bool,
    /// What an export cannot prove although it holds; empty for the journal itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The first position at which the journal differs from what was written, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VerifyFailure {
    pub position: u64,
    pub why: String,
}

/// The bytes in lower-case hexadecimal.
pub(super) fn hex(hash: &[u8]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The hash of an entry alone, computed from its stored fields; `Entry::hash` is that of the chain.
pub(super) fn entry_hash(tenant: TenantId, entry: &Entry) -> Hash {
    chain::entry_hash(&EntryParts {
        tenant,
        position: Position(entry.position),
        stream: entry.stream,
        version: entry.version,
        at_ms: entry.at,
        actor: &entry.actor,
        kind: &entry.kind,
        body: &entry.body,
    })
}

/// The state of verifying the journal, chunk by chunk.
struct JournalVerification {
    tenant: TenantId,
    /// The last verified position, and the chain hash there.
    position: u64,
    hash: Hash,
    /// The version of each stream's last entry.
    versions: BTreeMap<StreamId, u64>,
    /// By stream.
    salts: BTreeMap<StreamId, Vec<u8>>,
    expected: ExpectedRows,
    payloads: u64,
    erased: u64,
}

/// The salts and payloads that must exist according to the entries of the current chunk.
#[derive(Default)]
struct ExpectedRows {
    /// Streams that begin in the chunk and have a salt: executions, standalone actions, notes and tasks.
    salted_streams: BTreeSet<StreamId>,
    /// By position: the stream of the entry, and the digest and size of its payload.
    payloads: BTreeMap<u64, (StreamId, PayloadDigest)>,
    /// Streams whose payloads an entry of the chunk says were erased.
    erased: BTreeSet<StreamId>,
}

/// A salt or payload that does not match its entry. With a stream it is a failure only if that stream was not
/// erased, possibly during the verification.
struct RowMismatch {
    why: &'static str,
    stream: Option<StreamId>,
}

/// Verifies the journal of a tenant. `Err`: the database failed; a journal that does not hold is in the
/// report.
pub(super) async fn verify_journal(db: &Db, tenant: TenantId) -> Result<VerifyReport, Error> {
    let head = match journal::head(tenant).first(db).await {
        Ok(Some(head)) => head,
        Ok(None) => return Ok(failed_at(0, "the journal has no head")),
        Err(unreadable @ store::Error::WrongColumn { .. }) => {
            return Ok(failed_at(0, format!("the head: {unreadable}")));
        }
        Err(error) => return Err(error.into()),
    };
    let mut state = JournalVerification {
        tenant,
        position: 0,
        hash: GENESIS,
        versions: BTreeMap::new(),
        salts: BTreeMap::new(),
        expected: ExpectedRows::default(),
        payloads: 0,
        erased: 0,
    };
    while state.position < head.position {
        let (from, through) = (state.position, (state.position + CHUNK_ENTRIES).min(head.position));
        if let Some(failure) = state.verify_chunk(db, from, through).await? {
            return Ok(VerifyReport { bad: Some(failure), ..VerifyReport::default() });
        }
    }
    if let Some(stray) = journal::stray_entry(tenant).first(db).await?.flatten() {
        return Ok(stray_row(stray, "an entry is after the head"));
    }
    if let Some(unreachable) = journal::entry_without_page(tenant).first(db).await?.flatten() {
        return Ok(stray_row(unreachable, "its stream would be read without it: run `actbook rebuild`"));
    }
    if state.hash != head.hash {
        return Ok(failed_at(head.position, "the head does not match the last entry"));
    }
    if let Some(stray) = payloads::stray_payload_or_salt(tenant).first(db).await?.flatten() {
        return Ok(stray_row(stray, "a payload or a salt is after the head"));
    }
    let bad = verify_list(db, tenant).await?;
    Ok(VerifyReport {
        ok: bad.is_none(),
        entries: state.position,
        payloads: state.payloads,
        erased: state.erased,
        position: head.position,
        hash: hex(&head.hash),
        list_differs: bad.is_some(),
        bad,
        notes: Vec::new(),
    })
}

/// Compares the list of executions with the journal. Some: the first row that differs, at the position where
/// its execution begins. The journal itself is whole then.
async fn verify_list(db: &Db, tenant: TenantId) -> Result<Option<VerifyFailure>, Error> {
    let difference = run_blocking(db, move |db| ledger::find_row_difference(&db, tenant)).await?;
    Ok(difference.map(|difference| VerifyFailure {
        position: difference.stream.0,
        why: format!(
            "the journal is whole, but the list of executions differs from it: {}; run `actbook rebuild`",
            difference_text(&difference)
        ),
    }))
}

/// What is wrong with an execution's row, in words.
fn difference_text(difference: &RowDifference) -> String {
    match (&difference.found, &difference.expected) {
        (Some(found), Some(expected)) if found.status != expected.status => {
            let (id, wrong, right) = (&expected.public_id, &found.status, &expected.status);
            format!("execution {id} is listed as {wrong} and is {right}")
        }
        (_, Some(expected)) => {
            let what = if difference.found.is_none() { "is not listed" } else { "is listed otherwise" };
            format!("execution {} {what}", expected.public_id)
        }
        (_, None) => "an execution is listed that the journal does not have".to_owned(),
    }
}

/// The result for a journal that fails at this position.
fn failed_at(position: u64, why: impl Into<String>) -> VerifyReport {
    VerifyReport { bad: Some(VerifyFailure { position, why: why.into() }), ..VerifyReport::default() }
}

/// The result for a row that the ledger cannot have written.
fn stray_row(position: i64, why: &str) -> VerifyReport {
    failed_at(u64::try_from(position).unwrap_or(0), why)
}

impl JournalVerification {
    /// Verifies the entries after `from` and up to `through` and their salts and payloads. Some: the first
    /// failure.
    async fn verify_chunk(
        &mut self,
        db: &Db,
        from: u64,
        through: u64,
    ) -> Result<Option<VerifyFailure>, Error> {
        let entries = journal::between(self.tenant, from, through);
        let flow = entries.for_each(db, |entry| match self.verify_entry(&entry) {
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => ControlFlow::Break(failure),
        });
        match flow.await {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(failure)) => return Ok(Some(failure)),
            Err(unreadable @ store::Error::WrongColumn { .. }) => {
                return Ok(Some(VerifyFailure { position: self.position + 1, why: unreadable.to_string() }));
            }
            Err(error) => return Err(error.into()),
        }
        if self.position < through {
            return Ok(Some(VerifyFailure {
                position: self.position + 1,
                why: "the entry is missing".into(),
            }));
        }
        self.verify_rows(db, from, through).await
    }

    /// Verifies the next entry: its position, its hash and its version within its stream. `Err`: what is
    /// wrong.
    fn verify_entry(&mut self, entry: &Entry) -> Result<(), VerifyFailure> {
        let expected = self.position + 1;
        if entry.position < expected {
            return Err(VerifyFailure { position: entry.position, why: "the entry exists twice".into() });
        }
        let failure = |why: String| VerifyFailure { position: expected, why };
        if entry.position > expected {
            return Err(failure("the entry is missing".into()));
        }
        let hash = chain::chain_hash(&self.hash, &entry_hash(self.tenant, entry));
        if hash != entry.hash {
            return Err(failure(
                "the entry is not the one that was written: its hash does not follow".into(),
            ));
        }
        let version = self.versions.entry(entry.stream).or_default();
        *version += 1;
        if entry.version != *version {
            return Err(failure(format!("version {} of its stream is missing", *version)));
        }
        let event = Event::decode(&entry.kind, &entry.body).map_err(|error| failure(error.to_string()))?;
        self.expected.expect_rows_of(entry, &event);
        self.erased += u64::from(matches!(event, Event::PayloadsErased(_)));
        self.position = entry.position;
        self.hash = hash;
        Ok(())
    }

    /// Verifies that every expected salt and payload of the chunk exists and matches, and that there is no
    /// other. Some: the first failure.
    async fn verify_rows(
        &mut self,
        db: &Db,
        from: u64,
        through: u64,
    ) -> Result<Option<VerifyFailure>, Error> {
        let expected = std::mem::take(&mut self.expected);
        let (mut missing_salts, mut missing_payloads) = (expected.salted_streams, expected.payloads);
        let mut mismatches = BTreeMap::new();
        for (stream, salt) in payloads::salts_between(self.tenant, from, through).all(db).await? {
            if !missing_salts.remove(&stream) {
                mismatches.insert(stream.0, RowMismatch { why: "a salt that nothing owns", stream: None });
            }
            self.salts.insert(stream, salt);
        }
        let flow = payloads::between(self.tenant, from, through).for_each(db, |payload| {
            self.payloads += 1;
            let mismatch = match missing_payloads.remove(&payload.position) {
                None => Some(RowMismatch { why: "a payload that no entry owns", stream: None }),
                Some((stream, kept)) => self.payload_mismatch(stream, kept, &payload.body),
            };
            if let Some(mismatch) = mismatch {
                mismatches.insert(payload.position, mismatch);
            }
            ControlFlow::<()>::Continue(())
        });
        let _to_the_end = flow.await?;
        let missing = |why, stream| RowMismatch { why, stream: Some(stream) };
        for stream in missing_salts {
            mismatches.entry(stream.0).or_insert(missing("its salt is missing", stream));
        }
        for (position, (stream, _)) in missing_payloads {
            mismatches.entry(position).or_insert(missing("its payload is missing", stream));
        }
        for stream in expected.erased.into_iter().filter(|stream| self.salts.contains_key(stream)) {
            // Read again: the salt may have been erased after it was read above.
            if payloads::salt(self.tenant, stream).first(db).await?.is_some() {
                mismatches
                    .insert(stream.0, RowMismatch { why: "its salt was erased and is back", stream: None });
            }
        }
        self.first_failure(db, mismatches).await
    }

    /// The first mismatch that is a failure; `None`: none is. A missing row is accepted only if the journal
    /// itself says that the stream was erased; so is a row that was read just before its erasure and is gone
    /// now.
    async fn first_failure(
        &self,
        db: &Db,
        mismatches: BTreeMap<u64, RowMismatch>,
    ) -> Result<Option<VerifyFailure>, Error> {
        for (position, RowMismatch { why, stream }) in mismatches {
            if let Some(stream) = stream
                && self.is_erased(db, stream).await?
                && payloads::by_position(self.tenant, position).first(db).await?.is_none()
            {
                continue;
            }
            return Ok(Some(VerifyFailure { position, why: why.into() }));
        }
        Ok(None)
    }

    /// Whether an entry says that the stream's payloads were erased.
    async fn is_erased(&self, db: &Db, stream: StreamId) -> Result<bool, Error> {
        let kind = Some(ERASED_KIND.into());
        let filter = journal::EntryFilter { kind, stream: Some(stream), ..journal::EntryFilter::default() };
        Ok(journal::list(db.dialect(), self.tenant, &filter, 1).first(db).await?.is_some())
    }

    /// Compares a payload with the digest and size that its entry holds. `None`: they match.
    fn payload_mismatch(&self, stream: StreamId, kept: PayloadDigest, body: &[u8]) -> Option<RowMismatch> {
        let no_salt = Vec::new();
        let salt = match stream {
            ledger::LIBRARY_STREAM => &no_salt,
            _ => self.salts.get(&stream).unwrap_or(&no_salt),
        };
        let same = body.len() as u64 == kept.size && Digest::salted(salt, body) == kept.digest;
        let why = "its payload is not the one that was written";
        if same { None } else { Some(RowMismatch { why, stream: Some(stream) }) }
    }
}

impl ExpectedRows {
    /// Adds the salts and payloads that an entry requires.
    fn expect_rows_of(&mut self, entry: &Entry, event: &Event) {
        let begins = entry.version == 1 && standalone_action::starts_standalone_stream(event);
        if begins || matches!(event, Event::ExecutionStarted(_)) {
            self.salted_streams.insert(entry.stream);
        }
        if matches!(event, Event::PayloadsErased(_)) {
            self.erased.insert(entry.stream);
        }
        if let Some(kept) = event.payload_digest() {
            self.payloads.insert(entry.position, (entry.stream, kept));
        }
    }
}
