//! Which processes hold SQLite's locks on a database, for people: a process that is stopped in the middle of a
//! write keeps all others waiting, and only its number says whom to wake or end.
//!
//! The kernel's own list is read. Opening the locked file to ask would not do: closing it again would release every
//! lock that this very process has on it.

use std::fmt;
use std::path::Path;

use crate::store::Error;

/// Bytes of the shared-memory file, as SQLite's write-ahead log locks them: one for whoever writes, one for
/// everybody who has the database open.
const WRITE_BYTE: u64 = 120;
const OPEN_BYTE: u64 = 128;

/// A process that holds a lock.
#[derive(Debug)]
pub struct Holder {
    process: u32,
    /// What the kernel calls its program, where it can be seen.
    name: Option<String>,
    stopped: bool,
}

impl fmt::Display for Holder {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "process {}", self.process)?;
        if let Some(name) = &self.name {
            write!(to, " ({name})")?;
        }
        if self.stopped { write!(to, ", which is stopped,") } else { Ok(()) }
    }
}

impl Holder {
    fn of(process: u32) -> Self {
        // `PID (NAME) STATE …`; the name may hold anything.
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let name = stat.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')'));
        let stopped =
            name.is_some_and(|(_, rest)| matches!(rest.trim_start().chars().next(), Some('T' | 't')));
        let name = name.map(|(name, _)| name.chars().filter(|sign| !sign.is_control()).collect());
        Self { process, name, stopped }
    }
}

/// Who is in the middle of a write. None: nobody is, or this machine does not tell.
pub fn writer(database: &Path) -> Option<Holder> {
    holders(database, WRITE_BYTE).next().map(Holder::of)
}

/// Another process has the database open. None: this machine does not tell.
pub fn is_shared(database: &Path) -> Option<bool> {
    let mut open = holders(database, OPEN_BYTE).peekable();
    open.peek()?;
    Some(open.any(|process| process != std::process::id()))
}

/// The error, with the process that holds the lock which was waited for in vain.
pub fn named(error: Error, database: &Path) -> Error {
    match error {
        Error::Busy { waited_s, holder: None } => {
            Error::Busy { waited_s, holder: writer(database).map(|holder| holder.to_string()) }
        }
        other => other,
    }
}

/// The processes that hold a lock on one byte of the shared-memory file.
fn holders(database: &Path, byte: u64) -> impl Iterator<Item = u32> {
    let inode = inode(database);
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let found: Vec<u32> = locks.lines().filter_map(|line| holder(line, inode?, byte)).collect();
    found.into_iter()
}

fn inode(database: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let mut shared = database.as_os_str().to_owned();
    shared.push("-shm");
    Some(std::fs::metadata(shared).ok()?.ino())
}

/// `1: POSIX  ADVISORY  WRITE 4711 fd:01:1234 120 120`; with `->` after the number it is one who waits. The device is
/// passed over: file systems of several layers give it differently here and there.
fn holder(line: &str, inode: u64, byte: u64) -> Option<u32> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, "POSIX", "ADVISORY", _, process, file, first, last] = words.as_slice() else { return None };
    let last = if *last == "EOF" { u64::MAX } else { last.parse().ok()? };
    let covers = (first.parse().ok()?..=last).contains(&byte);
    let same = file.rsplit(':').next()?.parse() == Ok(inode);
    process.parse().ok().filter(|process| covers && same && *process > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_the_kernels_list_names_the_holder_of_its_bytes() {
        let line = "7: POSIX  ADVISORY  WRITE 4711 fd:01:1234 120 120";
        assert_eq!(holder(line, 1234, 120), Some(4711));
        assert_eq!(holder(line, 1234, 121), None);
        assert_eq!(holder(line, 1235, 120), None);
        assert_eq!(holder("8: POSIX  ADVISORY  READ 9 00:2d:1234 0 EOF", 1234, 128), Some(9));
        assert_eq!(holder("7: -> POSIX  ADVISORY  WRITE 4712 fd:01:1234 120 120", 1234, 120), None);
        assert_eq!(holder("9: FLOCK  ADVISORY  WRITE 4711 fd:01:1234 0 EOF", 1234, 120), None);
    }
}
