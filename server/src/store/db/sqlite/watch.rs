//! Notification of appends on SQLite: a thread with a connection of its own polls the file's data version
//! every 20 ms.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use actbook_engine::id::TenantId;

use rusqlite::{Connection, OptionalExtension as _};

use super::to_sqlite_placeholders;
use crate::store::{Error, dialect, journal};

/// Time between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Guard of a polling thread, which ends when this is dropped.
#[derive(Debug)]
pub struct SqliteWatch(#[expect(dead_code, reason = "held only for what its drop does")] SyncSender<()>);

impl SqliteWatch {
    /// Calls `on_append` with the head position after the file has changed.
    pub fn start(
        connection: Connection,
        tenant: TenantId,
        on_append: impl Fn(u64) + Send + 'static,
    ) -> Result<Self, Error> {
        let (guard, dropped) = sync_channel(1);
        std::thread::Builder::new()
            .name("actbook-watch".into())
            .spawn(move || {
                let mut last_version = None;
                while dropped.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                    // A failed poll is repeated 20 ms later: the notification is late, not lost.
                    match poll_head(&connection, tenant, &mut last_version) {
                        Ok(Some(position)) => on_append(position),
                        Ok(None) => {}
                        Err(error) => tracing::warn!("cannot poll the database for changes: {error}"),
                    }
                }
            })
            .map_err(|error| {
                Error::Failed(format!("cannot start the thread that polls the database: {error}"))
            })?;
        Ok(Self(guard))
    }
}

/// Returns the head position if the file has changed since `last_version`, which it updates. None: no
/// change, or the tenant does not exist.
fn poll_head(
    connection: &Connection,
    tenant: TenantId,
    last_version: &mut Option<i64>,
) -> rusqlite::Result<Option<u64>> {
    let version: i64 = connection.prepare_cached(dialect::listen::SQLITE)?.query_row([], |row| row.get(0))?;
    if *last_version == Some(version) {
        return Ok(None);
    }
    let mut head = connection.prepare_cached(to_sqlite_placeholders(journal::HEAD))?;
    let position: Option<i64> = head.query_row([tenant.0], |row| row.get(0)).optional()?;
    *last_version = Some(version);
    Ok(position.and_then(|position| u64::try_from(position).ok()))
}
