//! What a config refers to in the environment: every text that may hold a reference, and what children inherit by name.

use super::{CommandTool, Config, HttpTool, InheritEnv, McpServer, Shape, Template};

impl Config {
    /// Every text with references in it.
    pub fn templates(&self) -> Vec<&Template> {
        let of_servers = self.mcp_servers.values().flat_map(McpServer::templates);
        let of_http = self.http.values().flat_map(HttpTool::templates);
        of_servers.chain(of_http).chain(self.commands.values().flat_map(CommandTool::templates)).collect()
    }

    /// The variables that children inherit by name.
    pub fn inherited_variables(&self) -> impl Iterator<Item = &str> {
        let of_servers = self.mcp_servers.values().filter_map(|server| match server {
            McpServer::Stdio { inherit_env, .. } => Some(inherit_env),
            McpServer::Http { .. } => None,
        });
        of_servers.chain(self.commands.values().map(|tool| &tool.inherit_env)).flat_map(InheritEnv::names)
    }
}

impl McpServer {
    fn templates(&self) -> Vec<&Template> {
        match self {
            Self::Stdio { command, args, env, cwd, .. } => {
                [command].into_iter().chain(args).chain(env.values()).chain(cwd).collect()
            }
            Self::Http { url, headers } => [url].into_iter().chain(headers.values()).collect(),
        }
    }
}

impl HttpTool {
    /// Every text with references in it.
    pub fn templates(&self) -> Vec<&Template> {
        let body = self.body.iter().flat_map(Shape::templates);
        [&self.url].into_iter().chain(self.headers.values()).chain(body).collect()
    }
}

impl CommandTool {
    /// Every text with references in it.
    pub fn templates(&self) -> Vec<&Template> {
        self.argv.iter().chain(self.env.values()).chain(&self.cwd).collect()
    }
}
