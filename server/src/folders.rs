//! Where things are kept when nobody says otherwise.

use std::path::PathBuf;

/// The user's data folder for Actbook.
pub fn data() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = set("XDG_DATA_HOME").or_else(|| set("HOME").map(|home| home.join(".local").join("share")));
    data.unwrap_or_else(|| PathBuf::from(".")).join("actbook")
}

/// The database that is used where no other is named.
pub fn database() -> String {
    data().join("actbook.db").to_string_lossy().into_owned()
}
