//! What the rooms above ask about secrets: struck out, found in a document, missing from the environment.

use std::sync::Arc;

use serde_json::Value;

use super::Tools;
use crate::config::{COMMAND_SERVER, CommandTool, HTTP_SERVER, HttpTool};

impl Tools {
    /// Strikes every known secret out.
    pub fn redact(&self, value: &mut Value) {
        self.secrets.redact(value);
    }

    pub fn redact_text(&self, text: &mut String) {
        self.secrets.redact_text(text);
    }

    /// Whether there is any secret to look for.
    pub fn knows_secrets(&self) -> bool {
        !self.secrets.is_empty()
    }

    /// Where in a document a known secret stands, and whose value it is.
    pub fn find_secret(&self, value: &Value) -> Option<(String, Arc<str>)> {
        self.secrets.find(value)
    }

    /// The environment variables that a tool of the config needs and that are not set. An MCP server says so itself when
    /// it is started.
    pub fn unset_variables(&self, tool: &str) -> Vec<String> {
        let templates = match tool.split_once('/') {
            Some((COMMAND_SERVER, tool)) => self.config.commands.get(tool).map(CommandTool::templates),
            Some((HTTP_SERVER, tool)) => self.config.http.get(tool).map(HttpTool::templates),
            Some(_) | None => None,
        };
        self.secrets.unset_in(&templates.unwrap_or_default())
    }
}
