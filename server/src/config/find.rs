//! Locates the config: the named file, else the one in the working folder, else the user's own.

use std::path::{Path, PathBuf};

use super::{ConfigError, FILE_NAMES};

/// Where a config was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigLocation {
    /// Named by `--config` or `ACTBOOK_CONFIG`.
    Named(PathBuf),
    /// In the working folder, found by its file name: the folder's author may have written it, not the user.
    WorkingFolder(PathBuf),
    /// In the user's config folder.
    User(PathBuf),
    /// There is none; relative paths start at the working folder.
    Nowhere(PathBuf),
}

/// Locates the config. `Err(Ambiguous)`: a folder has two config files.
pub fn locate_config(named: Option<&Path>) -> Result<ConfigLocation, ConfigError> {
    if let Some(named) = named {
        return Ok(ConfigLocation::Named(named.to_owned()));
    }
    let working_folder =
        std::env::current_dir().map_err(|error| ConfigError::Unreadable { path: ".".into(), error })?;
    let user_folder = user_config_folder();
    let is_user_folder = |folder: &Path| {
        let real = |folder: &Path| folder.canonicalize().ok();
        user_folder.as_deref().and_then(real).is_some_and(|user_folder| real(folder) == Some(user_folder))
    };
    if let Some(found) = config_in_folder(&working_folder)?.filter(|_| !is_user_folder(&working_folder)) {
        return Ok(ConfigLocation::WorkingFolder(found));
    }
    let users = user_folder.as_deref().map(config_in_folder).transpose()?.flatten();
    Ok(users.map_or(ConfigLocation::Nowhere(working_folder), ConfigLocation::User))
}

/// The nearest of the folder and those above it that has a config file. `None`: none has.
pub fn nearest_config_folder(folder: &Path) -> Option<&Path> {
    folder.ancestors().find(|folder| FILE_NAMES.iter().any(|name| folder.join(name).is_file()))
}

/// The config file in a folder; None: there is none.
fn config_in_folder(folder: &Path) -> Result<Option<PathBuf>, ConfigError> {
    let mut found = FILE_NAMES.iter().map(|name| folder.join(name)).filter(|file| file.is_file());
    match (found.next(), found.next()) {
        (Some(one), Some(other)) => Err(ConfigError::Ambiguous { one, other }),
        (found, _) => Ok(found),
    }
}

/// The user's config folder for Actbook; None: neither `XDG_CONFIG_HOME` nor `HOME` is set.
fn user_config_folder() -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = named.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".config")))?;
    Some(folder.join("actbook"))
}
