//! The store on both databases, through one harness.

mod append;
mod nodes;
mod notify;
mod open;
mod projections;
pub mod proxy;
mod rows;

use actbook_engine::id::{StreamId, TenantId};

use actbook::config::DatabaseOptions;
use actbook::store::{Appended, Appender, Batch, Db, Entry, Error, JournalHead, Statement, journal};

use crate::postgres::PostgresDatabase;

pub const TENANT: TenantId = actbook::store::DEFAULT_TENANT;

/// A fresh database and its URL; deleted on drop.
pub struct ScratchDatabase {
    pub db: Db,
    pub url: String,
    pub kind: Kind,
    /// Dropped last.
    _storage: ScratchStorage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Sqlite,
    Postgres,
}

/// The folder or server database behind a scratch database.
#[expect(dead_code, reason = "held only for what its drop does")]
pub enum ScratchStorage {
    Folder(tempfile::TempDir),
    Database(PostgresDatabase),
}

impl ScratchDatabase {
    pub async fn new(kind: Kind) -> Self {
        let (storage, url) = create_storage(kind).await;
        let db = open(&url).await;
        Self { db, url, kind, _storage: storage }
    }

    /// Runs SQL over a separate connection.
    pub async fn execute(&self, sql: &str) {
        match self.kind {
            Kind::Sqlite => {
                let connection = rusqlite::Connection::open(self.file()).expect("the file opens");
                connection.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
            }
            Kind::Postgres => crate::postgres::execute(&self.url, sql).await,
        }
    }

    /// The SQLite file.
    pub fn file(&self) -> &std::path::Path {
        std::path::Path::new(self.url.trim_start_matches("sqlite:"))
    }
}

pub async fn create_storage(kind: Kind) -> (ScratchStorage, String) {
    match kind {
        Kind::Sqlite => {
            let folder = tempfile::tempdir().expect("a scratch folder");
            let url = format!("sqlite:{}", folder.path().join("deep/er/book.db").display());
            (ScratchStorage::Folder(folder), url)
        }
        Kind::Postgres => {
            let database = PostgresDatabase::create().await;
            let url = database.url.clone();
            (ScratchStorage::Database(database), url)
        }
    }
}

pub async fn open(url: &str) -> Db {
    Db::open(url, DatabaseOptions::default()).await.expect("the database opens")
}

/// Runs a check on a fresh database of one kind.
pub fn run_on(kind: Kind, check: impl AsyncFn(ScratchDatabase)) {
    eprintln!("on {kind:?}");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    runtime.block_on(async { check(ScratchDatabase::new(kind).await).await });
}

pub fn for_each_database(check: impl AsyncFn(ScratchDatabase)) {
    run_on(Kind::Sqlite, &check);
    run_on(Kind::Postgres, &check);
}

pub fn head(db: &Db) -> JournalHead {
    journal::head(TENANT).first_blocking(db).expect("the head is read").expect("there is a head")
}

/// An entry of stream 1 with a distinct hash; the store does not check the chain.
pub fn entry(position: u64, body: &str) -> Entry {
    let mut hash = [0; 32];
    hash[..8].copy_from_slice(&position.to_be_bytes());
    hash[8..16].copy_from_slice(&fingerprint(body).to_be_bytes());
    Entry {
        position,
        stream: StreamId(1),
        version: position,
        at: 1_000 + i64::try_from(position).expect("a small position"),
        actor: "person:ada".into(),
        kind: "noted".into(),
        body: body.into(),
        hash,
        payload: Some(format!("payload of {body}").into_bytes()),
        is_first_on_page: position > 1 && journal::page_of(position) != journal::page_of(position - 1),
    }
}

fn fingerprint(body: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    hasher.finish()
}

pub fn batch(old: JournalHead, entries: Vec<Entry>, others: Vec<Statement>) -> Batch {
    let last = entries.last().expect("a batch has entries");
    let new = JournalHead { position: last.position, hash: last.hash };
    Batch { tenant: TENANT, old, new, entries, other_statements: others, urgent: true }
}

/// Runs blocking work on a thread outside any Tokio runtime, as the ledger's writer does.
pub fn off_runtime<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|threads| threads.spawn(work).join()).unwrap_or_else(|panic| {
        std::panic::resume_unwind(panic);
    })
}

pub fn append(appender: &mut Appender, batch: &Batch) -> Result<Appended, Error> {
    off_runtime(|| appender.append(batch))
}

/// One entry after the head, as the ledger would append it.
pub fn append_one(db: &Db, appender: &mut Appender, body: &str) -> Appended {
    let old = head(db);
    append(appender, &batch(old, vec![entry(old.position + 1, body)], vec![]))
        .expect("the append is answered")
}

pub async fn bodies(db: &Db) -> Vec<String> {
    let entries = journal::between(TENANT, 0, u64::MAX).all(db).await.expect("the journal is read");
    entries.into_iter().map(|entry| entry.body).collect()
}
