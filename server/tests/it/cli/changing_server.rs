//! A sandbox with one server whose tool definitions can be changed, and which logs its calls.

use super::Sandbox;
use crate::tools::pins::{calls, changing_server, write_definitions};
use serde_json::{Value, json};

/// A sandbox and its `shifty` server.
pub struct ChangingServer {
    pub sandbox: Sandbox,
}

impl ChangingServer {
    /// Starts with these tool definitions and no config of the operator for the server.
    pub fn new(tools: &Value) -> Self {
        Self::with_server_config(tools, json!({}))
    }

    /// Starts with the operator's config for the server.
    pub fn with_server_config(tools: &Value, server_config: Value) -> Self {
        let shifty = Self { sandbox: Sandbox::new() };
        shifty.set_tools(tools);
        shifty.set_server_config(server_config);
        shifty
    }

    /// Replaces the operator's config for the server.
    pub fn set_server_config(&self, server_config: Value) {
        let config =
            json!({ "mcpServers": { "shifty": changing_server() }, "servers": { "shifty": server_config } });
        self.sandbox.write("actbook.yaml", &config.to_string());
    }

    /// Replaces the tool definitions that the server lists.
    pub fn set_tools(&self, tools: &Value) {
        write_definitions(self.sandbox.folder.path(), tools.as_array().unwrap());
    }

    /// The number of calls that reached the server.
    pub fn calls(&self) -> usize {
        let calls = std::fs::read_to_string(self.sandbox.path("calls")).unwrap_or_default();
        calls.lines().count()
    }

    /// The number of calls of this tool.
    pub fn calls_of(&self, tool: &str) -> usize {
        calls(self.sandbox.folder.path(), tool)
    }
}
