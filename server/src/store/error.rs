//! What can go wrong between the house and its database, in words that help. No driver's type
//! leaves the seam: drivers' errors arrive here as one of these.

/// A failure of the world or of a row's shape; never a refusal of a command.
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
    Newer { migration: String },
    #[error("the disk is full{}", of_file(file))]
    Full { file: Option<String> },
    #[error("the database{} cannot be written: its folder or file is read-only", of_file(file))]
    ReadOnly { file: Option<String> },
    #[error("{} kept the database locked for {waited_s} s", holder.as_deref().unwrap_or("another process"))]
    Busy {
        waited_s: u64,
        /// The process that has the lock, in words; none where the system does not tell.
        holder: Option<String>,
    },
    #[error("{file} is a SQLite database of another program")]
    Foreign { file: String },
    #[error("a constraint of the database refused the write: {0}")]
    Constraint(String),
    #[error("the connection to the database was lost: {0}")]
    Lost(String),
    #[error("another process appended to the journal first")]
    HeadMoved,
    #[error("the database failed: {0}")]
    Failed(String),
    #[error("column {column} of a row holds {found} where {wanted} belongs")]
    Column { column: usize, wanted: &'static str, found: &'static str },
    #[error("a search takes at most {limit} words")]
    TooManyWords { limit: usize },
    #[error("cannot copy the database to {file}: {reason}")]
    Backup { file: String, reason: String },
    #[error("this database is PostgreSQL, which has a tool of its own for copies")]
    NoBackup,
}

/// ` (FILE)` where the file is known.
fn of_file(file: &Option<String>) -> String {
    file.as_ref().map_or(String::new(), |file| format!(" ({file})"))
}

impl Error {
    /// The same error, with the file that it is about.
    pub(super) fn at(self, file: &std::path::Path) -> Self {
        let name = Some(super::without_password(&file.to_string_lossy()));
        match self {
            Self::Full { .. } => Self::Full { file: name },
            Self::ReadOnly { .. } => Self::ReadOnly { file: name },
            other => other,
        }
    }

    /// The database is away or held by others; it may answer again, and then nothing is amiss.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Lost(_) | Self::Busy { .. })
    }
}
