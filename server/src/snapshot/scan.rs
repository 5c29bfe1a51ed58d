//! Walks a folder and reads what each entry is, without following links.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Stat, readlinkat, statat};

use super::blobs::{SessionStore, StoreError};
use super::state::{FileState, NotKept};
use super::{IgnoreRules, beneath};

/// Deepest folder that is looked into: each level holds one open file.
const DEPTH_MAX: usize = 128;

/// What tells without reading that a path has not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub size: u64,
    pub modified_ns: i64,
    pub changed_ns: i64,
    pub inode: u64,
    /// Kind and permission bits.
    pub mode: u32,
}

/// One entry of a folder that is walked.
#[derive(Debug)]
pub struct FoundEntry<'a> {
    pub path: &'a str,
    pub parent: BorrowedFd<'a>,
    pub name: &'a OsStr,
    pub stamp: Stamp,
}

/// What a walk is about: the folder, what it leaves out, and the folders that it could not read.
#[derive(Debug)]
pub struct Walk<'a> {
    pub folder: &'a Path,
    pub ignore: &'a IgnoreRules,
    pub unreadable: Vec<String>,
}

impl Stamp {
    pub fn of(stat: &Stat) -> Self {
        let ns = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        Self {
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified_ns: ns(widen(stat.st_mtime), widen(stat.st_mtime_nsec)),
            changed_ns: ns(widen(stat.st_ctime), widen(stat.st_ctime_nsec)),
            inode: stat.st_ino,
            mode: stat.st_mode,
        }
    }

    /// Whether nothing was written since the other stamp was read. The time of change does not count: a hard link that
    /// is moved away changes that of its other names.
    pub fn is_unwritten_since(self, earlier: Self) -> bool {
        Self { changed_ns: 0, ..self } == Self { changed_ns: 0, ..earlier }
    }

    pub fn kind(self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    pub fn permissions(self) -> u32 {
        self.mode & 0o7777
    }
}

/// The platforms' types of times differ.
fn widen<T: TryInto<i64>>(part: T) -> i64 {
    part.try_into().unwrap_or(0)
}

impl Walk<'_> {
    /// Calls `visit` for every entry below `parent`, whose path is `prefix`: empty, or with a `/` at its end.
    pub fn entries(
        &mut self,
        parent: BorrowedFd<'_>,
        prefix: &str,
        depth: usize,
        visit: &mut impl FnMut(FoundEntry<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        for entry in Dir::read_from(parent).map_err(io::Error::from)? {
            let entry = entry.map_err(io::Error::from)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            // A name that is no text cannot stand in the journal.
            let Some(text) = name.to_str().filter(|text| !matches!(*text, "." | "..")) else { continue };
            let path = format!("{prefix}{text}");
            let may_be_folder = matches!(entry.file_type(), FileType::Directory | FileType::Unknown);
            if self.ignore.ignores(&path, may_be_folder) || self.ignore.is_own(&self.folder.join(&path)) {
                continue;
            }
            let Ok(stat) = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let stamp = Stamp::of(&stat);
            visit(FoundEntry { path: &path, parent, name, stamp })?;
            if stamp.kind() == FileType::Directory {
                self.enter(parent, name, path, depth, visit)?;
            }
        }
        Ok(())
    }

    fn enter(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        path: String,
        depth: usize,
        visit: &mut impl FnMut(FoundEntry<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        match beneath::open_folder(parent, name) {
            Ok(folder) if depth < DEPTH_MAX => {
                self.entries(folder.as_fd(), &format!("{path}/"), depth + 1, visit)
            }
            // It went away, cannot be read, or lies too deep.
            Ok(_) | Err(_) => {
                self.unreadable.push(path);
                Ok(())
            }
        }
    }
}

/// What is done with the content of a file whose state is read.
#[derive(Debug)]
pub enum ContentUse<'a> {
    Keep { store: &'a mut SessionStore, bytes_max: u64 },
    Hash(&'a SessionStore),
}

/// Reads the state of an entry.
pub fn read_state(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    stamp: Stamp,
    content: ContentUse<'_>,
) -> Result<FileState, StoreError> {
    Ok(match stamp.kind() {
        FileType::Directory => FileState::Folder { mode: stamp.permissions() },
        FileType::Symlink => match readlinkat(parent, name, Vec::new()).map(std::ffi::CString::into_string) {
            Ok(Ok(target)) => FileState::Link { target },
            Ok(Err(_)) | Err(_) => FileState::Other,
        },
        FileType::RegularFile => read_file(parent, name, stamp, content)?,
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => FileState::Other,
    })
}

fn read_file(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    stamp: Stamp,
    content: ContentUse<'_>,
) -> Result<FileState, StoreError> {
    let not_kept = |why: NotKept| FileState::File {
        mode: stamp.permissions(),
        size: stamp.size,
        blob: None,
        not_kept: Some(why),
        changed_ns: Some(stamp.modified_ns),
    };
    if let ContentUse::Keep { bytes_max, .. } = &content
        && stamp.size > *bytes_max
    {
        return Ok(not_kept(NotKept::TooLarge));
    }
    let Ok(file) = beneath::open_file(parent, name) else { return Ok(not_kept(NotKept::Unreadable)) };
    let mut file = File::from(file);
    let read = match content {
        ContentUse::Keep { store, .. } => store.keep(&file)?,
        ContentUse::Hash(store) => Some(store.hash(&mut file)?),
    };
    Ok(match read {
        Some((blob, size)) => FileState::File {
            mode: stamp.permissions(),
            size,
            blob: Some(blob),
            not_kept: None,
            changed_ns: None,
        },
        None => not_kept(NotKept::Unreadable),
    })
}
