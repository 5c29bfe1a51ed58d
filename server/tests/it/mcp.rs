//! Tests of the MCP interface through the real binary, over stdio and over HTTP, with clients of the legacy
//! and of the modern protocol. Every answer is validated against the schema that its tool declares.

pub mod agent;
mod answers;
mod approval_questions;
mod arguments;
mod boundary;
mod claims;
mod clients;
mod conformance;
mod crowd;
mod elicit;
mod floods;
mod forged;
mod http;
mod install;
mod keys;
mod live;
mod offers;
mod profiles;
mod projects;
mod record;
mod reports;
mod results;
mod round;
mod templates;
mod undo_approvals;
pub mod web;

use serde_json::{Value, json};

use crate::cli::House;

/// A plan named `work` with these steps.
fn steps(list: &[Value]) -> Value {
    json!({ "name": "work", "steps": list })
}

/// A step that writes a file and whose compensation deletes it.
fn write(id: &str, path: &str) -> Value {
    json!({
        "id": id,
        "tool": "files/write_file",
        "arguments": { "path": path, "content": "words\n" },
        "compensation": { "tool": "files/delete_file", "arguments": { "path": "${arguments.path}" } },
    })
}

/// A step that runs until the sandbox's `release` is called.
fn hold(id: &str) -> Value {
    json!({ "id": id, "tool": "command/hold", "read_only": true })
}

/// The number of executions in the database.
fn executions(house: &House) -> usize {
    house.json(&["list", "--limit", "100000"]).as_array().unwrap().len()
}
