//! The agent's door through the real binary, over stdio and over HTTP, as clients of both eras of the
//! protocol speak to it. Every answer is held against the schema that its tool declares.

pub mod agent;
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
mod results;
mod round;
mod templates;
mod undo_approvals;
pub mod web;

use serde_json::{Value, json};

use crate::cli::House;

/// A house whose `files` server fails `n` times under a name, as `command/flaky` does not.
fn steps(list: &[Value]) -> Value {
    json!({ "name": "work", "steps": list })
}

fn write(id: &str, path: &str) -> Value {
    json!({
        "id": id,
        "tool": "files/write_file",
        "arguments": { "path": path, "content": "words\n" },
        "compensation": { "tool": "files/delete_file", "arguments": { "path": "${arguments.path}" } },
    })
}

/// Waits until `released` is there.
fn hold(id: &str) -> Value {
    json!({ "id": id, "tool": "command/hold", "read_only": true })
}

fn executions(house: &House) -> usize {
    house.json(&["list", "--limit", "100000"]).as_array().unwrap().len()
}
