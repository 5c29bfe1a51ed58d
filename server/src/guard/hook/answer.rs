//! The answers to hooks, in each client's own form.

use serde_json::{Value, json};

use super::{HookClient, HookEvent};

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
        if !event.blocks_on_failure() {
            return None;
        }
        let (decision, reason) = match self {
            // Cursor blocks on empty output, where its entry says `failClosed`.
            Self::NoDecision if client == HookClient::Cursor => {
                return Some(json!({ "permission": "allow" }));
            }
            Self::NoDecision => return None,
            // Codex counts a bare `allow` as a failed hook; without a decision its own prompt follows.
            Self::Allow { .. } if client == HookClient::Codex => return None,
            Self::Allow { reason } => ("allow", reason),
            Self::Ask { reason } => ("ask", reason),
            Self::Deny { reason } => ("deny", reason),
        };
        Some(decision_document(client, decision, reason))
    }

    /// The document of a denial for a client that reads no text from stderr. `None`: exit code 2 and a text on stderr
    /// deny the call.
    pub fn failure_document(client: HookClient, reason: &str) -> Option<Value> {
        (client == HookClient::Cursor).then(|| decision_document(client, "deny", reason))
    }
}

fn decision_document(client: HookClient, decision: &str, reason: &str) -> Value {
    let reason = format!("Actbook: {reason}");
    let specific = json!({
        "hookEventName": "PreToolUse",
        "permissionDecision": decision,
        "permissionDecisionReason": reason,
    });
    match client {
        HookClient::ClaudeCode | HookClient::Codex => json!({ "hookSpecificOutput": specific }),
        // Each of the two runs the other's hooks too; one reads the inner fields, the other the outer ones.
        HookClient::Vscode | HookClient::Copilot => json!({
            "permissionDecision": decision,
            "permissionDecisionReason": reason,
            "hookSpecificOutput": specific,
        }),
        HookClient::Gemini => json!({ "decision": decision, "reason": reason }),
        // The model reads the user's message, whatever the names say; other versions may read the agent's.
        HookClient::Cursor => {
            json!({ "permission": decision, "user_message": reason, "agent_message": reason })
        }
    }
}
