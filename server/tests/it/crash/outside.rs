//! The journal as somebody else sees it: read with plain SQL, past every room of the product.

use serde_json::Value;
use tokio::runtime::Runtime;
use tokio_postgres::NoTls;

pub enum Outside {
    Sqlite(rusqlite::Connection),
    Postgres { runtime: Runtime, client: tokio_postgres::Client, head: tokio_postgres::Statement },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub position: i64,
    pub at: i64,
    pub kind: String,
    pub body: Value,
    pub hash: Vec<u8>,
}

impl Entry {
    pub fn step(&self) -> Option<&str> {
        self.body["step"].as_str()
    }
}

const HEAD: &str = "SELECT position FROM head WHERE tenant = 1";
const ENTRIES: &str =
    "SELECT entry - 1099511627776, at, kind, body, hash FROM journal WHERE tenant = 1 ORDER BY entry";

impl Outside {
    pub fn open(url: &str) -> Self {
        match url.strip_prefix("sqlite:") {
            Some(path) => {
                let connection = rusqlite::Connection::open(path).unwrap();
                connection.busy_timeout(super::PATIENCE).unwrap();
                Self::Sqlite(connection)
            }
            None => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                let (client, connection) = runtime.block_on(tokio_postgres::connect(url, NoTls)).unwrap();
                runtime.spawn(connection);
                let head = runtime.block_on(client.prepare(HEAD)).unwrap();
                Self::Postgres { runtime, client, head }
            }
        }
    }

    pub fn head(&self) -> i64 {
        match self {
            Self::Sqlite(connection) => {
                connection.prepare_cached(HEAD).unwrap().query_row([], |row| row.get(0)).unwrap()
            }
            Self::Postgres { runtime, client, head } => {
                runtime.block_on(client.query_one(head, &[])).unwrap().get(0)
            }
        }
    }

    /// How many of these processes have a seat.
    pub fn seated(&self, processes: &[u32]) -> usize {
        const SEATED: &str = "SELECT process FROM seats";
        let seated: Vec<i64> = match self {
            Self::Sqlite(connection) => {
                let mut statement = connection.prepare_cached(SEATED).unwrap();
                let rows = statement.query_map([], |row| row.get(0)).unwrap();
                rows.collect::<Result<_, _>>().unwrap()
            }
            Self::Postgres { runtime, client, .. } => {
                runtime.block_on(client.query(SEATED, &[])).unwrap().iter().map(|row| row.get(0)).collect()
            }
        };
        processes.iter().filter(|process| seated.contains(&i64::from(**process))).count()
    }

    /// Nobody is in the middle of a write.
    pub fn is_writable(&self) -> bool {
        const BUSY: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
             AND backend_type = 'client backend' AND pid <> pg_backend_pid() AND state <> 'idle'";
        match self {
            Self::Sqlite(connection) => {
                connection.busy_timeout(std::time::Duration::ZERO).unwrap();
                let taken = connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK");
                connection.busy_timeout(super::PATIENCE).unwrap();
                taken.is_ok()
            }
            Self::Postgres { runtime, client, .. } => {
                runtime.block_on(client.query_one(BUSY, &[])).unwrap().get::<_, i64>(0) == 0
            }
        }
    }

    /// As if every process had been out of reach for longer than its lease.
    pub fn let_leases_run_out(&self) {
        const RUN_OUT: &str = "UPDATE seats SET until = 0";
        match self {
            Self::Sqlite(connection) => connection.execute_batch(RUN_OUT).unwrap(),
            Self::Postgres { runtime, client, .. } => {
                runtime.block_on(client.batch_execute(RUN_OUT)).unwrap()
            }
        }
    }

    /// PostgreSQL may still be committing what a dead process asked for.
    pub fn is_quiet(&self) -> bool {
        const OTHERS: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
             AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
        match self {
            Self::Sqlite(_) => true,
            Self::Postgres { runtime, client, .. } => {
                runtime.block_on(client.query_one(OTHERS, &[])).unwrap().get::<_, i64>(0) == 0
            }
        }
    }

    pub fn entries(&self) -> Vec<Entry> {
        let entry = |position, at, kind, body: String, hash| {
            let body = serde_json::from_str(&body).expect("a body is JSON");
            Entry { position, at, kind, body, hash }
        };
        match self {
            Self::Sqlite(connection) => {
                let mut statement = connection.prepare_cached(ENTRIES).unwrap();
                let rows = statement.query_map([], |row| {
                    Ok(entry(row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
                });
                rows.unwrap().collect::<Result<_, _>>().unwrap()
            }
            Self::Postgres { runtime, client, .. } => {
                let rows = runtime.block_on(client.query(ENTRIES, &[])).unwrap();
                rows.iter()
                    .map(|row| entry(row.get(0), row.get(1), row.get(2), row.get(3), row.get(4)))
                    .collect()
            }
        }
    }
}
