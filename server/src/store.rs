//! The database room: rows, SQL and transactions on SQLite and PostgreSQL. It decides nothing.
//!
//! `db` is the seam below which drivers live; `dialect` holds the statements that truly differ; the
//! other modules say, table by table, what can be asked (`Select`) and written (`Statement`).

mod address;
pub mod calls;
pub mod caught_up;
pub mod db;
pub(crate) mod dialect;
mod error;
pub mod executions;
pub mod figures;
pub mod journal;
mod migrations;
pub mod notes;
pub mod payloads;
pub mod plans;
pub mod project;
pub mod requests;
pub mod seats;
pub mod seen;
mod select;
pub mod stretches;
pub mod tasks;
pub mod tools;
mod value;
pub mod words;

pub use address::without_password;
pub use db::{Appender, Db, Options};
pub use dialect::Dialect;
pub use error::Error;
pub use journal::{Appended, Batch, Entry, Head};
pub use select::{Found, Select};
pub use value::{Row, Statement, Value};

/// The tenant that every installation has.
pub const DEFAULT_TENANT: i64 = 1;
