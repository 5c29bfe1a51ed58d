//! Restores paths to kept states. A path that holds neither its goal nor what the session left there is not touched: a
//! person may have written it. Everything can be repeated: a restore that was killed goes on where it stopped.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fchmod, mkdirat, openat, renameat, symlinkat, unlinkat};
use serde::{Deserialize, Serialize};

use super::beneath::{self, Place, RootFolder};
use super::blobs::{SessionStore, StoreError, clone_blocks};
use super::scan::{ContentUse, Stamp, read_state};
use super::state::FileState;
use super::{NAME_BYTES_MAX, TEMPORARY_PREFIX};

/// Lets the owner enter and change a folder while it is restored.
const OWNER_ALL: u32 = 0o700;

/// What one path is to hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreGoal {
    pub path: String,
    pub to: Option<FileState>,
    /// The states that may be replaced: what the session left there, and what a person agreed to give up.
    pub from: Vec<Option<FileState>>,
}

/// What a restore did, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// Paths that hold their goal now.
    pub restored: Vec<String>,
    /// Paths that the session had made: they lie in the trash folder.
    pub trashed: Vec<String>,
    /// Paths whose former content was not kept: left as they are.
    pub not_kept: Vec<String>,
    /// Paths that were changed since, with what they hold: left as they are.
    pub changed: BTreeMap<String, Option<FileState>>,
}

/// What is to become of one path.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    AtGoal,
    Replace,
    NotKept,
    Changed(Option<FileState>),
}

/// A path that is to be replaced, as it was when it was looked at.
#[derive(Debug)]
struct Replacement<'a> {
    goal: &'a RestoreGoal,
    stamp: Option<Stamp>,
}

/// What a restore works with.
struct Restore<'a> {
    root: RootFolder,
    store: &'a SessionStore,
    trash: PathBuf,
    result: Restored,
}

/// Says what a restore would do, and changes nothing.
pub fn check(store: &SessionStore, folder: &Path, goals: &[RestoreGoal]) -> Result<Restored, StoreError> {
    let root = RootFolder::open(folder)?;
    let mut result = Restored::default();
    for goal in goals {
        let (verdict, _) = judge(store, &root, goal)?;
        match (verdict, &goal.to) {
            (Verdict::AtGoal, _) => {}
            (Verdict::Replace, None) => result.trashed.push(goal.path.clone()),
            (Verdict::Replace, Some(_)) => result.restored.push(goal.path.clone()),
            (Verdict::NotKept, _) => result.not_kept.push(goal.path.clone()),
            (Verdict::Changed(now), _) => drop(result.changed.insert(goal.path.clone(), now)),
        }
    }
    Ok(result)
}

/// Restores the paths. `label` names the part of the trash folder that removed files go to.
pub fn restore(
    store: &SessionStore,
    folder: &Path,
    goals: &[RestoreGoal],
    label: &str,
) -> Result<Restored, StoreError> {
    let trash = store.folder.join("trash").join(label);
    let root = RootFolder::open(folder)?;
    let mut restore = Restore { root, store, trash, result: Restored::default() };
    let mut goals: Vec<&RestoreGoal> = goals.iter().collect();
    goals.sort_by(|one, other| one.path.cmp(&other.path));
    restore.remove_leftovers(&goals);
    let replacements = restore.choose(&goals)?;
    let removed = restore.remove(&replacements)?;
    let written = restore.write(&replacements, &removed)?;
    restore.set_folder_modes(&written)?;
    Ok(restore.result)
}

/// What is to become of a path, and its stamp as it is now.
fn judge(
    store: &SessionStore,
    root: &RootFolder,
    goal: &RestoreGoal,
) -> Result<(Verdict, Option<Stamp>), StoreError> {
    let place = match root.place(&goal.path) {
        Ok(place) => Some(place),
        // Without its folder the path is absent. Behind a link, or a file, it is somebody else's.
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Err(error.into()),
        Err(_) if goal.to.is_none() => return Ok((Verdict::AtGoal, None)),
        Err(_) => None,
    };
    let found = place.as_ref().map(Place::stat).transpose()?.flatten();
    let stamp = found.as_ref().map(Stamp::of);
    let holds = |expected: &Option<FileState>| holds(store, place.as_ref(), stamp, expected.as_ref());
    if holds(&goal.to)? {
        return Ok((Verdict::AtGoal, stamp));
    }
    for from in &goal.from {
        if holds(from)? {
            let is_kept = goal.to.as_ref().is_none_or(FileState::is_kept);
            return Ok((if is_kept { Verdict::Replace } else { Verdict::NotKept }, stamp));
        }
    }
    Ok((Verdict::Changed(state_of(store, place.as_ref(), stamp)?), stamp))
}

/// Whether the path holds this state. Contents are read only where all else is equal.
fn holds(
    store: &SessionStore,
    place: Option<&Place>,
    stamp: Option<Stamp>,
    expected: Option<&FileState>,
) -> Result<bool, StoreError> {
    let (Some(expected), Some(stamp), Some(place)) = (expected, stamp, place) else {
        return Ok(expected.is_none() && stamp.is_none());
    };
    if let FileState::File { mode, size, blob, changed_ns, .. } = expected {
        let is_like =
            stamp.kind() == FileType::RegularFile && stamp.permissions() == *mode && stamp.size == *size;
        if !is_like || blob.is_none() {
            return Ok(is_like && *changed_ns == Some(stamp.modified_ns));
        }
    }
    let now = read_state(place.parent.as_fd(), &place.name, stamp, ContentUse::Hash(store))?;
    Ok(now == *expected)
}

fn state_of(
    store: &SessionStore,
    place: Option<&Place>,
    stamp: Option<Stamp>,
) -> Result<Option<FileState>, StoreError> {
    let (Some(place), Some(stamp)) = (place, stamp) else { return Ok(None) };
    read_state(place.parent.as_fd(), &place.name, stamp, ContentUse::Hash(store)).map(Some)
}

impl Restore<'_> {
    /// Removes the temporary files of a restore that was killed.
    fn remove_leftovers(&self, goals: &[&RestoreGoal]) {
        for goal in goals {
            if let Ok(place) = self.root.place(&goal.path) {
                match unlinkat(&place.parent, temporary_name(&place), AtFlags::empty()) {
                    // Usually there is none.
                    Ok(()) | Err(_) => {}
                }
            }
        }
    }

    /// Sorts the paths by what is to become of them; returns those to replace, in the order of their paths.
    fn choose<'g>(&mut self, goals: &[&'g RestoreGoal]) -> Result<Vec<Replacement<'g>>, StoreError> {
        let mut replacements = Vec::new();
        for goal in goals {
            let (verdict, stamp) = judge(self.store, &self.root, goal)?;
            match verdict {
                Verdict::AtGoal => {}
                Verdict::Replace => {
                    if stamp.is_some_and(|stamp| stamp.kind() == FileType::Directory) {
                        self.open_up(&goal.path)?;
                    }
                    replacements.push(Replacement { goal, stamp });
                }
                Verdict::NotKept => self.result.not_kept.push(goal.path.clone()),
                Verdict::Changed(now) => drop(self.result.changed.insert(goal.path.clone(), now)),
            }
        }
        Ok(replacements)
    }

    /// Lets the owner into a folder whose mode is restored, or that is removed.
    fn open_up(&self, path: &str) -> Result<(), StoreError> {
        let place = self.root.place(path)?;
        let folder = beneath::open_folder(place.parent.as_fd(), &place.name)?;
        let mode = rustix::fs::fstat(&folder).map_err(io::Error::from)?.st_mode & 0o7777;
        fchmod(&folder, Mode::from_raw_mode(mode | OWNER_ALL)).map_err(io::Error::from)?;
        Ok(())
    }

    /// Removes what is not to be there, or not as what it is: the deepest first. Returns the paths that are free.
    fn remove(&mut self, replacements: &[Replacement<'_>]) -> Result<Vec<String>, StoreError> {
        let mut removed = Vec::new();
        for Replacement { goal, stamp } in replacements.iter().rev() {
            let Some(stamp) = stamp else { continue };
            let is_folder = stamp.kind() == FileType::Directory;
            let becomes_folder = goal.to.as_ref().is_some_and(FileState::is_folder);
            if goal.to.is_some() && is_folder == becomes_folder {
                continue;
            }
            if self.remove_one(goal, *stamp)? {
                removed.push(goal.path.clone());
            }
        }
        Ok(removed)
    }

    /// Removes one path. False: it is left, because it was changed meanwhile or holds others' files.
    fn remove_one(&mut self, goal: &RestoreGoal, stamp: Stamp) -> Result<bool, StoreError> {
        let place = self.root.place(&goal.path)?;
        if stamp.kind() == FileType::Directory {
            return match unlinkat(&place.parent, &place.name, AtFlags::REMOVEDIR) {
                Ok(()) => Ok(true),
                Err(rustix::io::Errno::NOTEMPTY | rustix::io::Errno::EXIST) => {
                    let now = Some(FileState::Folder { mode: stamp.permissions() });
                    self.result.changed.insert(goal.path.clone(), now);
                    Ok(false)
                }
                Err(error) => Err(io::Error::from(error).into()),
            };
        }
        if !place.stat()?.is_some_and(|now| Stamp::of(&now).is_unwritten_since(stamp)) {
            self.note_changed(goal, &place)?;
            return Ok(false);
        }
        self.move_to_trash(&goal.path, &place)?;
        if goal.to.is_none() {
            self.result.trashed.push(goal.path.clone());
        }
        Ok(true)
    }

    fn note_changed(&mut self, goal: &RestoreGoal, place: &Place) -> Result<(), StoreError> {
        let stamp = place.stat()?.as_ref().map(Stamp::of);
        let now = state_of(self.store, Some(place), stamp)?;
        self.result.changed.insert(goal.path.clone(), now);
        Ok(())
    }

    /// Moves a file into the trash folder; over a border of file systems it is copied.
    fn move_to_trash(&self, path: &str, place: &Place) -> Result<(), StoreError> {
        let to = free_name(self.trash.join(path));
        let folder = to.parent().expect("it lies in the trash folder");
        DirBuilder::new().recursive(true).mode(OWNER_ALL).create(folder)?;
        match renameat(&place.parent, &place.name, rustix::fs::CWD, &to) {
            Err(rustix::io::Errno::XDEV) => {}
            moved => return Ok(moved.map_err(io::Error::from)?),
        }
        let is_file = place.stat()?.is_some_and(|stat| Stamp::of(&stat).kind() == FileType::RegularFile);
        if is_file {
            let mut source = File::from(beneath::open_file(place.parent.as_fd(), &place.name)?);
            let mut copy = File::options().write(true).create_new(true).open(&to)?;
            io::copy(&mut source, &mut copy)?;
            copy.set_permissions(source.metadata()?.permissions())?;
            copy.sync_all()?;
        } else if let Ok(target) = rustix::fs::readlinkat(&place.parent, &place.name, Vec::new()) {
            symlinkat(target, rustix::fs::CWD, &to).map_err(io::Error::from)?;
        }
        Ok(unlinkat(&place.parent, &place.name, AtFlags::empty()).map_err(io::Error::from)?)
    }

    /// Writes what is to be there, folders before what they hold. Returns the folders, whose modes come last.
    fn write<'g>(
        &mut self,
        replacements: &[Replacement<'g>],
        removed: &[String],
    ) -> Result<Vec<&'g RestoreGoal>, StoreError> {
        let mut folders = Vec::new();
        for Replacement { goal, stamp } in replacements {
            let Some(state) = &goal.to else { continue };
            if self.result.changed.contains_key(&goal.path) {
                continue;
            }
            let Ok(place) = self.root.place(&goal.path) else {
                // Its folder is gone, and was left so because somebody else changed that.
                self.result.changed.insert(goal.path.clone(), None);
                continue;
            };
            let expected = if removed.contains(&goal.path) { None } else { *stamp };
            let now = place.stat()?.as_ref().map(Stamp::of);
            let is_unwritten = match (now, expected) {
                (Some(now), Some(expected)) => now.is_unwritten_since(expected),
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            };
            if !is_unwritten && !state.is_folder() {
                self.note_changed(goal, &place)?;
                continue;
            }
            self.write_one(&place, state, now.is_some())?;
            if state.is_folder() {
                folders.push(*goal);
            }
            self.result.restored.push(goal.path.clone());
        }
        Ok(folders)
    }

    fn write_one(&self, place: &Place, state: &FileState, exists: bool) -> Result<(), StoreError> {
        match state {
            FileState::Folder { mode } if !exists => {
                mkdirat(&place.parent, &place.name, Mode::from_raw_mode(mode | OWNER_ALL))
                    .map_err(io::Error::from)?;
            }
            FileState::Folder { .. } | FileState::Other => {}
            FileState::Link { target } => {
                let temporary = temporary_name(place);
                symlinkat(target.as_str(), &place.parent, &temporary).map_err(io::Error::from)?;
                self.put_in_place(place, &temporary)?;
            }
            FileState::File { mode, blob, .. } => {
                let blob = blob.as_ref().ok_or(StoreError::Missing)?;
                self.write_file(place, *mode, blob)?;
            }
        }
        Ok(())
    }

    /// Writes a file beside its place and renames it, so that no half of it is ever seen.
    fn write_file(&self, place: &Place, mode: u32, blob: &str) -> Result<(), StoreError> {
        let mut content = self.store.open_content(blob)?;
        let temporary = temporary_name(place);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(&place.parent, &temporary, flags, Mode::from_raw_mode(0o600));
        let mut file = File::from(opened.map_err(io::Error::from)?);
        if !clone_blocks(&file, &content) {
            io::copy(&mut content, &mut file)?;
        }
        fchmod(&file, Mode::from_raw_mode(mode)).map_err(io::Error::from)?;
        file.sync_all()?;
        self.put_in_place(place, &temporary)
    }

    fn put_in_place(&self, place: &Place, temporary: &str) -> Result<(), StoreError> {
        renameat(&place.parent, temporary, &place.parent, &place.name).map_err(io::Error::from)?;
        let folder = File::from(place.parent.try_clone()?);
        Ok(folder.sync_all()?)
    }

    /// Gives the folders their modes, the deepest first: until then their owner could enter them.
    fn set_folder_modes(&self, folders: &[&RestoreGoal]) -> Result<(), StoreError> {
        for goal in folders.iter().rev() {
            let Some(FileState::Folder { mode }) = &goal.to else { continue };
            let place = self.root.place(&goal.path)?;
            let folder = beneath::open_folder(place.parent.as_fd(), &place.name)?;
            fchmod(&folder, Mode::from_raw_mode(*mode)).map_err(io::Error::from)?;
        }
        Ok(())
    }
}

/// The name of the temporary file for a path: the same for each attempt, so that a later one finds what an earlier one
/// left.
fn temporary_name(place: &Place) -> String {
    let name = place.name.to_string_lossy();
    let digest = actbook_engine::chain::Digest::of(name.as_bytes()).to_string();
    let digest: String = digest.chars().filter(char::is_ascii_alphanumeric).take(24).collect();
    let temporary = format!("{TEMPORARY_PREFIX}{digest}");
    debug_assert!(temporary.len() <= NAME_BYTES_MAX);
    temporary
}

/// The path, or one with a number behind it where there is such a file.
fn free_name(path: PathBuf) -> PathBuf {
    let numbered = |number: u32| {
        let mut name = path.clone().into_os_string();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    if path.symlink_metadata().is_err() {
        return path;
    }
    (1..).map(numbered).find(|name| name.symlink_metadata().is_err()).unwrap_or(path)
}
