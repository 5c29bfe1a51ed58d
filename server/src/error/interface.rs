//! Errors that only one interface can make. Their cure has one wording, so they carry it as text.

use actbook_engine::policy::string_enum;
use serde::{Deserialize, Serialize};

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

string_enum!(
    /// The codes of errors that only the command line makes.
    CommandLineCode {
        BadInput = "bad_input",
        CannotImport = "cannot_import",
        Demo = "demo",
        DemoTools = "demo_tools",
        Detach = "detach",
        InexactNumber = "inexact_number",
        Install = "install",
        Interrupted = "interrupted",
        InvalidField = "invalid_field",
        Io = "io",
        Listen = "listen",
        NoSuchDatabase = "no_such_database",
        NoSuchFile = "no_such_file",
        NoSuchServer = "no_such_server",
        NoSuchTopic = "no_such_topic",
        NoSuchVersion = "no_such_version",
        NobodyDrives = "nobody_drives",
        NobodyServes = "nobody_serves",
        NotApproved = "not_approved",
        NotLoopback = "not_loopback",
        NothingToTrust = "nothing_to_trust",
        NothingToUndo = "nothing_to_undo",
        NothingWaits = "nothing_waits",
        Protocol = "protocol",
        UnknownInput = "unknown_input",
        UntrustedConfig = "untrusted_config",
        Usage = "usage",
    }
);

string_enum!(
    /// The codes of errors that only MCP makes.
    AgentErrorCode {
        /// The client's form failed, so that the person could not answer.
        DialogFailed = "dialog_failed",
        InvalidArgument = "invalid_argument",
        MissingArgument = "missing_argument",
        NeedsPerson = "needs_a_person",
        NoAnswer = "no_answer",
        NotWaiting = "not_waiting",
        /// The question has changed since it was shown.
        StaleQuestion = "stale_question",
        UnexpectedArgument = "unexpected_argument",
        UnknownArgument = "unknown_argument",
    }
);
