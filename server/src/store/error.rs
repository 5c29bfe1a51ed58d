//! The store's error type. Driver errors are converted to it in `db`, so that no driver type leaves the
//! store.

/// A failure of the database or of a row's format; never a refusal of a command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("cannot open the database {url}: {reason}")]
    Open { url: String, reason: String },
    #[error(
        "the PostgreSQL server runs with {setting} = off, so a power cut could lose what was acknowledged"
    )]
    UnsafeDurability { setting: &'static str },
    #[error(
        "the database has the migration `{migration}`, which this Actbook does not know: a newer one has opened it"
    )]
    NewerSchema { migration: String },
    #[error(
        "the database lacks the migration `{migration}`, and a hook changes no database that others may have open"
    )]
    OlderSchema { migration: &'static str },
    #[error("the disk is full{}", of_file(file))]
    DiskFull { file: Option<String> },
    #[error("the database{} cannot be written: its folder or file is read-only", of_file(file))]
    ReadOnly { file: Option<String> },
    #[error("{} kept the database locked for {waited_s} s", holder.as_deref().unwrap_or("another process"))]
    Busy {
        waited_s: u64,
        /// Describes the process that holds the lock; None if the system does not say.
        holder: Option<String>,
    },
    #[error("{file} is a SQLite database of another program")]
    ForeignDatabase { file: String },
    #[error("a constraint of the database refused the write: {0}")]
    Constraint(String),
    /// The connection failed; whether a write was committed is unknown.
    #[error("the connection to the database was lost: {0}")]
    ConnectionLost(String),
    #[error("another process appended to the journal first")]
    HeadMoved,
    #[error("the database failed: {0}")]
    Failed(String),
    #[error("column {column} of a row holds {found} where {wanted} belongs")]
    WrongColumn { column: usize, wanted: &'static str, found: &'static str },
    #[error("a search takes at most {limit} words")]
    TooManyWords { limit: usize },
    #[error("cannot copy the database to {file}: {reason}")]
    Backup { file: String, reason: String },
    #[error("this database is PostgreSQL, which has a tool of its own for copies")]
    BackupUnsupported,
}

/// ` (FILE)`, or nothing if the file is unknown.
fn of_file(file: &Option<String>) -> String {
    file.as_ref().map_or(String::new(), |file| format!(" ({file})"))
}

impl Error {
    /// Adds the file name to a `DiskFull` or `ReadOnly` error; returns other errors unchanged.
    pub(super) fn with_file(self, file: &std::path::Path) -> Self {
        let name = Some(crate::config::without_password(&file.to_string_lossy()));
        match self {
            Self::DiskFull { .. } => Self::DiskFull { file: name },
            Self::ReadOnly { .. } => Self::ReadOnly { file: name },
            other => other,
        }
    }

    /// Whether the same request may succeed later: the database is unreachable or locked.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::ConnectionLost(_) | Self::Busy { .. })
    }
}
