//! What a config reads from the environment: all texts that may hold a reference, and the variables that
//! child processes inherit by name.

use super::{CommandTool, Config, ConfigTemplate, HttpTool, InheritEnv, JsonTemplate, McpServer};

impl Config {
    /// All texts that may hold references.
    pub fn templates(&self) -> Vec<&ConfigTemplate> {
        let of_servers = self.mcp_servers.values().flat_map(McpServer::templates);
        let of_http = self.http.values().flat_map(HttpTool::templates);
        of_servers.chain(of_http).chain(self.commands.values().flat_map(CommandTool::templates)).collect()
    }

    /// The variables that child processes inherit by name.
    pub fn inherited_variables(&self) -> impl Iterator<Item = &str> {
        let of_servers = self.mcp_servers.values().filter_map(|server| match server {
            McpServer::Stdio { inherit_env, .. } => Some(inherit_env),
            McpServer::Http { .. } => None,
        });
        of_servers.chain(self.commands.values().map(|tool| &tool.inherit_env)).flat_map(InheritEnv::names)
    }
}

impl McpServer {
    /// All texts that may hold references.
    pub fn templates(&self) -> Vec<&ConfigTemplate> {
        match self {
            Self::Stdio { command, args, env, cwd, .. } => {
                [command].into_iter().chain(args).chain(env.values()).chain(cwd).collect()
            }
            Self::Http { url, headers } => [url].into_iter().chain(headers.values()).collect(),
        }
    }
}

impl HttpTool {
    /// All texts that may hold references.
    pub fn templates(&self) -> Vec<&ConfigTemplate> {
        let body = self.body.iter().flat_map(JsonTemplate::templates);
        [&self.url].into_iter().chain(self.headers.values()).chain(body).collect()
    }
}

impl CommandTool {
    /// All texts that may hold references.
    pub fn templates(&self) -> Vec<&ConfigTemplate> {
        self.argv.iter().chain(self.env.values()).chain(&self.cwd).collect()
    }
}
