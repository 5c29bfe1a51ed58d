//! Finds the processes that hold SQLite's locks on a database, for error and log messages: a process stopped
//! in the middle of a write blocks all others, and its pid tells the operator which process to resume or
//! end.
//!
//! Reads `/proc/locks`. Opening the locked file to query its locks is not an option: closing it would release
//! every POSIX lock that this process itself has on the file.

use std::fmt;
use std::path::Path;

use crate::config::DatabaseUsage;
use crate::store::Error;

/// Byte of the shared-memory file that SQLite locks while a process writes (in WAL mode).
const WRITE_BYTE: u64 = 120;
/// Byte of the shared-memory file that every process locks while it has the database open.
const OPEN_BYTE: u64 = 128;

/// A process that holds a lock.
#[derive(Debug)]
pub struct LockHolder {
    pid: u32,
    /// The command name from `/proc`; None if it cannot be read.
    name: Option<String>,
    /// The process is stopped, by a signal or a debugger.
    stopped: bool,
}

impl fmt::Display for LockHolder {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "process {}", self.pid)?;
        if let Some(name) = &self.name {
            write!(to, " ({name})")?;
        }
        if self.stopped { write!(to, ", which is stopped,") } else { Ok(()) }
    }
}

impl LockHolder {
    /// Reads name and state of the process from `/proc`.
    fn from_pid(process: u32) -> Self {
        // `PID (NAME) STATE …`; the name may contain any character, parentheses included.
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let name = stat.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')'));
        let stopped =
            name.is_some_and(|(_, rest)| matches!(rest.trim_start().chars().next(), Some('T' | 't')));
        let name = name.map(|(name, _)| name.chars().filter(|character| !character.is_control()).collect());
        Self { pid: process, name, stopped }
    }
}

/// The process that holds the write lock. None: no process does, or `/proc` does not say.
pub fn write_lock_holder(database: &Path) -> Option<LockHolder> {
    lock_holders(database, WRITE_BYTE).next().map(LockHolder::from_pid)
}

/// Whether another process has the database open. None: `/proc` does not say.
pub fn is_open_elsewhere(database: &Path) -> Option<bool> {
    let mut open = lock_holders(database, OPEN_BYTE).peekable();
    open.peek()?;
    Some(open.any(|process| process != std::process::id()))
}

/// Adds the holder of the write lock, and how long this process waited, to a `Busy` error that names none; returns other
/// errors unchanged.
pub fn with_lock_holder(error: Error, database: &Path, usage: DatabaseUsage) -> Error {
    match error {
        Error::Busy { holder: None, .. } => {
            let holder = write_lock_holder(database).map(|holder| holder.to_string());
            Error::Busy { waited_s: usage.lock_wait().as_secs(), holder }
        }
        other => other,
    }
}

/// Pids of the processes that hold a lock on this byte of the shared-memory file.
fn lock_holders(database: &Path, byte: u64) -> impl Iterator<Item = u32> {
    let inode = shm_inode(database);
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let pids: Vec<u32> = locks.lines().filter_map(|line| parse_lock_line(line, inode?, byte)).collect();
    pids.into_iter()
}

/// Inode of the database's shared-memory file. None: there is no such file.
fn shm_inode(database: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let mut shm_path = database.as_os_str().to_owned();
    shm_path.push("-shm");
    Some(std::fs::metadata(shm_path).ok()?.ino())
}

/// Parses a line of `/proc/locks`, such as `1: POSIX  ADVISORY  WRITE 4711 fd:01:1234 120 120`, and returns
/// the pid if that lock covers the byte. None for other locks, and for waiting processes, marked by `->`.
/// The device number is ignored, because layered file systems report different ones.
fn parse_lock_line(line: &str, inode: u64, byte: u64) -> Option<u32> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [_, "POSIX", "ADVISORY", _, process, file, first, last] = fields.as_slice() else { return None };
    let last = if *last == "EOF" { u64::MAX } else { last.parse().ok()? };
    let covers = (first.parse().ok()?..=last).contains(&byte);
    let is_same_file = file.rsplit(':').next()?.parse() == Ok(inode);
    process.parse().ok().filter(|process| covers && is_same_file && *process > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_line_yields_the_pid_if_it_covers_the_byte() {
        let line = "7: POSIX  ADVISORY  WRITE 4711 fd:01:1234 120 120";
        assert_eq!(parse_lock_line(line, 1234, 120), Some(4711));
        assert_eq!(parse_lock_line(line, 1234, 121), None);
        assert_eq!(parse_lock_line(line, 1235, 120), None);
        assert_eq!(parse_lock_line("8: POSIX  ADVISORY  READ 9 00:2d:1234 0 EOF", 1234, 128), Some(9));
        assert_eq!(parse_lock_line("7: -> POSIX  ADVISORY  WRITE 4712 fd:01:1234 120 120", 1234, 120), None);
        assert_eq!(parse_lock_line("9: FLOCK  ADVISORY  WRITE 4711 fd:01:1234 0 EOF", 1234, 120), None);
    }
}
