//! Opening a SQLite file: its folder, its settings, and how to wait for a lock that
//! another process holds.

use std::fs::{DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, FileControl, OpenFlags};

use super::locks;
use crate::store::{Error, dialect};

/// How long a lock is waited for. Twenty processes take turns of well under a millisecond.
pub const BUSY_LIMIT: Duration = Duration::from_secs(30);

/// After this long the log says who has the lock.
const TOLD_AFTER: Duration = Duration::from_secs(2);

/// Who has waited this often looks more closely, and so comes before those who just arrived.
const PATIENT_TRIES: i32 = 20;

const STATEMENTS_HELD: usize = 128;

/// The log is folded back early: writing over it is cheaper than making it longer. It shrinks to its
/// limit after a long read made it grow. What is erased is
/// overwritten: deletions are rare here, and an update stays within its page.
const SETTINGS: &str = "PRAGMA synchronous = FULL; \
     PRAGMA wal_autocheckpoint = 1000; \
     PRAGMA journal_size_limit = 16777216; \
     PRAGMA cache_size = -4000; \
     PRAGMA secure_delete = ON; \
     PRAGMA recursive_triggers = ON;";

/// The folder is the owner's alone: journals hold arguments and outputs. Each new folder is synced
/// into its parent, or a power cut could take the file with it.
pub fn create_folder(path: &Path) -> std::io::Result<()> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    let missing: Vec<&Path> = folder.ancestors().take_while(|folder| !is_there(folder)).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    for parent in missing.iter().filter_map(|created| created.parent()) {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

/// Whether this account may write the file, or make it where there is none.
pub fn may_write(path: &Path) -> bool {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let writable = |path: &Path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
    writable(folder) && (!path.exists() || writable(path))
}

/// What an error of the file system means for the database.
pub fn obstacle(error: &std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Error::Full { file: None },
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Error::ReadOnly { file: None },
        _ => Error::Failed(error.to_string()),
    }
}

/// A new file outlives a power cut once its folder, too, is synced.
pub fn sync_with_folder(file: &Path) -> std::io::Result<()> {
    File::open(file)?.sync_all()?;
    match file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => File::open(folder)?.sync_all(),
        None => File::open(".")?.sync_all(),
    }
}

fn is_there(folder: &Path) -> bool {
    folder.as_os_str().is_empty() || folder.exists()
}

pub fn connect(path: &Path) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    // Where the file cannot be made, SQLite says why.
    drop(create_private(path));
    let mut connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    wait_for_locks(&mut connection, path)?;
    refuse_foreign(&connection, path)?;
    write_ahead(&connection).map_err(|error| locks::named(error, path))?;
    settle(&connection)?;
    Ok(connection)
}

/// Creates an empty file that only its owner may read: arguments and outputs are nobody else's business. SQLite gives
/// its log files the rights of the database. An error where the file exists already.
pub fn create_private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map(drop)
}

/// A reader never writes, but must be able to: it may be the one that recovers the log.
pub fn connect_reader(path: &Path) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    wait_for_locks(&mut connection, path)?;
    settle(&connection)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

fn settle(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(SETTINGS)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_HELD);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    let mut keep = 1;
    connection.file_control(None::<&str>, FileControl::PersistWal(&mut keep))
}

/// Another program's database is left as it is, down to its journal mode; an empty file is taken for a new one.
fn refuse_foreign(connection: &Connection, path: &Path) -> Result<(), Error> {
    let (tables, own): (i64, i64) =
        connection.query_row(dialect::migrate::SQLITE_TABLES, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if tables == 0 || own == dialect::migrate::SQLITE_OWN_TABLES {
        return Ok(());
    }
    Err(Error::Foreign { file: path.display().to_string() })
}

/// SQLite does not wait by itself while it turns a new file to write-ahead logging.
fn write_ahead(connection: &Connection) -> Result<(), Error> {
    let begun = Instant::now();
    loop {
        match connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0)) {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                return Err(Error::Failed(format!("this place allows no write-ahead log, only {mode}")));
            }
            Err(error) => match Error::from(error) {
                Error::Busy { .. } if begun.elapsed() < BUSY_LIMIT => std::thread::sleep(pause(0)),
                other => return Err(other),
            },
        }
    }
}

fn wait_for_locks(connection: &mut Connection, path: &Path) -> rusqlite::Result<()> {
    let (mut begun, mut told, path) = (Instant::now(), false, path.to_owned());
    connection.busy_handler(Some(move |tries| {
        if tries == 0 {
            (begun, told) = (Instant::now(), false);
        }
        if !told && begun.elapsed() > TOLD_AFTER {
            told = true;
            tell_who_is_waited_for(&path);
        }
        std::thread::sleep(pause(tries));
        begun.elapsed() < BUSY_LIMIT
    }))
}

fn tell_who_is_waited_for(path: &Path) {
    let limit_s = BUSY_LIMIT.as_secs();
    match locks::writer(path) {
        Some(holder) => {
            tracing::warn!("waiting for {holder} to release the database, for {limit_s} s at most")
        }
        None => {
            tracing::warn!("waiting for another process to release the database, for {limit_s} s at most")
        }
    }
}

/// Short, so that a free lock is soon seen; never twice the same, so that processes do not march in step.
fn pause(tries: i32) -> Duration {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let jitter = u64::from(now.subsec_nanos()) % 200;
    let base = if tries < PATIENT_TRIES { 300 } else { 50 };
    Duration::from_micros(base + jitter)
}
