//! A call of an agent, as an interface saw it.

use serde_json::Value;

use crate::service::GuardedTool;

/// A call that an agent wants to make, or has made.
#[derive(Clone, Debug, PartialEq)]
pub struct GuardedCall {
    /// `server/tool`; a client's own tools are `client/shell`, `client/write` and so on.
    pub tool: String,
    pub arguments: Value,
    /// The folder that relative paths in the arguments start from.
    pub folder: Option<String>,
    /// The tool, if Actbook sends the call for the client. `None`: the client makes it itself and reports it.
    pub relayed: Option<GuardedTool>,
    /// The client's own id of the call.
    pub id: Option<String>,
    /// The subagent that makes the call.
    pub agent: Option<String>,
}

impl GuardedCall {
    /// The server's part of the tool's name.
    pub fn server(&self) -> &str {
        self.tool.split_once('/').map_or(self.tool.as_str(), |(server, _)| server)
    }
}
