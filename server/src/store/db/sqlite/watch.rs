//! Another process's word on SQLite: the file's data version, asked for every 20 ms on a
//! connection and a thread of its own.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _};

use super::numbered;
use crate::store::{Error, dialect, journal};

const EVERY: Duration = Duration::from_millis(20);

/// The thread ends when its sender is dropped.
#[derive(Debug)]
pub struct Watch(#[expect(dead_code, reason = "held only for what its drop does")] SyncSender<()>);

impl Watch {
    pub fn start(
        connection: Connection,
        tenant: i64,
        moved: impl Fn(u64) + Send + 'static,
    ) -> Result<Self, Error> {
        let (held, dropped) = sync_channel(1);
        std::thread::Builder::new()
            .name("actbook-bell".into())
            .spawn(move || {
                let mut seen = None;
                while dropped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                    // A failed look is made again 20 ms later; the word is not lost, only late.
                    match look(&connection, tenant, &mut seen) {
                        Ok(Some(position)) => moved(position),
                        Ok(None) => {}
                        Err(error) => tracing::warn!("cannot watch the database for news: {error}"),
                    }
                }
            })
            .map_err(|error| Error::Failed(format!("cannot start the watching thread: {error}")))?;
        Ok(Self(held))
    }
}

fn look(connection: &Connection, tenant: i64, seen: &mut Option<i64>) -> rusqlite::Result<Option<u64>> {
    let version: i64 = connection.prepare_cached(dialect::listen::SQLITE)?.query_row([], |row| row.get(0))?;
    if *seen == Some(version) {
        return Ok(None);
    }
    let mut head = connection.prepare_cached(numbered(journal::HEAD))?;
    let position: Option<i64> = head.query_row([tenant], |row| row.get(0)).optional()?;
    *seen = Some(version);
    Ok(position.and_then(|position| u64::try_from(position).ok()))
}
