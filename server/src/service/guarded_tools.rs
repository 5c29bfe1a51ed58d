//! The servers' tools as guarded agents are offered them: each with its definition, and how that stands to the one that
//! was accepted, or that the project's first guarded session found.

use std::collections::BTreeMap;
use std::time::Duration;

use actbook_engine::chain::Digest;
use actbook_engine::rules::PinState;
use actbook_engine::tool_policy::ToolPolicy;
use serde_json::Value;
use tokio::sync::broadcast;

use super::redact::tool_part;
use super::tools::ToolCatalog;
use crate::caller::Caller;
use crate::error::Error;
use crate::ledger::ListServerRequest;
use crate::tools::{Annotations, CatalogError, ServerEvent, ServerOffers, ToolInfo};

/// How long a relayed call may take, unless the config says otherwise: its client decides when it waits no longer.
const RELAYED_CALL_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// A tool that a guarded agent may call.
#[derive(Clone, Debug, PartialEq)]
pub struct GuardedTool {
    /// `server/tool`.
    pub name: String,
    /// The digest of the only definition that the call may be sent to. `None`: the tool has none, or was never listed.
    pub digest: Option<Digest>,
    pub pin: PinState,
    /// What the tool's server says of it, if the config trusts that server.
    pub hints: Annotations,
}

/// A tool with what MCP clients read of it, redacted, under the server's own name for it.
#[derive(Clone, Debug, PartialEq)]
pub struct OfferedDefinition {
    pub tool: GuardedTool,
    pub definition: Value,
}

impl GuardedTool {
    /// The stand-in tool for an MCP request that only reads, such as `server/resources/read`: marked as
    /// read-only, without the definition that a tool's server lists.
    pub fn of_reading_request(name: &str) -> Self {
        let hints = Annotations { read_only: Some(true), ..Annotations::default() };
        Self { name: name.to_owned(), digest: None, pin: PinState::Same, hints }
    }
}

impl ToolCatalog<'_> {
    /// The tools of a server. The first listing in a project is kept, so that later changes are noticed. `Err`: the
    /// server cannot be reached, or the listing cannot be kept.
    pub async fn offered_definitions(
        self,
        caller: &Caller,
        server: &str,
    ) -> Result<Vec<OfferedDefinition>, Error> {
        let listed = self.0.tools.list_server(server).await;
        if let Some(why) = listed.error {
            let error = CatalogError::Unreachable { server: server.to_owned(), why };
            return Err(Error::ToolUnavailable { error, nearest: None });
        }
        if !self.has_first_listing(server)? {
            let name = |tool: &ToolInfo| self.0.redact_name(tool_part(&tool.name).to_owned());
            let digests = listed.tools.iter().filter_map(|tool| Some((name(tool), tool.pin()?)));
            let (project, server, tools) = (self.0.project.to_string(), server.to_owned(), digests.collect());
            self.0.submit(caller, ListServerRequest { project, server, tools }).await?;
        }
        let offered = |info: ToolInfo| {
            let mut definition = info.mcp_definition();
            self.0.tools.redact(&mut definition);
            Ok(OfferedDefinition { tool: self.guarded_tool_of(server, &info)?, definition })
        };
        listed.tools.into_iter().map(offered).collect()
    }

    /// What the servers say from now on without being asked.
    pub fn subscribe_to_servers(self) -> broadcast::Receiver<ServerEvent> {
        self.0.tools.subscribe_to_servers()
    }

    /// Has a server report changes of a resource. `Err`: it cannot be reached, or refuses.
    pub async fn subscribe_to_resource(self, server: &str, uri: &str) -> Result<(), String> {
        self.0.tools.subscribe_to_resource(server, uri).await
    }

    /// Sets from which level on the servers that are up log.
    pub async fn set_log_level(self, level: &Value) {
        self.0.tools.set_log_level(level).await;
    }

    /// What a server offers beside tools, redacted. `Err`: it cannot be reached, or does not list it.
    pub async fn server_offers(self, server: &str) -> Result<ServerOffers, Error> {
        let offers = self.0.tools.server_offers(server).await;
        let mut offers = offers.map_err(|error| Error::ToolUnavailable { error, nearest: None })?;
        let ServerOffers { resources, resource_templates, prompts } = &mut offers;
        let all = resources.iter_mut().chain(resource_templates).chain(prompts);
        all.for_each(|item| self.0.tools.redact(item));
        Ok(offers)
    }

    /// One tool, by `server/tool`. Of a server that cannot be reached it is what is known of it: the call fails when it
    /// is sent. `Err`: there is no such tool.
    pub async fn guarded_tool(self, caller: &Caller, name: &str) -> Result<GuardedTool, Error> {
        let server = name.split('/').next().unwrap_or_default();
        match self.0.tools.describe(name).await {
            Ok(info) => {
                if !self.has_first_listing(server)? {
                    self.offered_definitions(caller, server).await?;
                }
                self.guarded_tool_of(server, &info)
            }
            Err(CatalogError::Unreachable { .. }) => Ok(GuardedTool {
                name: name.to_owned(),
                digest: self.known_definition(server, name)?,
                pin: PinState::Same,
                hints: Annotations::default(),
            }),
            Err(error) => Err(self.unavailable_error(name, error).await),
        }
    }

    fn has_first_listing(self, server: &str) -> Result<bool, Error> {
        let project = &self.0.project;
        Ok(self.0.ledger.with_library(|library| library.first_listing(project, server).is_some())?)
    }

    fn guarded_tool_of(self, server: &str, info: &ToolInfo) -> Result<GuardedTool, Error> {
        let pin = self.pin_state(server, info)?;
        let trusted = self.0.tools.trusts_hints_of(server);
        let hints = if trusted { info.annotations } else { Annotations::default() };
        Ok(GuardedTool { digest: info.pin(), name: info.name.clone(), pin, hints })
    }

    /// The definition of a tool that was accepted last; without one, that of the first listing.
    fn known_definition(self, server: &str, tool: &str) -> Result<Option<Digest>, Error> {
        let name = self.0.redact_name(tool_part(tool).to_owned());
        Ok(self.0.ledger.with_library(|library| {
            let first = library.first_listing(&self.0.project, server);
            library.accepted_definition(tool).or_else(|| first?.get(&name).copied())
        })?)
    }

    /// How the tool's definition stands to the one that is known.
    fn pin_state(self, server: &str, info: &ToolInfo) -> Result<PinState, Error> {
        let Some(digest) = info.pin() else { return Ok(PinState::Same) };
        Ok(match self.known_definition(server, &info.name)? {
            Some(known) if known == digest => PinState::Same,
            Some(_) => PinState::Changed,
            None => PinState::New,
        })
    }

    /// The policy of a tool whose call is relayed: the config's, with what a trusted server says where the config says
    /// nothing, and the pin.
    pub fn relayed_policy(self, tool: &GuardedTool) -> ToolPolicy {
        let policy = self.policy(&tool.name, Some(&tool.hints));
        let default_ms = u64::try_from(RELAYED_CALL_TIMEOUT.as_millis()).unwrap_or(u64::MAX);
        ToolPolicy {
            pin: tool.digest,
            timeout_ms: policy.timeout_ms.or(Some(default_ms)),
            read_only: policy.read_only.or(tool.hints.read_only.filter(|hint| *hint)),
            idempotent: policy.idempotent.or(tool.hints.idempotent.filter(|hint| *hint)),
            ..policy
        }
    }

    /// The digests of the definitions of the servers of these tools, which an undo needs unchanged.
    pub(super) fn server_digests(self, tool: &str) -> BTreeMap<String, Digest> {
        let key = self.0.tools.toolset_key(tool);
        BTreeMap::from([(key.to_owned(), self.0.tools.toolset_digest(&[key.to_owned()].into()))])
    }
}
