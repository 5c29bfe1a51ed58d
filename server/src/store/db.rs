//! The seam: the only file, with its two halves below it, that names a driver. An enum, not a
//! trait, and batch-shaped: a transaction is a list of statements with rows back, for SQLite works
//! in this process and PostgreSQL wants everything in one flight.

mod markers;
mod postgres;
mod sqlite;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::mpsc;

use super::journal::read_head;
use super::{Appended, Batch, Dialect, Error, Head, Row, Statement, Value, without_password};

/// How many rows travel together from a long read to its visitor, and how many such chunks may wait.
const CHUNK_ROWS: usize = 256;
const CHUNKS_WAITING: usize = 2;

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Accept a PostgreSQL server that acknowledges before it has synced.
    pub unsafe_durability: bool,
}

/// A database that is open and migrated. Clones share connections.
#[derive(Debug, Clone)]
pub struct Db {
    backend: Backend,
}

#[derive(Debug, Clone)]
enum Backend {
    Sqlite(Arc<sqlite::Sqlite>),
    Postgres(Arc<postgres::Postgres>),
}

/// Whether the address names a file. One slash too few must not make a file named after a password.
fn is_file(url: &str) -> bool {
    let elsewhere = ["postgres:", "postgresql:"].iter().any(|scheme| url.starts_with(scheme));
    url.starts_with("sqlite:") || !(elsewhere || url.contains("://"))
}

impl Db {
    /// Opens `postgres://…`, `sqlite:PATH` or a plain path; creates what is missing and migrates.
    pub async fn open(url: &str, options: Options) -> Result<Db, Error> {
        let backend = if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            Backend::Postgres(Arc::new(postgres::Postgres::open(url, &options).await?))
        } else if !is_file(url) {
            let reason = "a database is a file, sqlite:FILE or postgres://…".to_owned();
            return Err(Error::Open { url: without_password(url), reason });
        } else {
            let path =
                url.strip_prefix("sqlite://").or(url.strip_prefix("sqlite:")).unwrap_or(url).to_owned();
            Backend::Sqlite(Arc::new(off_thread(move || sqlite::Sqlite::open(Path::new(&path))).await?))
        };
        Ok(Db { backend })
    }

    /// Reads outside the writer's way. Needs a runtime; see `read_blocking`.
    pub async fn read(&self, sql: &'static str, params: Vec<Value>) -> Result<Vec<Row>, Error> {
        self.read_many(sql, vec![params]).await.map(only)
    }

    /// The same statement for each set of parameters: one flight, where flights count.
    pub async fn read_many(&self, sql: &'static str, sets: Vec<Vec<Value>>) -> Result<Vec<Vec<Row>>, Error> {
        match &self.backend {
            Backend::Sqlite(sqlite) => {
                let sqlite = sqlite.clone();
                off_thread(move || sqlite.read_many(sql, &sets)).await
            }
            Backend::Postgres(postgres) => postgres.read_many(sql, sets).await,
        }
    }

    /// Reads a few rows by their keys. SQLite answers on the caller's own thread: such a read takes
    /// microseconds, and handing it to another thread takes longer.
    pub async fn look_up(&self, sql: &'static str, sets: Vec<Vec<Value>>) -> Result<Vec<Vec<Row>>, Error> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.read_many(sql, &sets),
            Backend::Postgres(postgres) => postgres.read_many(sql, sets).await,
        }
    }

    /// Reads on the caller's own thread: what the ledger does under its mutex.
    pub fn read_blocking(&self, sql: &'static str, params: Vec<Value>) -> Result<Vec<Row>, Error> {
        self.read_many_blocking(sql, vec![params]).map(only)
    }

    pub fn read_many_blocking(
        &self,
        sql: &'static str,
        sets: Vec<Vec<Value>>,
    ) -> Result<Vec<Vec<Row>>, Error> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.read_many(sql, &sets),
            Backend::Postgres(postgres) => postgres.read_many_blocking(sql, sets),
        }
    }

    /// Visits the rows one by one, in constant memory, until the visitor has had enough.
    pub async fn each<B>(
        &self,
        sql: &'static str,
        params: Vec<Value>,
        mut visit: impl FnMut(Row) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, Error> {
        let (chunks, mut arriving) = mpsc::channel(CHUNKS_WAITING);
        match &self.backend {
            Backend::Sqlite(sqlite) => {
                let sqlite = sqlite.clone();
                drop(tokio::task::spawn_blocking(move || sqlite.stream(sql, &params, &chunks)));
            }
            Backend::Postgres(postgres) => postgres.stream(sql, params, chunks),
        }
        while let Some(chunk) = arriving.recv().await {
            for row in chunk? {
                let flow = visit(row);
                if flow.is_break() {
                    return Ok(flow);
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// One transaction for the few writes outside the journal: all of them, or none; after `Lost`
    /// nobody can tell which.
    pub async fn transact(&self, statements: Vec<Statement>) -> Result<Vec<Vec<Row>>, Error> {
        match &self.backend {
            Backend::Sqlite(sqlite) => {
                let sqlite = sqlite.clone();
                off_thread(move || sqlite.transact(&statements)).await
            }
            Backend::Postgres(postgres) => postgres.transact(statements).await,
        }
    }

    /// A connection of its own for the ledger's pen.
    pub fn appender(&self) -> Result<Appender, Error> {
        Ok(Appender(match &self.backend {
            Backend::Sqlite(sqlite) => AppenderBackend::Sqlite(sqlite.appender()?),
            Backend::Postgres(postgres) => AppenderBackend::Postgres(Box::new(postgres.appender()?)),
        }))
    }

    /// After an erasure: nothing of it stays behind in the files. PostgreSQL's own vacuum does this in
    /// its own time.
    pub async fn scrub(&self) -> Result<(), Error> {
        match &self.backend {
            Backend::Sqlite(sqlite) => {
                let sqlite = sqlite.clone();
                off_thread(move || sqlite.scrub()).await
            }
            Backend::Postgres(_) => Ok(()),
        }
    }

    /// Leaves the database as people expect to find it once its last process has gone: see `Sqlite::leave`.
    pub async fn leave(&self) -> Result<(), Error> {
        match &self.backend {
            Backend::Sqlite(sqlite) => {
                let sqlite = sqlite.clone();
                off_thread(move || sqlite.leave()).await
            }
            Backend::Postgres(_) => Ok(()),
        }
    }

    /// Copies the database to a new file while others write.
    pub async fn backup(&self, file: &Path) -> Result<(), Error> {
        let file = file.to_owned();
        match &self.backend {
            Backend::Sqlite(sqlite) => {
                let sqlite = sqlite.clone();
                off_thread(move || sqlite.backup(&file)).await
            }
            Backend::Postgres(_) => Err(Error::NoBackup),
        }
    }

    /// Database time: what leases are measured in.
    pub async fn now_ms(&self) -> Result<i64, Error> {
        let rows = self.read("SELECT now_ms FROM clock", vec![]).await?;
        rows.first().map_or(Err(Error::Failed("the clock gave no row".into())), |row| row.int(0))
    }

    /// Calls `moved` with the journal's position whenever some process, this one included, has
    /// moved it; until the answer is dropped.
    pub fn watch(&self, tenant: i64, moved: impl Fn(u64) + Send + Sync + 'static) -> Result<Watch, Error> {
        Ok(Watch(match &self.backend {
            Backend::Sqlite(sqlite) => WatchBackend::Sqlite(sqlite.watch(tenant, moved)?),
            Backend::Postgres(postgres) => WatchBackend::Postgres(postgres.watch(tenant, moved)),
        }))
    }

    /// The calling thread may append by itself. PostgreSQL is too far away to keep a thread from other tasks
    /// meanwhile, and a runtime of one thread has no other for them.
    pub fn writes_here(&self) -> bool {
        match &self.backend {
            Backend::Sqlite(_) => true,
            Backend::Postgres(_) => Handle::try_current()
                .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread),
        }
    }

    /// Appends on the calling thread, where `writes_here` allows it.
    pub fn write_here<T>(&self, work: impl FnOnce() -> T) -> T {
        match &self.backend {
            Backend::Sqlite(_) => work(),
            Backend::Postgres(_) => tokio::task::block_in_place(work),
        }
    }

    /// For the few statements that differ.
    pub fn dialect(&self) -> Dialect {
        match &self.backend {
            Backend::Sqlite(_) => Dialect::Sqlite,
            Backend::Postgres(_) => Dialect::Postgres,
        }
    }

    /// For people: which database this is.
    pub fn describe(&self) -> String {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.describe(),
            Backend::Postgres(postgres) => postgres.describe(),
        }
    }
}

/// Appends batches to the journal, each in one durable transaction. Blocking.
#[derive(Debug)]
pub struct Appender(AppenderBackend);

#[derive(Debug)]
enum AppenderBackend {
    Sqlite(sqlite::Appender),
    Postgres(Box<postgres::Appender>),
}

impl Appender {
    /// Takes the head and keeps everybody else from appending until the next `append` or
    /// `release`. For whoever just lost a race: what is decided on this head cannot lose again.
    pub fn hold(&mut self, tenant: i64) -> Result<Head, Error> {
        let rows = match &mut self.0 {
            AppenderBackend::Sqlite(appender) => appender.hold(tenant)?,
            AppenderBackend::Postgres(appender) => appender.hold(tenant)?,
        };
        let head = rows.first().map(read_head).transpose()?;
        head.ok_or_else(|| Error::Failed(format!("there is no tenant {tenant}")))
    }

    /// Lets others append again without having appended.
    pub fn release(&mut self) -> Result<(), Error> {
        match &mut self.0 {
            AppenderBackend::Sqlite(appender) => appender.release(),
            AppenderBackend::Postgres(appender) => appender.release(),
        }
    }

    /// All of the batch, synced, or nothing. An error leaves nothing of it behind, except `Lost`:
    /// then nobody can tell, and the head must be read again before anything is decided.
    pub fn append(&mut self, batch: &Batch) -> Result<Appended, Error> {
        batch.assert_follows();
        match &mut self.0 {
            AppenderBackend::Sqlite(appender) => appender.append(batch),
            AppenderBackend::Postgres(appender) => appender.append(batch),
        }
    }

    /// How long until other processes should be told of what was appended without a word. SQLite's
    /// readers look for themselves.
    pub fn owes_word_in(&self) -> Option<Duration> {
        match &self.0 {
            AppenderBackend::Sqlite(_) => None,
            AppenderBackend::Postgres(appender) => appender.owes_word_in(),
        }
    }

    pub fn tell(&mut self) -> Result<(), Error> {
        match &mut self.0 {
            AppenderBackend::Sqlite(_) => Ok(()),
            AppenderBackend::Postgres(appender) => appender.tell(),
        }
    }
}

/// Watching ends when this is dropped.
#[derive(Debug)]
pub struct Watch(#[expect(dead_code, reason = "held only for what its drop does")] WatchBackend);

#[derive(Debug)]
#[expect(dead_code, reason = "held only for what its drop does")]
enum WatchBackend {
    Sqlite(sqlite::Watch),
    Postgres(postgres::Watch),
}

type Chunks = mpsc::Sender<Result<Vec<Row>, Error>>;

fn only(mut answers: Vec<Vec<Row>>) -> Vec<Row> {
    answers.pop().unwrap_or_default()
}

async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(stopped) => Err(Error::Failed(stopped.to_string())),
    }
}
