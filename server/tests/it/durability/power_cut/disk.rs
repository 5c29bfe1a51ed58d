//! A disk with a write cache that a power cut loses: names are durable once their folder is synced, bytes
//! once their file is. Of everything else any part may survive, down to single sectors of a write.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use super::super::rng::SeededRng;
use super::TraceEvent;

const SECTOR: usize = 512;

/// How much of the unsynced data survives a cut.
#[derive(Clone, Copy, Debug)]
pub enum Retention {
    OnlySynced,
    AnyPart,
    Everything,
}

/// Counts of unsynced changes that cuts lost or tore.
#[derive(Debug, Default)]
pub struct Loss {
    pub writes: usize,
    pub torn: usize,
    pub names: usize,
}

impl std::ops::AddAssign for Loss {
    fn add_assign(&mut self, other: Self) {
        self.writes += other.writes;
        self.torn += other.torn;
        self.names += other.names;
    }
}

#[derive(Clone)]
enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Length(usize),
}

#[derive(Default)]
struct File {
    synced: Vec<u8>,
    cache: Cache<Change>,
}

/// Unsynced changes, numbered from the first ever, because syncs may overlap.
struct Cache<T> {
    first: usize,
    changes: Vec<T>,
}

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self { first: 0, changes: Vec::new() }
    }
}

impl<T> Cache<T> {
    fn end(&self) -> usize {
        self.first + self.changes.len()
    }

    fn drain_through(&mut self, end: usize) -> Vec<T> {
        let count = end.saturating_sub(self.first);
        self.first += count;
        self.changes.drain(..count).collect()
    }
}

#[derive(Clone, Copy)]
enum DirEntry {
    Folder,
    File(usize),
    Removed,
}

#[derive(Default)]
struct DirEntries {
    synced: BTreeMap<PathBuf, DirEntry>,
    cache: Cache<(PathBuf, DirEntry)>,
}

#[derive(Default)]
pub struct CachedDisk {
    /// Directory entries by folder.
    folders: BTreeMap<PathBuf, DirEntries>,
    files: Vec<File>,
    /// The file number of each path as the process sees it, synced or not.
    live: HashMap<PathBuf, usize>,
    /// Syncs in progress by number, with the end of the changes that each covers.
    syncs: HashMap<usize, (PathBuf, usize)>,
    /// How often the write-ahead log restarted.
    pub checkpoints: usize,
}

impl CachedDisk {
    pub fn apply_event(&mut self, event: &TraceEvent) {
        match event {
            TraceEvent::CreateFolder(path) => self.record_name(path, DirEntry::Folder),
            TraceEvent::CreateFile(path) if self.live.contains_key(path) => {}
            TraceEvent::CreateFile(path) => {
                self.files.push(File::default());
                self.live.insert(path.clone(), self.files.len() - 1);
                self.record_name(path, DirEntry::File(self.files.len() - 1));
            }
            TraceEvent::Removed(path) => {
                self.live.remove(path);
                self.record_name(path, DirEntry::Removed);
            }
            TraceEvent::Write { file, at, bytes } => {
                self.checkpoints += usize::from(*at == 0 && file.to_string_lossy().ends_with("-wal"));
                self.file(file).cache.changes.push(Change::Write { at: *at, bytes: bytes.clone() });
            }
            TraceEvent::Resize { file, bytes } => self.file(file).cache.changes.push(Change::Length(*bytes)),
            TraceEvent::SyncBegun(number, path) => {
                let end = match self.live.get(path) {
                    Some(file) => self.files[*file].cache.end(),
                    None => self.folders.entry(path.clone()).or_default().cache.end(),
                };
                self.syncs.insert(*number, (path.clone(), end));
            }
            TraceEvent::SyncEnded(number) => self.finish_sync(*number),
            TraceEvent::Emitted(_) => {}
        }
    }

    fn record_name(&mut self, path: &Path, name: DirEntry) {
        let folder = path.parent().expect("below the root").to_owned();
        self.folders.entry(folder).or_default().cache.changes.push((path.to_owned(), name));
    }

    fn file(&mut self, path: &Path) -> &mut File {
        let number = self.live.get(path).unwrap_or_else(|| panic!("{} was never opened", path.display()));
        &mut self.files[*number]
    }

    fn finish_sync(&mut self, number: usize) {
        let (path, end) = self.syncs.remove(&number).expect("the sync was begun");
        match self.live.get(&path) {
            Some(file) => {
                let File { synced, cache } = &mut self.files[*file];
                cache.drain_through(end).into_iter().for_each(|change| change.apply(synced));
            }
            None => {
                let DirEntries { synced, cache } = self.folders.entry(path).or_default();
                synced.extend(cache.drain_through(end));
            }
        }
    }

    /// Writes below `to` what a cut at this point leaves, and returns what was lost.
    pub fn write_after_cut(&self, retention: Retention, rng: &mut SeededRng, to: &Path) -> Loss {
        let mut loss = Loss::default();
        let root = self.folders.keys().next().cloned().unwrap_or_default();
        // Shorter paths come first, so that a folder is created before its files.
        for (folder, names) in &self.folders {
            let mut left = names.synced.clone();
            for (path, name) in &names.cache.changes {
                if retention.keeps_change(rng) {
                    left.insert(path.clone(), *name);
                } else {
                    loss.names += 1;
                }
            }
            let target = |path: &Path| to.join(path.strip_prefix(&root).expect("below the root"));
            if !target(folder).exists() {
                continue;
            }
            for (path, name) in left {
                match name {
                    DirEntry::Folder => std::fs::create_dir(target(&path)).unwrap(),
                    DirEntry::File(file) => {
                        std::fs::write(
                            target(&path),
                            self.files[file].bytes_after_cut(retention, rng, &mut loss),
                        )
                        .unwrap();
                    }
                    DirEntry::Removed => {}
                }
            }
        }
        loss
    }
}

impl File {
    fn bytes_after_cut(&self, retention: Retention, rng: &mut SeededRng, loss: &mut Loss) -> Vec<u8> {
        let mut bytes = self.synced.clone();
        for change in &self.cache.changes {
            if !retention.keeps_change(rng) {
                loss.writes += 1;
                continue;
            }
            match retention {
                Retention::AnyPart if rng.once_in(4) => {
                    loss.torn += 1;
                    change.tear(rng, &mut bytes);
                }
                Retention::AnyPart | Retention::Everything | Retention::OnlySynced => {
                    change.clone().apply(&mut bytes)
                }
            }
        }
        bytes
    }
}

impl Retention {
    fn keeps_change(self, rng: &mut SeededRng) -> bool {
        match self {
            Retention::OnlySynced => false,
            Retention::AnyPart => rng.once_in(2),
            Retention::Everything => true,
        }
    }
}

impl Change {
    fn apply(self, file: &mut Vec<u8>) {
        match self {
            Change::Length(bytes) => file.resize(bytes, 0),
            Change::Write { at, bytes } => {
                file.resize(file.len().max(at + bytes.len()), 0);
                file[at..at + bytes.len()].copy_from_slice(&bytes);
            }
        }
    }

    /// Applies only some of the sectors of a write.
    fn tear(&self, rng: &mut SeededRng, file: &mut Vec<u8>) {
        let Change::Write { at, bytes } = self else { return };
        let (mut from, end) = (*at, at + bytes.len());
        while from < end {
            let next = (from / SECTOR + 1) * SECTOR;
            let part = bytes[from - at..next.min(end) - at].to_vec();
            if rng.once_in(2) {
                Change::Write { at: from, bytes: part }.apply(file);
            }
            from = next;
        }
    }
}
