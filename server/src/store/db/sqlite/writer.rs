//! A connection that writes: one transaction at a time, and a fresh start after trouble.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::{locks, numbered, open};
use crate::store::{Error, dialect, migrations};

#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    /// None after trouble whose traces nobody can tell; the next transaction opens another.
    connection: Option<Connection>,
}

impl Writer {
    pub fn open(path: &Path) -> Result<Self, Error> {
        Ok(Self { path: path.to_owned(), connection: Some(open::connect(path)?) })
    }

    /// The file of the write-ahead log.
    pub fn log(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push("-wal");
        name.into()
    }

    /// Looks first: once the schema is there, a start needs no lock.
    pub fn migrate(&mut self) -> Result<(), Error> {
        if self.is_migrated()? {
            return Ok(());
        }
        self.transact(|connection| {
            connection.execute_batch(migrations::CREATE_TABLE)?;
            for migration in migrations::missing(&applied(connection)?) {
                connection.execute_batch(migration.sqlite)?;
                connection.execute(numbered(migrations::RECORD), [migration.name])?;
            }
            Ok(())
        })?;
        // Somebody else may have been here while this one waited for the lock.
        self.is_migrated().map(drop)
    }

    fn is_migrated(&mut self) -> Result<bool, Error> {
        let found = self.attempt(found)?;
        migrations::check_known(&found)?;
        Ok(migrations::missing(&found).next().is_none())
    }

    /// Runs `work` in one transaction, the one that `begin` left open or its own; whatever fails,
    /// nothing of it stays.
    pub fn transact<T>(&mut self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Error> {
        self.attempt(|connection| {
            begin(connection)?;
            let done = work(connection)?;
            connection.prepare_cached("COMMIT")?.execute([])?;
            Ok(done)
        })
    }

    /// Begins, and leaves the transaction open, unless `work` fails.
    pub fn begin<T>(&mut self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Error> {
        self.attempt(|connection| {
            begin(connection)?;
            work(connection)
        })
    }

    pub fn roll_back(&mut self) -> Result<(), Error> {
        self.attempt(
            |connection| {
                if connection.is_autocommit() { Ok(()) } else { connection.execute_batch("ROLLBACK") }
            },
        )
    }

    /// A refused row leaves the connection as good as it was. After anything else, such as a disk
    /// that failed, dropping it is what surely ends its transaction.
    pub fn attempt<T>(&mut self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Error> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => open::connect(&self.path)?,
        };
        match work(&connection).map_err(|error| locks::named(error.into(), &self.path).at(&self.path)) {
            Ok(done) => {
                self.connection = Some(connection);
                Ok(done)
            }
            Err(refused @ Error::Constraint(_)) => {
                if connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok() {
                    self.connection = Some(connection);
                }
                Err(refused)
            }
            Err(trouble) => Err(trouble),
        }
    }
}

fn begin(connection: &Connection) -> rusqlite::Result<()> {
    if connection.is_autocommit() {
        connection.prepare_cached(dialect::begin::SQLITE)?.execute([])?;
    }
    Ok(())
}

/// Those applied; none in a new file.
fn found(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    match connection.prepare(dialect::migrate::SQLITE_HAS_TABLE)?.exists([])? {
        true => applied(connection),
        false => Ok(Vec::new()),
    }
}

fn applied(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    connection.prepare(migrations::APPLIED)?.query_map([], |row| row.get(0))?.collect()
}
