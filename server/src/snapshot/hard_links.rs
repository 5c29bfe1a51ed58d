//! Finds the other names of files that have several: a call that writes one of them may write all.

use std::collections::BTreeSet;

use rustix::fs::{FileType, Stat};

use super::SnapshotSettings;
use super::beneath::RootFolder;
use super::blobs::StoreError;
use super::scan::{Stamp, Walk};

/// The names that these paths' files have in the folder beside them, sorted. The folder is walked only if a file has
/// several names.
pub fn other_names(
    settings: &SnapshotSettings,
    root: &RootFolder,
    paths: &[String],
) -> Result<Vec<String>, StoreError> {
    let stat = |path: &String| root.place(path).and_then(|place| place.stat()).ok().flatten();
    let shared = paths.iter().filter_map(stat).filter(has_several_names);
    let shared: BTreeSet<u64> = shared.map(|stat| Stamp::of(&stat).inode).collect();
    let mut names = Vec::new();
    if shared.is_empty() {
        return Ok(names);
    }
    let mut walk = Walk { folder: &settings.folder, ignore: &settings.ignore, unreadable: Vec::new() };
    walk.entries(root.fd(), "", 0, &mut |entry| {
        // A file of another file system with the same number is kept without need, and found unchanged.
        if shared.contains(&entry.stamp.inode) && !paths.iter().any(|path| path == entry.path) {
            names.push(entry.path.to_owned());
        }
        Ok(())
    })?;
    names.sort();
    Ok(names)
}

fn has_several_names(stat: &Stat) -> bool {
    Stamp::of(stat).kind() == FileType::RegularFile && stat.st_nlink > 1
}
