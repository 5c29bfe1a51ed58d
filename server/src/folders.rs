//! The default locations of Actbook's files.

use std::path::PathBuf;

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
