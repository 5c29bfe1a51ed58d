//! The list of changes of a session's folder: one line for each, only appended. A place in it is its length in bytes.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::state::FileChange;

const FILE: &str = "changes";

/// Appends changes, durably, and returns the place after them. The caller holds the session's lock.
pub fn append(folder: &Path, changes: &[FileChange]) -> io::Result<u64> {
    let mut file =
        OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(folder.join(FILE))?;
    let length = file.seek(SeekFrom::End(0))?;
    if changes.is_empty() {
        return Ok(length);
    }
    // A line that a killed process left unfinished ends here; it is not read.
    let mut lines = if length > 0 { b"\n".to_vec() } else { Vec::new() };
    for change in changes {
        serde_json::to_writer(&mut lines, change)?;
        lines.push(b'\n');
    }
    file.write_all(&lines)?;
    file.sync_all()?;
    Ok(length + lines.len() as u64)
}

/// The changes after a place, each path's taken together, by path. One that led back to the same state is left out.
pub fn read_since(folder: &Path, place: u64) -> io::Result<Vec<FileChange>> {
    let mut file = match std::fs::File::open(folder.join(FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened?,
    };
    file.seek(SeekFrom::Start(place))?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let mut changes: BTreeMap<String, FileChange> = BTreeMap::new();
    for line in text.split(|byte| *byte == b'\n') {
        let Ok(change) = serde_json::from_slice::<FileChange>(line) else { continue };
        match changes.get_mut(&change.path) {
            Some(first) => first.after = change.after,
            None => drop(changes.insert(change.path.clone(), change)),
        }
    }
    Ok(changes.into_values().filter(|change| change.before != change.after).collect())
}
