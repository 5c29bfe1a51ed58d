//! The forward-only list of schema migrations, with one text per database. All missing migrations run in one
//! transaction under a lock, so that a start that is killed or races another leaves the old schema or the
//! new one.

use super::Error;

/// One schema change.
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

/// All migrations, in order.
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
    migration!("0017_credentials"),
    migration!("0018_facets"),
    migration!("0019_starts"),
];

/// Creates the table of applied migrations.
pub(super) const CREATE_TABLE: &str =
    "CREATE TABLE IF NOT EXISTS migrations (name TEXT NOT NULL PRIMARY KEY, at BIGINT NOT NULL)";

/// Reads the names of the applied migrations.
pub(super) const APPLIED: &str = "SELECT name FROM migrations";

/// Records an applied migration. Must run after its script, because the first one creates the view `clock`.
pub(super) const RECORD: &str = "INSERT INTO migrations (name, at) SELECT $1, now_ms FROM clock";

/// Refuses a database with an unknown migration: a newer program has changed the schema.
pub(super) fn check_known(applied: &[String]) -> Result<(), Error> {
    match applied.iter().find(|name| ALL.iter().all(|migration| migration.name != **name)) {
        None => Ok(()),
        Some(name) => Err(Error::NewerSchema { migration: name.clone() }),
    }
}

/// Refuses a database that an older program made, for a process that migrates none; a new database passes.
pub(super) fn check_current(applied: &[String]) -> Result<(), Error> {
    match missing(applied).next() {
        Some(first) if !applied.is_empty() => Err(Error::OlderSchema { migration: first.name }),
        Some(_) | None => Ok(()),
    }
}

/// The migrations that are not applied yet, in order.
pub(super) fn missing(applied: &[String]) -> impl Iterator<Item = &'static Migration> {
    ALL.iter().filter(|migration| !applied.iter().any(|name| name == migration.name))
}
