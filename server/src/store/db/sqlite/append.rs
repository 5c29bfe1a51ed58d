//! Appending on SQLite: one transaction, one row per statement, all statements held prepared.

use rusqlite::{Connection, params};

use super::writer::Writer;
use super::{numbered, rows};
use crate::store::dialect::{append as text, hold};
use crate::store::{Appended, Batch, Error, Row};

#[derive(Debug)]
pub struct Appender {
    writer: Writer,
}

impl Appender {
    pub fn new(writer: Writer) -> Self {
        Self { writer }
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
        self.writer.transact(|connection| {
            let moved = move_head(connection, batch)?;
            if moved {
                insert(connection, batch)?;
            }
            Ok(if moved { Appended::Done } else { Appended::HeadMoved })
        })
    }
}

fn move_head(connection: &Connection, batch: &Batch) -> rusqlite::Result<bool> {
    let (old, new) = (&batch.old, &batch.new);
    let mut head = connection.prepare_cached(numbered(text::SQLITE_HEAD))?;
    let count =
        head.execute(params![batch.tenant, old.position as i64, old.hash, new.position as i64, new.hash])?;
    Ok(count == 1)
}

fn insert(connection: &Connection, batch: &Batch) -> rusqlite::Result<()> {
    let mut entries = connection.prepare_cached(numbered(text::SQLITE_ENTRY))?;
    let mut payloads = connection.prepare_cached(numbered(text::SQLITE_PAYLOAD))?;
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
    }
    for other in &batch.others {
        rows(&mut connection.prepare_cached(numbered(other.sql))?, &other.params)?;
    }
    Ok(())
}
