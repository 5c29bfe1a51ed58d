//! A disk with a cache that a power cut empties: names last once their folder was synced, bytes once
//! their file was. Of everything else any part may be there, single sectors of a write included.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use super::super::dice::Dice;
use super::Event;

const SECTOR: usize = 512;

#[derive(Clone, Copy, Debug)]
pub enum Fate {
    OnlySynced,
    AnyPart,
    Everything,
}

/// What cuts took away.
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

/// Changes that no sync has covered. Numbered from the first ever, for syncs may overlap.
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
    /// By the folder that they stand in.
    folders: BTreeMap<PathBuf, Names>,
    files: Vec<File>,
    /// What a path means to the process, synced or not.
    live: HashMap<PathBuf, usize>,
    /// Syncs under way, with the end of what each will have written.
    syncs: HashMap<usize, (PathBuf, usize)>,
    /// How often the write-ahead log began anew.
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
        let (path, end) = self.syncs.remove(&number).expect("it was begun");
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

    /// Makes, below `to`, what a cut at this moment leaves.
    pub fn cut(&self, fate: Fate, dice: &mut Dice, to: &Path) -> Loss {
        let mut loss = Loss::default();
        let root = self.folders.keys().next().cloned().unwrap_or_default();
        // Shorter paths come first, so that a folder is made before what is in it.
        for (folder, names) in &self.folders {
            let mut left = names.synced.clone();
            for (path, name) in &names.cache.changes {
                if fate.keeps(dice) {
                    left.insert(path.clone(), *name);
                } else {
                    loss.names += 1;
                }
            }
            let place = |path: &Path| to.join(path.strip_prefix(&root).expect("below the root"));
            if !place(folder).exists() {
                continue;
            }
            for (path, name) in left {
                match name {
                    Name::Folder => std::fs::create_dir(place(&path)).unwrap(),
                    Name::File(file) => {
                        std::fs::write(place(&path), self.files[file].left(fate, dice, &mut loss)).unwrap();
                    }
                    Name::Gone => {}
                }
            }
        }
        loss
    }
}

impl File {
    fn left(&self, fate: Fate, dice: &mut Dice, loss: &mut Loss) -> Vec<u8> {
        let mut bytes = self.synced.clone();
        for change in &self.cache.changes {
            if !fate.keeps(dice) {
                loss.writes += 1;
                continue;
            }
            match fate {
                Fate::AnyPart if dice.once_in(4) => {
                    loss.torn += 1;
                    change.tear(dice, &mut bytes);
                }
                Fate::AnyPart | Fate::Everything | Fate::OnlySynced => change.clone().apply(&mut bytes),
            }
        }
        bytes
    }
}

impl Fate {
    fn keeps(self, dice: &mut Dice) -> bool {
        match self {
            Fate::OnlySynced => false,
            Fate::AnyPart => dice.once_in(2),
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

    /// Only some of the sectors that the write touches.
    fn tear(&self, dice: &mut Dice, file: &mut Vec<u8>) {
        let Change::Write { at, bytes } = self else { return };
        let (mut from, end) = (*at, at + bytes.len());
        while from < end {
            let next = (from / SECTOR + 1) * SECTOR;
            let part = bytes[from - at..next.min(end) - at].to_vec();
            if dice.once_in(2) {
                Change::Write { at: from, bytes: part }.apply(file);
            }
            from = next;
        }
    }
}
