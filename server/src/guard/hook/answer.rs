//! The answers to hooks, in each client's own form.

use serde_json::{Value, json};

use super::{HookClient, HookEvent, HookEventKind};

/// What is said of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookAnswer {
    /// The client decides as it would without us.
    NoDecision,
    /// A person said yes to this very call.
    Allow {
        reason: String,
    },
    /// The client asks its own person.
    Ask {
        reason: String,
    },
    Deny {
        reason: String,
    },
}

impl HookAnswer {
    /// The client's document on stdout. `None`: nothing is written.
    pub fn document(&self, client: HookClient, event: &HookEvent) -> Option<Value> {
        let HookEventKind::CallBegins(_) = event.kind else { return None };
        let (decision, reason) = match self {
            Self::NoDecision => return None,
            // Codex counts a bare `allow` as a failed hook; without a decision its own prompt follows.
            Self::Allow { .. } if client == HookClient::Codex => return None,
            Self::Allow { reason } => ("allow", reason),
            Self::Ask { reason } => ("ask", reason),
            Self::Deny { reason } => ("deny", reason),
        };
        Some(decision_document(decision, reason))
    }
}

fn decision_document(decision: &str, reason: &str) -> Value {
    json!({
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": decision,
            "permissionDecisionReason": format!("Actbook: {reason}"),
        }
    })
}
