//! The driver boundary: only this file and its two backends name a database driver. The backend is an enum,
//! not a trait. The interface is batch-shaped (a transaction is a list of statements that returns rows),
//! because SQLite runs in this process and PostgreSQL should need one round trip per transaction.

mod placeholders;
mod postgres;
mod sqlite;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use actbook_engine::id::TenantId;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::mpsc;

use super::dialect;
use super::journal::decode_head;
use super::{Appended, Batch, Dialect, Error, JournalHead, Row, SqlValue, Statement};
use crate::config::{DatabaseOptions, without_password};

/// Rows per chunk that a streaming read sends to its visitor.
const CHUNK_ROWS: usize = 256;
/// Chunks buffered between a streaming read and its visitor.
const CHUNKS_BUFFERED_MAX: usize = 2;

/// An open, migrated database. Clones share its connections.
#[derive(Debug, Clone)]
pub struct Db {
    backend: Backend,
}

/// The open database of either kind.
#[derive(Debug, Clone)]
enum Backend {
    Sqlite(Arc<sqlite::Sqlite>),
    Postgres(Arc<postgres::Postgres>),
}

/// Whether the address names a SQLite file. `postgres:/…`, with one slash too few, does not: opening it
/// would create a file with the password in its name.
fn is_file_address(url: &str) -> bool {
    let is_postgres = ["postgres:", "postgresql:"].iter().any(|scheme| url.starts_with(scheme));
    url.starts_with("sqlite:") || !(is_postgres || url.contains("://"))
}

impl Db {
    /// Opens `postgres://…`, `sqlite:PATH` or a plain path; creates missing files and tables, and migrates.
    pub async fn open(url: &str, options: DatabaseOptions) -> Result<Db, Error> {
        let backend = if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            Backend::Postgres(Arc::new(postgres::Postgres::open(url, &options).await?))
        } else if !is_file_address(url) {
            let reason = "a database is a file, sqlite:FILE or postgres://…".to_owned();
            return Err(Error::Open { url: without_password(url), reason });
        } else {
            let path =
                url.strip_prefix("sqlite://").or(url.strip_prefix("sqlite:")).unwrap_or(url).to_owned();
            Backend::Sqlite(Arc::new(
                run_blocking(&path, move |path| sqlite::Sqlite::open(Path::new(&path), options.usage))
                    .await?,
            ))
        };
        Ok(Db { backend })
    }

    /// Returns the rows of one read, without waiting for writers. Needs a Tokio runtime; see `read_blocking`.
    pub async fn read(&self, sql: &'static str, params: Vec<SqlValue>) -> Result<Vec<Row>, Error> {
        self.read_many(sql, vec![params]).await.map(single_result)
    }

    /// Runs one read per parameter set and returns the rows of each; on PostgreSQL in one round trip.
    pub async fn read_many(
        &self,
        sql: &'static str,
        param_sets: Vec<Vec<SqlValue>>,
    ) -> Result<Vec<Vec<Row>>, Error> {
        match &self.backend {
            Backend::Sqlite(sqlite) => {
                run_blocking(sqlite, move |sqlite| sqlite.read_many(sql, &param_sets)).await
            }
            Backend::Postgres(postgres) => postgres.read_many(sql, param_sets).await,
        }
    }

    /// Like `read_many`, for a few rows found by key. SQLite runs it on the calling thread: such a read takes
    /// microseconds, and handing it to another thread takes longer.
    pub async fn look_up(
        &self,
        sql: &'static str,
        param_sets: Vec<Vec<SqlValue>>,
    ) -> Result<Vec<Vec<Row>>, Error> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.read_many(sql, &param_sets),
            Backend::Postgres(postgres) => postgres.read_many(sql, param_sets).await,
        }
    }

    /// Reads on the calling thread, which it blocks: for the ledger, which reads under its mutex.
    pub fn read_blocking(&self, sql: &'static str, params: Vec<SqlValue>) -> Result<Vec<Row>, Error> {
        self.read_many_blocking(sql, vec![params]).map(single_result)
    }

    /// Runs one read per parameter set on the calling thread, which it blocks; returns the rows of each.
    pub fn read_many_blocking(
        &self,
        sql: &'static str,
        param_sets: Vec<Vec<SqlValue>>,
    ) -> Result<Vec<Vec<Row>>, Error> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.read_many(sql, &param_sets),
            Backend::Postgres(postgres) => postgres.read_many_blocking(sql, param_sets),
        }
    }

    /// Calls `visit` with each row, in constant memory, until it returns `Break`; returns that `Break`.
    pub async fn for_each_row<B>(
        &self,
        sql: &'static str,
        params: Vec<SqlValue>,
        mut visit: impl FnMut(Row) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, Error> {
        let (chunks, mut received) = mpsc::channel(CHUNKS_BUFFERED_MAX);
        match &self.backend {
            Backend::Sqlite(sqlite) => {
                let sqlite = sqlite.clone();
                drop(tokio::task::spawn_blocking(move || sqlite.stream(sql, &params, &chunks)));
            }
            Backend::Postgres(postgres) => postgres.stream(sql, params, chunks),
        }
        while let Some(chunk) = received.recv().await {
            for row in chunk? {
                let flow = visit(row);
                if flow.is_break() {
                    return Ok(flow);
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Runs the statements in one transaction and returns the rows of each: for the few writes outside the
    /// journal. All are committed or none; after `Error::ConnectionLost` it is unknown which.
    pub async fn transact(&self, statements: Vec<Statement>) -> Result<Vec<Vec<Row>>, Error> {
        match &self.backend {
            Backend::Sqlite(sqlite) => run_blocking(sqlite, move |sqlite| sqlite.transact(&statements)).await,
            Backend::Postgres(postgres) => postgres.transact(statements).await,
        }
    }

    /// Like `transact`, but a power cut may undo the transaction: for projections, which follow the journal
    /// again. It never precedes what it was computed from, because later commits are not durable before it.
    pub async fn transact_relaxed(&self, mut statements: Vec<Statement>) -> Result<Vec<Vec<Row>>, Error> {
        match &self.backend {
            Backend::Sqlite(sqlite) => {
                run_blocking(sqlite, move |sqlite| sqlite.transact_relaxed(&statements)).await
            }
            Backend::Postgres(postgres) => {
                statements.insert(0, Statement::new(dialect::relaxed_durability::POSTGRES, Vec::new()));
                postgres.transact(statements).await
            }
        }
    }

    /// Opens a dedicated connection for the ledger's writer.
    pub fn appender(&self) -> Result<Appender, Error> {
        Ok(Appender(match &self.backend {
            Backend::Sqlite(sqlite) => AppenderBackend::Sqlite(sqlite.appender()?),
            Backend::Postgres(postgres) => AppenderBackend::Postgres(Box::new(postgres.appender()?)),
        }))
    }

    /// Removes the bytes of erased rows from the database files. Does nothing on PostgreSQL, where vacuum
    /// does it later.
    pub async fn scrub(&self) -> Result<(), Error> {
        match &self.backend {
            Backend::Sqlite(sqlite) => run_blocking(sqlite, move |sqlite| sqlite.scrub()).await,
            Backend::Postgres(_) => Ok(()),
        }
    }

    /// Folds SQLite's write-ahead log into the database file if no other process has it open; see
    /// `Sqlite::checkpoint_if_last`. Does nothing on PostgreSQL.
    pub async fn checkpoint_if_last(&self) -> Result<(), Error> {
        match &self.backend {
            Backend::Sqlite(sqlite) => run_blocking(sqlite, move |sqlite| sqlite.checkpoint_if_last()).await,
            Backend::Postgres(_) => Ok(()),
        }
    }

    /// Copies the database to a new file while others write. PostgreSQL: `Error::BackupUnsupported`.
    pub async fn backup(&self, file: &Path) -> Result<(), Error> {
        let file = file.to_owned();
        match &self.backend {
            Backend::Sqlite(sqlite) => run_blocking(sqlite, move |sqlite| sqlite.backup(&file)).await,
            Backend::Postgres(_) => Err(Error::BackupUnsupported),
        }
    }

    /// Returns the database's clock in epoch milliseconds. Leases are measured by it.
    pub async fn now_ms(&self) -> Result<i64, Error> {
        let rows = self.read("SELECT now_ms FROM clock", vec![]).await?;
        rows.first().map_or(Err(Error::Failed("the clock gave no row".into())), |row| row.int(0))
    }

    /// Calls `on_append` with the head position after any process, this one included, has appended to the
    /// tenant's journal, until the returned guard is dropped.
    pub fn watch(
        &self,
        tenant: TenantId,
        on_append: impl Fn(u64) + Send + Sync + 'static,
    ) -> Result<WatchGuard, Error> {
        Ok(WatchGuard(match &self.backend {
            Backend::Sqlite(sqlite) => WatchBackend::Sqlite(sqlite.watch(tenant, on_append)?),
            Backend::Postgres(postgres) => WatchBackend::Postgres(postgres.watch(tenant, on_append)),
        }))
    }

    /// Whether the calling thread may append itself. On PostgreSQL the round trip would block the thread's
    /// other tasks, so this needs a multi-threaded runtime that can move them to another thread.
    pub fn can_write_inline(&self) -> bool {
        match &self.backend {
            Backend::Sqlite(_) => true,
            Backend::Postgres(_) => Handle::try_current()
                .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread),
        }
    }

    /// Runs a blocking append on the calling thread; call it only if `can_write_inline`.
    pub fn run_write_inline<T>(&self, append: impl FnOnce() -> T) -> T {
        match &self.backend {
            Backend::Sqlite(_) => append(),
            Backend::Postgres(_) => tokio::task::block_in_place(append),
        }
    }

    /// Which SQL text to use where the two databases need different ones.
    pub fn dialect(&self) -> Dialect {
        match &self.backend {
            Backend::Sqlite(_) => Dialect::Sqlite,
            Backend::Postgres(_) => Dialect::Postgres,
        }
    }

    /// The file that the database is in; `None`: a server has it.
    pub fn file(&self) -> Option<PathBuf> {
        match &self.backend {
            Backend::Sqlite(sqlite) => Some(sqlite.file().to_owned()),
            Backend::Postgres(_) => None,
        }
    }

    /// Names the database for people, without a password.
    pub fn describe(&self) -> String {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.describe(),
            Backend::Postgres(postgres) => postgres.describe(),
        }
    }
}

/// A connection that appends batches to the journal, each in one durable transaction. Its methods block.
#[derive(Debug)]
pub struct Appender(AppenderBackend);

/// The appender of either database.
#[derive(Debug)]
enum AppenderBackend {
    Sqlite(sqlite::SqliteAppender),
    Postgres(Box<postgres::PostgresAppender>),
}

impl Appender {
    /// Locks and returns the tenant's head: no other process can append until this appender's next `append`
    /// or `unlock_head`. For use after a lost race: a batch decided on a locked head cannot lose again.
    pub fn lock_head(&mut self, tenant: TenantId) -> Result<JournalHead, Error> {
        let rows = match &mut self.0 {
            AppenderBackend::Sqlite(appender) => appender.lock_head(tenant)?,
            AppenderBackend::Postgres(appender) => appender.lock_head(tenant)?,
        };
        let head = rows.first().map(decode_head).transpose()?;
        head.ok_or_else(|| Error::Failed(format!("there is no tenant {tenant}")))
    }

    /// Releases the lock of `lock_head` without appending.
    pub fn unlock_head(&mut self) -> Result<(), Error> {
        match &mut self.0 {
            AppenderBackend::Sqlite(appender) => appender.unlock_head(),
            AppenderBackend::Postgres(appender) => appender.unlock_head(),
        }
    }

    /// Writes and syncs the whole batch or nothing. An error means that nothing was written, except
    /// `Error::ConnectionLost`: then it is unknown, and the head must be read again before deciding anything.
    pub fn append(&mut self, batch: &Batch) -> Result<Appended, Error> {
        batch.assert_gapless();
        match &mut self.0 {
            AppenderBackend::Sqlite(appender) => appender.append(batch),
            AppenderBackend::Postgres(appender) => appender.append(batch),
        }
    }

    /// How long until `send_notify` is due for batches that were appended without a notification. None: no
    /// notification is pending. Always None on SQLite, where other processes poll.
    pub fn notify_due_in(&self) -> Option<Duration> {
        match &self.0 {
            AppenderBackend::Sqlite(_) => None,
            AppenderBackend::Postgres(appender) => appender.notify_due_in(),
        }
    }

    /// Notifies other processes of the batches that were appended without a notification, if any.
    pub fn send_notify(&mut self) -> Result<(), Error> {
        match &mut self.0 {
            AppenderBackend::Sqlite(_) => Ok(()),
            AppenderBackend::Postgres(appender) => appender.send_notify(),
        }
    }
}

/// Guard of `Db::watch`: the watch ends when this is dropped.
#[derive(Debug)]
pub struct WatchGuard(#[expect(dead_code, reason = "held only for what its drop does")] WatchBackend);

/// The watch guard of either database.
#[derive(Debug)]
#[expect(dead_code, reason = "held only for what its drop does")]
enum WatchBackend {
    Sqlite(sqlite::SqliteWatch),
    Postgres(postgres::PostgresWatch),
}

/// Where a streaming read sends its chunks of rows, or the error that ended it.
type ChunkSender = mpsc::Sender<Result<Vec<Row>, Error>>;

/// Returns the rows of the one statement that ran.
fn single_result(mut results: Vec<Vec<Row>>) -> Vec<Row> {
    results.pop().unwrap_or_default()
}

/// Runs blocking `work` with a clone of `shared` on Tokio's blocking pool. A panic of `work` becomes
/// `Error::Failed`.
pub async fn run_blocking<S: Clone + Send + 'static, T: Send + 'static, E: From<Error> + Send + 'static>(
    shared: &S,
    work: impl FnOnce(S) -> Result<T, E> + Send + 'static,
) -> Result<T, E> {
    let shared = shared.clone();
    match tokio::task::spawn_blocking(move || work(shared)).await {
        Ok(result) => result,
        Err(panicked) => Err(Error::Failed(panicked.to_string()).into()),
    }
}
