//! The error that all interfaces (CLI, MCP, HTTP, library) show: a code, a sentence, and what to do.

pub mod command_line;

use actbook_engine::plan::Finding;
use actbook_engine::refusal::Refusal;
use serde::Serialize;

use crate::config::{ConfigError, WithheldConfig, WithheldReason};
use crate::{ledger, runner, store};

/// The code of a refusal because the config is not trusted.
pub const UNTRUSTED_CONFIG: &str = "untrusted_config";

/// The error of all interfaces.
#[derive(Clone, Debug, Serialize, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// One word, for programs.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to do instead.
    pub cure: String,
    /// The path within a document at which the problem is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// All problems of a document that was refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// The refusal that this error tells, so that each interface can word it.
    #[serde(skip)]
    pub refusal: Option<Box<Refusal>>,
}

impl Error {
    /// An error without a path or findings.
    pub fn new(code: &'static str, message: impl Into<String>, cure: impl Into<String>) -> Self {
        let (message, cure) = (message.into(), cure.into());
        Self { code, message, cure, path: None, findings: Vec::new(), refusal: None }
    }

    /// The refusal that this error tells; `None`: it is another error.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_deref()
    }

    /// The error for a document with findings; the message and the cure are those of the first one.
    pub fn from_findings(what: &str, findings: Vec<Finding>) -> Self {
        let count = findings.len();
        let first = findings.first();
        let text = |part: fn(&Finding) -> &String| first.map(part).cloned().unwrap_or_default();
        let (message, cure) = (text(|first| &first.message), text(|first| &first.cure));
        let path = first.map(|first| first.path.clone());
        let more = if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
        let location = first.map(Finding::path_with_step).filter(|location| !location.is_empty());
        let location = location.map_or(String::new(), |location| format!("{location}: "));
        let message = format!("{what}: {location}{message}{more}");
        Self { path, findings, ..Self::new("invalid", message, cure) }
    }
}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        let cure = match &error {
            ConfigError::Unreadable { .. } => "check --config (or ACTBOOK_CONFIG)",
            ConfigError::Ambiguous { .. } => "keep one of them, or name it with --config",
            ConfigError::Malformed { .. } | ConfigError::Refused { .. } => {
                "correct the config; `actbook help config` has every word of it"
            }
        };
        Self::new("config", error.to_string(), cure)
    }
}

impl From<&WithheldConfig> for Error {
    fn from(withheld: &WithheldConfig) -> Self {
        let cure = match withheld.reason {
            WithheldReason::NeverTrusted | WithheldReason::ChangedSince => {
                format!("read it, then run `actbook trust` in {}", withheld.folder().display())
            }
            WithheldReason::Broken(_) => "correct it, then run `actbook trust` there".to_owned(),
        };
        Self::new(UNTRUSTED_CONFIG, withheld.to_string(), cure)
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        let cure = command_line::refusal_cure(&refusal);
        let error = Self::new(refusal.code(), refusal.to_string(), cure);
        Self { refusal: Some(Box::new(refusal)), ..error }
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        let code = if matches!(error, store::Error::DiskFull { .. }) {
            "disk_full"
        } else if matches!(error, store::Error::ReadOnly { .. }) {
            "read_only"
        } else {
            "store"
        };
        let cure = match &error {
            store::Error::Open { .. } => "check --database (or ACTBOOK_DATABASE)",
            store::Error::DiskFull { .. } => {
                "free some room, then do it again; nothing that was answered is lost"
            }
            store::Error::ReadOnly { .. } => {
                "make both writable for this account, or choose another place with --database (or ACTBOOK_DATABASE)"
            }
            store::Error::UnsafeDurability { .. } => {
                "turn it on, or accept that with --unsafe-durability (`unsafe_durability()` in a program)"
            }
            store::Error::NewerSchema { .. } => {
                "run that Actbook, or open a copy from before it with --database"
            }
            store::Error::Busy { .. } => {
                "try again when that process has finished; continue it if it was stopped (`kill -CONT`), or end it"
            }
            store::Error::ForeignDatabase { .. } => {
                "give Actbook a file of its own with --database (or ACTBOOK_DATABASE); a new one is made where there is none"
            }
            store::Error::TooManyWords { .. } => "search for fewer words",
            store::Error::Backup { .. } => "choose another file",
            store::Error::BackupUnsupported => "`pg_dump` copies it while others write",
            store::Error::Constraint(_)
            | store::Error::ConnectionLost(_)
            | store::Error::HeadMoved
            | store::Error::Failed(_)
            | store::Error::WrongColumn { .. } => "nothing was lost; `actbook doctor` looks at the database",
        };
        Self::new(code, error.to_string(), cure)
    }
}

impl From<ledger::Error> for Error {
    fn from(error: ledger::Error) -> Self {
        match error {
            ledger::Error::Refused(refusal) => refusal.into(),
            ledger::Error::Store(error) => error.into(),
            ledger::Error::Corrupt(_) => {
                Self::new("corrupt", error.to_string(), "`actbook verify` names the first bad position")
            }
            ledger::Error::Closed => Self::new("closed", error.to_string(), "start actbook again"),
        }
    }
}

impl From<runner::Error> for Error {
    fn from(error: runner::Error) -> Self {
        match error {
            runner::Error::Ledger(error) => error.into(),
            runner::Error::Store(error) => error.into(),
            runner::Error::NodeLock(ref cause) => {
                let cure = match cause.kind() {
                    std::io::ErrorKind::StorageFull => "free some room on the disk of the data folder",
                    _ => "make the data folder writable",
                };
                Self::new("seat", error.to_string(), cure)
            }
        }
    }
}
