//! Where the config is: the named file, else the one in the working folder, else the user's own.

use std::path::{Path, PathBuf};

use super::{ConfigError, FILE_NAMES};

/// Where a config was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// Named by `--config` or `ACTBOOK_CONFIG`.
    Named(PathBuf),
    /// In the working folder, by its name alone: whoever made the folder may have written it.
    WorkingFolder(PathBuf),
    /// In the user's config folder.
    User(PathBuf),
    /// There is none; relative paths start at the working folder.
    Nowhere(PathBuf),
}

/// Where the config is. Refused where two files of one folder could be meant.
pub fn locate(named: Option<&Path>) -> Result<Location, ConfigError> {
    if let Some(named) = named {
        return Ok(Location::Named(named.to_owned()));
    }
    let here =
        std::env::current_dir().map_err(|error| ConfigError::Unreadable { path: ".".into(), error })?;
    let users = user_folder();
    let is_users = |folder: &Path| {
        let real = |folder: &Path| folder.canonicalize().ok();
        users.as_deref().and_then(real).is_some_and(|users| real(folder) == Some(users))
    };
    if let Some(found) = in_folder(&here)?.filter(|_| !is_users(&here)) {
        return Ok(Location::WorkingFolder(found));
    }
    let in_users = users.as_deref().map(in_folder).transpose()?.flatten();
    Ok(in_users.map_or(Location::Nowhere(here), Location::User))
}

/// The folder's config. None: it has none.
fn in_folder(folder: &Path) -> Result<Option<PathBuf>, ConfigError> {
    let mut found = FILE_NAMES.iter().map(|name| folder.join(name)).filter(|file| file.is_file());
    match (found.next(), found.next()) {
        (Some(one), Some(other)) => Err(ConfigError::Ambiguous { one, other }),
        (found, _) => Ok(found),
    }
}

fn user_folder() -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = named.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".config")))?;
    Some(folder.join("actbook"))
}
