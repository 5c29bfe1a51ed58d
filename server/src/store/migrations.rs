//! The forward-only list of schema changes, one text per database under the same name. All that
//! are missing run in one transaction under a lock, so that a start that is killed half-way or
//! races another leaves either the old schema or the new one.

use super::Error;

pub(super) struct Migration {
    pub name: &'static str,
    pub sqlite: &'static str,
    pub postgres: &'static str,
}

macro_rules! migration {
    ($name:literal) => {
        Migration {
            name: $name,
            sqlite: include_str!(concat!("../../migrations/sqlite/", $name, ".sql")),
            postgres: include_str!(concat!("../../migrations/postgres/", $name, ".sql")),
        }
    };
}

pub(super) const ALL: &[Migration] = &[
    migration!("0001_journal"),
    migration!("0002_calls"),
    migration!("0003_tools"),
    migration!("0010_notes"),
    migration!("0011_templates"),
    migration!("0012_figures"),
    migration!("0013_pages"),
    migration!("0014_executions"),
    migration!("0015_hot_path"),
    migration!("0016_projects"),
];

pub(super) const CREATE_TABLE: &str =
    "CREATE TABLE IF NOT EXISTS migrations (name TEXT NOT NULL PRIMARY KEY, at BIGINT NOT NULL)";

pub(super) const APPLIED: &str = "SELECT name FROM migrations";

/// After the scripts, since the first of them makes `clock`.
pub(super) const RECORD: &str = "INSERT INTO migrations (name, at) SELECT $1, now_ms FROM clock";

/// A schema of a later program means something else than this one thinks.
pub(super) fn check_known(applied: &[String]) -> Result<(), Error> {
    match applied.iter().find(|name| ALL.iter().all(|migration| migration.name != **name)) {
        None => Ok(()),
        Some(name) => Err(Error::Newer { migration: name.clone() }),
    }
}

pub(super) fn missing(applied: &[String]) -> impl Iterator<Item = &'static Migration> {
    ALL.iter().filter(|migration| !applied.iter().any(|name| name == migration.name))
}
