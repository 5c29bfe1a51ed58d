//! Offers the tools of the configured servers to a guarded agent, beside Actbook's own. Each call is judged and
//! journaled as a step of the agent's session before it is sent, and its answer is passed on as it came.

mod call;
mod events;
mod offer;
mod progress;
mod question;
mod requests;
mod sessions;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;
use rmcp::model::{ErrorData, ServerCapabilities};

use super::McpEndpoint;
use super::request::AgentRequest;
use crate::caller::Caller;
use crate::config::{Config, GuardConfig};
use crate::error::Error;
use crate::guard::{Guard, SessionOrigin};
use crate::service::{LiveSession, SessionKey};
pub use call::call_tool;
use events::EventRelay;
use offer::OfferedTools;
use requests::ListedOffers;
use sessions::CallerSessions;

/// What a guarded endpoint knows beside the tools of its profile.
#[derive(Debug)]
pub struct Proxy {
    config: Arc<Config>,
    settings: GuardConfig,
    /// The tools as they were listed last, by server.
    offered: Mutex<HashMap<String, OfferedTools>>,
    /// Resources and prompts as they were listed last.
    listed: Mutex<ListedOffers>,
    callers: CallerSessions,
    /// The sessions of which calls were sent, by their clients' keys.
    live: Mutex<HashMap<SessionKey, LiveSession>>,
}

/// Most sessions that are found without reading the database.
const LIVE_MAX: usize = 4_096;

/// A connection of one client, or a session over HTTP: one guarded session, which begins with its first call.
#[derive(Debug, Default)]
pub struct GuardedConnection {
    begun: OnceLock<(Caller, SessionOrigin)>,
    pub events: EventRelay,
}

impl Proxy {
    pub fn new(config: &Config) -> Self {
        let settings = config.guard.clone().unwrap_or_default();
        let (config, offered, listed) = (Arc::new(config.clone()), Mutex::default(), Mutex::default());
        Self { config, settings, offered, listed, callers: CallerSessions::default(), live: Mutex::default() }
    }

    /// The session of this origin, if a call of it was sent before.
    fn live(&self, origin: &SessionOrigin) -> Option<LiveSession> {
        self.live.lock().get(&origin.key).cloned()
    }

    fn keep_live(&self, origin: &SessionOrigin, live: &LiveSession) {
        let mut sessions = self.live.lock();
        if sessions.get(&origin.key) == Some(live) {
            return;
        }
        if sessions.len() >= LIVE_MAX {
            // They are found in the database again.
            sessions.clear();
        }
        sessions.insert(origin.key.clone(), live.clone());
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
                let begun = connection.begun.get_or_init(|| (request.caller.clone(), origin(new_session())));
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
        match (endpoint.proxy(), self.begun.get()) {
            (Some(proxy), Some((caller, origin))) => {
                proxy.guard(endpoint).close(caller, origin, "the client disconnected").await
            }
            (None, _) | (_, None) => Ok(()),
        }
    }
}

/// Does work in a task of its own, so that its outcome is recorded even if the client disconnects and the request's future
/// is dropped.
pub async fn run_to_end<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, ErrorData> {
    tokio::spawn(work).await.map_err(|error| {
        tracing::error!("a relayed request panicked or was aborted: {error}");
        ErrorData::internal_error("the call was aborted; its journal entries remain", None)
    })
}

/// The capabilities of an endpoint whose lists are those of servers, too.
pub fn with_changing_lists(mut capabilities: ServerCapabilities) -> ServerCapabilities {
    capabilities.tools.iter_mut().for_each(|tools| tools.list_changed = Some(true));
    capabilities.resources.iter_mut().for_each(|resources| resources.list_changed = Some(true));
    capabilities.prompts.iter_mut().for_each(|prompts| prompts.list_changed = Some(true));
    capabilities
}
