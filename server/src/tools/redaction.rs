//! Secrets as other modules use them: redacting them, finding them in a document, listing unset variables.

use std::sync::Arc;

use serde_json::Value;

use super::Tools;
use crate::config::{COMMAND_SERVER, CommandTool, HTTP_SERVER, HttpTool, McpServer};

impl Tools {
    /// Replaces every known secret in the value, object keys included.
    pub fn redact(&self, value: &mut Value) {
        self.secrets.redact(value);
    }

    /// The value with the source of each known secret in the secret's place; `None`: it has none.
    pub fn name_secret_sources(&self, value: &Value) -> Option<Value> {
        self.has_secrets().then(|| self.secrets.name_sources(value)).flatten()
    }

    /// Replaces every known secret in the text.
    pub fn redact_text(&self, text: &mut String) {
        self.secrets.redact_text(text);
    }

    /// Replaces in a name the known secrets that plans must not contain: a name that is an ordinary word
    /// stays readable although a variable happens to have the same value.
    pub fn redact_name(&self, name: &mut String) {
        self.secrets.redact_name(name);
    }

    /// Whether any secret is known.
    pub fn has_secrets(&self) -> bool {
        !self.secrets.is_empty()
    }

    /// The path of the first known secret in a document that plans must not contain, as in
    /// `steps[0].arguments.key`, and where the secret comes from. None: there is none.
    pub fn find_secret(&self, value: &Value) -> Option<(String, Arc<str>)> {
        self.secrets.find_secret(value)
    }

    /// The environment variables that an MCP server needs and that are not set.
    pub fn unset_variables_of_server(&self, server: &str) -> Vec<String> {
        let templates = self.config.mcp_servers.get(server).map(McpServer::templates);
        self.secrets.unset_variables(&templates.unwrap_or_default())
    }

    /// The environment variables that a command or HTTP tool, written `server/tool`, needs and that are not
    /// set. Empty for an MCP tool: its server reports them when it is started.
    pub fn unset_variables(&self, tool: &str) -> Vec<String> {
        let templates = match tool.split_once('/') {
            Some((COMMAND_SERVER, tool)) => self.config.commands.get(tool).map(CommandTool::templates),
            Some((HTTP_SERVER, tool)) => self.config.http.get(tool).map(HttpTool::templates),
            Some(_) | None => None,
        };
        self.secrets.unset_variables(&templates.unwrap_or_default())
    }
}
