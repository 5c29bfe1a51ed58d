//! The rates of the bare database, without Actbook.

use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rusqlite::Connection;

/// One row of this many bytes.
const ROW_BYTES: usize = 200;

fn open(file: &Path) -> anyhow::Result<Connection> {
    let connection = Connection::open(file)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection
        .execute_batch("CREATE TABLE IF NOT EXISTS bare (id INTEGER PRIMARY KEY, body BLOB NOT NULL)")?;
    Ok(connection)
}

/// Commits until SQLite's write-ahead log has its full length. Until then each commit extends the file, which
/// takes half as long again.
const WAL_GROWTH_COMMITS: usize = 1200;

/// A SQLite connection for prepared one-row inserts: autocommit, WAL, `synchronous=FULL`.
pub struct BareCommits(Connection);

impl BareCommits {
    pub fn open(folder: &Path) -> anyhow::Result<Self> {
        Ok(Self(open(&folder.join("bare.db"))?))
    }

    /// Opens a database whose log has its full length, like one that has been in use for a while.
    pub fn open_grown(folder: &Path) -> anyhow::Result<Self> {
        let commits = Self::open(folder)?;
        (0..WAL_GROWTH_COMMITS).try_for_each(|_| commits.commit())?;
        Ok(commits)
    }

    /// Commits sequentially for `time`; returns microseconds per commit.
    pub fn us_per_commit(&self, time: Duration) -> anyhow::Result<f64> {
        let (start, mut count) = (Instant::now(), 0u64);
        while start.elapsed() < time {
            self.commit()?;
            count += 1;
        }
        Ok(start.elapsed().as_secs_f64() * 1e6 / count as f64)
    }

    pub fn commit(&self) -> anyhow::Result<()> {
        let mut insert = self.0.prepare_cached("INSERT INTO bare (body) VALUES (?1)")?;
        insert.execute([&[7u8; ROW_BYTES][..]])?;
        Ok(())
    }
}

pub fn commits_per_s(folder: &Path, time: Duration) -> anyhow::Result<f64> {
    Ok(1e6 / BareCommits::open_grown(folder)?.us_per_commit(time)?)
}

/// Rows per second of `clients` threads that each wait for their row, and one writer that commits all queued
/// rows.
pub fn rows_per_s_grouped(folder: &Path, clients: usize, time: Duration) -> anyhow::Result<f64> {
    let (rows, queue) = mpsc::channel::<mpsc::SyncSender<()>>();
    let mut connection = open(&folder.join("grouped.db"))?;
    let start = Instant::now();
    let count = std::thread::scope(|scope| -> anyhow::Result<u64> {
        for _ in 0..clients {
            let rows = rows.clone();
            scope.spawn(move || {
                let (done, committed) = mpsc::sync_channel(1);
                while start.elapsed() < time && rows.send(done.clone()).is_ok() && committed.recv().is_ok() {}
            });
        }
        drop(rows);
        let mut count = 0;
        while let Ok(first) = queue.recv() {
            let mut group = vec![first];
            group.extend(queue.try_iter());
            let transaction =
                connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            {
                let mut insert = transaction.prepare_cached("INSERT INTO bare (body) VALUES (?1)")?;
                for _ in &group {
                    insert.execute([&[7u8; ROW_BYTES][..]])?;
                }
            }
            transaction.commit()?;
            count += group.len() as u64;
            for done in group {
                done.send(())?;
            }
        }
        Ok(count)
    })?;
    Ok(count as f64 / start.elapsed().as_secs_f64())
}
