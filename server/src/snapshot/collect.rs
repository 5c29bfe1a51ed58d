//! Removes what no session needs any more.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::blobs::SessionStore;
use super::index::indexed_contents;

/// How long a content that nothing refers to stays: a call that has just begun may refer to it soon. A store is looked
/// through as often.
const UNREFERENCED_STAYS: Duration = Duration::from_secs(24 * 60 * 60);
/// Most stores that are looked through at once.
const STORES_MAX: usize = 20;

/// Removes the stores of sessions in which nothing was kept for `keep`, and returns the sessions of those whose contents
/// are due to be looked through.
pub fn expire(data_folder: &Path, keep: Duration) -> io::Result<Vec<String>> {
    let stores = match std::fs::read_dir(SessionStore::all(data_folder)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        stores => stores?,
    };
    let mut due = Vec::new();
    for store in stores {
        let store = store?;
        let path = store.path();
        if !path.join("blobs").is_dir() {
            continue;
        }
        if ["lock", "changes", "blobs"].iter().all(|name| is_older(&path.join(name), keep)) {
            std::fs::remove_dir_all(path)?;
        } else if due.len() < STORES_MAX && is_older(&path.join("collected"), UNREFERENCED_STAYS) {
            due.extend(store.file_name().to_str().map(str::to_owned));
        }
    }
    Ok(due)
}

/// Removes the contents of a session that are older than a day and that `named` does not list: what the journal names.
/// While the session takes calls, what its index names stays too.
pub fn collect_contents(
    data_folder: &Path,
    session: &str,
    named: &BTreeSet<String>,
    takes_calls: bool,
) -> io::Result<usize> {
    let store = SessionStore::all(data_folder).join(session);
    let indexed = if takes_calls { indexed_contents(&store.join("index")) } else { BTreeSet::new() };
    let mut removed = 0;
    for content in std::fs::read_dir(store.join("blobs"))? {
        let content = content?;
        let name = content.file_name();
        let is_named = name.to_str().is_none_or(|name| named.contains(name) || indexed.contains(name));
        if !is_named && is_older(&content.path(), UNREFERENCED_STAYS) {
            std::fs::remove_file(content.path())?;
            removed += 1;
        }
    }
    File::create(store.join("collected"))?;
    Ok(removed)
}

/// Whether the file was changed longer ago; one that is missing was.
fn is_older(path: &Path, age: Duration) -> bool {
    let Ok(metadata) = path.metadata() else { return true };
    let changed = metadata.modified().unwrap_or_else(|_| SystemTime::now());
    SystemTime::now().duration_since(changed).is_ok_and(|passed| passed > age)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_contents_that_nothing_names_are_removed_and_old_stores_expire() {
        let scratch = tempfile::tempdir().expect("a folder");
        let data = scratch.path();
        let mut store = SessionStore::create(data, "one").expect("a store");
        let mut keep = |text: &str| {
            let file = data.join("source");
            std::fs::write(&file, text).expect("a file");
            store.keep(&File::open(&file).expect("a file")).expect("kept").expect("unchanged").0
        };
        let (named, unnamed, fresh) = (keep("named"), keep("unnamed"), keep("fresh"));
        let blobs = data.join("snapshots/one/blobs");
        let age = |path: &Path, hours: u64| {
            let past = SystemTime::now() - Duration::from_secs(hours * 3600);
            File::open(path).and_then(|file| file.set_modified(past)).expect("its time is set");
        };
        age(&blobs.join(&named), 25);
        age(&blobs.join(&unnamed), 25);
        let month = Duration::from_secs(30 * 24 * 3600);
        assert_eq!(expire(data, month).expect("expired"), ["one"]);
        let removed = collect_contents(data, "one", &BTreeSet::from([named.clone()]), false);
        assert_eq!(removed.expect("collected"), 1);
        assert!(blobs.join(&named).exists() && blobs.join(&fresh).exists() && !blobs.join(&unnamed).exists());
        assert!(expire(data, month).expect("expired").is_empty(), "once a day");
        age(&blobs, 31 * 24);
        expire(data, month).expect("expired");
        assert!(!blobs.exists());
    }
}
