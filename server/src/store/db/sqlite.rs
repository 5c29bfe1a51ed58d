//! The SQLite half: connections, reads, one transaction at a time, and the appender. Several
//! processes share one file; each transaction that writes takes the write lock at its start.

mod append;
mod locks;
mod open;
mod watch;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ErrorCode, ToSql, ffi};

use super::markers::numbered;
use super::{CHUNK_ROWS, Chunks};
use crate::store::{Error, Row, Statement, Value, without_password};

use writer::Writer;

pub use append::Appender;
pub use watch::Watch;

/// Readers kept open between reads. More may be open for a moment: as many as threads read at once.
const READERS_IDLE_MAX: usize = 4;

/// How long a backup that met a lock waits before it tries again.
const BACKUP_PAUSE: Duration = Duration::from_millis(10);

/// A file up to this size is written anew within a few seconds, well inside the wait for a lock.
const REWRITTEN_BYTES_MAX: u64 = 1 << 30;

#[derive(Debug)]
pub struct Sqlite {
    path: PathBuf,
    readers: Mutex<Vec<Connection>>,
    writer: Mutex<Writer>,
}

impl Sqlite {
    pub fn open(path: &Path) -> Result<Self, Error> {
        let failed = |error: Error| {
            let error = error.at(path);
            if matches!(error, Error::Full { .. } | Error::ReadOnly { .. } | Error::Foreign { .. }) {
                return error;
            }
            if !open::may_write(path) {
                return Error::ReadOnly { file: None }.at(path);
            }
            Error::Open { url: without_password(&path.to_string_lossy()), reason: error.to_string() }
        };
        open::create_folder(path).map_err(|error| failed(open::obstacle(&error)))?;
        let mut writer = Writer::open(path).map_err(failed)?;
        writer.migrate().map_err(|error| match error {
            newer @ Error::Newer { .. } => newer,
            other => failed(other),
        })?;
        Ok(Self { path: path.to_owned(), readers: Mutex::default(), writer: Mutex::new(writer) })
    }

    pub fn read_many(&self, sql: &'static str, sets: &[Vec<Value>]) -> Result<Vec<Vec<Row>>, Error> {
        self.with_reader(|reader| {
            let mut statement = reader.prepare_cached(numbered(sql))?;
            sets.iter().map(|params| rows(&mut statement, params)).collect()
        })
    }

    pub fn stream(&self, sql: &'static str, params: &[Value], chunks: &Chunks) {
        let result = self.with_reader(|reader| send_chunks(reader, sql, params, chunks));
        if let Err(error) = result {
            // Nobody receives where the visitor has had enough.
            drop(chunks.blocking_send(Err(error)));
        }
    }

    pub fn transact(&self, statements: &[Statement]) -> Result<Vec<Vec<Row>>, Error> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.transact(|connection| {
            let each = statements.iter().map(|statement| {
                rows(&mut connection.prepare_cached(numbered(statement.sql))?, &statement.params)
            });
            each.collect()
        })
    }

    /// A page that was split keeps a copy of what moved to its neighbour, which no deletion reaches:
    /// only writing the file anew does. Others cannot write meanwhile, so a large file is left to a
    /// quiet hour. The write-ahead log still holds the pages as they were, and is emptied.
    pub fn scrub(&self) -> Result<(), Error> {
        let small = std::fs::metadata(&self.path).is_ok_and(|file| file.len() <= REWRITTEN_BYTES_MAX);
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let busy = writer.attempt(|writer| {
            if small {
                writer.execute_batch("VACUUM")?;
            }
            writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0))
        })?;
        let waited_s = open::BUSY_LIMIT.as_secs();
        if busy { Err(locks::named(Error::Busy { waited_s, holder: None }, &self.path)) } else { Ok(()) }
    }

    /// Folds the write-ahead log back into the file when no other process has the database open: people copy the
    /// file alone. Waits for nobody.
    pub fn leave(&self) -> Result<(), Error> {
        if locks::is_shared(&self.path) == Some(true) {
            return Ok(());
        }
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.attempt(|writer| writer.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())))
    }

    pub fn appender(&self) -> Result<Appender, Error> {
        Ok(Appender::new(Writer::open(&self.path)?))
    }

    pub fn watch(&self, tenant: i64, moved: impl Fn(u64) + Send + 'static) -> Result<Watch, Error> {
        Watch::start(open::connect(&self.path)?, tenant, moved)
    }

    pub fn describe(&self) -> String {
        format!("SQLite {} at {}", rusqlite::version(), self.path.display())
    }

    pub fn backup(&self, file: &Path) -> Result<(), Error> {
        let failed = |reason: String| Error::Backup { file: file.display().to_string(), reason };
        if file.exists() {
            return Err(failed("the file exists already".into()));
        }
        // A copy holds the same arguments and outputs, so it is the owner's alone from its first byte on.
        open::create_private(file).map_err(|error| failed(error.to_string()))?;
        let copied = self.with_reader(|reader| copy(reader, file)).map_err(|error| failed(error.to_string()));
        copied.and_then(|()| open::sync_with_folder(file).map_err(|error| failed(error.to_string())))
    }

    fn with_reader<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Error> {
        let idle = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let reader = match idle {
            Some(reader) => reader,
            None => open::connect_reader(&self.path)?,
        };
        let result = read(&reader).map_err(|error| locks::named(error.into(), &self.path))?;
        let mut idle = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < READERS_IDLE_MAX {
            idle.push(reader);
        }
        Ok(result)
    }
}

/// All pages in one step: a step sees one state of the database and keeps no writer waiting, but
/// between steps every write by others would start the copy over.
fn copy(from: &Connection, file: &Path) -> rusqlite::Result<()> {
    let mut to = Connection::open(file)?;
    let backup = Backup::new(from, &mut to)?;
    while backup.step(-1)? != StepResult::Done {
        std::thread::sleep(BACKUP_PAUSE);
    }
    drop(backup);
    to.close().map_err(|(_, error)| error)
}

fn send_chunks(
    reader: &Connection,
    sql: &'static str,
    params: &[Value],
    chunks: &Chunks,
) -> rusqlite::Result<()> {
    let mut statement = reader.prepare_cached(numbered(sql))?;
    let columns = statement.column_count();
    let mut arriving = statement.query(rusqlite::params_from_iter(params))?;
    let mut chunk = Vec::with_capacity(CHUNK_ROWS);
    while let Some(row) = arriving.next()? {
        chunk.push(read_row(row, columns)?);
        if chunk.len() == CHUNK_ROWS {
            let full = std::mem::replace(&mut chunk, Vec::with_capacity(CHUNK_ROWS));
            if chunks.blocking_send(Ok(full)).is_err() {
                return Ok(());
            }
        }
    }
    // Nobody receives where the visitor has had enough.
    drop(chunks.blocking_send(Ok(chunk)));
    Ok(())
}

fn rows(statement: &mut CachedStatement<'_>, params: &[Value]) -> rusqlite::Result<Vec<Row>> {
    let columns = statement.column_count();
    let mut arriving = statement.query(rusqlite::params_from_iter(params))?;
    let mut all = Vec::new();
    while let Some(row) = arriving.next()? {
        all.push(read_row(row, columns)?);
    }
    Ok(all)
}

fn read_row(row: &rusqlite::Row<'_>, columns: usize) -> rusqlite::Result<Row> {
    let values = (0..columns).map(|column| {
        Ok(match row.get_ref(column)? {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => Value::Int(number),
            ValueRef::Real(number) => Value::Text(number.to_string()),
            ValueRef::Text(text) => match std::str::from_utf8(text) {
                Ok(text) => Value::Text(text.to_owned()),
                // Only damage puts other bytes into a text column; the reader will miss its text.
                Err(_) => Value::Bytes(text.to_vec()),
            },
            ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec()),
        })
    });
    values.collect::<rusqlite::Result<Vec<_>>>().map(Row::new)
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Int(number) => ValueRef::Integer(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

fn extended_code(error: &rusqlite::Error) -> Option<std::ffi::c_int> {
    error.sqlite_error().map(|error| error.extended_code)
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        // Without the statement, which may be a whole migration.
        if let rusqlite::Error::SqlInputError { msg, .. } = error {
            return Error::Failed(msg);
        }
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Error::Busy { waited_s: open::BUSY_LIMIT.as_secs(), holder: None }
            }
            Some(ErrorCode::ConstraintViolation) => Error::Constraint(error.to_string()),
            Some(ErrorCode::DiskFull) => Error::Full { file: None },
            Some(ErrorCode::ReadOnly) => Error::ReadOnly { file: None },
            // The file that is shared in memory cannot grow: on a full disk, a new process meets this first.
            Some(_) if extended_code(&error) == Some(ffi::SQLITE_IOERR_SHMSIZE) => Error::Full { file: None },
            Some(_) | None => Error::Failed(error.to_string()),
        }
    }
}
