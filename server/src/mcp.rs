//! The agent's door: one handler for stdio and HTTP, for the protocol with sessions and the one without.
//! It translates calls into the service's words and views into answers, and holds no rules.

mod answer;
mod arguments;
mod ask;
pub mod conformance;
mod elicit;
pub mod http;
mod tools;
mod waiting;

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, ErrorData, Implementation, ListToolsResult,
    PaginatedRequestParams, ProtocolVersion, RequestStateCodec, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer, ServiceExt};
use rmcp::{ServerHandler, transport};

use crate::config::{Approvals, Config};
use crate::error::Error;
use crate::service::{Background, Service};
use answer::Doors;
use ask::Ask;
pub use tools::Profile;

/// The list changes only with the binary, so a client may keep it for an hour.
const LIST_TTL_MS: u64 = 3_600_000;

const INSTRUCTIONS: &str = "Actbook runs plans of tool calls, journals every outcome, stops at failures \
and can undo. Start with `status`: it shows work in progress and the next call to make. To do something: \
list_tools, save_plan (fix what it finds), execute_plan with wait_s, then follow the Next lines of each \
answer. Send an idempotency_key with calls that change something and repeat the same key when you retry.";

/// The revisions that clients speak today, oldest first.
const VERSIONS: [ProtocolVersion; 4] = [
    ProtocolVersion::V_2025_03_26,
    ProtocolVersion::V_2025_06_18,
    ProtocolVersion::V_2025_11_25,
    ProtocolVersion::V_2026_07_28,
];

/// Clones are the same door.
#[derive(Clone, Debug)]
pub struct Door(Arc<Inside>);

#[derive(Debug)]
struct Inside {
    background: Background,
    approvals: Approvals,
    offered: Vec<tools::Offered>,
    seal: RequestStateCodec,
}

impl Door {
    pub fn new(background: Background, config: &Config, profile: Profile) -> Result<Self, Error> {
        let key = background.service().seal_key()?;
        let seal = RequestStateCodec::try_new(key.to_vec());
        let seal =
            seal.map_err(|error| Error::new("internal", error.to_string(), "this is a bug in actbook"))?;
        let offered = tools::offered(profile);
        Ok(Self(Arc::new(Inside { background, approvals: config.approvals, offered, seal })))
    }

    fn service(&self) -> &Service {
        self.0.background.service()
    }

    fn background(&self) -> &Background {
        &self.0.background
    }

    fn seal(&self) -> &RequestStateCodec {
        &self.0.seal
    }

    /// Which ways to an approval are open to a caller.
    fn doors(&self, ask: &Ask) -> Doors {
        match self.0.approvals {
            Approvals::Agents => Doors::Agent,
            Approvals::People if ask.can_elicit() => Doors::Person,
            Approvals::People => Doors::Terminal,
        }
    }

    fn offered(&self, name: &str) -> Option<&tools::Offered> {
        self.0.offered.iter().find(|offered| offered.tool.name == name)
    }
}

/// Serves one client over this process's own stdin and stdout, until stdin ends.
pub async fn stdio(door: Door) -> Result<(), Error> {
    let lost = |error: &dyn std::fmt::Display| {
        Error::new("protocol", format!("the client was lost: {error}"), "start it again from the client")
    };
    let serving = match door.serve(transport::stdio_pipes()).await {
        Ok(serving) => serving,
        // A client that only looked whether the command starts.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(lost(&error)),
    };
    serving.waiting().await.map_err(|error| lost(&error))?;
    Ok(())
}

impl ServerHandler for Door {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities)
            .with_server_info(own_name())
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
            .with_instructions(INSTRUCTIONS)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Owned(VERSIONS.to_vec())
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.0.offered.iter().map(|offered| offered.tool.clone()).collect();
        let mut listed = ListToolsResult::with_all_items(tools);
        listed.ttl_ms = Some(LIST_TTL_MS);
        listed.cache_scope = Some(CacheScope::Public);
        Ok(listed)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.offered(name).map(|offered| offered.tool.clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let door = self.clone();
        if self.offered(&request.name).is_none() {
            return Err(self.no_such_tool(&request.name));
        }
        let mut ask = Ask::new(context);
        ask.responses = request.input_responses;
        ask.request_state = request.request_state;
        // In a task of its own: a client that goes away half-way must not leave half of the work behind.
        let work = tokio::spawn(async move {
            let offered = door.offered(&request.name).expect("looked for above");
            tools::call(&door, ask, offered, request.arguments.unwrap_or_default()).await
        });
        match work.await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Ok(answer::refused(&error).into()),
            Err(error) => {
                tracing::error!("a call broke off: {error}");
                Err(ErrorData::internal_error("the call broke off; its journal entries stand", None))
            }
        }
    }
}

impl Door {
    fn no_such_tool(&self, name: &str) -> ErrorData {
        let names: Vec<&str> = self.0.offered.iter().map(|offered| offered.tool.name.as_ref()).collect();
        let near = actbook_engine::analysis::nearest(name, names.iter().copied());
        let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        ErrorData::invalid_params(format!("Unknown tool: {name}{near} There are: {}", names.join(", ")), None)
    }
}

pub fn own_name() -> Implementation {
    Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
}
