//! The toolset digest: a hash over the definitions of the servers that a plan uses. Another process with the
//! same digest calls the same tools. Values taken from the environment are not part of it.

use std::collections::{BTreeMap, BTreeSet};

use actbook_engine::chain::Digest;
use serde_json::{Value, json};

use super::{Downstream, Tools, catalog};
use crate::config::{COMMAND_SERVER, HTTP_SERVER, HttpTool, McpServer};

impl Tools {
    /// The digest of the named servers' definitions: commands, arguments, folders, URLs and the names of
    /// their variables, but no values from the environment. A name `server/tool` stands for that tool alone.
    pub fn toolset_digest(&self, servers: &BTreeSet<String>) -> Digest {
        let definitions: BTreeMap<&str, Value> =
            servers.iter().map(|name| (name.as_str(), self.server_definition(name))).collect();
        Digest::of(json!(definitions).to_string().as_bytes())
    }

    /// The name to pass to `toolset_digest` for a tool, written `server/tool`: its server, or the tool itself
    /// where the config or this process defines each tool separately.
    pub fn toolset_key<'a>(&self, tool: &'a str) -> &'a str {
        match tool.split_once('/') {
            None | Some((COMMAND_SERVER | HTTP_SERVER, _)) => tool,
            Some((server, _)) => match self.downstreams.get(server) {
                Some(Downstream::InProcess(_)) => tool,
                Some(Downstream::Mcp(_) | Downstream::Http | Downstream::Command) | None => server,
            },
        }
    }

    /// What the digest covers of one server or tool; null where it is not defined here.
    fn server_definition(&self, name: &str) -> Value {
        if let Some((server, tool)) = name.split_once('/')
            && let Some(Downstream::InProcess(executors)) = self.downstreams.get(server)
        {
            return json!(executors.can_perform(tool).then_some("callback"));
        }
        let folder = self.config.folder.to_string_lossy();
        let command = |tool| json!({ "tool": tool, "folder": folder });
        if let Some(tool) = name.strip_prefix("command/") {
            let digest =
                self.config.commands.get(tool).map(|found| catalog::command_tool_info(tool, found).digest);
            return command(json!(digest));
        }
        let http =
            |(name, tool): (&String, &HttpTool)| (name.clone(), catalog::http_tool_info(name, tool).digest);
        if let Some(tool) = name.strip_prefix("http/") {
            return json!(self.config.http.get_key_value(tool).map(http));
        }
        match (self.downstreams.get(name), self.config.mcp_servers.get(name)) {
            (Some(Downstream::InProcess(_)), _) => json!("callback"),
            (Some(Downstream::Http), _) => {
                json!(self.config.http.iter().map(http).collect::<BTreeMap<_, _>>())
            }
            (Some(Downstream::Command), _) => {
                let tools = self.config.commands.iter();
                let digests: BTreeMap<_, _> =
                    tools.map(|(name, tool)| (name, catalog::command_tool_info(name, tool).digest)).collect();
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
