//! The list of the servers' tools as agents see it.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use rmcp::model::Tool;
use serde_json::Value;

use super::super::McpEndpoint;
use super::Proxy;
use crate::caller::Caller;
use crate::guard::is_offered;
use crate::service::OfferedDefinition;

/// One server's tools by their offered names: `server/tool`, and the definition under the offered name.
pub type OfferedTools = BTreeMap<String, (String, Tool)>;

impl Proxy {
    /// The tools of all servers that agents are offered. Of a server that cannot be reached they are those of the last
    /// listing.
    pub async fn list_tools(&self, endpoint: &McpEndpoint, caller: &Caller) -> Vec<Tool> {
        let servers = endpoint.service().catalog().server_names();
        join_all(servers.iter().map(|server| self.list_server(endpoint, caller, server))).await;
        let offered = self.offered.lock();
        let listed = servers.iter().filter_map(|server| offered.get(server));
        listed.flat_map(BTreeMap::values).map(|(_, definition)| definition.clone()).collect()
    }

    async fn list_server(&self, endpoint: &McpEndpoint, caller: &Caller, server: &str) {
        match endpoint.service().catalog().offered_definitions(caller, server).await {
            Ok(tools) => {
                let offered = tools.into_iter().filter_map(|tool| self.offer(tool)).collect();
                self.offered.lock().insert(server.to_owned(), offered);
            }
            Err(error) => tracing::warn!("the tools of `{server}` are not offered: {error}"),
        }
    }

    /// The tool under its offered name. `None`: it is not offered, or its definition is no MCP tool.
    fn offer(&self, offered: OfferedDefinition) -> Option<(String, (String, Tool))> {
        let OfferedDefinition { tool, mut definition } = offered;
        if !self.settings.offer.exposes(&tool.name) || !is_offered(&self.config, &tool) {
            return None;
        }
        let name = self.settings.offer.offered_name(&tool.name);
        let fields = definition.as_object_mut()?;
        fields.insert("name".to_owned(), Value::from(name.as_str()));
        // It says how the tool runs as a task of an older protocol, which is not relayed.
        fields.remove("execution");
        let parsed = serde_json::from_value(definition);
        let parsed = parsed.inspect_err(|error| tracing::warn!("`{}` is no MCP tool: {error}", tool.name));
        Some((name, (tool.name, parsed.ok()?)))
    }

    /// The tool of this name as it was listed last; `None`: there was none.
    pub fn definition(&self, name: &str) -> Option<Tool> {
        self.find(name).map(|(_, definition)| definition)
    }

    /// The tool that is offered under this name, as `server/tool`. `None`: no such tool is exposed. One whose definition
    /// is hidden is found, so that its call is refused with the reason.
    pub async fn resolve(&self, endpoint: &McpEndpoint, caller: &Caller, name: &str) -> Option<String> {
        if let Some((tool, _)) = self.find(name) {
            return Some(tool);
        }
        let catalog = endpoint.service().catalog();
        for server in catalog.server_names() {
            let tools = catalog.offered_definitions(caller, &server).await.unwrap_or_default();
            let is_named = |tool: &String| {
                self.settings.offer.exposes(tool) && self.settings.offer.offered_name(tool) == name
            };
            if let Some(tool) = tools.into_iter().map(|one| one.tool.name).find(is_named) {
                return Some(tool);
            }
        }
        None
    }

    fn find(&self, name: &str) -> Option<(String, Tool)> {
        self.offered.lock().values().find_map(|tools| tools.get(name)).cloned()
    }
}
