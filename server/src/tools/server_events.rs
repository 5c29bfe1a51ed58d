//! What servers say without being asked: that their lists have changed, that a resource has, and what they log.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::broadcast;

/// How many events a slow receiver may be behind; beyond that it misses the oldest.
const EVENTS_BEHIND_MAX: usize = 256;

/// Something that a server said.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerEvent {
    pub server: Arc<str>,
    pub kind: ServerEventKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ServerEventKind {
    ToolsChanged,
    ResourcesChanged,
    PromptsChanged,
    /// A resource that was subscribed to has changed.
    ResourceUpdated {
        uri: String,
    },
    /// A log message, as it came.
    Logged(Value),
}

/// Passes events to everybody who listens. Clones share the receivers.
#[derive(Clone, Debug)]
pub struct ServerEvents(broadcast::Sender<ServerEvent>);

impl ServerEvents {
    pub fn new() -> Self {
        Self(broadcast::Sender::new(EVENTS_BEHIND_MAX))
    }

    pub fn subscribe(&self) -> broadcast::Receiver<ServerEvent> {
        self.0.subscribe()
    }

    /// Sends an event; nothing happens if nobody listens.
    pub fn send(&self, server: &Arc<str>, kind: ServerEventKind) {
        drop(self.0.send(ServerEvent { server: server.clone(), kind }));
    }
}
