//! The journal and nodes read with plain SQL over a separate connection, without any product code.

use serde_json::Value;
use tokio::runtime::Runtime;
use tokio_postgres::NoTls;

/// A test's own connection to the database under test.
pub enum DirectSql {
    Sqlite(rusqlite::Connection),
    Postgres { runtime: Runtime, client: tokio_postgres::Client, head: tokio_postgres::Statement },
}

#[derive(Debug, Clone, PartialEq)]
pub struct RawEntry {
    pub position: i64,
    pub at: i64,
    pub kind: String,
    pub body: Value,
    pub hash: Vec<u8>,
}

impl RawEntry {
    pub fn step(&self) -> Option<&str> {
        self.body["step"].as_str()
    }
}

const HEAD: &str = "SELECT position FROM head WHERE tenant = 1";
const ENTRIES: &str =
    "SELECT entry - 1099511627776, at, kind, body, hash FROM journal WHERE tenant = 1 ORDER BY entry";

impl DirectSql {
    pub fn open(url: &str) -> Self {
        match url.strip_prefix("sqlite:") {
            Some(path) => {
                let connection = rusqlite::Connection::open(path).unwrap();
                connection.busy_timeout(crate::waiting::TEST_TIMEOUT).unwrap();
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

    /// Counts how many of these processes have a node row.
    pub fn node_count(&self, processes: &[u32]) -> usize {
        const NODES: &str = "SELECT process FROM seats";
        let running: Vec<i64> = match self {
            Self::Sqlite(connection) => {
                let mut statement = connection.prepare_cached(NODES).unwrap();
                let rows = statement.query_map([], |row| row.get(0)).unwrap();
                rows.collect::<Result<_, _>>().unwrap()
            }
            Self::Postgres { runtime, client, .. } => {
                runtime.block_on(client.query(NODES, &[])).unwrap().iter().map(|row| row.get(0)).collect()
            }
        };
        processes.iter().filter(|process| running.contains(&i64::from(**process))).count()
    }

    /// True when no other connection has a write transaction open.
    pub fn is_writable(&self) -> bool {
        const BUSY: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
             AND backend_type = 'client backend' AND pid <> pg_backend_pid() AND state <> 'idle'";
        match self {
            Self::Sqlite(connection) => {
                connection.busy_timeout(std::time::Duration::ZERO).unwrap();
                let taken = connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK");
                connection.busy_timeout(crate::waiting::TEST_TIMEOUT).unwrap();
                taken.is_ok()
            }
            Self::Postgres { runtime, client, .. } => {
                runtime.block_on(client.query_one(BUSY, &[])).unwrap().get::<_, i64>(0) == 0
            }
        }
    }

    /// Sets every node's lease end into the past.
    pub fn expire_leases(&self) {
        const EXPIRE: &str = "UPDATE seats SET until = 0";
        match self {
            Self::Sqlite(connection) => connection.execute_batch(EXPIRE).unwrap(),
            Self::Postgres { runtime, client, .. } => runtime.block_on(client.batch_execute(EXPIRE)).unwrap(),
        }
    }

    /// True when no other client is connected: until then PostgreSQL may still commit for a dead process.
    pub fn is_only_connection(&self) -> bool {
        const OTHERS: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
             AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
        match self {
            Self::Sqlite(_) => true,
            Self::Postgres { runtime, client, .. } => {
                runtime.block_on(client.query_one(OTHERS, &[])).unwrap().get::<_, i64>(0) == 0
            }
        }
    }

    pub fn entries(&self) -> Vec<RawEntry> {
        let entry = |position, at, kind, body: String, hash| {
            let body = serde_json::from_str(&body).expect("a body is JSON");
            RawEntry { position, at, kind, body, hash }
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
