//! Where a plan's tools can be called: how each server is reached from here, as a digest. Another process with
//! the same digest reaches the same tools. No value taken from the environment is part of it.

use std::collections::{BTreeMap, BTreeSet};

use actbook_engine::chain::Digest;
use serde_json::{Value, json};

use super::{Tools, Upstream, catalog};
use crate::config::{COMMAND_SERVER, HTTP_SERVER, HttpTool, McpServer};

impl Tools {
    /// The digest of how the named servers are reached: commands, arguments, folders, addresses and the
    /// names of their variables, but no value taken from the environment. A name with a tool in it stands for
    /// that tool alone.
    pub fn place(&self, servers: &BTreeSet<String>) -> Digest {
        let definitions: BTreeMap<&str, Value> =
            servers.iter().map(|name| (name.as_str(), self.definition(name))).collect();
        Digest::of(json!(definitions).to_string().as_bytes())
    }

    /// What of a tool's name decides whether it is the same elsewhere: its server, or the tool alone where
    /// the config or this process gives each of them.
    pub fn home_of<'a>(&self, tool: &'a str) -> &'a str {
        match tool.split_once('/') {
            None | Some((COMMAND_SERVER | HTTP_SERVER, _)) => tool,
            Some((server, _)) => match self.upstreams.get(server) {
                Some(Upstream::Callback(_)) => tool,
                Some(Upstream::Mcp(_) | Upstream::Http | Upstream::Command) | None => server,
            },
        }
    }

    fn definition(&self, name: &str) -> Value {
        if let Some((server, tool)) = name.split_once('/')
            && let Some(Upstream::Callback(executors)) = self.upstreams.get(server)
        {
            return json!(executors.knows(tool).then_some("callback"));
        }
        let folder = self.config.folder.to_string_lossy();
        let command = |tool| json!({ "tool": tool, "folder": folder });
        if let Some(tool) = name.strip_prefix("command/") {
            let info = self.config.commands.get(tool).map(|found| catalog::command_info(tool, found).digest);
            return command(json!(info));
        }
        let asks = |(name, tool): (&String, &HttpTool)| (name.clone(), catalog::http_info(name, tool).digest);
        if let Some(tool) = name.strip_prefix("http/") {
            return json!(self.config.http.get_key_value(tool).map(asks));
        }
        match (self.upstreams.get(name), self.config.mcp_servers.get(name)) {
            (Some(Upstream::Callback(_)), _) => json!("callback"),
            (Some(Upstream::Http), _) => {
                json!(self.config.http.iter().map(asks).collect::<BTreeMap<_, _>>())
            }
            (Some(Upstream::Command), _) => {
                let tools = self.config.commands.iter();
                let digests: BTreeMap<_, _> =
                    tools.map(|(name, tool)| (name, catalog::command_info(name, tool).digest)).collect();
                command(json!(digests))
            }
            (_, Some(McpServer::Stdio { command, args, env, inherit_env, cwd })) => {
                let mut definition = json!({
                    "command": command.source,
                    "args": args.iter().map(|arg| &arg.source).collect::<Vec<_>>(),
                    "env": env.keys().collect::<Vec<_>>(),
                    "cwd": cwd.as_ref().map(|cwd| &cwd.source),
                    "folder": folder,
                });
                if let Some(inherited) = inherit_env.source() {
                    definition["inherit_env"] = inherited;
                }
                definition
            }
            (_, Some(McpServer::Http { url, headers })) => {
                json!({ "url": url.source, "headers": headers.keys().collect::<Vec<_>>() })
            }
            (_, None) => Value::Null,
        }
    }
}
