//! Tests of the MCP interface through the real binary, over stdio and over HTTP, with clients of the legacy
//! and of the modern protocol. Every answer is validated against the schema that its tool declares.

pub mod agent;
mod answers;
mod approval_questions;
mod arguments;
mod boundary;
mod claims;
mod clients;
pub mod conformance;
mod conformance_server;
mod crowd;
mod discovery;
mod doors;
mod elicit;
mod floods;
mod forged;
mod http;
mod idempotency_keys;
mod install;
mod live_updates;
mod profiles;
pub mod projects;
mod record;
mod reports;
mod results;
pub mod serve_process;
mod templates;
mod text_only_agent;
pub mod undo_approvals;

use serde_json::{Value, json};

use crate::cli::Sandbox;

/// A plan named `work` with these steps.
fn work_plan(list: &[Value]) -> Value {
    json!({ "name": "work", "steps": list })
}

/// A step that writes a file and whose compensation deletes it.
fn write_step(id: &str, path: &str) -> Value {
    json!({
        "id": id,
        "tool": "files/write_file",
        "arguments": { "path": path, "content": "words\n" },
        "compensation": { "tool": "files/delete_file", "arguments": { "path": "${arguments.path}" } },
    })
}

/// A step that runs until the sandbox's `release` is called.
fn hold_step(id: &str) -> Value {
    json!({ "id": id, "tool": "command/hold", "read_only": true })
}

/// The number of executions in the database.
fn count_executions(sandbox: &Sandbox) -> usize {
    sandbox.json(&["list", "--limit", "100000"]).as_array().unwrap().len()
}
