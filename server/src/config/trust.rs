//! Whether a config that was found in the working folder may take effect. A cloned folder brings its own `actbook.yaml`,
//! which names commands to start and addresses to send the user's secrets to: so its user trusts it once, by path and
//! by the digest of what it says, and again whenever that changes.
//!
//! ```text
//!   named, or the user's own ───────────────────────────────► InEffect
//!   found in the working folder ──► as it was trusted ──────► InEffect
//!                              ├──► changed since ──────────► Withheld, with the text that was trusted
//!                              └──► never trusted, broken ──► Withheld
//! ```

use std::fmt;
use std::fs::{DirBuilder, File};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use actbook_engine::chain::{Digest, in_order};
use serde::{Deserialize, Serialize};

use super::find::{Location, locate};
use super::{Config, ConfigError, document, read_text};

/// A config file that was read once: what is shown, trusted and put into effect are the same bytes.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// By which it is trusted: its folder without symbolic links, and its name there.
    path: PathBuf,
    /// Of the parsed document: spacing, comments and the order of keys do not count.
    pub digest: Digest,
    pub config: Config,
    text: String,
}

/// Why a config has no effect.
#[derive(Clone, Debug)]
pub enum Reason {
    NeverTrusted,
    ChangedSince,
    /// It cannot be read as a config.
    Broken(String),
}

/// A config that has no effect.
#[derive(Clone, Debug)]
pub struct Withheld {
    pub file: PathBuf,
    pub reason: Reason,
    /// As it was trusted, or else as it is. Only the values that it names are learned from it, to keep them out of the
    /// journal.
    pub names: Option<Box<Config>>,
}

/// The config of one command.
#[derive(Debug)]
pub enum Standing {
    InEffect(Box<Config>),
    Withheld {
        withheld: Withheld,
        /// The config as it was when it was trusted.
        trusted: Option<Box<Config>>,
        /// The config as it is.
        candidate: Option<Box<Candidate>>,
    },
}

/// What was trusted, as it is kept: one file for each config, named after its path.
#[derive(Debug, Deserialize, Serialize)]
struct Record {
    path: PathBuf,
    digest: String,
    text: String,
}

/// The configs that the user has trusted, in the user's data folder.
#[derive(Clone, Debug)]
pub struct TrustStore {
    folder: PathBuf,
}

impl Candidate {
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        Self::parse(read_text(file)?, file).map_err(|error| error.in_file(file))
    }

    fn parse(text: String, file: &Path) -> Result<Self, ConfigError> {
        let path = in_real_folder(file)?;
        let document = document(&text)?;
        let digest = Digest::of(in_order(&document).to_string().as_bytes());
        // As where the file is named, so that both have the same toolset.
        let file = std::path::absolute(file).unwrap_or_else(|_| path.clone());
        let folder = file.parent().unwrap_or(Path::new("/")).to_owned();
        let config = Config { file: Some(file), ..Config::of_document(document, &folder)? };
        Ok(Self { path, digest, config, text })
    }

    pub fn file(&self) -> &Path {
        self.config.file.as_deref().unwrap_or(&self.path)
    }
}

/// The path with its folder's symbolic links resolved. The file's own link is not followed: a link to a config that is
/// trusted elsewhere would start the same commands in this folder.
fn in_real_folder(path: &Path) -> Result<PathBuf, ConfigError> {
    let unreadable = |error| ConfigError::Unreadable { path: path.to_owned(), error };
    let absolute = std::path::absolute(path).map_err(unreadable)?;
    let folder = absolute.parent().unwrap_or(Path::new("/"));
    let name = absolute.file_name().unwrap_or_default();
    Ok(folder.canonicalize().map_err(unreadable)?.join(name))
}

impl TrustStore {
    /// In the user's data folder.
    pub fn new(data: &Path) -> Self {
        Self { folder: data.join("trust") }
    }

    /// Whether the candidate is trusted as it is.
    pub fn trusts(&self, candidate: &Candidate) -> bool {
        self.trusted(candidate.file()).is_some_and(|trusted| trusted.digest == candidate.digest)
    }

    /// The config as it was when it was trusted. None: it never was, or the record is damaged.
    fn trusted(&self, file: &Path) -> Option<Candidate> {
        let path = in_real_folder(file).ok()?;
        let record = std::fs::read_to_string(self.record(&path)).ok()?;
        let record: Record = serde_json::from_str(&record).ok()?;
        let candidate = Candidate::parse(record.text, file).ok()?;
        let holds = record.path == path && record.digest == candidate.digest.to_string();
        holds.then_some(candidate)
    }

    /// Trusts a config as it was read. The record holds its text, so only the user may read it.
    pub fn trust(&self, candidate: &Candidate) -> std::io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let record = Record {
            path: candidate.path.clone(),
            digest: candidate.digest.to_string(),
            text: candidate.text.clone(),
        };
        let (file, bytes) = (self.record(&candidate.path), serde_json::to_vec(&record)?);
        let aside = file.with_extension(format!("new-{}", std::process::id()));
        let mut options = File::options();
        let mut writing = options.write(true).create(true).truncate(true).mode(0o600).open(&aside)?;
        writing.write_all(&bytes)?;
        writing.sync_all()?;
        std::fs::rename(&aside, file)
    }

    fn record(&self, path: &Path) -> PathBuf {
        let name = Digest::of(path.as_os_str().as_encoded_bytes());
        self.folder.join(format!("{name}.json"))
    }
}

impl Standing {
    /// Finds and reads the config, and says whether it may take effect.
    pub fn of(named: Option<&Path>, store: &TrustStore) -> Result<Self, ConfigError> {
        match locate(named)? {
            Location::Named(path) | Location::User(path) => {
                Ok(Self::InEffect(Box::new(Config::load(&path)?)))
            }
            Location::Nowhere(folder) => Ok(Self::InEffect(Box::new(Config { folder, ..Config::default() }))),
            Location::WorkingFolder(path) => Ok(Self::found(&path, store)),
        }
    }

    fn found(file: &Path, store: &TrustStore) -> Self {
        let trusted = store.trusted(file);
        let (reason, candidate) = match Candidate::read(file) {
            Ok(found) if trusted.as_ref().is_some_and(|trusted| trusted.digest == found.digest) => {
                return Self::InEffect(Box::new(found.config));
            }
            Ok(found) if trusted.is_some() => (Reason::ChangedSince, Some(Box::new(found))),
            Ok(found) => (Reason::NeverTrusted, Some(Box::new(found))),
            Err(error) => (Reason::Broken(error.to_string()), None),
        };
        let trusted = trusted.map(|trusted| Box::new(trusted.config));
        let as_it_is = || candidate.as_ref().map(|candidate| Box::new(candidate.config.clone()));
        let names = trusted.clone().or_else(as_it_is);
        let withheld = Withheld { file: file.to_owned(), reason, names };
        Self::Withheld { withheld, trusted, candidate }
    }
}

impl Withheld {
    /// A config that could not be found or read; `file` is the one that was tried.
    pub fn broken(file: PathBuf, error: &ConfigError) -> Self {
        Self { file, reason: Reason::Broken(error.to_string()), names: None }
    }

    /// The folder that the config stands in.
    pub fn folder(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new("/"))
    }

    /// A config in which nothing is configured, and which says why.
    pub fn into_config(self) -> Config {
        let (folder, file) = (self.folder().to_owned(), Some(self.file.clone()));
        Config { folder, file, withheld: Some(self), ..Config::default() }
    }
}

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        match &self.reason {
            Reason::NeverTrusted => write!(f, "{file} is not trusted, so it has no effect"),
            Reason::ChangedSince => write!(f, "{file} has changed since it was trusted"),
            Reason::Broken(error) => write!(f, "{error}"),
        }
    }
}
