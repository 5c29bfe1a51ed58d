//! The section `mcpServers`: how each server is started or reached. Its entries have the format of other clients, so
//! an unknown key is collected for a warning, not refused.

use std::collections::{BTreeMap, BTreeSet};

use super::section::Section;
use super::{ConfigProblem, McpServer, ReferenceScope};

/// A key of the config that has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWord {
    /// Its path in the config, as in `mcpServers.files.argss`.
    pub path: String,
    /// The known key that was probably meant.
    pub meant: Option<&'static str>,
}

impl UnknownWord {
    /// What is wrong, in a sentence without the path.
    pub const MESSAGE: &'static str = "is not a key that Actbook knows, so it has no effect";

    /// What to do about it.
    pub fn cure(&self) -> String {
        match self.meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "remove it, or leave it for the client that it is for".to_owned(),
        }
    }
}

/// The section `mcpServers`.
pub(super) struct McpServers {
    pub servers: BTreeMap<String, McpServer>,
    pub disabled: BTreeSet<String>,
    pub unknown_words: Vec<UnknownWord>,
}

/// Reads `mcpServers`. Unknown keys are collected, not refused: the entries may come from any other client.
pub(super) fn read_mcp_servers(section: Section) -> Result<McpServers, ConfigProblem> {
    let read = section.map_entries(|mut entry| {
        if entry.flag("disabled")? == Some(true) {
            return Ok((None, Vec::new()));
        }
        let server = read_mcp_server(&mut entry)?;
        Ok((Some(server), entry.unknown_words(&MCP_SERVER_WORDS, &CLIENT_WORDS)))
    })?;
    let mut found =
        McpServers { servers: BTreeMap::new(), disabled: BTreeSet::new(), unknown_words: Vec::new() };
    for (name, (server, unknown_words)) in read {
        found.unknown_words.extend(unknown_words);
        match server {
            Some(server) => drop(found.servers.insert(name, server)),
            None => drop(found.disabled.insert(name)),
        }
    }
    Ok(found)
}

/// The keys of an entry of `mcpServers` that Actbook reads.
const MCP_SERVER_WORDS: [&str; 9] =
    ["command", "args", "env", "inherit_env", "cwd", "url", "serverUrl", "headers", "disabled"];
/// Keys of such an entry that other clients have and Actbook does not need.
const CLIENT_WORDS: [&str; 26] = [
    "alwaysAllow",
    "auth",
    "autoApprove",
    "description",
    "dev",
    "disabledTools",
    "enabled",
    "enabledTools",
    "envFile",
    "excludeTools",
    "gallery",
    "httpUrl",
    "icon",
    "includeTools",
    "initTimeout",
    "instructions",
    "metadata",
    "name",
    "oauth",
    "startup_timeout_sec",
    "timeout",
    "tool_timeout_sec",
    "tools",
    "transport",
    "trust",
    "type",
];

fn read_mcp_server(entry: &mut Section) -> Result<McpServer, ConfigProblem> {
    let url = match entry.template("url", ReferenceScope::Client)? {
        Some(url) => Some(url),
        None => entry.template("serverUrl", ReferenceScope::Client)?,
    };
    Ok(match (entry.template("command", ReferenceScope::Client)?, url) {
        (Some(command), None) => McpServer::Stdio {
            command,
            args: entry.templates("args", ReferenceScope::Client)?,
            env: entry.template_map("env", ReferenceScope::Client)?,
            inherit_env: entry.inherit_env()?.unwrap_or_default(),
            cwd: entry.template("cwd", ReferenceScope::Client)?,
        },
        (None, Some(url)) => {
            McpServer::Http { url, headers: entry.template_map("headers", ReferenceScope::Client)? }
        }
        (None, None) => {
            let slip = entry.slip_for(&["command", "url"]).unwrap_or_default();
            return Err(entry.problem_at("", format!("needs a `command` or a `url`{slip}")));
        }
        (Some(_), Some(_)) => return Err(entry.problem_at("", "has both `command` and `url`".into())),
    })
}
