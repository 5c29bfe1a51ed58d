//! The PostgreSQL half. A thread of its own runs the connections, so that a reader may block on an
//! answer from any thread, a runtime's worker included, without waiting for itself.

mod append;
mod link;
mod open;
mod watch;

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use tokio_postgres::Config;

use super::{Chunks, Options};
use crate::store::{Error, Row, Statement, Value, without_password};
use link::Link;

pub use append::Appender;
pub use watch::Watch;

/// Connections that read and transact at once; the server's own default limit is 100 for all.
const LINKS_MAX: usize = 4;

#[derive(Debug)]
pub struct Postgres {
    pool: Arc<Pool>,
    runtime: Handle,
    /// The runtime's thread ends when this is dropped.
    _running: oneshot::Sender<()>,
}

#[derive(Debug)]
struct Pool {
    config: Config,
    idle: Mutex<Vec<Link>>,
    room: Semaphore,
}

impl Postgres {
    pub async fn open(url: &str, options: &Options) -> Result<Self, Error> {
        let failed = |error: Error| Error::Open { url: without_password(url), reason: error.to_string() };
        let config = open::config(url).map_err(failed)?;
        let (runtime, running) = start_runtime()?;
        let pool = Arc::new(Pool { config, idle: Mutex::default(), room: Semaphore::new(LINKS_MAX) });
        let postgres = Self { pool, runtime, _running: running };
        let allow_unsafe = options.unsafe_durability;
        let opened =
            postgres.run(|pool| async move { open::prepare(pool.link().await?, allow_unsafe, &pool).await });
        match opened.await {
            Ok(()) => Ok(postgres),
            Err(refused @ (Error::UnsafeDurability { .. } | Error::Newer { .. })) => Err(refused),
            Err(error) => Err(failed(error)),
        }
    }

    pub async fn read_many(&self, sql: &'static str, sets: Vec<Vec<Value>>) -> Result<Vec<Vec<Row>>, Error> {
        self.run(move |pool| async move { pool.read_many(sql, &sets).await }).await
    }

    pub fn read_many_blocking(
        &self,
        sql: &'static str,
        sets: Vec<Vec<Value>>,
    ) -> Result<Vec<Vec<Row>>, Error> {
        let (answer, answered) = std::sync::mpsc::sync_channel(1);
        let pool = self.pool.clone();
        self.runtime.spawn(async move {
            // Nobody receives where the asking thread is gone.
            drop(answer.send(pool.read_many(sql, &sets).await));
        });
        answered.recv().unwrap_or_else(|_| Err(Error::Lost("the connections' thread has ended".into())))
    }

    pub async fn transact(&self, statements: Vec<Statement>) -> Result<Vec<Vec<Row>>, Error> {
        self.run(move |pool| async move {
            let _room = pool.enter().await?;
            let link = pool.link().await?;
            let answers = link.transact(&statements).await?;
            pool.keep(link);
            Ok(answers)
        })
        .await
    }

    pub fn stream(&self, sql: &'static str, params: Vec<Value>, chunks: Chunks) {
        let pool = self.pool.clone();
        self.runtime.spawn(async move {
            if let Err(error) = pool.stream(sql, &params, &chunks).await {
                // Nobody receives where the visitor has had enough.
                drop(chunks.send(Err(error)).await);
            }
        });
    }

    pub fn appender(&self) -> Result<Appender, Error> {
        Appender::new(self.pool.config.clone())
    }

    pub fn watch(&self, tenant: i64, moved: impl Fn(u64) + Send + Sync + 'static) -> Watch {
        Watch::start(&self.runtime, self.pool.config.clone(), tenant, moved)
    }

    pub fn describe(&self) -> String {
        let config = &self.pool.config;
        format!("PostgreSQL database {}", config.get_dbname().or(config.get_user()).unwrap_or("of this user"))
    }

    async fn run<T, F>(&self, work: impl FnOnce(Arc<Pool>) -> F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        match self.runtime.spawn(work(self.pool.clone())).await {
            Ok(result) => result,
            Err(stopped) => Err(Error::Lost(stopped.to_string())),
        }
    }
}

impl Pool {
    async fn enter(&self) -> Result<tokio::sync::SemaphorePermit<'_>, Error> {
        self.room.acquire().await.map_err(|closed| Error::Lost(closed.to_string()))
    }

    async fn link(&self) -> Result<Link, Error> {
        loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match idle {
                Some(link) if link.is_closed() => {}
                Some(link) => return Ok(link),
                None => return Link::connect(&self.config).await,
            }
        }
    }

    /// A link whose work failed is not handed back: it may be in the middle of something.
    fn keep(&self, link: Link) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(link);
    }

    /// A read may be asked again: a server that was restarted answers the second time.
    async fn read_many(&self, sql: &'static str, sets: &[Vec<Value>]) -> Result<Vec<Vec<Row>>, Error> {
        let _room = self.enter().await?;
        match self.read_once(sql, sets).await {
            Err(Error::Lost(_)) => {
                self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
                self.read_once(sql, sets).await
            }
            answered => answered,
        }
    }

    async fn read_once(&self, sql: &'static str, sets: &[Vec<Value>]) -> Result<Vec<Vec<Row>>, Error> {
        let link = self.link().await?;
        let answers = link.query_many(sql, sets).await?;
        self.keep(link);
        Ok(answers)
    }

    async fn stream(&self, sql: &'static str, params: &[Value], chunks: &Chunks) -> Result<(), Error> {
        let _room = self.enter().await?;
        let link = self.link().await?;
        if link.stream(sql, params, chunks).await? {
            self.keep(link);
        }
        Ok(())
    }
}

fn start_runtime() -> Result<(Handle, oneshot::Sender<()>), Error> {
    let failed =
        |error: std::io::Error| Error::Failed(format!("cannot start the connections' thread: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let handle = runtime.handle().clone();
    let (running, dropped) = oneshot::channel::<()>();
    std::thread::Builder::new()
        .name("actbook-postgres".into())
        .spawn(move || runtime.block_on(dropped))
        .map_err(failed)?;
    Ok((handle, running))
}
