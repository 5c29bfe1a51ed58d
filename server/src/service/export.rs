//! Exports one execution as a file that anyone can verify offline. The file holds the execution's entries
//! whole and, for the entries of other streams between them, only their 32-byte hashes, so that the chain
//! still closes. The last line must be an entry of the execution: a bare hash there could stand for an own
//! entry that was left out.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::{BufRead, Write};
use std::sync::Arc;

use actbook_engine::chain::{self, Digest, GENESIS, Hash};
use actbook_engine::event::Event;
use actbook_engine::execution::evolve;
use actbook_engine::id::{StreamId, TenantId};
use actbook_engine::plan::Plan;
use actbook_engine::refusal::Refusal;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::verify::{VerifyFailure, VerifyReport, entry_hash, hex};
use crate::error::Error;
use crate::ledger;
use crate::store::{Db, Entry, journal, payloads};

/// The format that is written.
const FORMAT: u32 = 2;
/// The first format, still readable: its header does not state how many entries the execution has.
const FORMAT_1: u32 = 1;
const NOTE_WITHOUT_COUNT: &str = "the file has export format 1, which does not state how many entries the execution \
     has; an export made by this version does";
const NOTE_NOT_ENDED: &str =
    "the execution has not ended in this file; what happened later is not part of it";
/// Positions that are read from the journal at a time.
const READ_POSITIONS: u64 = 500;
/// A part of an export ends with the payload that reaches this size.
const PART_BYTES: u64 = 1024 * 1024;
/// A longer line is refused.
const LINE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The result of an export.
#[derive(Clone, Debug, Serialize)]
pub struct ExportReport {
    /// The execution's id.
    pub execution: String,
    /// How many entries of the execution the file holds.
    pub entries: u64,
    /// The position of the last one.
    pub position: u64,
    /// The chain hash there, in hexadecimal.
    pub hash: String,
}

/// The first line of an export.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportHeader {
    actbook_export: u32,
    tenant: TenantId,
    execution: String,
    stream: StreamId,
    /// The position before the first line, and the chain hash there.
    after: u64,
    after_hash: String,
    /// The position of the last line, and the chain hash there.
    through: u64,
    hash: String,
    /// How many lines are entries of the execution; `None` only in format 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    entries: Option<u64>,
    /// In base64. `None`: erased.
    salt: Option<String>,
    /// The plan's document.
    plan: String,
}

impl ExportHeader {
    /// Parses the first line; refused if its format is not one that this version reads, or a field is
    /// missing.
    fn parse(line: &str) -> Result<Self, Error> {
        let header: Self = serde_json::from_str(line).map_err(invalid_export)?;
        match (header.actbook_export, header.entries) {
            (FORMAT, Some(_)) | (FORMAT_1, None) => Ok(header),
            (FORMAT, None) => Err(invalid_export("its header does not say how many entries it has")),
            (FORMAT_1, Some(_)) => Err(invalid_export("its header is not of format 1")),
            (other, _) => {
                Err(invalid_export(format!("its format is {other}, this actbook reads up to {FORMAT}")))
            }
        }
    }
}

/// Any later line of an export: an entry of the execution, or the hash of another stream's entry.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum ExportLine {
    Own(OwnEntryLine),
    Other(OtherEntryLine),
}

/// An entry of another stream, reduced to its hash in base64.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OtherEntryLine {
    position: u64,
    entry: String,
}

/// An entry of the execution, with its payload unless that was erased.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnEntryLine {
    position: u64,
    version: u64,
    at: i64,
    actor: Arc<str>,
    kind: Cow<'static, str>,
    /// The exact stored text: hashes are over bytes, not over JSON.
    body: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
}

/// The refusal of a file that is not a readable export.
fn invalid_export(why: impl std::fmt::Display) -> Error {
    Error::NotAnExport { why: why.to_string() }
}

/// The lines of an export, read from the journal a part at a time, so that no more than one part is in memory. Clones
/// give the same lines: the export ends with the entry that was the execution's last one when it was opened.
#[derive(Clone, Debug)]
pub struct ExportReader {
    db: Db,
    tenant: TenantId,
    header: ExportHeader,
    /// The header was returned.
    has_begun: bool,
    /// The position up to which entries were read.
    read_to: u64,
    /// Entries that were read and not returned.
    pending: VecDeque<Entry>,
    /// How many entries of the execution were returned.
    own: u64,
}

impl ExportReader {
    /// Opens the export of the execution of `stream`.
    pub(super) async fn open(db: &Db, tenant: TenantId, stream: StreamId) -> Result<Self, Error> {
        let plans = ledger::PlanCache::default();
        let execution =
            ledger::load_execution(db, tenant, stream, &plans).await?.ok_or(Refusal::NoSuchExecution)?;
        let (after, through) = (stream.0 - 1, execution.position.0);
        let hash_at = |entry: Option<Entry>| entry.map_or(GENESIS, |entry| entry.hash);
        let header = ExportHeader {
            actbook_export: FORMAT,
            tenant,
            execution: execution.id.to_string(),
            stream,
            after,
            after_hash: hex(&hash_at(journal::by_position(tenant, after).first(db).await?)),
            through,
            hash: hex(&hash_at(journal::by_position(tenant, through).first(db).await?)),
            entries: Some(execution.version),
            salt: payloads::salt(tenant, stream).first(db).await?.map(|salt| STANDARD.encode(salt)),
            plan: execution.plan.document.clone(),
        };
        let (db, pending) = (db.clone(), VecDeque::new());
        Ok(Self { db, tenant, header, has_begun: false, read_to: after, pending, own: 0 })
    }

    /// A text that is another one whenever the lines are: the hash of the chain covers the entries, and the salt is
    /// erased with the payloads.
    pub fn version(&self) -> String {
        format!("{} {:?}", self.header.hash, self.header.salt)
    }

    /// The next whole lines. `None`: there are no more.
    pub async fn next_part(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let mut part = Vec::new();
        if !self.has_begun {
            self.has_begun = true;
            push_line(&mut part, &self.header)?;
            return Ok(Some(part));
        }
        if self.pending.is_empty() {
            if self.read_to >= self.header.through {
                return Ok(None);
            }
            let through = self.header.through.min(self.read_to + READ_POSITIONS);
            self.pending = journal::between(self.tenant, self.read_to, through).all(&self.db).await?.into();
            self.read_to = through;
        }
        let entries = self.take_entries();
        let own = entries.iter().filter(|entry| entry.stream == self.header.stream);
        let own: Vec<u64> = own.map(|entry| entry.position).collect();
        let found = payloads::by_positions(&self.db, self.tenant, &own).await?;
        self.own += own.len() as u64;
        let mut bodies = found.into_iter().peekable();
        for entry in entries {
            let body = bodies.next_if(|payload| payload.position == entry.position);
            push_line(&mut part, &self.line(entry, body.map(|payload| payload.body)))?;
        }
        Ok(Some(part))
    }

    /// Takes entries whose payloads have up to `PART_BYTES` in all, at least one.
    fn take_entries(&mut self) -> Vec<Entry> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while bytes < PART_BYTES
            && let Some(entry) = self.pending.pop_front()
        {
            let event = (entry.stream == self.header.stream).then(|| Event::decode(&entry.kind, &entry.body));
            let payload = event.and_then(|event| event.ok()?.payload_digest().map(|kept| kept.size));
            bytes += payload.unwrap_or_default();
            taken.push(entry);
        }
        taken
    }

    /// The line of an entry; `body`: its payload.
    fn line(&self, entry: Entry, body: Option<Vec<u8>>) -> ExportLine {
        if entry.stream == self.header.stream {
            return ExportLine::Own(own_line(entry, body));
        }
        let hash = STANDARD.encode(entry_hash(self.tenant, &entry));
        ExportLine::Other(OtherEntryLine { position: entry.position, entry: hash })
    }
}

/// Writes the export of the execution of `stream` to `to`.
pub(super) async fn write_export(
    db: &Db,
    tenant: TenantId,
    stream: StreamId,
    to: &mut (dyn Write + Send),
) -> Result<ExportReport, Error> {
    let mut reader = ExportReader::open(db, tenant, stream).await?;
    while let Some(part) = reader.next_part().await? {
        to.write_all(&part).map_err(Error::ExportNotWritten)?;
    }
    to.flush().map_err(Error::ExportNotWritten)?;
    let ExportReader { header: ExportHeader { execution, through, hash, .. }, own, .. } = reader;
    Ok(ExportReport { execution, entries: own, position: through, hash })
}

/// Appends one line of JSON.
fn push_line(to: &mut Vec<u8>, line: &impl Serialize) -> Result<(), Error> {
    serde_json::to_writer(&mut *to, line).map_err(invalid_export)?;
    to.push(b'\n');
    Ok(())
}

/// The line of an entry of the execution; `payload` is left out if it was erased.
fn own_line(entry: Entry, payload: Option<Vec<u8>>) -> OwnEntryLine {
    let Entry { position, version, at, actor, kind, body, .. } = entry;
    let payload = payload.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    OwnEntryLine { position, version, at, actor, kind, body, payload }
}

/// Verifies an export without any database. Ok also if a line does not hold: the report says which. `Err`:
/// the file is not a readable export.
pub fn verify_file(from: impl BufRead) -> Result<VerifyReport, Error> {
    let mut lines = from.lines();
    let mut next_line = || -> Result<Option<String>, Error> {
        let line = lines.next().transpose().map_err(invalid_export)?;
        match line {
            Some(line) if line.len() > LINE_BYTES_MAX => Err(invalid_export("a line is too long")),
            line => Ok(line),
        }
    };
    let header = ExportHeader::parse(&next_line()?.ok_or_else(|| invalid_export("it is empty"))?)?;
    let mut check = ExportVerification::new(header)?;
    while let Some(text) = next_line()? {
        let line: ExportLine = serde_json::from_str(&text).map_err(invalid_export)?;
        if let Err(why) = check.check_line(line) {
            return Ok(VerifyReport {
                bad: Some(VerifyFailure { position: check.position + 1, why }),
                ..VerifyReport::default()
            });
        }
    }
    Ok(check.finish())
}

/// The state of verifying an export line by line.
struct ExportVerification {
    header: ExportHeader,
    salt: Vec<u8>,
    /// The position of the last line so far, and the chain hash there.
    position: u64,
    hash: Hash,
    /// How many entries of the execution were read.
    version: u64,
    /// The position of the last of them.
    last_own: u64,
    payloads: u64,
    /// An entry says that the payloads were erased.
    erased: bool,
    /// The position of the first entry without its payload.
    first_missing_payload: Option<u64>,
    /// The execution as folded so far.
    state: Option<actbook_engine::execution::Execution>,
}

impl ExportVerification {
    /// The state before the first line after the header. `Err`: the header's hash or salt is malformed.
    fn new(header: ExportHeader) -> Result<Self, Error> {
        let hash =
            parse_hash(&header.after_hash).ok_or_else(|| invalid_export("after_hash is not a hash"))?;
        let salt =
            header.salt.as_deref().map(|salt| STANDARD.decode(salt)).transpose().map_err(invalid_export)?;
        let position = header.after;
        Ok(Self {
            salt: salt.unwrap_or_default(),
            position,
            hash,
            version: 0,
            last_own: 0,
            payloads: 0,
            erased: false,
            first_missing_payload: None,
            state: None,
            header,
        })
    }

    /// Checks one line and extends the chain by it. `Err`: why the line does not hold.
    fn check_line(&mut self, line: ExportLine) -> Result<(), String> {
        let (position, entry) = match line {
            ExportLine::Other(OtherEntryLine { position, entry }) => {
                let bytes = STANDARD.decode(entry).map_err(|error| error.to_string())?;
                (position, Hash::try_from(bytes).map_err(|_| "an entry's hash has 32 bytes")?)
            }
            ExportLine::Own(own) => (own.position, self.check_own_entry(own)?),
        };
        if position != self.position + 1 {
            return Err("the entry is missing".into());
        }
        self.hash = chain::chain_hash(&self.hash, &entry);
        self.position = position;
        Ok(())
    }

    /// Checks an entry of the execution and returns its hash. `Err`: why the entry does not hold.
    fn check_own_entry(&mut self, own: OwnEntryLine) -> Result<Hash, String> {
        self.version += 1;
        self.last_own = own.position;
        if own.version != self.version {
            return Err(format!("version {} of the execution is missing", self.version));
        }
        let event = Event::decode(&own.kind, &own.body).map_err(|error| error.to_string())?;
        self.check_payload(&event, own.position, own.payload.as_deref())?;
        self.fold_entry(event, &own)?;
        let OwnEntryLine { position, version, at, actor, kind, body, .. } = own;
        let stream = self.header.stream;
        let (hash, payload, turns_page) = (GENESIS, None, false);
        let entry = Entry {
            position,
            stream,
            version,
            at,
            actor,
            kind,
            body,
            hash,
            payload,
            is_first_on_page: turns_page,
        };
        Ok(entry_hash(self.header.tenant, &entry))
    }

    /// Checks the payload of an entry against the digest that the entry holds. A missing payload is only
    /// noted: a later entry may say that it was erased. `Err`: why the payload does not hold.
    fn check_payload(&mut self, event: &Event, position: u64, payload: Option<&str>) -> Result<(), String> {
        self.erased |= matches!(event, Event::PayloadsErased(_));
        match (event.payload_digest(), payload) {
            (None, None) => {}
            (None, Some(_)) => return Err("a payload that no entry owns".into()),
            (Some(_), None) => self.first_missing_payload = self.first_missing_payload.or(Some(position)),
            (Some(kept), Some(body)) => {
                let matches = body.len() as u64 == kept.size
                    && Digest::salted(&self.salt, body.as_bytes()) == kept.digest;
                if !matches {
                    return Err("its payload is not the one that was written".into());
                }
                self.payloads += 1;
            }
        }
        Ok(())
    }

    /// Folds an entry of the exported execution into its state: the entries must form a valid history that
    /// begins with the start, and with the plan, that the header names. `Err`: why they do not.
    fn fold_entry(&mut self, event: Event, own: &OwnEntryLine) -> Result<(), String> {
        let position = actbook_engine::id::Position(own.position);
        self.state = Some(match (self.state.take(), event) {
            (None, Event::ExecutionStarted(started)) => {
                if (self.header.execution.as_str(), self.header.stream)
                    != (started.id.as_str(), StreamId(own.position))
                {
                    return Err("it is not the execution that the header names".into());
                }
                if Digest::of(self.header.plan.as_bytes()) != started.plan.digest {
                    return Err("the plan is not the one that was run".into());
                }
                let plan = match &started.session {
                    Some(_) => Plan::of_session(&started.plan.name),
                    None => Plan::parse(&self.header.plan).map_err(|_| "the plan cannot be parsed")?,
                };
                let salt: Arc<[u8]> = self.salt.clone().into();
                actbook_engine::execution::initial_state(started, position, own.at, plan.into(), salt)
            }
            (None, _) => return Err("it does not begin with the execution's start".into()),
            (Some(state), event) => {
                let recorded = actbook_engine::execution::RecordedEvent { position, at_ms: own.at, event };
                evolve(state, &recorded).map_err(|corrupt| corrupt.to_string())?
            }
        });
        Ok(())
    }

    /// The result after the last line, with the checks that need the whole file.
    fn finish(self) -> VerifyReport {
        let failed = |position, why: &str| VerifyReport {
            bad: Some(VerifyFailure { position, why: why.into() }),
            ..VerifyReport::default()
        };
        if let (Some(position), false) = (self.first_missing_payload, self.erased) {
            return failed(position, "its payload is missing");
        }
        if self.position != self.header.through || hex(&self.hash) != self.header.hash {
            return failed(self.position, "the chain does not close");
        }
        if self.last_own != self.position {
            return failed(
                self.last_own + 1,
                "it does not end with an entry of its execution: its tail may be hidden",
            );
        }
        if self.header.entries.is_some_and(|stated| stated != self.version) {
            return failed(self.position, "it has another number of entries than its header states");
        }
        let notes = self.caveats();
        VerifyReport {
            ok: true,
            entries: self.version,
            payloads: self.payloads,
            erased: u64::from(self.erased),
            position: self.position,
            hash: self.header.hash,
            bad: None,
            list_differs: false,
            notes,
        }
    }

    /// What the file cannot prove although every line holds, a sentence each.
    fn caveats(&self) -> Vec<String> {
        let without_count = self.header.entries.is_none().then_some(NOTE_WITHOUT_COUNT);
        let not_ended =
            self.state.as_ref().is_some_and(|state| state.ended.is_none()).then_some(NOTE_NOT_ENDED);
        [without_count, not_ended].into_iter().flatten().map(str::to_owned).collect()
    }
}

/// Parses a hash in lower-case hexadecimal. `None`: the text is no such hash.
fn parse_hash(text: &str) -> Option<Hash> {
    let digit = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..text.len() / 2).map(|index| digit(index * 2)).collect();
    // Only one spelling is accepted: `from_str_radix` also takes capitals and signs, and an odd digit was
    // ignored.
    Hash::try_from(bytes?).ok().filter(|hash| hex(hash) == text)
}
