//! Why a connection to a child was given up from our side, and the end of the child with it.

use std::sync::{Arc, OnceLock};

use crate::tools::process::GroupKiller;

/// Gives a connection up. Clones are about the same connection.
#[derive(Clone, Debug)]
pub struct ConnectionFault {
    /// What the server did, as the rest of a sentence that names the server; the first reason is kept.
    reason: Arc<OnceLock<String>>,
    killer: GroupKiller,
}

impl ConnectionFault {
    pub fn new(killer: GroupKiller) -> Self {
        Self { reason: Arc::default(), killer }
    }

    /// Ends the server: one that breaks a limit would go on doing so.
    pub fn give_up(&self, reason: String) {
        tracing::debug!(reason, "a server is given up");
        if self.reason.set(reason).is_ok() {
            self.killer.kill();
        }
    }

    pub fn reason(&self) -> Option<&str> {
        self.reason.get().map(String::as_str)
    }

    pub fn is_given_up(&self) -> bool {
        self.reason.get().is_some()
    }
}
