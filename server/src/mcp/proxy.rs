//! Offers the tools of the configured servers to a guarded agent, beside Actbook's own. Each call is judged and
//! journaled as a step of the agent's session before it is sent, and its answer is passed on as it came.

mod call;
mod offer;
mod progress;
mod question;
mod sessions;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;

use super::McpEndpoint;
use super::request::AgentRequest;
use crate::caller::Caller;
use crate::config::{Config, GuardConfig};
use crate::error::Error;
use crate::guard::{Guard, SessionOrigin};
use crate::service::SessionKey;
pub use call::call_tool;
use offer::OfferedTools;
use sessions::CallerSessions;

/// What a guarded endpoint knows beside the tools of its profile.
#[derive(Debug)]
pub struct Proxy {
    config: Arc<Config>,
    settings: GuardConfig,
    /// The tools as they were listed last, by server.
    offered: Mutex<HashMap<String, OfferedTools>>,
    callers: CallerSessions,
}

/// A connection of one client, or a session over HTTP: one guarded session, which begins with its first call.
#[derive(Debug, Default)]
pub struct GuardedConnection(OnceLock<(Caller, SessionOrigin)>);

impl Proxy {
    pub fn new(config: &Config) -> Self {
        let settings = config.guard.clone().unwrap_or_default();
        let (config, offered) = (Arc::new(config.clone()), Mutex::default());
        Self { config, settings, offered, callers: CallerSessions::default() }
    }

    fn guard<'a>(&'a self, endpoint: &'a McpEndpoint) -> Guard<'a> {
        Guard { service: endpoint.service(), config: &self.config }
    }

    /// The session that a request belongs to: that of its connection, or without one its caller's. Nothing that the
    /// agent sends names it.
    pub fn origin(
        &self,
        endpoint: &McpEndpoint,
        request: &AgentRequest,
        connection: Option<&GuardedConnection>,
    ) -> SessionOrigin {
        let new_session = || SessionKey {
            client: request.agent_name().to_owned(),
            key: endpoint.service().sessions().new_key(),
        };
        let origin = |key: SessionKey| SessionOrigin {
            key,
            folder: self.folder(),
            is_fresh: false,
            client_asks: false,
        };
        match connection {
            Some(connection) => {
                let begun = connection.0.get_or_init(|| (request.caller.clone(), origin(new_session())));
                begun.1.clone()
            }
            None => origin(self.callers.key_of(&request.credential_id(), Instant::now(), new_session)),
        }
    }

    /// The folder that relative paths in calls start from: that of the servers.
    fn folder(&self) -> Option<String> {
        let folder = &self.config.folder;
        (!folder.as_os_str().is_empty()).then(|| folder.to_string_lossy().into_owned())
    }
}

impl GuardedConnection {
    /// Ends the session of the connection, if it has begun.
    pub async fn close(&self, endpoint: &McpEndpoint) -> Result<(), Error> {
        match (endpoint.proxy(), self.0.get()) {
            (Some(proxy), Some((caller, origin))) => {
                proxy.guard(endpoint).close(caller, origin, "the client disconnected").await
            }
            (None, _) | (_, None) => Ok(()),
        }
    }
}
