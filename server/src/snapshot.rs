//! Keeps the state of files around the calls of a guarded session, and restores it. Every session has a folder of its
//! own under Actbook's data folder, readable only by its owner: contents (`blobs`), what the session's folder looked
//! like (`index`), and what has changed since (`changes`). Paths are opened from the session's folder component by
//! component, so that nothing is read or written through a link or outside the folder. Knows files; knows nothing of
//! calls, sessions or the journal.

mod beneath;
mod blobs;
mod changes;
mod collect;
mod hard_links;
mod ignore;
mod index;
mod restore;
mod scan;
mod state;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use blobs::{SessionStore, StoreError, machine_id};
pub use collect::{collect_contents, expire};
pub use ignore::IgnoreRules;
pub use index::RefreshLimits;
pub use restore::{RestoreGoal, Restored, check, restore};
pub use state::FileState;

/// How the beginning of the name of each temporary file reads that a restore writes.
const TEMPORARY_PREFIX: &str = ".actbook-restore-";

/// Largest part of a restored or kept path's name that is compared, in bytes: the file systems' own limit.
const NAME_BYTES_MAX: usize = 255;

/// What is kept of a folder, and how much of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSettings {
    /// The folder, absolute and without links.
    pub folder: PathBuf,
    /// A larger file is not kept.
    pub file_bytes_max: u64,
    /// Most bytes that all kept contents of a session take.
    pub total_bytes_max: u64,
    /// How long one call may wait for the first snapshot; the next call goes on with it.
    pub budget: Duration,
    pub ignore: IgnoreRules,
}

/// The path's place in the folder: relative, without `..`. `None`: it lies outside, or is the folder itself. The
/// caller has resolved links.
pub fn relative_path(folder: &Path, path: &Path) -> Option<String> {
    let inside = path.strip_prefix(folder).ok()?;
    let is_plain = inside.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    let text = inside.to_str().filter(|text| !text.is_empty())?;
    is_plain.then(|| text.to_owned())
}

/// Whether nothing may be kept of this folder because it is the root or the user's home.
pub fn is_refused_folder(folder: &Path) -> bool {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let home = home.map(|home| home.canonicalize().unwrap_or(home));
    folder.parent().is_none() || home.is_some_and(|home| home.starts_with(folder))
}
