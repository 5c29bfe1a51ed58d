//! A house whose one server may say something else tomorrow, and counts its calls.

use super::House;
use crate::tools::pins::{calls, say, shifty_server};
use serde_json::{Value, json};

pub struct Shifty {
    pub house: House,
}

impl Shifty {
    pub fn new(tools: &Value) -> Self {
        Self::under(tools, json!({}))
    }

    /// With the operator's words on the server.
    pub fn under(tools: &Value, words: Value) -> Self {
        let shifty = Self { house: House::new() };
        shifty.says(tools);
        shifty.config(words);
        shifty
    }

    pub fn config(&self, words: Value) {
        let config = json!({ "mcpServers": { "shifty": shifty_server() }, "servers": { "shifty": words } });
        self.house.write("actbook.yaml", &config.to_string());
    }

    pub fn says(&self, tools: &Value) {
        say(self.house.folder.path(), tools.as_array().unwrap());
    }

    /// All calls that reached the server.
    pub fn calls(&self) -> usize {
        let calls = std::fs::read_to_string(self.house.path("calls")).unwrap_or_default();
        calls.lines().count()
    }

    pub fn calls_of(&self, tool: &str) -> usize {
        calls(self.house.folder.path(), tool)
    }
}
