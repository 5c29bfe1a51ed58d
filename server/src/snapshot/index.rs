//! The index of a session's folder: what every path held when it was looked at last. A refresh reads again only what may
//! have changed since, and notes each change, so that what a call did is the list of changes between two places in it.

use std::collections::{BTreeSet, HashMap};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, FlockOperation, flock};

use super::SnapshotSettings;
use super::beneath::RootFolder;
use super::blobs::{SessionStore, StoreError};
use super::changes;
use super::hard_links::other_names;
use super::scan::{ContentUse, FoundEntry, Stamp, Walk, read_state};
use super::state::{FileChange, FileState};

mod encoding;

/// A file whose time of change is no older than its reading by this much may have been written since without a trace:
/// file systems count time in ticks.
const TICK_NS: i64 = 50_000_000;

/// How far a refresh may go.
#[derive(Clone, Copy, Debug)]
pub struct RefreshLimits {
    /// When the first snapshot stops to read contents; the next refresh goes on with it.
    pub first_until: Option<Instant>,
}

/// How a refresh ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refresh {
    /// Every path is kept. False: the first snapshot has run into a limit.
    pub is_complete: bool,
    /// The place in the list of changes after this refresh.
    pub place: u64,
}

/// What changed in a folder, with the changes of one path taken together.
pub type FolderChanges = Vec<FileChange>;

/// One path as it was when it was read last.
#[derive(Clone, Debug, PartialEq, Eq)]
struct IndexEntry {
    stamp: Stamp,
    read_at_ns: i64,
    state: FileState,
}

/// The index as it is stored.
#[derive(Debug, Default)]
struct Index {
    folder: PathBuf,
    /// The first snapshot has seen every path.
    is_complete: bool,
    kept_bytes: u64,
    entries: HashMap<String, IndexEntry>,
}

/// A refresh that is going on.
struct Refreshing<'a> {
    store: &'a mut SessionStore,
    settings: &'a SnapshotSettings,
    limits: RefreshLimits,
    now_ns: i64,
    old: HashMap<String, IndexEntry>,
    new: Index,
    was_complete: bool,
    has_changed: bool,
    hit_limit: bool,
    changes: Vec<FileChange>,
}

impl IndexEntry {
    /// Whether the path may hold something else than what was read, although its stamp is the same.
    fn may_have_changed_unseen(&self) -> bool {
        let newest = self.stamp.modified_ns.max(self.stamp.changed_ns);
        self.stamp.kind() == FileType::RegularFile && newest >= self.read_at_ns.saturating_sub(TICK_NS)
    }
}

impl SessionStore {
    /// Brings the index up to date with the folder: keeps new contents, makes them durable, and notes the changes.
    /// Refreshes of several processes follow one another.
    pub fn refresh(
        &mut self,
        settings: &SnapshotSettings,
        limits: RefreshLimits,
    ) -> Result<Refresh, StoreError> {
        let mut options = OpenOptions::new();
        let lock =
            options.write(true).create(true).truncate(true).mode(0o600).open(self.folder.join("lock"))?;
        flock(&lock, FlockOperation::LockExclusive).map_err(io::Error::from)?;
        let index_file = self.folder.join("index");
        let known = encoding::read(&index_file).filter(|index| index.folder == settings.folder);
        let is_new = known.is_none();
        let Index { is_complete, kept_bytes, entries, .. } = known.unwrap_or_default();
        let root = RootFolder::open(&settings.folder)?;
        let new = Index {
            folder: settings.folder.clone(),
            is_complete: false,
            kept_bytes,
            entries: HashMap::with_capacity(entries.len()),
        };
        let mut refreshing = Refreshing {
            store: self,
            settings,
            limits,
            now_ns: now_ns(),
            old: entries,
            new,
            was_complete: is_complete,
            has_changed: is_new,
            hit_limit: false,
            changes: Vec::new(),
        };
        let mut walk = Walk { folder: &settings.folder, ignore: &settings.ignore, unreadable: Vec::new() };
        walk.entries(root.fd(), "", 0, &mut |entry| refreshing.visit(entry))?;
        let unreadable = walk.unreadable;
        refreshing.finish(&unreadable, &index_file)
    }

    /// What has changed since this place in the list of changes.
    pub fn changes_since(&self, place: u64) -> Result<FolderChanges, StoreError> {
        Ok(changes::read_since(&self.folder, place)?)
    }
}

impl Refreshing<'_> {
    fn visit(&mut self, entry: FoundEntry<'_>) -> Result<(), StoreError> {
        let old = self.old.remove(entry.path);
        if let Some(known) = &old
            && known.stamp == entry.stamp
            && !known.may_have_changed_unseen()
        {
            let known = old.expect("it was just looked at");
            self.new.entries.insert(entry.path.to_owned(), known);
            return Ok(());
        }
        if !self.was_complete && old.is_none() && self.is_over_limit(entry.stamp) {
            self.hit_limit = true;
            return Ok(());
        }
        let state = self.read(&entry)?;
        self.has_changed = true;
        let was = old.map(|old| old.state);
        if was.as_ref() != Some(&state) && (self.was_complete || was.is_some()) {
            let (before, after) = (was, Some(state.clone()));
            self.changes.push(FileChange { path: entry.path.to_owned(), before, after });
        }
        let known = IndexEntry { stamp: entry.stamp, read_at_ns: self.now_ns, state };
        self.new.entries.insert(entry.path.to_owned(), known);
        Ok(())
    }

    /// Whether the first snapshot must not read this file now.
    fn is_over_limit(&self, stamp: Stamp) -> bool {
        let is_file = stamp.kind() == FileType::RegularFile && stamp.size <= self.settings.file_bytes_max;
        let is_late = self.limits.first_until.is_some_and(|until| Instant::now() >= until);
        is_file && (is_late || self.is_full(stamp.size))
    }

    fn is_full(&self, size: u64) -> bool {
        self.new.kept_bytes.saturating_add(size) > self.settings.total_bytes_max
    }

    fn read(&mut self, entry: &FoundEntry<'_>) -> Result<FileState, StoreError> {
        let bytes_max = if self.is_full(entry.stamp.size) { 0 } else { self.settings.file_bytes_max };
        let content = ContentUse::Keep { store: self.store, bytes_max };
        let state = read_state(entry.parent, entry.name, entry.stamp, content)?;
        if let FileState::File { size, blob: Some(_), .. } = &state {
            self.new.kept_bytes = self.new.kept_bytes.saturating_add(*size);
        }
        Ok(state)
    }

    /// Notes what is gone, and writes contents, changes and index, in this order: what the index knows is kept.
    fn finish(mut self, unreadable: &[String], index_file: &Path) -> Result<Refresh, StoreError> {
        let is_hidden = |path: &str| {
            unreadable
                .iter()
                .any(|folder| path.strip_prefix(folder.as_str()).is_some_and(|rest| rest.starts_with('/')))
        };
        for (path, entry) in std::mem::take(&mut self.old) {
            if is_hidden(&path) {
                self.new.entries.insert(path, entry);
                continue;
            }
            self.has_changed = true;
            self.changes.push(FileChange { path, before: Some(entry.state), after: None });
        }
        self.new.is_complete = self.was_complete || !self.hit_limit;
        self.has_changed |= self.new.is_complete != self.was_complete;
        self.store.sync()?;
        let place = changes::append(&self.store.folder, &self.changes)?;
        if self.has_changed {
            encoding::write(index_file, &self.new)?;
        }
        Ok(Refresh { is_complete: self.new.is_complete, place })
    }
}

/// The names of the contents that a stored index names.
pub(super) fn indexed_contents(index_file: &Path) -> BTreeSet<String> {
    let entries = encoding::read(index_file).unwrap_or_default().entries.into_values();
    let blob = |entry: IndexEntry| match entry.state {
        FileState::File { blob, .. } => blob,
        FileState::Link { .. } | FileState::Folder { .. } | FileState::Other => None,
    };
    entries.filter_map(blob).collect()
}

/// The time now, in nanoseconds since 1970, as file systems give it.
fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Reads a path's state as a snapshot would. Keeps its content.
pub(super) fn keep_path(
    store: &mut SessionStore,
    settings: &SnapshotSettings,
    root: &RootFolder,
    path: &str,
) -> Result<Option<FileState>, StoreError> {
    let place = match root.place(path) {
        Ok(place) => place,
        // The folder is not there yet, or lies behind a link, where nothing is read.
        Err(_) => return Ok(None),
    };
    let Some(stat) = place.stat()? else { return Ok(None) };
    let content = ContentUse::Keep { store, bytes_max: settings.file_bytes_max };
    read_state(place.parent.as_fd(), &place.name, Stamp::of(&stat), content).map(Some)
}

impl SessionStore {
    /// Keeps the states of single paths, made durable. Folders that are missing on the way to a path are listed too,
    /// because a call that writes the path makes them, and the other names of its file, because it may write those.
    pub fn keep_paths(
        &mut self,
        settings: &SnapshotSettings,
        paths: &[String],
    ) -> Result<Vec<(String, Option<FileState>)>, StoreError> {
        let root = RootFolder::open(&settings.folder)?;
        let mut kept: Vec<(String, Option<FileState>)> = Vec::new();
        for path in paths {
            let parents = path.match_indices('/').map(|(at, _)| path[..at].to_owned());
            for part in parents.collect::<Vec<_>>() {
                let is_listed = kept.iter().any(|(known, _)| *known == part);
                let is_missing = match root.place(&part) {
                    Ok(place) => matches!(place.stat(), Ok(None)),
                    // The folder above it is missing too.
                    Err(error) => error.kind() == io::ErrorKind::NotFound,
                };
                if !is_listed && is_missing {
                    kept.push((part, None));
                }
            }
            let state = keep_path(self, settings, &root, path)?;
            kept.push((path.clone(), state));
        }
        for path in other_names(settings, &root, paths)? {
            let state = keep_path(self, settings, &root, &path)?;
            kept.push((path, state));
        }
        self.sync()?;
        Ok(kept)
    }

    /// Keeps the states of exactly these paths, made durable.
    pub fn keep_again(
        &mut self,
        settings: &SnapshotSettings,
        paths: &[String],
    ) -> Result<Vec<(String, Option<FileState>)>, StoreError> {
        let root = RootFolder::open(&settings.folder)?;
        let mut kept = Vec::with_capacity(paths.len());
        for path in paths {
            kept.push((path.clone(), keep_path(self, settings, &root, path)?));
        }
        self.sync()?;
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(folder: &Path) -> SnapshotSettings {
        SnapshotSettings {
            folder: folder.to_owned(),
            file_bytes_max: 1000,
            total_bytes_max: 10_000,
            budget: std::time::Duration::from_secs(2),
            ignore: super::super::IgnoreRules::default(),
        }
    }

    #[test]
    fn kept_paths_are_synced_when_they_are_returned() {
        let scratch = tempfile::tempdir().expect("a folder");
        let folder = scratch.path();
        std::fs::create_dir_all(folder.join("project")).expect("a folder");
        std::fs::write(folder.join("project/a.txt"), "one").expect("a file");
        let project = folder.join("project").canonicalize().expect("it is there");
        let mut store = SessionStore::create(folder, "one").expect("a store");
        let kept = store.keep_paths(&settings(&project), &["a.txt".to_owned()]).expect("kept");
        assert!(matches!(&kept[..], [(_, Some(FileState::File { blob: Some(_), .. }))]), "{kept:?}");
        assert!(store.is_synced());
    }

    #[test]
    fn all_missing_folders_on_the_way_are_listed() {
        let scratch = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(scratch.path().join("project")).expect("a folder");
        let project = scratch.path().join("project").canonicalize().expect("it is there");
        let mut store = SessionStore::create(scratch.path(), "one").expect("a store");
        let kept = store.keep_paths(&settings(&project), &["d/e/f.txt".to_owned()]).expect("kept");
        let paths: Vec<&str> = kept.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["d", "d/e", "d/e/f.txt"]);
    }

    #[test]
    fn other_names_of_a_written_file_are_listed() {
        let scratch = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(scratch.path().join("project/d")).expect("a folder");
        let project = scratch.path().join("project").canonicalize().expect("it is there");
        std::fs::write(project.join("a.txt"), "one").expect("a file");
        std::fs::write(project.join("b.txt"), "one").expect("a file");
        std::fs::hard_link(project.join("a.txt"), project.join("d/c.txt")).expect("a link");
        let mut store = SessionStore::create(scratch.path(), "one").expect("a store");
        let kept = store.keep_paths(&settings(&project), &["a.txt".to_owned()]).expect("kept");
        let paths: Vec<&str> = kept.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["a.txt", "d/c.txt"]);
    }

    #[test]
    fn refresh_reads_again_only_what_may_have_changed_and_notes_it_once() {
        let scratch = tempfile::tempdir().expect("a folder");
        let folder = scratch.path();
        std::fs::create_dir_all(folder.join("project/d")).expect("a folder");
        let project = folder.join("project").canonicalize().expect("it is there");
        for name in ["a.txt", "d/b.txt"] {
            std::fs::write(project.join(name), name).expect("a file");
        }
        let (settings, limits) = (settings(&project), RefreshLimits { first_until: None });
        let mut store = SessionStore::create(folder, "one").expect("a store");
        let first = store.refresh(&settings, limits).expect("refreshed");
        assert_eq!(first, Refresh { is_complete: true, place: 0 });
        assert_eq!(store.refresh(&settings, limits).expect("refreshed"), first);
        // The same length, at once: only the time of change, or a second look, can tell.
        std::fs::write(project.join("a.txt"), "A.txt").expect("a file");
        std::fs::remove_file(project.join("d/b.txt")).expect("removed");
        store.refresh(&settings, limits).expect("refreshed");
        let changes = store.changes_since(first.place).expect("read");
        let paths: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
        assert_eq!(paths, ["a.txt", "d/b.txt"]);
        assert!(changes[1].after.is_none() && store.is_synced());
        std::fs::write(project.join("a.txt"), "a.txt").expect("a file");
        store.refresh(&settings, limits).expect("refreshed");
        let changes = store.changes_since(first.place).expect("read");
        assert_eq!(changes.len(), 1, "a path that is as before has not changed: {changes:?}");
    }
}
