//! Opening a SQLite file: creates its folder, applies the settings, and sets how a connection waits for locks
//! of other processes.

use std::fs::{DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, FileControl, OpenFlags};

use super::locks;
use crate::config::DatabaseUsage;
use crate::store::{Error, dialect};

/// After waiting this long for a lock, its holder is logged.
const LOG_HOLDER_AFTER: Duration = Duration::from_secs(2);

/// After this many tries a connection retries faster, so that it gets the lock before newcomers.
const FAST_RETRY_AFTER_TRIES: i32 = 20;

/// Prepared statements cached per connection.
const STATEMENT_CACHE_SIZE: usize = 128;

/// Settings of every connection. The write-ahead log is checkpointed early, because overwriting it is
/// cheaper than extending it; it is cut to its size limit after a long read made it grow. Deleted bytes are
/// overwritten: deletions are rare here, and an update stays within its page.
const SETTINGS: &str = "PRAGMA synchronous = FULL; \
     PRAGMA wal_autocheckpoint = 1000; \
     PRAGMA journal_size_limit = 16777216; \
     PRAGMA cache_size = -4000; \
     PRAGMA secure_delete = ON; \
     PRAGMA recursive_triggers = ON;";

/// Creates the file's folder, readable by its owner alone, because journals hold arguments and outputs.
/// Syncs the parent of each new folder, or a power cut could lose the folder and the file in it.
pub fn create_folder(path: &Path) -> std::io::Result<()> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    let missing: Vec<&Path> = folder.ancestors().take_while(|folder| !folder_exists(folder)).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    for parent in missing.iter().filter_map(|created| created.parent()) {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

/// Whether this account may write the file, or create it if it does not exist.
pub fn is_file_writable(path: &Path) -> bool {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_writable = |path: &Path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
    is_writable(folder) && (!path.exists() || is_writable(path))
}

/// Converts a file system error to a database error.
pub fn convert_io_error(error: &std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Error::DiskFull { file: None },
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Error::ReadOnly { file: None },
        _ => Error::Failed(error.to_string()),
    }
}

/// Syncs a new file and its folder, both of which it needs to survive a power cut.
pub fn sync_with_folder(file: &Path) -> std::io::Result<()> {
    File::open(file)?.sync_all()?;
    match file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => File::open(folder)?.sync_all(),
        None => File::open(".")?.sync_all(),
    }
}

/// Whether the folder exists; the empty path is the working directory.
fn folder_exists(folder: &Path) -> bool {
    folder.as_os_str().is_empty() || folder.exists()
}

/// Opens a connection that may write; creates the file if it does not exist.
pub fn connect(path: &Path, usage: DatabaseUsage) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    // If this fails, opening the file below fails too, with SQLite's error message.
    drop(create_private(path));
    let mut connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    set_busy_handler(&mut connection, path, usage.lock_wait())?;
    refuse_foreign(&connection, path)?;
    enable_wal(&connection, usage.lock_wait())
        .map_err(|error| locks::with_lock_holder(error, path, usage))?;
    apply_settings(&connection, usage)?;
    Ok(connection)
}

/// Creates an empty file that only its owner may read, because it will hold arguments and outputs. SQLite
/// gives its log files the permissions of the database. Fails if the file exists.
pub fn create_private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map(drop)
}

/// Opens a connection that only reads. The file is opened for writing all the same, because a reader may
/// have to recover the write-ahead log.
pub fn connect_reader(path: &Path, usage: DatabaseUsage) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    set_busy_handler(&mut connection, path, usage.lock_wait())?;
    apply_settings(&connection, usage)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// Applies the settings that all connections share.
fn apply_settings(connection: &Connection, usage: DatabaseUsage) -> rusqlite::Result<()> {
    connection.execute_batch(SETTINGS)?;
    connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE_SIZE);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    // Otherwise SQLite compiles a cached statement again whenever a parameter changes that its plan might
    // depend on, which takes longer than most of our reads.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    if usage == DatabaseUsage::Hook {
        // The last connection would write the whole log back when it closes, and the agent would wait for it.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    }
    let mut persist = 1;
    connection.file_control(None::<&str>, FileControl::PersistWal(&mut persist))
}

/// Refuses another program's database before anything in it is changed, its journal mode included. An empty
/// file passes as a new database.
fn refuse_foreign(connection: &Connection, path: &Path) -> Result<(), Error> {
    let (tables, own): (i64, i64) =
        connection.query_row(dialect::migrate::SQLITE_TABLES, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if tables == 0 || own == dialect::migrate::SQLITE_OWN_TABLES {
        return Ok(());
    }
    Err(Error::ForeignDatabase { file: path.display().to_string() })
}

/// Switches the file to write-ahead logging. Retries here, because SQLite does not call the busy handler for
/// this.
fn enable_wal(connection: &Connection, lock_wait: Duration) -> Result<(), Error> {
    let started = Instant::now();
    loop {
        match connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0)) {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                return Err(Error::Failed(format!(
                    "this file system supports no write-ahead log, only {mode}"
                )));
            }
            Err(error) => match Error::from(error) {
                Error::Busy { .. } if started.elapsed() < lock_wait => std::thread::sleep(retry_delay(0)),
                other => return Err(other),
            },
        }
    }
}

/// Makes the connection wait for locks up to `lock_wait`, and log the holder of a lock that takes long.
fn set_busy_handler(connection: &mut Connection, path: &Path, lock_wait: Duration) -> rusqlite::Result<()> {
    let (mut started, mut logged, path) = (Instant::now(), false, path.to_owned());
    connection.busy_handler(Some(move |tries| {
        if tries == 0 {
            (started, logged) = (Instant::now(), false);
        }
        if !logged && started.elapsed() > LOG_HOLDER_AFTER {
            logged = true;
            log_lock_holder(&path, lock_wait);
        }
        std::thread::sleep(retry_delay(tries));
        started.elapsed() < lock_wait
    }))
}

/// Logs which process holds the write lock.
fn log_lock_holder(path: &Path, lock_wait: Duration) {
    let limit_s = lock_wait.as_secs();
    match locks::write_lock_holder(path) {
        Some(holder) => {
            tracing::warn!("waiting for {holder} to release the database, for {limit_s} s at most")
        }
        None => {
            tracing::warn!("waiting for another process to release the database, for {limit_s} s at most")
        }
    }
}

/// Delay before trying a lock again: short, so that a free lock is taken soon, and with jitter, so that
/// processes do not retry in step.
fn retry_delay(tries: i32) -> Duration {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let jitter = u64::from(now.subsec_nanos()) % 200;
    let base = if tries < FAST_RETRY_AFTER_TRIES { 300 } else { 50 };
    Duration::from_micros(base + jitter)
}
