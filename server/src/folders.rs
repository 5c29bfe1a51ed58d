//! The default locations of Actbook's files, and how a file of the user's is replaced.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::random;

/// Actbook's data folder: under `XDG_DATA_HOME`, else `~/.local/share`, else the working folder.
pub fn data_folder() -> PathBuf {
    let path_in = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let share = || path_in("HOME").map(|home| home.join(".local").join("share"));
    let parent = path_in("XDG_DATA_HOME").or_else(share);
    parent.unwrap_or_else(|| PathBuf::from(".")).join("actbook")
}

/// The path of the SQLite database that is used if none is named.
pub fn default_database() -> String {
    data_folder().join("actbook.db").to_string_lossy().into_owned()
}

/// Replaces a file through a temporary one beside it, so that a full disk does not destroy the old text. The
/// temporary file has a random name and must not exist: a fixed one may be a link that came with a cloned
/// folder. An existing file's permissions are kept.
pub fn replace_file(path: &Path, text: &str) -> io::Result<()> {
    let temporary = path.with_extension(format!("{}.new", random::id()));
    let written = write_new_file(&temporary, path, text).and_then(|()| std::fs::rename(&temporary, path));
    written.inspect_err(|_| drop(std::fs::remove_file(&temporary)))
}

/// Writes a new file with the permissions of `like`, if that exists.
fn write_new_file(file: &Path, like: &Path, text: &str) -> io::Result<()> {
    let mut created = File::options().write(true).create_new(true).open(file)?;
    if let Ok(existing) = std::fs::metadata(like) {
        created.set_permissions(existing.permissions())?;
    }
    created.write_all(text.as_bytes())?;
    created.sync_all()
}
