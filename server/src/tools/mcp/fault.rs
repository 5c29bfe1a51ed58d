//! Aborting a connection to a child that breaks a limit: records the reason and kills the child.

use std::sync::{Arc, OnceLock};

use crate::tools::process::GroupKiller;

/// Kills the child process of a connection that breaks a limit, and holds the reason. Clones refer to the same
/// connection.
#[derive(Clone, Debug)]
pub struct ConnectionFault {
    /// What the server did, as the rest of a sentence that begins with the server; only the first reason is
    /// kept.
    reason: Arc<OnceLock<String>>,
    killer: GroupKiller,
}

impl ConnectionFault {
    /// A connection that is not aborted; `killer` is for its child.
    pub fn new(killer: GroupKiller) -> Self {
        Self { reason: Arc::default(), killer }
    }

    /// Kills the server for this reason, written as the rest of a sentence: one that breaks a limit would go
    /// on doing so. Does nothing if the connection was aborted before.
    pub fn abort(&self, reason: String) {
        tracing::debug!(reason, "aborting the connection to a server");
        if self.reason.set(reason).is_ok() {
            self.killer.kill();
        }
    }

    /// Why the connection was aborted. None: it was not.
    pub fn reason(&self) -> Option<&str> {
        self.reason.get().map(String::as_str)
    }

    pub fn is_aborted(&self) -> bool {
        self.reason.get().is_some()
    }
}
