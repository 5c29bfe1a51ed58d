//! An error as its readers get it.

use actbook_engine::plan::Finding;
use serde::{Serialize, Serializer};

use super::Error;

/// An error in the words of one interface. Serialised, it is the error of `--json`, of MCP's structured content
/// and of the library.
#[derive(Clone, Debug, Serialize)]
pub struct ErrorReport {
    /// One word, for programs.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to do instead.
    pub cure: String,
    /// The path within a document, or the argument, at which the problem is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// All problems of a document that was refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

impl ErrorReport {
    /// In the words of the command line, which are also the library's.
    pub fn for_command_line(error: &Error) -> Self {
        Self {
            code: error.code(),
            message: error.to_string(),
            cure: error.cure(),
            path: error.path().map(str::to_owned),
            findings: error.findings().to_vec(),
        }
    }
}

impl Serialize for Error {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ErrorReport::for_command_line(self).serialize(serializer)
    }
}
