//! A session's store of contents: one folder that only its owner reads, with a key of its own. A content's name is its
//! hash under that key, so that names say nothing about contents and no session finds those of another.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::random;

/// Contents that are synced one by one; more are synced with their whole file system.
const SYNCED_SINGLY_MAX: usize = 16;
/// How often a file that changes while it is read is read again.
const READS_MAX: usize = 3;
const KEY_BYTES: usize = 32;
const COPY_BYTES: usize = 128 * 1024;

/// Why something could not be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the kept states of this session are on another machine, or gone")]
    Missing,
    #[error("the kept content {0} is damaged")]
    Damaged(String),
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// The open store of one session.
#[derive(Debug)]
pub struct SessionStore {
    pub(super) folder: PathBuf,
    key: [u8; KEY_BYTES],
    /// New contents that are not synced yet.
    unsynced: Vec<PathBuf>,
}

impl SessionStore {
    /// The folder in which the stores of all sessions lie.
    pub fn all(data_folder: &Path) -> PathBuf {
        data_folder.join("snapshots")
    }

    /// Opens the store of a session, and makes a missing one.
    pub fn create(data_folder: &Path, session: &str) -> Result<Self, StoreError> {
        let folder = Self::all(data_folder).join(session);
        let blobs = folder.join("blobs");
        if !blobs.is_dir() {
            DirBuilder::new().recursive(true).mode(0o700).create(&blobs)?;
            sync_folder(&Self::all(data_folder))?;
            sync_folder(&folder)?;
        }
        let key_file = folder.join("key");
        if !key_file.exists() {
            create_key(&folder, &key_file)?;
        }
        Self::open(data_folder, session)
    }

    /// Opens the store of a session. `Err` `Missing`: this machine has none.
    pub fn open(data_folder: &Path, session: &str) -> Result<Self, StoreError> {
        let folder = Self::all(data_folder).join(session);
        let is_name = !session.is_empty() && session.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let key = std::fs::read(folder.join("key")).ok().filter(|_| is_name);
        let key = key.and_then(|key| key.try_into().ok()).ok_or(StoreError::Missing)?;
        Ok(Self { folder, key, unsynced: Vec::new() })
    }

    /// Keeps a file's content and returns its name and size. `None`: it changed each time it was read.
    pub fn keep(&mut self, source: &File) -> Result<Option<(String, u64)>, StoreError> {
        for _ in 0..READS_MAX {
            let before = source.metadata()?;
            let temporary = self.folder.join(format!("{}.new", random::id()));
            let kept = self.copy(source, &temporary);
            let after = source.metadata()?;
            let is_same = |from: &std::fs::Metadata, to: &std::fs::Metadata| {
                (from.size(), from.mtime(), from.mtime_nsec()) == (to.size(), to.mtime(), to.mtime_nsec())
            };
            let (name, size) = kept.inspect_err(|_| drop(std::fs::remove_file(&temporary)))?;
            if !is_same(&before, &after) || size != after.size() {
                std::fs::remove_file(&temporary)?;
                continue;
            }
            self.name_content(&temporary, &name)?;
            return Ok(Some((name, size)));
        }
        Ok(None)
    }

    /// Gives a copied content its name, unless it is kept already.
    fn name_content(&mut self, temporary: &Path, name: &str) -> Result<(), StoreError> {
        let kept = self.blob_path(name);
        if kept.exists() {
            // The collection of unreferenced contents goes by the time of change.
            File::open(&kept)?.set_modified(std::time::SystemTime::now())?;
            std::fs::remove_file(temporary)?;
        } else {
            std::fs::rename(temporary, &kept)?;
        }
        // Also one that was there: the process that wrote it may have died before it synced it.
        self.unsynced.push(kept);
        Ok(())
    }

    /// Copies the source, by sharing its blocks where the file system can, and hashes the copy.
    fn copy(&self, source: &File, to: &Path) -> io::Result<(String, u64)> {
        let mut copy = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(to)?;
        if clone_blocks(&copy, source) {
            return self.hash(&mut copy);
        }
        let mut source = source;
        source.rewind()?;
        let mut hasher = self.hasher();
        let (mut buffer, mut size) = (vec![0; COPY_BYTES], 0);
        loop {
            let read = source.read(&mut buffer)?;
            if read == 0 {
                return Ok((self.finish_hash(hasher), size));
            }
            hasher.update(&buffer[..read]);
            copy.write_all(&buffer[..read])?;
            size += read as u64;
        }
    }

    /// The name under which this content would be kept, and its size.
    pub fn hash(&self, content: &mut File) -> io::Result<(String, u64)> {
        content.rewind()?;
        let mut hasher = self.hasher();
        let (mut buffer, mut size) = (vec![0; COPY_BYTES], 0);
        loop {
            let read = content.read(&mut buffer)?;
            if read == 0 {
                return Ok((self.finish_hash(hasher), size));
            }
            hasher.update(&buffer[..read]);
            size += read as u64;
        }
    }

    fn hasher(&self) -> Sha256 {
        let mut hasher = Sha256::new();
        hasher.update(self.key);
        hasher
    }

    /// The hash under the key: hashed once more with the key, so that a longer content's hash cannot be derived.
    fn finish_hash(&self, hasher: Sha256) -> String {
        let mut outer = self.hasher();
        outer.update(hasher.finalize());
        outer.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Opens a kept content, and checks that it is what its name says.
    pub fn open_content(&self, name: &str) -> Result<File, StoreError> {
        let damaged = || StoreError::Damaged(name.to_owned());
        if name.len() != 64 || !name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(damaged());
        }
        let mut file = File::open(self.blob_path(name)).map_err(|_| StoreError::Missing)?;
        if self.hash(&mut file)?.0 != name {
            return Err(damaged());
        }
        file.rewind()?;
        Ok(file)
    }

    fn blob_path(&self, name: &str) -> PathBuf {
        self.folder.join("blobs").join(name)
    }

    /// Whether everything that was kept is durable.
    #[cfg(test)]
    pub(super) fn is_synced(&self) -> bool {
        self.unsynced.is_empty()
    }

    /// Makes everything that was kept durable.
    pub fn sync(&mut self) -> io::Result<()> {
        let new = std::mem::take(&mut self.unsynced);
        if new.is_empty() {
            return Ok(());
        }
        let blobs = File::open(self.folder.join("blobs"))?;
        if new.len() > SYNCED_SINGLY_MAX && sync_file_system(&blobs) {
            return Ok(());
        }
        for content in new {
            File::open(content)?.sync_all()?;
        }
        blobs.sync_all()
    }
}

/// The random name of this machine's kept states, by which the journal says where they lie. Made on first use.
pub fn machine_id(data_folder: &Path) -> io::Result<String> {
    let folder = SessionStore::all(data_folder);
    let file = folder.join("machine");
    if let Ok(id) = std::fs::read_to_string(&file) {
        return Ok(id);
    }
    DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    let temporary = folder.join(format!("{}.new", random::id()));
    std::fs::write(&temporary, random::id())?;
    // Of two processes, the first one's name stays.
    let linked = std::fs::hard_link(&temporary, &file);
    std::fs::remove_file(&temporary)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => std::fs::read_to_string(&file),
    }
}

/// Makes the session's key; of two processes that do, the first one's stays.
fn create_key(folder: &Path, key_file: &Path) -> io::Result<()> {
    let temporary = folder.join(format!("{}.new", random::id()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(&random::bytes::<KEY_BYTES>())?;
    file.sync_all()?;
    let linked = std::fs::hard_link(&temporary, key_file);
    std::fs::remove_file(&temporary)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => sync_folder(folder),
    }
}

pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Lets the copy share the source's blocks. False: the file system cannot.
#[cfg(target_os = "linux")]
pub(super) fn clone_blocks(copy: &File, source: &File) -> bool {
    rustix::fs::ioctl_ficlone(copy.as_fd(), source.as_fd()).is_ok()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn clone_blocks(_copy: &File, _source: &File) -> bool {
    false
}

/// Syncs the whole file system that the folder lies on. False: this platform cannot.
#[cfg(target_os = "linux")]
fn sync_file_system(folder: &File) -> bool {
    rustix::fs::syncfs(folder.as_fd()).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn sync_file_system(_folder: &File) -> bool {
    false
}
