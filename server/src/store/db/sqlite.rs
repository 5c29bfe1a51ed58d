//! The SQLite backend: connections, reads, one write transaction at a time, and the appender. Several
//! processes share one file; each write transaction takes the write lock when it begins.

mod append;
mod locks;
mod open;
mod watch;
mod writer;

use std::path::{Path, PathBuf};
use std::time::Duration;

use actbook_engine::id::TenantId;
use parking_lot::Mutex;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ErrorCode, ToSql, ffi};

use super::placeholders::to_sqlite_placeholders;
use super::{CHUNK_ROWS, ChunkSender};
use crate::config::{DatabaseUsage, without_password};
use crate::store::{Error, Row, SqlValue, Statement, dialect};

use writer::Writer;

pub use append::SqliteAppender;
pub use watch::SqliteWatch;

/// Reader connections kept open between reads. More are open while more threads read at once.
const READERS_IDLE_MAX: usize = 4;

/// Delay before a backup that met a lock retries.
const BACKUP_PAUSE: Duration = Duration::from_millis(10);

/// Largest file that is vacuumed: it takes a few seconds, well within the lock time-out of other processes.
const VACUUM_BYTES_MAX: u64 = 1 << 30;

/// An open SQLite database.
#[derive(Debug)]
pub struct Sqlite {
    path: PathBuf,
    usage: DatabaseUsage,
    readers: Mutex<Vec<Connection>>,
    writer: Mutex<Writer>,
    /// The connection of `transact_relaxed`, opened at its first use.
    relaxed_writer: Mutex<Option<Writer>>,
}

impl Sqlite {
    /// Opens or creates the file, and migrates.
    pub fn open(path: &Path, usage: DatabaseUsage) -> Result<Self, Error> {
        let failed = |error: Error| {
            let error = error.with_file(path);
            if matches!(
                error,
                Error::DiskFull { .. } | Error::ReadOnly { .. } | Error::ForeignDatabase { .. }
            ) {
                return error;
            }
            if !open::is_file_writable(path) {
                return Error::ReadOnly { file: None }.with_file(path);
            }
            Error::Open { url: without_password(&path.to_string_lossy()), reason: error.to_string() }
        };
        open::create_folder(path).map_err(|error| failed(open::convert_io_error(&error)))?;
        let mut writer = Writer::open(path, usage).map_err(failed)?;
        writer.migrate().map_err(|error| match error {
            other @ (Error::NewerSchema { .. } | Error::OlderSchema { .. }) => other,
            other => failed(other),
        })?;
        Ok(Self {
            path: path.to_owned(),
            usage,
            readers: Mutex::default(),
            writer: Mutex::new(writer),
            relaxed_writer: Mutex::default(),
        })
    }

    /// Runs one read per parameter set, all on one snapshot; returns the rows of each.
    pub fn read_many(&self, sql: &'static str, param_sets: &[Vec<SqlValue>]) -> Result<Vec<Vec<Row>>, Error> {
        self.with_reader(|reader| {
            // SQLite takes and releases its file locks once per transaction, and a single read is one itself.
            let snapshot = if param_sets.len() > 1 { Some(reader.unchecked_transaction()?) } else { None };
            let mut statement = reader.prepare_cached(to_sqlite_placeholders(sql))?;
            let rows = param_sets.iter().map(|params| query_rows(&mut statement, params)).collect();
            drop(snapshot);
            rows
        })
    }

    /// Streams the rows of a read into `chunks`; blocks until all are sent or the receiver is dropped.
    pub fn stream(&self, sql: &'static str, params: &[SqlValue], chunks: &ChunkSender) {
        let result = self.with_reader(|reader| send_chunks(reader, sql, params, chunks));
        if let Err(error) = result {
            // Sending fails only if the visitor has stopped reading.
            drop(chunks.blocking_send(Err(error)));
        }
    }

    /// Runs the statements in one transaction; returns the rows of each.
    pub fn transact(&self, statements: &[Statement]) -> Result<Vec<Vec<Row>>, Error> {
        self.writer.lock().transact(|connection| run_all(connection, statements))
    }

    /// Like `transact`, on a connection whose commits do not wait for the disk.
    pub fn transact_relaxed(&self, statements: &[Statement]) -> Result<Vec<Vec<Row>>, Error> {
        let mut relaxed = self.relaxed_writer.lock();
        let mut writer = match relaxed.take() {
            Some(writer) => writer,
            None => Writer::open(&self.path, self.usage)?,
        };
        // Each time: the writer may have replaced its connection after an error.
        writer.with_connection(|connection| connection.execute_batch(dialect::relaxed_durability::SQLITE))?;
        let results = writer.transact(|connection| run_all(connection, statements));
        *relaxed = Some(writer);
        results
    }

    /// Removes the bytes of erased rows: vacuums a small file and truncates the write-ahead log, which still
    /// holds old pages. VACUUM is needed because a split page keeps a copy of the rows that moved, which
    /// `secure_delete` does not overwrite. A large file is not vacuumed, since that blocks all writers.
    pub fn scrub(&self) -> Result<(), Error> {
        let is_small = std::fs::metadata(&self.path).is_ok_and(|file| file.len() <= VACUUM_BYTES_MAX);
        let mut writer = self.writer.lock();
        let busy = writer.with_connection(|writer| {
            if is_small {
                writer.execute_batch("VACUUM")?;
            }
            writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0))
        })?;
        let waited_s = self.usage.lock_wait().as_secs();
        if busy {
            Err(locks::with_lock_holder(Error::Busy { waited_s, holder: None }, &self.path, self.usage))
        } else {
            Ok(())
        }
    }

    /// Folds the write-ahead log into the database file, unless another process has it open: people copy the
    /// file alone. Never waits for a lock.
    pub fn checkpoint_if_last(&self) -> Result<(), Error> {
        if locks::is_open_elsewhere(&self.path) == Some(true) {
            return Ok(());
        }
        let mut writer = self.writer.lock();
        writer.with_connection(|writer| writer.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())))
    }

    /// Opens an appender on a connection of its own.
    pub fn appender(&self) -> Result<SqliteAppender, Error> {
        Ok(SqliteAppender::new(Writer::open(&self.path, self.usage)?))
    }

    /// Calls `on_append` with the head position after each append, until the guard is dropped.
    pub fn watch(
        &self,
        tenant: TenantId,
        on_append: impl Fn(u64) + Send + 'static,
    ) -> Result<SqliteWatch, Error> {
        SqliteWatch::start(open::connect(&self.path, self.usage)?, tenant, on_append)
    }

    /// The database's file, as it was given.
    pub fn file(&self) -> &Path {
        &self.path
    }

    /// Names the database for people.
    pub fn describe(&self) -> String {
        format!("SQLite {} at {}", rusqlite::version(), self.path.display())
    }

    /// Copies the database to `file`, which must not exist.
    pub fn backup(&self, file: &Path) -> Result<(), Error> {
        let failed = |reason: String| Error::Backup { file: file.display().to_string(), reason };
        if file.exists() {
            return Err(failed("the file exists already".into()));
        }
        // The copy holds arguments and outputs too, so only its owner may ever read it.
        open::create_private(file).map_err(|error| failed(error.to_string()))?;
        let copied =
            self.with_reader(|reader| copy_database(reader, file)).map_err(|error| failed(error.to_string()));
        copied.and_then(|()| open::sync_with_folder(file).map_err(|error| failed(error.to_string())))
    }

    /// Runs `read` on an idle reader connection, or on a new one.
    fn with_reader<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Error> {
        let idle = self.readers.lock().pop();
        let reader = match idle {
            Some(reader) => reader,
            None => open::connect_reader(&self.path, self.usage)?,
        };
        let result =
            read(&reader).map_err(|error| locks::with_lock_holder(error.into(), &self.path, self.usage))?;
        let mut idle = self.readers.lock();
        if idle.len() < READERS_IDLE_MAX {
            idle.push(reader);
        }
        Ok(result)
    }
}

/// Copies all pages in one step. A step reads one snapshot without blocking writers, whereas a write between
/// two steps would restart the copy.
fn copy_database(from: &Connection, file: &Path) -> rusqlite::Result<()> {
    let mut to = Connection::open(file)?;
    let backup = Backup::new(from, &mut to)?;
    while backup.step(-1)? != StepResult::Done {
        std::thread::sleep(BACKUP_PAUSE);
    }
    drop(backup);
    to.close().map_err(|(_, error)| error)
}

/// Sends the rows of a read in chunks, until all are sent or the receiver is dropped.
fn send_chunks(
    reader: &Connection,
    sql: &'static str,
    params: &[SqlValue],
    chunks: &ChunkSender,
) -> rusqlite::Result<()> {
    let mut statement = reader.prepare_cached(to_sqlite_placeholders(sql))?;
    let columns = statement.column_count();
    let mut rows = statement.query(rusqlite::params_from_iter(params))?;
    let mut chunk = Vec::with_capacity(CHUNK_ROWS);
    while let Some(row) = rows.next()? {
        chunk.push(read_row(row, columns)?);
        if chunk.len() == CHUNK_ROWS {
            let full = std::mem::replace(&mut chunk, Vec::with_capacity(CHUNK_ROWS));
            if chunks.blocking_send(Ok(full)).is_err() {
                return Ok(());
            }
        }
    }
    // Sending fails only if the visitor has stopped reading.
    drop(chunks.blocking_send(Ok(chunk)));
    Ok(())
}

/// Runs the statements in order; returns the rows of each.
fn run_all(connection: &Connection, statements: &[Statement]) -> rusqlite::Result<Vec<Vec<Row>>> {
    let results = statements.iter().map(|statement| {
        let mut prepared = connection.prepare_cached(to_sqlite_placeholders(statement.sql))?;
        query_rows(&mut prepared, &statement.params)
    });
    results.collect()
}

/// Runs a prepared statement and collects its rows.
fn query_rows(statement: &mut CachedStatement<'_>, params: &[SqlValue]) -> rusqlite::Result<Vec<Row>> {
    let columns = statement.column_count();
    let mut rows = statement.query(rusqlite::params_from_iter(params))?;
    let mut collected = Vec::new();
    while let Some(row) = rows.next()? {
        collected.push(read_row(row, columns)?);
    }
    Ok(collected)
}

/// Decodes a driver's row.
fn read_row(row: &rusqlite::Row<'_>, columns: usize) -> rusqlite::Result<Row> {
    let values = (0..columns).map(|column| {
        Ok(match row.get_ref(column)? {
            ValueRef::Null => SqlValue::Null,
            ValueRef::Integer(number) => SqlValue::Int(number),
            ValueRef::Real(number) => SqlValue::Text(number.to_string()),
            ValueRef::Text(text) => match std::str::from_utf8(text) {
                Ok(text) => SqlValue::Text(text.to_owned()),
                // Only a damaged file has other bytes in a text column; decoding the row will fail on them.
                Err(_) => SqlValue::Bytes(text.to_vec()),
            },
            ValueRef::Blob(bytes) => SqlValue::Bytes(bytes.to_vec()),
        })
    });
    values.collect::<rusqlite::Result<Vec<_>>>().map(Row::new)
}

impl ToSql for SqlValue {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            SqlValue::Null => ValueRef::Null,
            SqlValue::Int(number) => ValueRef::Integer(*number),
            SqlValue::Text(text) => ValueRef::Text(text.as_bytes()),
            SqlValue::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// SQLite's extended result code, if the error has one.
fn extended_code(error: &rusqlite::Error) -> Option<std::ffi::c_int> {
    error.sqlite_error().map(|error| error.extended_code)
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        // The message leaves out the statement, which may be a whole migration.
        if let rusqlite::Error::SqlInputError { msg, .. } = error {
            return Error::Failed(msg);
        }
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Error::Busy { waited_s: DatabaseUsage::Command.lock_wait().as_secs(), holder: None }
            }
            Some(ErrorCode::ConstraintViolation) => Error::Constraint(error.to_string()),
            Some(ErrorCode::DiskFull) => Error::DiskFull { file: None },
            Some(ErrorCode::ReadOnly) => Error::ReadOnly { file: None },
            // The shared-memory file cannot grow: the first error that a new process gets on a full disk.
            Some(_) if extended_code(&error) == Some(ffi::SQLITE_IOERR_SHMSIZE) => {
                Error::DiskFull { file: None }
            }
            Some(_) | None => Error::Failed(error.to_string()),
        }
    }
}
