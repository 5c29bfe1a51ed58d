//! A call of an agent, as an interface saw it.

use serde_json::Value;

use super::paths;
use super::tool_names::ServerToolName;
use crate::config::{CLIENT_SERVER, Config, ToolConfig};
use crate::service::{CalledTool, GuardedTool};

/// A call that an agent wants to make, or has made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GuardedCall {
    /// `server/tool`; a client's own tools are `client/shell`, `client/write` and so on.
    pub tool: String,
    /// Further tools of the config that the client's name may mean. What is strictest of all of them holds.
    pub may_be: Vec<String>,
    pub arguments: Value,
    /// The folder that relative paths in the arguments start from.
    pub folder: Option<String>,
    /// The tool, if Actbook sends the call for the client. `None`: the client makes it itself and reports it.
    pub relayed: Option<GuardedTool>,
    /// The client's own id of the call.
    pub id: Option<String>,
    /// The subagent that makes the call.
    pub agent: Option<String>,
    /// The client's own name of the tool; `None`: Actbook sends the call.
    pub client_tool: Option<String>,
    /// The server's tool that the client's name stands for; `None`: it is one of the client's own.
    pub server_tool: Option<ServerToolName>,
    /// The arguments are the beginning of some that are too large to be judged.
    pub is_cut: bool,
    /// The name that `tool` would have, if the config had no other for it.
    pub spelled: Option<String>,
}

impl GuardedCall {
    /// The server's part of the tool's name.
    pub fn server(&self) -> &str {
        server_and_tool(&self.tool).0
    }

    /// The same call with the tool as the config names it, whatever the client has made of the name.
    pub fn with_config_names(mut self, config: &Config) -> Self {
        let Some(name) = &self.server_tool else { return self };
        let mut meant = name.configured(config);
        // A name that stands in the config stays; so does that of a call whose server is not named.
        if let Some(own) = meant.iter().position(|tool| *tool == self.tool) {
            meant.remove(own);
        } else if self.server() != CLIENT_SERVER && !meant.is_empty() {
            self.spelled = Some(std::mem::replace(&mut self.tool, meant.remove(0)));
        }
        self.may_be = meant;
        self
    }

    /// What the config says of the tool: the strictest, where the client's name may mean several.
    pub fn settings(&self, config: &Config) -> ToolConfig {
        let of = |name: &str| {
            let (server, tool) = server_and_tool(name);
            config.tool_config(server, tool)
        };
        self.may_be.iter().map(|tool| of(tool)).fold(of(&self.tool), ToolConfig::strictest)
    }

    /// Every name that a rule may have for the tool, the tool's own first.
    pub fn rule_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> =
            std::iter::once(&self.tool).chain(&self.may_be).map(String::as_str).collect();
        names.extend(self.spelled.as_deref().filter(|spelled| !names.contains(spelled)));
        names
    }

    /// The tool as the client calls it, which an approval binds.
    pub fn called_tool(&self) -> CalledTool {
        let is_sent_here = self.relayed.is_some();
        let folder = self.folder.as_deref().filter(|_| !is_sent_here);
        CalledTool {
            tool: self.tool.clone(),
            client_tool: self.client_tool.clone(),
            folder: folder.map(|folder| paths::resolve(folder, None)),
        }
    }
}

/// The two parts of `server/tool`.
pub fn server_and_tool(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or((name, name))
}
