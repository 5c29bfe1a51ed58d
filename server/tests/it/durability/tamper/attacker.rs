//! An attacker with full SQL access to the database; the same SQL for both databases.

use tokio_postgres::NoTls;

use super::super::rng::SeededRng;
use crate::store::{Kind, ScratchDatabase};

const TABLES: [&str; 4] = ["journal", "payloads", "salts", "head"];

pub enum Attacker {
    Sqlite(rusqlite::Connection),
    Postgres(tokio_postgres::Client),
}

impl Attacker {
    pub async fn open(scratch: &ScratchDatabase) -> Self {
        match scratch.kind {
            Kind::Sqlite => {
                let connection = rusqlite::Connection::open(scratch.file()).expect("the file opens");
                connection.execute_batch("PRAGMA synchronous = OFF").expect("a setting");
                Self::Sqlite(connection)
            }
            Kind::Postgres => {
                let (client, connection) = tokio_postgres::connect(&scratch.url, NoTls).await.unwrap();
                drop(tokio::spawn(connection));
                Self::Postgres(client)
            }
        }
    }

    pub async fn run(&self, sql: &str) {
        let sql = format!("BEGIN; {sql}; COMMIT");
        match self {
            Self::Sqlite(connection) => {
                connection.execute_batch(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
            }
            Self::Postgres(client) => {
                client.batch_execute(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
            }
        }
    }

    /// Recreates the tables without triggers, keys and checks, and keeps a copy of their rows in `*_written`.
    pub async fn drop_all_constraints(&self) {
        for table in TABLES {
            let copy = format!("CREATE TABLE {table}_written AS SELECT * FROM {table}");
            let loose = format!("CREATE TABLE {table} AS SELECT * FROM {table}_written");
            self.run(&format!("{copy}; DROP TABLE {table}; {loose}")).await;
        }
    }

    pub async fn restore(&self) {
        let back = TABLES
            .map(|table| format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM {table}_written"));
        self.run(&back.join(";")).await;
    }

    pub fn bytes(&self, bytes: &[u8]) -> String {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        match self {
            Self::Sqlite(_) => format!("x'{hex}'"),
            Self::Postgres(_) => format!("'\\x{hex}'::BYTEA"),
        }
    }

    pub fn text(&self, bytes: &[u8]) -> String {
        match self {
            Self::Sqlite(_) => format!("CAST({} AS TEXT)", self.bytes(bytes)),
            Self::Postgres(_) => format!("convert_from({}, 'UTF8')", self.bytes(bytes)),
        }
    }

    /// Returns the bytes with one byte changed, removed or inserted. For PostgreSQL text it stays printable
    /// ASCII, because PostgreSQL rejects invalid UTF-8; SQLite accepts any bytes.
    pub fn corrupt(&self, rng: &mut SeededRng, bytes: &[u8], is_text: bool) -> Vec<u8> {
        let mut corrupted = bytes.to_vec();
        let any = rng.next() as u8;
        let fresh = if is_text && matches!(self, Self::Postgres(_)) { b' ' + any % 95 } else { any };
        let at = rng.below(bytes.len().max(1));
        match rng.below(3) {
            0 if !corrupted.is_empty() => drop(corrupted.remove(at)),
            1 if corrupted.get(at).is_some_and(|byte| *byte != fresh) => corrupted[at] = fresh,
            _ => corrupted.insert(at, fresh),
        }
        corrupted
    }
}
