//! How the index is stored: length-prefixed fields, because a folder of 50,000 files is read before every shell call.
//! An index that cannot be read is none: the folder is then kept anew.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::super::blobs::sync_folder;
use super::super::scan::Stamp;
use super::super::state::{FileState, NotKept};
use super::{Index, IndexEntry};
use crate::random;

/// The first bytes of the file; another version is not read.
const MAGIC: &[u8] = b"actbook-index-1\n";
/// Bytes that one entry is expected to take.
const ENTRY_BYTES: usize = 220;

const FILE: u64 = 0;
const FILE_TOO_LARGE: u64 = 1;
const FILE_UNREADABLE: u64 = 2;
const LINK: u64 = 3;
const FOLDER: u64 = 4;
const OTHER: u64 = 5;

/// Replaces the stored index, durably.
pub fn write(file: &Path, index: &Index) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(index.entries.len() * ENTRY_BYTES + 256);
    bytes.extend_from_slice(MAGIC);
    put_bytes(&mut bytes, index.folder.as_os_str().as_bytes());
    put(&mut bytes, u64::from(index.is_complete));
    put(&mut bytes, index.kept_bytes);
    put(&mut bytes, index.entries.len() as u64);
    for (path, entry) in &index.entries {
        put_entry(&mut bytes, path, entry);
    }
    let temporary = file.with_extension(random::id());
    let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    let written =
        new.write_all(&bytes).and_then(|()| new.sync_all()).and_then(|()| std::fs::rename(&temporary, file));
    written.inspect_err(|_| drop(std::fs::remove_file(&temporary)))?;
    file.parent().map_or(Ok(()), sync_folder)
}

/// Reads the stored index. `None`: there is none, or it cannot be read.
pub fn read(file: &Path) -> Option<Index> {
    let bytes = std::fs::read(file).ok()?;
    let mut rest = bytes.strip_prefix(MAGIC)?;
    let folder = PathBuf::from(std::ffi::OsString::from_vec(take_bytes(&mut rest)?.to_vec()));
    let is_complete = take(&mut rest)? == 1;
    let kept_bytes = take(&mut rest)?;
    let count = usize::try_from(take(&mut rest)?).ok()?;
    let mut entries = HashMap::with_capacity(count.min(rest.len()));
    for _ in 0..count {
        let (path, entry) = take_entry(&mut rest)?;
        entries.insert(path, entry);
    }
    Some(Index { folder, is_complete, kept_bytes, entries })
}

fn put_entry(bytes: &mut Vec<u8>, path: &str, entry: &IndexEntry) {
    put_bytes(bytes, path.as_bytes());
    let Stamp { size, modified_ns, changed_ns, inode, mode } = entry.stamp;
    for number in
        [size, modified_ns as u64, changed_ns as u64, inode, u64::from(mode), entry.read_at_ns as u64]
    {
        put(bytes, number);
    }
    let (tag, text, size) = match &entry.state {
        FileState::File { blob: Some(blob), size, .. } => (FILE, blob.as_str(), *size),
        FileState::File { not_kept: Some(NotKept::TooLarge), size, .. } => (FILE_TOO_LARGE, "", *size),
        FileState::File { size, .. } => (FILE_UNREADABLE, "", *size),
        FileState::Link { target } => (LINK, target.as_str(), 0),
        FileState::Folder { .. } => (FOLDER, "", 0),
        FileState::Other => (OTHER, "", 0),
    };
    put(bytes, tag);
    put(bytes, size);
    put_bytes(bytes, text.as_bytes());
}

fn take_entry(rest: &mut &[u8]) -> Option<(String, IndexEntry)> {
    let path = String::from_utf8(take_bytes(rest)?.to_vec()).ok()?;
    let mut number = || take(rest);
    let stamp = Stamp {
        size: number()?,
        modified_ns: number()? as i64,
        changed_ns: number()? as i64,
        inode: number()?,
        mode: u32::try_from(number()?).ok()?,
    };
    let (read_at_ns, tag, size) = (number()? as i64, number()?, number()?);
    let text = String::from_utf8(take_bytes(rest)?.to_vec()).ok()?;
    let mode = stamp.permissions();
    let not_kept = |why: NotKept| FileState::File {
        mode,
        size,
        blob: None,
        not_kept: Some(why),
        changed_ns: Some(stamp.modified_ns),
    };
    let state = match tag {
        FILE => FileState::File { mode, size, blob: Some(text), not_kept: None, changed_ns: None },
        FILE_TOO_LARGE => not_kept(NotKept::TooLarge),
        FILE_UNREADABLE => not_kept(NotKept::Unreadable),
        LINK => FileState::Link { target: text },
        FOLDER => FileState::Folder { mode },
        OTHER => FileState::Other,
        _ => return None,
    };
    Some((path, IndexEntry { stamp, read_at_ns, state }))
}

fn put(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&number.to_le_bytes());
}

fn put_bytes(bytes: &mut Vec<u8>, text: &[u8]) {
    put(bytes, text.len() as u64);
    bytes.extend_from_slice(text);
}

fn take(rest: &mut &[u8]) -> Option<u64> {
    let (number, after) = rest.split_first_chunk::<8>()?;
    *rest = after;
    Some(u64::from_le_bytes(*number))
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take(rest)?).ok()?;
    let (text, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(text)
}
