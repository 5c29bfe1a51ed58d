//! Tells clients what the servers say without being asked: that lists or resources have changed, and what they log.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::model::{ErrorData, ResourceUpdatedNotificationParam};
use rmcp::service::{Peer, RoleServer, ServiceError};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::AbortHandle;

use super::super::McpEndpoint;
use super::Proxy;
use crate::tools::{ServerEvent, ServerEventKind};

/// Most resources of servers that one session subscribes to.
const SUBSCRIBED_MAX: usize = 100;

/// What one session is told of. Dropping it ends that.
#[derive(Debug, Default)]
pub struct EventRelay {
    forwarding: Mutex<Option<AbortHandle>>,
    /// The addresses of the resources that the session subscribed to.
    subscribed: Arc<Mutex<BTreeSet<String>>>,
}

impl Drop for EventRelay {
    fn drop(&mut self) {
        if let Some(forwarding) = self.forwarding.get_mut() {
            forwarding.abort();
        }
    }
}

impl EventRelay {
    /// Begins to pass events to the client of a session.
    pub fn start(&self, mut events: broadcast::Receiver<ServerEvent>, peer: Peer<RoleServer>) {
        let subscribed = self.subscribed.clone();
        let task = tokio::spawn(async move {
            loop {
                let event = match events.recv().await {
                    Ok(event) => event,
                    Err(RecvError::Lagged(_)) => continue,
                    Err(RecvError::Closed) => return,
                };
                if let Err(error) = notify(&peer, event.kind, &subscribed).await {
                    return tracing::debug!("a notification was not delivered: {error}");
                }
            }
        });
        if let Some(earlier) = self.forwarding.lock().replace(task.abort_handle()) {
            earlier.abort();
        }
    }

    /// Subscribes the session to a resource of a server. `Err`: too many, or no server reports its changes.
    pub async fn subscribe(
        &self,
        proxy: &Proxy,
        endpoint: &McpEndpoint,
        uri: String,
    ) -> Result<(), ErrorData> {
        let refused = |why: String| ErrorData::resource_not_found(format!("{uri}: {why}"), None);
        let Some(server) = proxy.server_of_resource(endpoint, &uri).await else {
            return Err(refused("no server has it".to_owned()));
        };
        if self.subscribed.lock().len() >= SUBSCRIBED_MAX {
            return Err(ErrorData::invalid_params(format!("at most {SUBSCRIBED_MAX} subscriptions"), None));
        }
        endpoint.service().catalog().subscribe_to_resource(&server, &uri).await.map_err(refused)?;
        self.subscribed.lock().insert(uri);
        Ok(())
    }

    pub fn unsubscribe(&self, uri: &str) {
        self.subscribed.lock().remove(uri);
    }
}

#[expect(deprecated, reason = "servers of the older revisions of the protocol still log")]
async fn notify(
    peer: &Peer<RoleServer>,
    kind: ServerEventKind,
    subscribed: &Mutex<BTreeSet<String>>,
) -> Result<(), ServiceError> {
    match kind {
        ServerEventKind::ToolsChanged => peer.notify_tool_list_changed().await,
        ServerEventKind::ResourcesChanged => peer.notify_resource_list_changed().await,
        ServerEventKind::PromptsChanged => peer.notify_prompt_list_changed().await,
        ServerEventKind::ResourceUpdated { uri } => {
            let is_subscribed = subscribed.lock().contains(&uri);
            if is_subscribed {
                peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await?;
            }
            Ok(())
        }
        ServerEventKind::Logged(message) => match serde_json::from_value(message) {
            Ok(message) => peer.notify_logging_message(message).await,
            Err(_) => Ok(()),
        },
    }
}
