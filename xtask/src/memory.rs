//! A folder in memory for the databases and files of tests. Tests kill processes, not the machine, and simulate
//! power cuts from recorded system calls: none needs a disk, and on one most of their time is waiting for syncs.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::stage::{command, output_text};

const MOUNT: &str = "/dev/shm";
/// The start of the folder's name; the process id of its run follows.
const PREFIX: &str = "actbook-test-";
/// Room that a test run needs, in bytes: PostgreSQL's log alone grows to a gigabyte.
const ROOM_MIN: u64 = 4 << 30;

/// A folder in memory, removed on drop.
pub struct MemoryFolder(PathBuf);

impl MemoryFolder {
    /// `None` where no file system in memory has enough room, or none from which libraries can be loaded.
    pub fn create() -> Result<Option<Self>> {
        remove_leftovers();
        if !is_mounted() || room_left()? < ROOM_MIN {
            return Ok(None);
        }
        let folder = Path::new(MOUNT).join(format!("{PREFIX}{}", std::process::id()));
        std::fs::create_dir_all(folder.join("tmp")).with_context(|| folder.display().to_string())?;
        Ok(Some(Self(folder)))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The folder for the temporary files of tests.
    pub fn temporary_files(&self) -> PathBuf {
        self.0.join("tmp")
    }
}

impl Drop for MemoryFolder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("xtask: {} could not be removed: {error}", self.0.display());
        }
    }
}

/// True if the mount is a file system in memory that lets programs and libraries run.
fn is_mounted() -> bool {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mut rows = mounts.lines().map(|row| row.split(' ').collect::<Vec<_>>());
    rows.any(|row| {
        matches!(row[..], [_, MOUNT, "tmpfs", options, ..] if !options.split(',').any(|word| word == "noexec"))
    })
}

/// Bytes that can still be written to the mount: what it may hold, and what memory is free.
fn room_left() -> Result<u64> {
    let output = command(&["df", "--output=avail", "--block-size=1", MOUNT]).output().context("df")?;
    let of_mount = output_text(&output).lines().last().and_then(|line| line.trim().parse().ok()).unwrap_or(0);
    let memory = std::fs::read_to_string("/proc/meminfo").context("/proc/meminfo")?;
    let available = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes = available.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    Ok(kilobytes.map_or(0, |kilobytes| kilobytes * 1024).min(of_mount))
}

/// Removes the folders of runs that were killed. One that cannot be removed is another user's.
fn remove_leftovers() {
    for entry in std::fs::read_dir(MOUNT).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(process) = name.strip_prefix(PREFIX) else { continue };
        if !Path::new("/proc").join(process).exists() {
            drop(std::fs::remove_dir_all(entry.path()));
        }
    }
}
