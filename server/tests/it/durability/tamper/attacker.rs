//! Somebody with all rights on the database and none of our manners: one SQL text for both.

use tokio_postgres::NoTls;

use super::super::dice::Dice;
use crate::store::{Kind, Scratch};

const TABLES: [&str; 4] = ["journal", "payloads", "salts", "head"];

pub enum Attacker {
    Sqlite(rusqlite::Connection),
    Postgres(tokio_postgres::Client),
}

impl Attacker {
    pub async fn open(scratch: &Scratch) -> Self {
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

    /// Triggers, keys and checks go with the tables; the rows come back, and are kept beside.
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

    /// One byte changed, taken out or put in. PostgreSQL keeps text that is none out of its tables;
    /// SQLite takes anything.
    pub fn spoil(&self, dice: &mut Dice, bytes: &[u8], is_text: bool) -> Vec<u8> {
        let mut spoilt = bytes.to_vec();
        let any = dice.next() as u8;
        let fresh = if is_text && matches!(self, Self::Postgres(_)) { b' ' + any % 95 } else { any };
        let at = dice.below(bytes.len().max(1));
        match dice.below(3) {
            0 if !spoilt.is_empty() => drop(spoilt.remove(at)),
            1 if spoilt.get(at).is_some_and(|byte| *byte != fresh) => spoilt[at] = fresh,
            _ => spoilt.insert(at, fresh),
        }
        spoilt
    }
}
