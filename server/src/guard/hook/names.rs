//! The names of clients' own tools, and their arguments, in one form: `client/shell`, `write`, `edit`, `read`, `fetch`,
//! `agent` and `other`, with `command`, `path`, `content` and `url`. The table is in docs/guard.md.

use serde_json::{Map, Value};

use super::HookClient;

/// The tool as the journal names it, and its arguments with the names that rules read.
pub fn normalize_call(client: HookClient, name: &str, input: Value) -> (String, Value) {
    if let Some((server, tool)) = mcp_tool(name) {
        return (format!("{server}/{tool}"), input);
    }
    let tool = match client {
        HookClient::ClaudeCode => claude_code_tool(name),
        HookClient::Codex => codex_tool(name),
    };
    (tool.to_owned(), normalize_arguments(client, name, input))
}

/// The journal's name of a tool of Claude Code.
fn claude_code_tool(name: &str) -> &'static str {
    match name {
        "Bash" | "PowerShell" => "client/shell",
        "Write" => "client/write",
        "Edit" | "MultiEdit" | "NotebookEdit" => "client/edit",
        "Read" | "Glob" | "Grep" | "LS" | "NotebookRead" => "client/read",
        "WebFetch" | "WebSearch" => "client/fetch",
        "Task" | "Agent" => "client/agent",
        _ => "client/other",
    }
}

/// The journal's name of a tool of Codex.
fn codex_tool(name: &str) -> &'static str {
    match name {
        "Bash" => "client/shell",
        "apply_patch" => "client/edit",
        _ => "client/other",
    }
}

/// Server and tool of a name such as `mcp__files__read_file`.
fn mcp_tool(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("mcp__")?.split_once("__")
}

/// Adds the names that rules read; what the client calls them stays too, so that the journal has the whole input.
fn normalize_arguments(client: HookClient, name: &str, input: Value) -> Value {
    let Value::Object(mut fields) = input else { return input };
    for (theirs, ours) in [("file_path", "path"), ("notebook_path", "path")] {
        copy_field(&mut fields, theirs, ours);
    }
    if (client, name) == (HookClient::Codex, "apply_patch") {
        let paths = fields.get("command").and_then(Value::as_str).map(patch_paths).unwrap_or_default();
        fields.insert("paths".to_owned(), paths.into());
    }
    Value::Object(fields)
}

fn copy_field(fields: &mut Map<String, Value>, theirs: &str, ours: &str) {
    if let (Some(value), false) = (fields.get(theirs).cloned(), fields.contains_key(ours)) {
        fields.insert(ours.to_owned(), value);
    }
}

/// The files that a Codex patch adds, updates, deletes or moves to.
fn patch_paths(patch: &str) -> Vec<String> {
    const MARKS: [&str; 4] = ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];
    let path =
        |line: &str| MARKS.iter().find_map(|mark| line.strip_prefix(mark).map(|path| path.trim().to_owned()));
    patch.lines().filter_map(path).collect()
}
