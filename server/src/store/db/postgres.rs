//! The PostgreSQL backend. A dedicated thread runs the connections, so that any thread, including a Tokio
//! worker, can block on a result without a deadlock.

mod append;
mod connection;
mod open;
mod watch;

use std::future::Future;
use std::sync::Arc;

use actbook_engine::id::TenantId;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use tokio_postgres::Config;

use super::ChunkSender;
use crate::config::{DatabaseOptions, without_password};
use crate::store::{Error, Row, SqlValue, Statement};
use connection::PgConnection;

pub use append::PostgresAppender;
pub use watch::PostgresWatch;

/// Pooled connections per process. A PostgreSQL server allows 100 by default, for all its clients.
const CONNECTIONS_MAX: usize = 4;

/// An open PostgreSQL database.
#[derive(Debug)]
pub struct Postgres {
    pool: Arc<Pool>,
    runtime: Handle,
    /// Stops the connection thread when dropped.
    _runtime_guard: oneshot::Sender<()>,
}

/// The connections that serve reads and transactions.
#[derive(Debug)]
struct Pool {
    config: Config,
    idle: Mutex<Vec<PgConnection>>,
    /// One permit for each connection that may be in use.
    permits: Semaphore,
}

impl Postgres {
    /// Connects, checks durability unless the options waive it, and migrates.
    pub async fn open(url: &str, options: &DatabaseOptions) -> Result<Self, Error> {
        let failed = |error: Error| Error::Open { url: without_password(url), reason: error.to_string() };
        let config = open::parse_config(url).map_err(failed)?;
        let (runtime, guard) = start_runtime()?;
        let pool =
            Arc::new(Pool { config, idle: Mutex::default(), permits: Semaphore::new(CONNECTIONS_MAX) });
        let postgres = Self { pool, runtime, _runtime_guard: guard };
        let options = options.clone();
        let opened = postgres.run_on_runtime(|pool| async move {
            open::check_and_migrate(pool.take_connection().await?, &options, &pool).await
        });
        match opened.await {
            Ok(()) => Ok(postgres),
            Err(
                refused @ (Error::UnsafeDurability { .. }
                | Error::NewerSchema { .. }
                | Error::OlderSchema { .. }),
            ) => Err(refused),
            Err(error) => Err(failed(error)),
        }
    }

    /// Runs one read per parameter set in one round trip; returns the rows of each.
    pub async fn read_many(
        &self,
        sql: &'static str,
        param_sets: Vec<Vec<SqlValue>>,
    ) -> Result<Vec<Vec<Row>>, Error> {
        self.run_on_runtime(move |pool| async move { pool.read_many(sql, &param_sets).await }).await
    }

    /// Like `read_many`, but blocks the calling thread.
    pub fn read_many_blocking(
        &self,
        sql: &'static str,
        param_sets: Vec<Vec<SqlValue>>,
    ) -> Result<Vec<Vec<Row>>, Error> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let pool = self.pool.clone();
        self.runtime.spawn(async move {
            // Sending fails only if the calling thread has ended.
            drop(sender.send(pool.read_many(sql, &param_sets).await));
        });
        receiver
            .recv()
            .unwrap_or_else(|_| Err(Error::ConnectionLost("the connection thread has ended".into())))
    }

    /// Runs the statements in one transaction and one round trip; returns the rows of each.
    pub async fn transact(&self, statements: Vec<Statement>) -> Result<Vec<Vec<Row>>, Error> {
        self.run_on_runtime(move |pool| async move {
            let _permit = pool.acquire_permit().await?;
            let connection = pool.take_connection().await?;
            let results = connection.transact(&statements).await?;
            pool.put_back(connection);
            Ok(results)
        })
        .await
    }

    /// Streams the rows of a read into `chunks` from a background task.
    pub fn stream(&self, sql: &'static str, params: Vec<SqlValue>, chunks: ChunkSender) {
        let pool = self.pool.clone();
        self.runtime.spawn(async move {
            if let Err(error) = pool.stream(sql, &params, &chunks).await {
                // Sending fails only if the visitor has stopped reading.
                drop(chunks.send(Err(error)).await);
            }
        });
    }

    /// Creates an appender, which connects on its first use.
    pub fn appender(&self) -> Result<PostgresAppender, Error> {
        PostgresAppender::new(self.pool.config.clone())
    }

    /// Calls `on_append` with the head position after each append, until the guard is dropped.
    pub fn watch(&self, tenant: TenantId, on_append: impl Fn(u64) + Send + Sync + 'static) -> PostgresWatch {
        PostgresWatch::start(&self.runtime, self.pool.config.clone(), tenant, on_append)
    }

    /// Names the database for people.
    pub fn describe(&self) -> String {
        let config = &self.pool.config;
        format!("PostgreSQL database {}", config.get_dbname().or(config.get_user()).unwrap_or("of this user"))
    }

    /// Runs `work` on the connection thread. A panic of `work` becomes `Error::ConnectionLost`.
    async fn run_on_runtime<T, F>(&self, work: impl FnOnce(Arc<Pool>) -> F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        match self.runtime.spawn(work(self.pool.clone())).await {
            Ok(result) => result,
            Err(panicked) => Err(Error::ConnectionLost(panicked.to_string())),
        }
    }
}

impl Pool {
    /// Waits until a connection may be used, and holds it until the permit is dropped.
    async fn acquire_permit(&self) -> Result<tokio::sync::SemaphorePermit<'_>, Error> {
        self.permits.acquire().await.map_err(|closed| Error::ConnectionLost(closed.to_string()))
    }

    /// Takes an idle connection out of the pool, or opens one.
    async fn take_connection(&self) -> Result<PgConnection, Error> {
        loop {
            let idle = self.idle.lock().pop();
            match idle {
                Some(connection) if connection.is_closed() => {}
                Some(connection) => return Ok(connection),
                None => return PgConnection::connect(&self.config).await,
            }
        }
    }

    /// Returns a connection to the pool. A connection whose work failed must be dropped instead: it may be
    /// inside a transaction.
    fn put_back(&self, connection: PgConnection) {
        self.idle.lock().push(connection);
    }

    /// Runs one read per parameter set; after a lost connection, once more on a new one. The server may have
    /// been restarted, and a read is safe to repeat.
    async fn read_many(
        &self,
        sql: &'static str,
        param_sets: &[Vec<SqlValue>],
    ) -> Result<Vec<Vec<Row>>, Error> {
        let _permit = self.acquire_permit().await?;
        match self.read_once(sql, param_sets).await {
            Err(Error::ConnectionLost(_)) => {
                self.idle.lock().clear();
                self.read_once(sql, param_sets).await
            }
            result => result,
        }
    }

    /// Runs one read per parameter set, without a retry.
    async fn read_once(
        &self,
        sql: &'static str,
        param_sets: &[Vec<SqlValue>],
    ) -> Result<Vec<Vec<Row>>, Error> {
        let connection = self.take_connection().await?;
        let results = connection.query_many(sql, param_sets).await?;
        self.put_back(connection);
        Ok(results)
    }

    /// Streams the rows of a read into `chunks`, until all are sent or the receiver is dropped.
    async fn stream(
        &self,
        sql: &'static str,
        params: &[SqlValue],
        chunks: &ChunkSender,
    ) -> Result<(), Error> {
        let _permit = self.acquire_permit().await?;
        let connection = self.take_connection().await?;
        if connection.stream(sql, params, chunks).await? {
            self.put_back(connection);
        }
        Ok(())
    }
}

/// Starts the connection thread. It ends when the returned sender is dropped.
fn start_runtime() -> Result<(Handle, oneshot::Sender<()>), Error> {
    let failed =
        |error: std::io::Error| Error::Failed(format!("cannot start the connection thread: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let handle = runtime.handle().clone();
    let (guard, dropped) = oneshot::channel::<()>();
    std::thread::Builder::new()
        .name("actbook-postgres".into())
        .spawn(move || runtime.block_on(dropped))
        .map_err(failed)?;
    Ok((handle, guard))
}
