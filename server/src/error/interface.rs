//! Errors that only one interface can make. Their cure has one wording, so they carry it as text.

/// The command line's errors about its own arguments, files and terminal.
pub type CommandLineError = InterfaceError<CommandLineCode>;
/// MCP's errors about a tool's arguments and about questions to a person.
pub type AgentError = InterfaceError<AgentErrorCode>;

/// An error of one interface: message and cure are for the readers of that interface.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InterfaceError<Code> {
    pub code: Code,
    pub message: String,
    pub cure: String,
    /// The argument or the input that is wrong.
    pub path: Option<String>,
}

impl<Code> InterfaceError<Code> {
    /// An error without a path.
    pub fn new(code: Code, message: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { code, message: message.into(), cure: cure.into(), path: None }
    }

    /// The same error, about this argument or input.
    pub fn with_path(self, path: impl Into<String>) -> Self {
        Self { path: Some(path.into()), ..self }
    }
}

/// The codes of errors that only the command line makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandLineCode {
    BadInput,
    CannotImport,
    Demo,
    DemoTools,
    Detach,
    InexactNumber,
    Install,
    Interrupted,
    InvalidField,
    Io,
    Listen,
    NoSuchDatabase,
    NoSuchFile,
    NoSuchServer,
    NoSuchTopic,
    NoSuchVersion,
    NobodyDrives,
    NobodyServes,
    NotLoopback,
    NothingToTrust,
    NothingToUndo,
    NothingWaits,
    Protocol,
    UnknownInput,
    UntrustedConfig,
    Usage,
}

impl CommandLineCode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BadInput => "bad_input",
            Self::CannotImport => "cannot_import",
            Self::Demo => "demo",
            Self::DemoTools => "demo_tools",
            Self::Detach => "detach",
            Self::InexactNumber => "inexact_number",
            Self::Install => "install",
            Self::Interrupted => "interrupted",
            Self::InvalidField => "invalid_field",
            Self::Io => "io",
            Self::Listen => "listen",
            Self::NoSuchDatabase => "no_such_database",
            Self::NoSuchFile => "no_such_file",
            Self::NoSuchServer => "no_such_server",
            Self::NoSuchTopic => "no_such_topic",
            Self::NoSuchVersion => "no_such_version",
            Self::NobodyDrives => "nobody_drives",
            Self::NobodyServes => "nobody_serves",
            Self::NotLoopback => "not_loopback",
            Self::NothingToTrust => "nothing_to_trust",
            Self::NothingToUndo => "nothing_to_undo",
            Self::NothingWaits => "nothing_waits",
            Self::Protocol => "protocol",
            Self::UnknownInput => "unknown_input",
            Self::UntrustedConfig => "untrusted_config",
            Self::Usage => "usage",
        }
    }
}

/// The codes of errors that only MCP makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentErrorCode {
    /// The client's form failed, so that the person could not answer.
    DialogFailed,
    InvalidArgument,
    MissingArgument,
    NeedsPerson,
    NoAnswer,
    NotWaiting,
    /// The question has changed since it was shown.
    StaleQuestion,
    UnexpectedArgument,
    UnknownArgument,
}

impl AgentErrorCode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DialogFailed => "dialog_failed",
            Self::InvalidArgument => "invalid_argument",
            Self::MissingArgument => "missing_argument",
            Self::NeedsPerson => "needs_a_person",
            Self::NoAnswer => "no_answer",
            Self::NotWaiting => "not_waiting",
            Self::StaleQuestion => "stale_question",
            Self::UnexpectedArgument => "unexpected_argument",
            Self::UnknownArgument => "unknown_argument",
        }
    }
}
