//! Database access: rows, SQL and transactions on SQLite and PostgreSQL. Holds no policy.
//!
//! `db` wraps the two drivers; `dialect` holds the statements that differ between them; the other modules
//! define, table by table, the reads (`Select`) and the writes (`Statement`).

pub mod calls;
pub mod counts;
pub mod credentials;
pub mod db;
pub(crate) mod dialect;
mod error;
pub mod execution_filter;
pub mod execution_list;
pub mod executions;
pub mod facets;
pub mod figures;
pub mod fingerprint;
mod histogram;
mod id_set;
mod id_source;
pub mod journal;
pub mod journal_index;
mod migrations;
pub mod nodes;
pub mod notes;
pub mod payloads;
pub mod plans;
pub mod projection;
pub mod projection_cursor;
pub mod requests;
mod select;
pub mod starts;
pub mod stream_rows;
pub mod tasks;
pub mod tokenizer;
pub mod tools;
mod value;

use actbook_engine::id::TenantId;

pub use db::{Appender, Db, run_blocking};
pub use dialect::Dialect;
pub use error::Error;
pub use histogram::Histogram;
pub use id_set::{IdSet, stretch_of};
pub use journal::{Appended, Batch, Entry, JournalHead};
pub use select::{PrefixMatch, Select};
pub use value::{EntryKey, Row, SqlValue, Statement};

/// Id of the tenant that exists in every installation.
pub const DEFAULT_TENANT: TenantId = TenantId(1);
