//! A disk with a write cache that a power cut loses: names are durable once their folder is synced, bytes
//! once their file is. Of everything else any part may survive, down to single sectors of a write.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use super::super::dice::Dice;
use super::Event;

const SECTOR: usize = 512;

/// How much of the unsynced data survives a cut.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
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

    fn take_through(&mut self, end: usize) -> Vec<T> {
        let count = end.saturating_sub(self.first);
        self.first += count;
        self.changes.drain(..count).collect()
    }
}

#[derive(Clone, Copy)]
enum Name {
    Folder,
    File(usize),
    Gone,
}

#[derive(Default)]
struct Names {
    synced: BTreeMap<PathBuf, Name>,
    cache: Cache<(PathBuf, Name)>,
}

#[derive(Default)]
pub struct Disk {
    /// Directory entries by folder.
    folders: BTreeMap<PathBuf, Names>,
    files: Vec<File>,
    /// The file number of each path as the process sees it, synced or not.
    live: HashMap<PathBuf, usize>,
    /// Syncs in progress by number, with the end of the changes that each covers.
    syncs: HashMap<usize, (PathBuf, usize)>,
    /// How often the write-ahead log restarted.
    pub checkpoints: usize,
}

impl Disk {
    pub fn take_in(&mut self, event: &Event) {
        match event {
            Event::Folder(path) => self.name(path, Name::Folder),
            Event::File(path) if self.live.contains_key(path) => {}
            Event::File(path) => {
                self.files.push(File::default());
                self.live.insert(path.clone(), self.files.len() - 1);
                self.name(path, Name::File(self.files.len() - 1));
            }
            Event::Removed(path) => {
                self.live.remove(path);
                self.name(path, Name::Gone);
            }
            Event::Write { file, at, bytes } => {
                self.checkpoints += usize::from(*at == 0 && file.to_string_lossy().ends_with("-wal"));
                self.file(file).cache.changes.push(Change::Write { at: *at, bytes: bytes.clone() });
            }
            Event::Length { file, bytes } => self.file(file).cache.changes.push(Change::Length(*bytes)),
            Event::SyncBegun(number, path) => {
                let end = match self.live.get(path) {
                    Some(file) => self.files[*file].cache.end(),
                    None => self.folders.entry(path.clone()).or_default().cache.end(),
                };
                self.syncs.insert(*number, (path.clone(), end));
            }
            Event::SyncEnded(number) => self.synced(*number),
            Event::Said(_) => {}
        }
    }

    fn name(&mut self, path: &Path, name: Name) {
        let folder = path.parent().expect("below the root").to_owned();
        self.folders.entry(folder).or_default().cache.changes.push((path.to_owned(), name));
    }

    fn file(&mut self, path: &Path) -> &mut File {
        let number = self.live.get(path).unwrap_or_else(|| panic!("{} was never opened", path.display()));
        &mut self.files[*number]
    }

    fn synced(&mut self, number: usize) {
        let (path, end) = self.syncs.remove(&number).expect("the sync was begun");
        match self.live.get(&path) {
            Some(file) => {
                let File { synced, cache } = &mut self.files[*file];
                cache.take_through(end).into_iter().for_each(|change| change.apply(synced));
            }
            None => {
                let Names { synced, cache } = self.folders.entry(path).or_default();
                synced.extend(cache.take_through(end));
            }
        }
    }

    /// Writes below `to` what a cut at this point leaves, and returns what was lost.
    pub fn cut(&self, retention: Fate, rng: &mut Dice, to: &Path) -> Loss {
        let mut loss = Loss::default();
        let root = self.folders.keys().next().cloned().unwrap_or_default();
        // Shorter paths come first, so that a folder is created before its files.
        for (folder, names) in &self.folders {
            let mut left = names.synced.clone();
            for (path, name) in &names.cache.changes {
                if retention.keeps(rng) {
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
                    Name::Folder => std::fs::create_dir(target(&path)).unwrap(),
                    Name::File(file) => {
                        std::fs::write(target(&path), self.files[file].left(retention, rng, &mut loss))
                            .unwrap();
                    }
                    Name::Gone => {}
                }
            }
        }
        loss
    }
}

impl File {
    fn left(&self, retention: Fate, rng: &mut Dice, loss: &mut Loss) -> Vec<u8> {
        let mut bytes = self.synced.clone();
        for change in &self.cache.changes {
            if !retention.keeps(rng) {
                loss.writes += 1;
                continue;
            }
            match retention {
                Fate::AnyPart if rng.once_in(4) => {
                    loss.torn += 1;
                    change.tear(rng, &mut bytes);
                }
                Fate::AnyPart | Fate::Everything | Fate::OnlySynced => change.clone().apply(&mut bytes),
            }
        }
        bytes
    }
}

impl Fate {
    fn keeps(self, rng: &mut Dice) -> bool {
        match self {
            Fate::OnlySynced => false,
            Fate::AnyPart => rng.once_in(2),
            Fate::Everything => true,
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
    fn tear(&self, rng: &mut Dice, file: &mut Vec<u8>) {
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
