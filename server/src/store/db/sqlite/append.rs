//! Appending on SQLite: one transaction, one row per statement, all statements held prepared.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rusqlite::{Connection, params};

use super::writer::Writer;
use super::{numbered, rows};
use crate::store::dialect::{append as text, hold};
use crate::store::{Appended, Batch, Error, Row};

/// Who has appended this often will go on, and making room pays. A short command never does it.
const ROOM_AFTER: u32 = 32;
/// As long as the log grows before it is folded back.
const ROOM: u64 = 66 * 64 * 1024;
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

#[derive(Debug)]
pub struct Appender {
    writer: Writer,
    batches: u32,
}

impl Appender {
    pub fn new(writer: Writer) -> Self {
        Self { writer, batches: 0 }
    }

    pub fn hold(&mut self, tenant: i64) -> Result<Vec<Row>, Error> {
        self.writer.begin(|connection| {
            rows(&mut connection.prepare_cached(numbered(hold::SQLITE))?, &[tenant.into()])
        })
    }

    pub fn release(&mut self) -> Result<(), Error> {
        self.writer.roll_back()
    }

    pub fn append(&mut self, batch: &Batch) -> Result<Appended, Error> {
        self.batches = self.batches.saturating_add(1);
        let log = (self.batches == ROOM_AFTER).then(|| self.writer.log());
        self.writer.transact(|connection| {
            if let Some(Err(error)) = log.as_deref().map(make_room) {
                tracing::debug!("the log grows as it is written: {error}");
            }
            let moved = move_head(connection, batch)?;
            if moved {
                insert(connection, batch)?;
            }
            Ok(if moved { Appended::Done } else { Appended::HeadMoved })
        })
    }
}

/// Lengthens the log with zeros, which SQLite takes for its end: a commit that writes over what is there is
/// much quicker than one that makes the file longer. Only whoever holds the write lock may do this.
fn make_room(log: &Path) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(log)?;
    let mut end = file.metadata()?.len();
    while end < ROOM {
        file.write_all_at(&ZEROS, end)?;
        end += ZEROS.len() as u64;
    }
    Ok(())
}

fn move_head(connection: &Connection, batch: &Batch) -> rusqlite::Result<bool> {
    let (old, new) = (&batch.old, &batch.new);
    let mut head = connection.prepare_cached(text::SQLITE_HEAD)?;
    let count =
        head.execute(params![batch.tenant, old.position as i64, old.hash, new.position as i64, new.hash])?;
    Ok(count == 1)
}

fn insert(connection: &Connection, batch: &Batch) -> rusqlite::Result<()> {
    let mut entries = connection.prepare_cached(text::SQLITE_ENTRY)?;
    let mut payloads = connection.prepare_cached(text::SQLITE_PAYLOAD)?;
    for entry in &batch.entries {
        entries.execute(params![
            batch.tenant,
            entry.position as i64,
            entry.stream as i64,
            entry.version as i64,
            entry.at,
            entry.actor,
            entry.kind,
            entry.body,
            entry.hash
        ])?;
        if let Some(payload) = &entry.payload {
            payloads.execute(params![batch.tenant, entry.position as i64, payload])?;
        }
        if entry.turns_page {
            let mut pages = connection.prepare_cached(text::SQLITE_PAGE)?;
            pages.execute(params![batch.tenant, entry.stream as i64, entry.position as i64])?;
        }
    }
    for other in &batch.others {
        rows(&mut connection.prepare_cached(numbered(other.sql))?, &other.params)?;
    }
    Ok(())
}
