//! Finds the tools of the config that a client's name of an MCP tool may mean. Clients write `_` for characters that
//! models' interfaces do not take, and join server and tool by underscores, which either of them may contain.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::config::{CLIENT_SERVER, COMMAND_SERVER, Config, HTTP_SERVER};

/// The names of servers that no MCP server has: a client's tool of such a server is another one.
const RESERVED_SERVERS: [&str; 3] = [CLIENT_SERVER, COMMAND_SERVER, HTTP_SERVER];

/// The tool of an MCP server, as a client names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerToolName {
    /// Server and tool, joined by this separator.
    Joined { name: String, separator: &'static str },
    /// Server and tool.
    Apart { server: String, tool: String },
    /// The tool alone: its server is not named.
    Nameless { tool: String },
}

/// Whether no MCP server may have this name in `server/tool`.
pub fn is_reserved(server: &str) -> bool {
    RESERVED_SERVERS.contains(&server)
}

impl ServerToolName {
    /// The tools of the config that the name may mean, as `server/tool`, those of the server with the longest name first.
    pub fn configured(&self, config: &Config) -> Vec<String> {
        let tools = named_tools(config);
        let named = config.mcp_servers.keys().chain(&config.disabled_servers).chain(config.servers.keys());
        let servers: BTreeSet<&str> =
            named.map(String::as_str).chain(tools.iter().map(|(server, _)| *server)).collect();
        let mut servers: Vec<&str> = servers.into_iter().filter(|server| !is_reserved(server)).collect();
        servers.sort_by_key(|server| Reverse(server.len()));
        servers.into_iter().flat_map(|server| self.tools_at(server, &tools)).collect()
    }

    /// The tools of this server that the name may mean: those that the config names, or else the tool as it is written.
    fn tools_at(&self, server: &str, tools: &BTreeSet<(&str, &str)>) -> Vec<String> {
        let Some(written) = self.tool_of(server) else { return Vec::new() };
        let is_meant = |(of, tool): &&(&str, &str)| *of == server && rewritten(tool) == rewritten(&written);
        let meant: Vec<String> =
            tools.iter().filter(is_meant).map(|(_, tool)| format!("{server}/{tool}")).collect();
        let is_certain = !matches!(self, Self::Nameless { .. });
        if meant.is_empty() && is_certain { vec![format!("{server}/{written}")] } else { meant }
    }

    /// The tool's name, if the tool is one of this server; `None`: it is another's.
    fn tool_of(&self, server: &str) -> Option<String> {
        let server = rewritten(server);
        match self {
            Self::Joined { name, separator } => {
                let plain = rewritten(name);
                let tool = plain.strip_prefix(&server)?.strip_prefix(separator)?;
                // Each character was rewritten as one.
                let before = plain.len() - tool.len();
                (!tool.is_empty()).then(|| name.chars().skip(before).collect())
            }
            Self::Apart { server: of, tool } => (rewritten(of) == server).then(|| tool.clone()),
            Self::Nameless { tool } => Some(tool.clone()),
        }
    }
}

/// The tools that the config names, by server: under `servers`, in budgets and in rules.
fn named_tools(config: &Config) -> BTreeSet<(&str, &str)> {
    let guard = config.guard();
    let settings = config.servers.iter();
    let settings = settings
        .flat_map(|(server, config)| config.tools.keys().map(|tool| (server.as_str(), tool.as_str())));
    let budgets = guard.budget.iter().flat_map(|budget| budget.per_tool.keys().map(String::as_str));
    let texts = guard.rules.iter().flat_map(|rule| rule.condition().split(['"', '\'']));
    settings.chain(budgets.chain(texts).filter_map(|text| text.split_once('/'))).collect()
}

/// A name as clients rewrite it: every character but letters, digits, `_` and `-` as `_`.
fn rewritten(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    name.chars().map(plain).collect()
}
