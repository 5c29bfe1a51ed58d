//! A sandbox with one server whose tool definitions can be changed, and which logs its calls.

use super::House;
use crate::tools::pins::{calls, say, shifty_server};
use serde_json::{Value, json};

/// A sandbox and its `shifty` server.
pub struct Shifty {
    pub house: House,
}

impl Shifty {
    /// Starts with these tool definitions and no config of the operator for the server.
    pub fn new(tools: &Value) -> Self {
        Self::under(tools, json!({}))
    }

    /// Starts with the operator's config for the server.
    pub fn under(tools: &Value, words: Value) -> Self {
        let shifty = Self { house: House::new() };
        shifty.says(tools);
        shifty.config(words);
        shifty
    }

    /// Replaces the operator's config for the server.
    pub fn config(&self, words: Value) {
        let config = json!({ "mcpServers": { "shifty": shifty_server() }, "servers": { "shifty": words } });
        self.house.write("actbook.yaml", &config.to_string());
    }

    /// Replaces the tool definitions that the server lists.
    pub fn says(&self, tools: &Value) {
        say(self.house.folder.path(), tools.as_array().unwrap());
    }

    /// The number of calls that reached the server.
    pub fn calls(&self) -> usize {
        let calls = std::fs::read_to_string(self.house.path("calls")).unwrap_or_default();
        calls.lines().count()
    }

    /// The number of calls of this tool.
    pub fn calls_of(&self, tool: &str) -> usize {
        calls(self.house.folder.path(), tool)
    }
}
