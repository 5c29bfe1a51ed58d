//! A connection that writes one transaction at a time, and is replaced after an error.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::{locks, open, to_sqlite_placeholders};
use crate::config::DatabaseUsage;
use crate::store::{Error, dialect, migrations};

/// A write connection that reopens itself after an error.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    usage: DatabaseUsage,
    /// None after an error that may have left it inside a transaction; the next use opens a new one.
    connection: Option<Connection>,
}

impl Writer {
    /// Opens the file and creates it if it does not exist.
    pub fn open(path: &Path, usage: DatabaseUsage) -> Result<Self, Error> {
        Ok(Self { path: path.to_owned(), usage, connection: Some(open::connect(path, usage)?) })
    }

    /// Path of the write-ahead log.
    pub fn wal_path(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push("-wal");
        name.into()
    }

    /// Applies the missing migrations. Checks first, so that a start with a current schema takes no lock.
    pub fn migrate(&mut self) -> Result<(), Error> {
        if self.is_migrated()? {
            return Ok(());
        }
        self.transact(|connection| {
            connection.execute_batch(migrations::CREATE_TABLE)?;
            for migration in migrations::missing(&read_applied(connection)?) {
                connection.execute_batch(migration.sqlite)?;
                connection.execute(to_sqlite_placeholders(migrations::RECORD), [migration.name])?;
            }
            Ok(())
        })?;
        // A newer program may have migrated while this one waited for the lock; the check refuses that.
        self.is_migrated().map(drop)
    }

    /// Whether all migrations are applied. `Error::NewerSchema`: the file has one that this program does not
    /// know. `Error::OlderSchema`: it lacks one, and this process migrates no file that others may have open.
    fn is_migrated(&mut self) -> Result<bool, Error> {
        let applied = self.with_connection(applied_migrations)?;
        migrations::check_known(&applied)?;
        if self.usage == DatabaseUsage::Hook {
            migrations::check_current(&applied)?;
        }
        Ok(migrations::missing(&applied).next().is_none())
    }

    /// Runs `work` and commits, in the transaction that `begin` left open or in a new one. After an error
    /// nothing of it was written.
    pub fn transact<T>(&mut self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Error> {
        self.with_connection(|connection| {
            begin_write(connection)?;
            let result = work(connection)?;
            connection.prepare_cached("COMMIT")?.execute([])?;
            Ok(result)
        })
    }

    /// Begins a transaction, runs `work` and leaves the transaction open. An error of `work` ends it.
    pub fn begin<T>(&mut self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Error> {
        self.with_connection(|connection| {
            begin_write(connection)?;
            work(connection)
        })
    }

    /// Rolls back the open transaction, if there is one.
    pub fn roll_back(&mut self) -> Result<(), Error> {
        self.with_connection(|connection| {
            if connection.is_autocommit() { Ok(()) } else { connection.execute_batch("ROLLBACK") }
        })
    }

    /// Runs `work` on the connection, after reopening it if needed. After a constraint error the transaction
    /// is rolled back and the connection kept; after any other error, such as a failed disk, the connection
    /// is dropped, because only that surely ends its transaction.
    pub fn with_connection<T>(
        &mut self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, Error> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => open::connect(&self.path, self.usage)?,
        };
        match work(&connection).map_err(|error| {
            locks::with_lock_holder(error.into(), &self.path, self.usage).with_file(&self.path)
        }) {
            Ok(result) => {
                self.connection = Some(connection);
                Ok(result)
            }
            Err(refused @ Error::Constraint(_)) => {
                if connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok() {
                    self.connection = Some(connection);
                }
                Err(refused)
            }
            Err(other) => Err(other),
        }
    }
}

/// Begins a write transaction, unless one is open.
fn begin_write(connection: &Connection) -> rusqlite::Result<()> {
    if connection.is_autocommit() {
        connection.prepare_cached(dialect::begin::SQLITE)?.execute([])?;
    }
    Ok(())
}

/// Names of the applied migrations; empty in a new file.
fn applied_migrations(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    if connection.prepare(dialect::migrate::SQLITE_HAS_TABLE)?.exists([])? {
        read_applied(connection)
    } else {
        Ok(Vec::new())
    }
}

/// Reads the table of applied migrations, which must exist.
fn read_applied(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    connection.prepare(migrations::APPLIED)?.query_map([], |row| row.get(0))?.collect()
}
