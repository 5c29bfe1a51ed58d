//! The error that all interfaces (CLI, MCP, HTTP, library) show: one variant for each case, with the data that
//! a cure needs. The message (`Display`) says what is wrong; `cures` words for each interface's readers what to do
//! about it.

mod cause;
mod conversion;
pub mod cures;
mod document;
mod interface;
mod report;

use std::path::PathBuf;

use actbook_engine::event::ReportedStatus;
use actbook_engine::id::ExecutionId;
use actbook_engine::plan::{CureAction, Finding};
use actbook_engine::refusal::{Refusal, StepSuggestion};

use crate::caller::Right;
use crate::config::{ConfigError, WithheldConfig};
use crate::store;

pub use cause::{Ambiguity, ClosedPart, Corruption, ErasedUse, PersonAct, SecretProblem};
pub use cures::Cures;
pub use document::{DocumentKind, InvalidDocument, SECRET_IN_PLAN, UNTRUSTED_CONFIG};
pub use interface::{AgentError, AgentErrorCode, CommandLineCode, CommandLineError, InterfaceError};
pub use report::ErrorReport;

// For interfaces that match on them, and that must not name their modules.
pub use crate::store::Error as StoreError;
pub use crate::tools::{CatalogError, ReplyProblem, UnfitReply};

/// The error of all interfaces.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine, the ledger or the runner refused a command.
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("{0}")]
    Invalid(InvalidDocument),

    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("{0}")]
    UntrustedConfig(WithheldConfig),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error("{0}")]
    Corrupt(Corruption),
    #[error("{0}")]
    Closed(ClosedPart),
    #[error("the node's lock file cannot be written: {0}")]
    NodeLock(std::io::Error),
    /// The key file that seals the state of questions cannot be read or created.
    #[error("{}: {error}", .file.display())]
    KeyFile { file: PathBuf, error: std::io::Error },
    #[error("{0}")]
    Bug(String),

    #[error("there is no execution `{given}`")]
    NoSuchExecution { given: String },
    #[error("execution {execution} has no step `{step}`")]
    NoSuchStep { execution: ExecutionId, step: String, suggestion: StepSuggestion },
    #[error("there is no plan `{given}`")]
    NoSuchPlan { given: String, nearest: Option<String> },
    #[error("{}", missing_version(plan, *version, *newest))]
    NoSuchVersion { plan: String, version: u64, newest: u64 },
    #[error("there is no template `{given}`")]
    NoSuchTemplate { given: String, nearest: Option<String> },
    #[error("there is no note `{key}`")]
    NoSuchNote { key: String },
    /// `nearest`: the most similar name of a tool that can be described.
    #[error("{error}")]
    ToolUnavailable { error: CatalogError, nearest: Option<String> },
    #[error("its plan needs the server `{server}`, which is not configured here")]
    ServerNotConfigured { server: String },
    /// `alike`: kinds that may be meant. `known`: all kinds, without their versions.
    #[error("there is no kind `{given}`")]
    NoSuchKind { given: String, alike: Vec<&'static str>, known: Vec<&'static str> },
    /// The text names the known ones.
    #[error("{0}")]
    NoSuchStatus(String),
    /// The text names the known ones.
    #[error("{0}")]
    NoSuchCategory(String),
    #[error("{0}")]
    Ambiguous(Ambiguity),

    #[error("`{tool}` does not take these arguments: {why}")]
    InvalidArguments { tool: String, why: String },
    #[error("`{tool}` has changed since the plan was saved: {differences}")]
    ToolChanged { tool: String, differences: String },
    #[error("`{tool}` is part of this process and has no definition to accept")]
    NothingToAccept { tool: String },
    #[error("{why}")]
    InvalidExecutor { why: String },
    /// `trouble`: the character that could pass for Actbook's own text.
    #[error("`{field}` contains {trouble}")]
    InvalidName { field: &'static str, trouble: String },
    #[error("a request key has 1 to {bytes_max} bytes")]
    InvalidKey { bytes_max: usize },
    #[error("there is no word in `{text}`")]
    NoWords { text: String },
    #[error("the cursor is not of a page with these filters")]
    ForeignCursor,
    #[error("a note belongs to a task, to a plan or to an execution, not to several")]
    SeveralOwners,
    #[error("a step belongs to an execution, and none is named")]
    StepWithoutExecution,
    #[error("an output does not go with `{status}`")]
    OutputNotAllowed { status: ReportedStatus },
    /// The reply to a tool's question does not answer it.
    #[error(transparent)]
    ReplyDoesNotFit(#[from] UnfitReply),
    #[error("the template `{name}` comes with Actbook")]
    ShippedTemplate { name: String },
    #[error("the inputs of this execution have been erased")]
    Erased { needed_for: ErasedUse },
    #[error("{0}")]
    Secret(SecretProblem),
    #[error("{0}")]
    NeedsPerson(PersonAct),
    /// The caller's credential lacks a right.
    #[error("this needs the right `{needed}`, which the credential does not have")]
    Forbidden { needed: Right },
    #[error("there is no token `{given}`")]
    NoSuchToken { given: String },
    #[error("there is no session `{given}`")]
    NoSuchSession { given: String },
    #[error("this export cannot be read: {why}")]
    NotAnExport { why: String },
    #[error("the export cannot be written: {0}")]
    ExportNotWritten(std::io::Error),

    #[error(transparent)]
    CommandLine(Box<CommandLineError>),
    #[error(transparent)]
    Agent(Box<AgentError>),
}

impl Error {
    /// One word for programs. It never changes, and several variants may share it.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.code(),
            Self::Invalid(document) => document.code(),
            Self::Config(_) => "config",
            Self::UntrustedConfig(_) | Self::ToolUnavailable { error: CatalogError::Untrusted(_), .. } => {
                UNTRUSTED_CONFIG
            }
            Self::Store(store::Error::DiskFull { .. }) => "disk_full",
            Self::Store(store::Error::ReadOnly { .. }) => "read_only",
            Self::Store(store::Error::TooManyWords { .. }) => "too_many_words",
            Self::Store(_) => "store",
            Self::Corrupt(_) => "corrupt",
            Self::Closed(_) => "closed",
            Self::NodeLock(_) => "seat",
            Self::KeyFile { .. } | Self::ExportNotWritten(_) => "io",
            Self::Bug(_) => "internal",
            Self::NoSuchExecution { .. } => "no_such_execution",
            Self::NoSuchStep { .. } => "no_such_step",
            Self::NoSuchPlan { .. } => "no_such_plan",
            Self::NoSuchVersion { .. } => "no_such_version",
            Self::NoSuchTemplate { .. } => "no_such_template",
            Self::NoSuchNote { .. } => "no_such_note",
            Self::ToolUnavailable { .. } => "no_such_tool",
            Self::ServerNotConfigured { .. } => "no_such_server",
            Self::NoSuchKind { .. } => "no_such_kind",
            Self::NoSuchStatus(_) => "no_such_status",
            Self::NoSuchCategory(_) => "no_such_category",
            Self::Ambiguous(_) => "ambiguous",
            Self::InvalidArguments { .. } => "invalid_arguments",
            Self::ToolChanged { .. } => "tool_changed",
            Self::NothingToAccept { .. } => "nothing_to_accept",
            Self::InvalidExecutor { .. } => "invalid_executor",
            Self::InvalidName { .. } => "invalid_name",
            Self::InvalidKey { .. } => "invalid_key",
            Self::NoWords { .. } => "no_words",
            Self::ForeignCursor => "foreign_cursor",
            Self::SeveralOwners => "several_owners",
            Self::StepWithoutExecution => "no_execution",
            Self::OutputNotAllowed { .. } => "does_not_fit",
            Self::ReplyDoesNotFit(_) => "reply_does_not_fit",
            Self::ShippedTemplate { .. } => "shipped",
            Self::Erased { .. } => "erased",
            Self::Secret(problem) => problem.code(),
            Self::NeedsPerson(_) => "needs_a_person",
            Self::Forbidden { .. } => "forbidden",
            Self::NoSuchToken { .. } => "no_such_token",
            Self::NoSuchSession { .. } => "no_such_session",
            Self::NotAnExport { .. } => "not_an_export",
            Self::CommandLine(error) => error.code.as_str(),
            Self::Agent(error) => error.code.as_str(),
        }
    }

    /// What to do about it, for programs that embed Actbook and for the command line.
    pub fn cure(&self) -> String {
        self.cures().command_line
    }

    /// What to do about it, for the readers of each interface.
    pub fn cures(&self) -> Cures {
        cures::cures(self)
    }

    /// The path within a document, or the argument, at which the problem is. `None`: the error has no place.
    pub fn path(&self) -> Option<&str> {
        if let Self::InvalidName { field, .. } = self {
            return Some(field);
        }
        if let Self::ForeignCursor = self {
            return Some("cursor");
        }
        if let Self::CommandLine(error) = self {
            return error.path.as_deref();
        }
        if let Self::Agent(error) = self {
            return error.path.as_deref();
        }
        self.findings().first().map(|first| first.path.as_str())
    }

    /// All problems of a document that was refused; empty for other errors.
    pub fn findings(&self) -> &[Finding] {
        if let Self::Invalid(document) = self { &document.findings } else { &[] }
    }

    /// The refusal that this error tells; `None`: it is another error.
    pub fn refusal(&self) -> Option<&Refusal> {
        if let Self::Refused(refusal) = self { Some(refusal) } else { None }
    }

    /// What the cure tells the reader to do, if it is about a tool that cannot be described; `None`: the cure
    /// is the same for every reader.
    pub fn cure_action(&self) -> Option<CureAction> {
        let Self::ToolUnavailable { error, nearest } = self else { return None };
        cures::tool_action(error, nearest.as_deref())
    }

    /// The refusal of a document with these findings.
    pub fn invalid(kind: DocumentKind, findings: Vec<Finding>) -> Self {
        Self::Invalid(InvalidDocument::new(kind, findings))
    }

    /// An error of the command line alone.
    pub fn command_line(code: CommandLineCode, message: impl Into<String>, cure: impl Into<String>) -> Self {
        CommandLineError::new(code, message, cure).into()
    }

    /// An error of MCP alone.
    pub fn agent(code: AgentErrorCode, message: impl Into<String>, cure: impl Into<String>) -> Self {
        AgentError::new(code, message, cure).into()
    }
}

/// The message about a version that does not exist. Version numbers continue after a deletion, so a missing
/// older version was deleted.
fn missing_version(plan: &str, version: u64, newest: u64) -> String {
    if version == 0 {
        format!("version 1 of the plan `{plan}` has none before it")
    } else if (1..newest).contains(&version) {
        format!("version {version} of the plan `{plan}` was deleted")
    } else {
        format!("the plan `{plan}` has no version {version}")
    }
}
