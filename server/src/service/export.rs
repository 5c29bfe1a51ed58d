//! One execution as a file that anybody can check offline. It carries its own entries whole and, for
//! the positions of others between them, only their 32-byte hashes, so that the chain still closes.
//! It ends with an entry of its own: a bare hash at the end could stand for one that was left out.

use std::borrow::Cow;
use std::io::{BufRead, Write};
use std::ops::ControlFlow;
use std::sync::Arc;

use actbook_engine::chain::{self, Digest, GENESIS, Hash};
use actbook_engine::event::Event;
use actbook_engine::execution::evolve;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::verify::{Bad, Verified, entry_hash, hex};
use crate::error::Error;
use crate::ledger;
use crate::store::{Db, Entry, journal, payloads};

const FORMAT: u32 = 2;
/// The first format, which is still read: its header does not say how many entries the execution has.
const FORMAT_WITHOUT_COUNT: u32 = 1;
const WITHOUT_COUNT: &str = "the file has export format 1, which does not state how many entries the execution \
     has; an export made by this version does";
const NOT_ENDED: &str = "the execution has not ended in this file; what happened later is not part of it";
/// A longer line is no line of ours.
const LINE_BYTES_MAX: usize = 64 * 1024 * 1024;

#[derive(Clone, Debug, Serialize)]
pub struct Exported {
    pub execution: String,
    pub entries: u64,
    pub position: u64,
    pub hash: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    actbook_export: u32,
    tenant: i64,
    execution: String,
    stream: u64,
    /// The chain before the first line.
    after: u64,
    after_hash: String,
    through: u64,
    hash: String,
    /// How many lines are the execution's own entries; `None` only in format 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    entries: Option<u64>,
    salt: Option<String>,
    plan: String,
}

impl Header {
    /// The first line of an export, of a format that this version reads.
    fn parse(line: &str) -> Result<Self, Error> {
        let header: Self = serde_json::from_str(line).map_err(broken)?;
        match (header.actbook_export, header.entries) {
            (FORMAT, Some(_)) | (FORMAT_WITHOUT_COUNT, None) => Ok(header),
            (FORMAT, None) => Err(broken("its header does not say how many entries it has")),
            (FORMAT_WITHOUT_COUNT, Some(_)) => Err(broken("its header is not of format 1")),
            (other, _) => Err(broken(format!("its format is {other}, this actbook reads up to {FORMAT}"))),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Own(Own),
    Other(Other),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Other {
    position: u64,
    entry: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Own {
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

fn broken(why: impl std::fmt::Display) -> Error {
    Error::new(
        "not_an_export",
        format!("this is not an export that reads: {why}"),
        "make one with `actbook export EXECUTION`",
    )
}

fn unwritable(error: std::io::Error) -> Error {
    Error::new("io", format!("the export cannot be written: {error}"), "choose another file")
}

pub(super) async fn write(
    db: &Db,
    tenant: i64,
    stream: u64,
    to: &mut (dyn Write + Send),
) -> Result<Exported, Error> {
    let plans = ledger::Plans::default();
    let execution = ledger::fold(db, tenant, stream, &plans)?.ok_or_else(|| {
        Error::new("no_such_execution", "there is no such execution", "`actbook list` shows them")
    })?;
    let (after, through) = (stream - 1, execution.position.0);
    let hash_at = |entry: Option<Entry>| entry.map_or(GENESIS, |entry| entry.hash);
    let header = Header {
        actbook_export: FORMAT,
        tenant,
        execution: execution.id.to_string(),
        stream,
        after,
        after_hash: hex(&hash_at(journal::at(tenant, after).first(db).await?)),
        through,
        hash: hex(&hash_at(journal::at(tenant, through).first(db).await?)),
        entries: Some(execution.version),
        salt: payloads::salt(tenant, stream).first(db).await?.map(|salt| STANDARD.encode(salt)),
        plan: execution.plan.document.clone(),
    };
    put(to, &header)?;
    let mut bodies = payloads::of_stream(db.dialect(), tenant, stream).all(db).await?.into_iter().peekable();
    let mut own = 0;
    let flow = journal::between(tenant, after, through).each(db, |entry| {
        let line = if entry.stream == stream {
            own += 1;
            let body = bodies.next_if(|payload| payload.position == entry.position);
            Line::Own(own_line(entry, body.map(|payload| payload.body)))
        } else {
            let hash = STANDARD.encode(entry_hash(tenant, &entry));
            Line::Other(Other { position: entry.position, entry: hash })
        };
        match put(to, &line) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    });
    match flow.await? {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => {
            to.flush().map_err(unwritable)?;
            Ok(Exported { execution: header.execution, entries: own, position: through, hash: header.hash })
        }
    }
}

fn put(to: &mut (dyn Write + Send), line: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_string(line).map_err(broken)?;
    writeln!(to, "{text}").map_err(unwritable)
}

fn own_line(entry: Entry, payload: Option<Vec<u8>>) -> Own {
    let Entry { position, version, at, actor, kind, body, .. } = entry;
    let payload = payload.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Own { position, version, at, actor, kind, body, payload }
}

/// Checks an export without any database.
pub fn verify_file(from: impl BufRead) -> Result<Verified, Error> {
    let mut lines = from.lines();
    let mut next = || -> Result<Option<String>, Error> {
        let line = lines.next().transpose().map_err(broken)?;
        match line {
            Some(line) if line.len() > LINE_BYTES_MAX => Err(broken("a line is too long")),
            line => Ok(line),
        }
    };
    let header = Header::parse(&next()?.ok_or_else(|| broken("it is empty"))?)?;
    let mut check = Check::new(header)?;
    while let Some(text) = next()? {
        let line: Line = serde_json::from_str(&text).map_err(broken)?;
        if let Err(why) = check.line(line) {
            return Ok(Verified {
                bad: Some(Bad { position: check.position + 1, why }),
                ..Verified::default()
            });
        }
    }
    Ok(check.finish())
}

struct Check {
    header: Header,
    salt: Vec<u8>,
    position: u64,
    hash: Hash,
    version: u64,
    /// The position of the execution's last entry so far.
    last_own: u64,
    payloads: u64,
    erased: bool,
    missing: Option<u64>,
    state: Option<actbook_engine::execution::Execution>,
}

impl Check {
    fn new(header: Header) -> Result<Self, Error> {
        let hash = unhex(&header.after_hash).ok_or_else(|| broken("after_hash is no hash"))?;
        let salt = header.salt.as_deref().map(|salt| STANDARD.decode(salt)).transpose().map_err(broken)?;
        let position = header.after;
        Ok(Self {
            salt: salt.unwrap_or_default(),
            position,
            hash,
            version: 0,
            last_own: 0,
            payloads: 0,
            erased: false,
            missing: None,
            state: None,
            header,
        })
    }

    fn line(&mut self, line: Line) -> Result<(), String> {
        let (position, entry) = match line {
            Line::Other(Other { position, entry }) => {
                let bytes = STANDARD.decode(entry).map_err(|error| error.to_string())?;
                (position, Hash::try_from(bytes).map_err(|_| "an entry's hash has 32 bytes")?)
            }
            Line::Own(own) => (own.position, self.own_entry(own)?),
        };
        if position != self.position + 1 {
            return Err("the entry is missing".into());
        }
        self.hash = chain::chain_hash(&self.hash, &entry);
        self.position = position;
        Ok(())
    }

    fn own_entry(&mut self, own: Own) -> Result<Hash, String> {
        self.version += 1;
        self.last_own = own.position;
        if own.version != self.version {
            return Err(format!("version {} of the execution is missing", self.version));
        }
        let event = Event::decode(&own.kind, &own.body).map_err(|error| error.to_string())?;
        self.payload(&event, own.position, own.payload.as_deref())?;
        self.fold(event, &own)?;
        let Own { position, version, at, actor, kind, body, .. } = own;
        let stream = self.header.stream;
        let (hash, payload, turns_page) = (GENESIS, None, false);
        let entry = Entry { position, stream, version, at, actor, kind, body, hash, payload, turns_page };
        Ok(entry_hash(self.header.tenant, &entry))
    }

    fn payload(&mut self, event: &Event, position: u64, payload: Option<&str>) -> Result<(), String> {
        self.erased |= matches!(event, Event::PayloadsErased(_));
        match (event.kept(), payload) {
            (None, None) => {}
            (None, Some(_)) => return Err("a payload that no entry owns".into()),
            (Some(_), None) => self.missing = self.missing.or(Some(position)),
            (Some(kept), Some(body)) => {
                let same = body.len() as u64 == kept.size
                    && Digest::salted(&self.salt, body.as_bytes()) == kept.digest;
                if !same {
                    return Err("its payload is not the one that was written".into());
                }
                self.payloads += 1;
            }
        }
        Ok(())
    }

    /// The entries must also make sense: they are folded as they would be anywhere.
    fn fold(&mut self, event: Event, own: &Own) -> Result<(), String> {
        let position = actbook_engine::id::Position(own.position);
        self.state = Some(match (self.state.take(), event) {
            (None, Event::ExecutionStarted(started)) => {
                if (self.header.execution.as_str(), self.header.stream) != (started.id.as_str(), own.position)
                {
                    return Err("it is not the execution that the header names".into());
                }
                if Digest::of(self.header.plan.as_bytes()) != started.plan.digest {
                    return Err("the plan is not the one that was run".into());
                }
                let plan = actbook_engine::plan::Plan::parse(&self.header.plan)
                    .map_err(|_| "the plan does not read")?;
                let salt: std::sync::Arc<[u8]> = self.salt.clone().into();
                actbook_engine::execution::open(&started, position, own.at, plan.into(), salt)
            }
            (None, _) => return Err("it does not begin with the execution's start".into()),
            (Some(state), event) => {
                let recorded = actbook_engine::execution::Recorded { position, at_ms: own.at, event };
                evolve(state, &recorded).map_err(|corrupt| corrupt.to_string())?
            }
        });
        Ok(())
    }

    fn finish(self) -> Verified {
        let failed = |position, why: &str| Verified {
            bad: Some(Bad { position, why: why.into() }),
            ..Verified::default()
        };
        if let (Some(position), false) = (self.missing, self.erased) {
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
        let notes = self.notes();
        Verified {
            ok: true,
            entries: self.version,
            payloads: self.payloads,
            erased: u64::from(self.erased),
            position: self.position,
            hash: self.header.hash,
            bad: None,
            notes,
        }
    }

    /// What the file cannot show though it holds.
    fn notes(&self) -> Vec<String> {
        let without_count = self.header.entries.is_none().then_some(WITHOUT_COUNT);
        let goes_on = self.state.as_ref().is_some_and(|state| state.ended.is_none()).then_some(NOT_ENDED);
        [without_count, goes_on].into_iter().flatten().map(str::to_owned).collect()
    }
}

fn unhex(text: &str) -> Option<Hash> {
    let digit = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..text.len() / 2).map(|index| digit(index * 2)).collect();
    // One spelling per hash: no capitals, no signs, no odd digit at the end.
    Hash::try_from(bytes?).ok().filter(|hash| hex(hash) == text)
}
