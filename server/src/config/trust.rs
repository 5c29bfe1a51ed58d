//! Whether a config that was found in the working folder may take effect. A cloned folder brings its own
//! `actbook.yaml`, which names commands to start and addresses to send the user's secrets to. So the user
//! trusts it once, by its path and the digest of its content, and again after each change.
//!
//! ```text
//!   named, or the user's own ───────────────────────────────► InEffect
//!   found in the working folder ──► trusted, unchanged ─────► InEffect
//!                              ├──► changed since ──────────► Withheld, with the text that was trusted
//!                              └──► never trusted, broken ──► Withheld
//! ```

use std::fmt;
use std::fs::{DirBuilder, File};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use actbook_engine::chain::{Digest, with_sorted_keys};
use serde::{Deserialize, Serialize};

use super::find::{ConfigLocation, locate_config};
use super::{Config, ConfigError, parse_document, read_config_text};

/// A config file that was read once, so that the same bytes are shown, trusted and put into effect.
#[derive(Clone, Debug)]
pub struct ConfigCandidate {
    /// The path that is trusted: its folder without symbolic links, and the file's name.
    path: PathBuf,
    /// The digest of the parsed document: spacing, comments and the order of keys do not count.
    pub digest: Digest,
    pub config: Config,
    text: String,
}

/// Why a config has no effect.
#[derive(Clone, Debug)]
pub enum WithheldReason {
    NeverTrusted,
    ChangedSince,
    /// The file cannot be read or parsed; the text says why.
    Broken(String),
}

/// A config that was found and has no effect.
#[derive(Clone, Debug)]
pub struct WithheldConfig {
    pub file: PathBuf,
    pub reason: WithheldReason,
    /// The config as it was trusted, else as it is. It only serves to find the secrets that must be redacted.
    pub secret_source: Option<Box<Config>>,
}

/// The config that was found for a command, and whether it takes effect.
#[derive(Debug)]
pub enum ConfigStatus {
    InEffect(Box<Config>),
    Withheld {
        withheld: WithheldConfig,
        /// The config as it was when it was trusted.
        trusted: Option<Box<Config>>,
        /// The config as it is.
        candidate: Option<Box<ConfigCandidate>>,
    },
}

/// The stored form of a trusted config: one file for each, named by the digest of the config's path.
#[derive(Debug, Deserialize, Serialize)]
struct TrustRecord {
    path: PathBuf,
    digest: String,
    text: String,
}

/// The records of the configs that the user has trusted.
#[derive(Clone, Debug)]
pub struct TrustStore {
    folder: PathBuf,
}

impl ConfigCandidate {
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        Self::parse(read_config_text(file)?, file).map_err(|error| error.with_file(file))
    }

    fn parse(text: String, file: &Path) -> Result<Self, ConfigError> {
        let path = resolve_folder(file)?;
        let document = parse_document(&text)?;
        let digest = Digest::of(with_sorted_keys(&document).to_string().as_bytes());
        // The same paths as for a config that is named, so that both have the same toolset.
        let file = std::path::absolute(file).unwrap_or_else(|_| path.clone());
        let folder = file.parent().unwrap_or(Path::new("/")).to_owned();
        let config = Config { file: Some(file), ..Config::from_document(document, &folder)? };
        Ok(Self { path, digest, config, text })
    }

    pub fn file(&self) -> &Path {
        self.config.file.as_deref().unwrap_or(&self.path)
    }
}

/// The path with the symbolic links of its folder resolved. A link of the file itself is not followed:
/// otherwise a link to a config that is trusted elsewhere would start that config's commands in this folder.
fn resolve_folder(path: &Path) -> Result<PathBuf, ConfigError> {
    let unreadable = |error| ConfigError::Unreadable { path: path.to_owned(), error };
    let absolute = std::path::absolute(path).map_err(unreadable)?;
    let folder = absolute.parent().unwrap_or(Path::new("/"));
    let name = absolute.file_name().unwrap_or_default();
    Ok(folder.canonicalize().map_err(unreadable)?.join(name))
}

impl TrustStore {
    /// The store in the user's data folder.
    pub fn new(data: &Path) -> Self {
        Self { folder: data.join("trust") }
    }

    /// Whether the candidate is trusted as it is.
    pub fn trusts(&self, candidate: &ConfigCandidate) -> bool {
        self.load_trusted(candidate.file()).is_some_and(|trusted| trusted.digest == candidate.digest)
    }

    /// The config as it was when it was trusted. None: it was never trusted, or the record is damaged.
    fn load_trusted(&self, file: &Path) -> Option<ConfigCandidate> {
        let path = resolve_folder(file).ok()?;
        let record = std::fs::read_to_string(self.record_file(&path)).ok()?;
        let record: TrustRecord = serde_json::from_str(&record).ok()?;
        let candidate = ConfigCandidate::parse(record.text, file).ok()?;
        let is_intact = record.path == path && record.digest == candidate.digest.to_string();
        is_intact.then_some(candidate)
    }

    /// Trusts a config as it was read. The record holds the config's text, so only the user may read it.
    pub fn trust(&self, candidate: &ConfigCandidate) -> std::io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let record = TrustRecord {
            path: candidate.path.clone(),
            digest: candidate.digest.to_string(),
            text: candidate.text.clone(),
        };
        let (file, bytes) = (self.record_file(&candidate.path), serde_json::to_vec(&record)?);
        let temporary = file.with_extension(format!("new-{}", std::process::id()));
        let mut options = File::options();
        let mut writer = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        writer.write_all(&bytes)?;
        writer.sync_all()?;
        std::fs::rename(&temporary, file)
    }

    /// The file of the record for a config's path.
    fn record_file(&self, path: &Path) -> PathBuf {
        let name = Digest::of(path.as_os_str().as_encoded_bytes());
        self.folder.join(format!("{name}.json"))
    }
}

impl ConfigStatus {
    /// Locates and reads the config, and decides whether it takes effect.
    pub fn determine(named: Option<&Path>, store: &TrustStore) -> Result<Self, ConfigError> {
        match locate_config(named)? {
            ConfigLocation::Named(path) | ConfigLocation::User(path) => {
                Ok(Self::InEffect(Box::new(Config::load(&path)?)))
            }
            ConfigLocation::Nowhere(folder) => {
                Ok(Self::InEffect(Box::new(Config { folder, ..Config::default() })))
            }
            ConfigLocation::WorkingFolder(path) => Ok(Self::in_working_folder(&path, store)),
        }
    }

    /// The status of a config in the working folder.
    fn in_working_folder(file: &Path, store: &TrustStore) -> Self {
        let trusted = store.load_trusted(file);
        let (reason, candidate) = match ConfigCandidate::read(file) {
            Ok(found) if trusted.as_ref().is_some_and(|trusted| trusted.digest == found.digest) => {
                return Self::InEffect(Box::new(found.config));
            }
            Ok(found) if trusted.is_some() => (WithheldReason::ChangedSince, Some(Box::new(found))),
            Ok(found) => (WithheldReason::NeverTrusted, Some(Box::new(found))),
            Err(error) => (WithheldReason::Broken(error.to_string()), None),
        };
        let trusted = trusted.map(|trusted| Box::new(trusted.config));
        let current = || candidate.as_ref().map(|candidate| Box::new(candidate.config.clone()));
        let secret_source = trusted.clone().or_else(current);
        let withheld = WithheldConfig { file: file.to_owned(), reason, secret_source };
        Self::Withheld { withheld, trusted, candidate }
    }
}

impl WithheldConfig {
    /// A config that could not be read; `file` is its path.
    pub fn broken(file: PathBuf, error: &ConfigError) -> Self {
        Self { file, reason: WithheldReason::Broken(error.to_string()), secret_source: None }
    }

    /// The config's folder.
    pub fn folder(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new("/"))
    }

    /// The file and the reason alone, for errors: an error must not hold the config's secrets.
    pub fn without_content(&self) -> Self {
        Self { file: self.file.clone(), reason: self.reason.clone(), secret_source: None }
    }

    /// A config without settings, whose `withheld` says why.
    pub fn into_config(self) -> Config {
        let (folder, file) = (self.folder().to_owned(), Some(self.file.clone()));
        Config { folder, file, withheld: Some(self), ..Config::default() }
    }
}

impl fmt::Display for WithheldConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        match &self.reason {
            WithheldReason::NeverTrusted => write!(f, "{file} is not trusted, so it has no effect"),
            WithheldReason::ChangedSince => write!(f, "{file} has changed since it was trusted"),
            WithheldReason::Broken(error) => write!(f, "{error}"),
        }
    }
}
