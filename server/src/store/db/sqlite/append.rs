//! Appending on SQLite: one transaction per batch, one row per statement, all statements cached.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use actbook_engine::id::TenantId;

use rusqlite::{Connection, params};

use super::writer::Writer;
use super::{query_rows, to_sqlite_placeholders};
use crate::store::dialect::{append as text, lock_head};
use crate::store::{Appended, Batch, EntryKey, Error, Row};

/// Batches after which the write-ahead log is preallocated. Short commands end before and skip the cost.
const PREALLOCATE_AFTER_BATCHES: u32 = 32;
/// Preallocated size of the write-ahead log: what it grows to before a checkpoint.
const WAL_PREALLOCATED_BYTES: u64 = 66 * 64 * 1024;
/// One block of preallocation.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// Appends batches to a SQLite journal; blocks the calling thread.
#[derive(Debug)]
pub struct SqliteAppender {
    writer: Writer,
    /// Batches appended so far.
    batches: u32,
}

impl SqliteAppender {
    pub fn new(writer: Writer) -> Self {
        Self { writer, batches: 0 }
    }

    /// Takes the write lock and returns the tenant's head row.
    pub fn lock_head(&mut self, tenant: TenantId) -> Result<Vec<Row>, Error> {
        self.writer.begin(|connection| {
            query_rows(
                &mut connection.prepare_cached(to_sqlite_placeholders(lock_head::SQLITE))?,
                &[tenant.into()],
            )
        })
    }

    /// Releases the write lock without writing.
    pub fn unlock_head(&mut self) -> Result<(), Error> {
        self.writer.roll_back()
    }

    /// Appends the batch in one transaction: the one of `lock_head`, if open, or a new one.
    pub fn append(&mut self, batch: &Batch) -> Result<Appended, Error> {
        self.batches = self.batches.saturating_add(1);
        let wal_path = (self.batches == PREALLOCATE_AFTER_BATCHES).then(|| self.writer.wal_path());
        self.writer.transact(|connection| {
            if let Some(Err(error)) = wal_path.as_deref().map(preallocate_wal) {
                tracing::debug!("cannot preallocate the write-ahead log: {error}");
            }
            let moved = move_head(connection, batch)?;
            if moved {
                insert_batch(connection, batch)?;
            }
            Ok(if moved { Appended::Done } else { Appended::HeadMoved })
        })
    }
}

/// Extends the write-ahead log with zeros, which SQLite takes for the log's end: a commit that overwrites
/// allocated blocks is much faster than one that extends the file. Call it only under the write lock.
fn preallocate_wal(wal_path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(wal_path)?;
    let mut end = file.metadata()?.len();
    while end < WAL_PREALLOCATED_BYTES {
        file.write_all_at(&ZEROS, end)?;
        end += ZEROS.len() as u64;
    }
    Ok(())
}

/// Moves the head from the batch's old to its new one. False: another process has moved it.
fn move_head(connection: &Connection, batch: &Batch) -> rusqlite::Result<bool> {
    let (old, new) = (&batch.old, &batch.new);
    let mut head = connection.prepare_cached(text::SQLITE_HEAD)?;
    let count =
        head.execute(params![batch.tenant.0, old.position as i64, old.hash, new.position as i64, new.hash])?;
    Ok(count == 1)
}

/// Inserts the batch's entries, payloads and pages, and runs its other statements.
fn insert_batch(connection: &Connection, batch: &Batch) -> rusqlite::Result<()> {
    let mut entries = connection.prepare_cached(text::SQLITE_ENTRY)?;
    let mut payloads = connection.prepare_cached(text::SQLITE_PAYLOAD)?;
    for entry in &batch.entries {
        let key = EntryKey::new(batch.tenant, entry.position);
        entries.execute(params![
            batch.tenant.0,
            key.0,
            entry.stream.0 as i64,
            entry.version as i64,
            entry.at,
            entry.actor,
            entry.kind,
            entry.body,
            entry.hash
        ])?;
        if let Some(payload) = &entry.payload {
            payloads.execute(params![key.0, payload])?;
        }
        if entry.is_first_on_page {
            let mut pages = connection.prepare_cached(text::SQLITE_PAGE)?;
            pages.execute(params![batch.tenant.0, entry.stream.0 as i64, key.page()])?;
        }
    }
    for statement in &batch.other_statements {
        query_rows(
            &mut connection.prepare_cached(to_sqlite_placeholders(statement.sql))?,
            &statement.params,
        )?;
    }
    Ok(())
}
