//! The names of clients' own tools, and their arguments, in one form: `client/shell`, `write`, `edit`, `read`, `fetch`,
//! `agent`, `mcp` and `other`, with `command`, `path`, `content` and `url`. The table is in docs/guard.md.

use serde_json::{Map, Value, json};

use super::super::GuardedCall;
use super::super::tool_names::{ServerToolName, is_reserved};
use super::{HookClient, searches};

/// A client's tool of which nothing is known.
const OTHER: &str = "client/other";
/// A tool of an MCP server that the client does not name.
const MCP: &str = "client/mcp";

/// Our name of a client's tool, and the client's names for it.
type ToolNames = [(&'static str, &'static [&'static str])];

const CLAUDE_CODE: &ToolNames = &[
    ("client/shell", &["Bash", "PowerShell"]),
    ("client/write", &["Write"]),
    ("client/edit", &["Edit", "MultiEdit", "NotebookEdit"]),
    ("client/read", &["Read", "Glob", "Grep", "LS", "LSP", "NotebookRead"]),
    ("client/fetch", &["WebFetch", "WebSearch"]),
    (
        "client/agent",
        &[
            "Task",
            "Agent",
            "TodoWrite",
            "TodoRead",
            "TaskCreate",
            "TaskUpdate",
            "TaskList",
            "TaskGet",
            "TaskOutput",
            "TaskStop",
            "BashOutput",
            "KillShell",
            "AskUserQuestion",
            "EnterPlanMode",
            "ExitPlanMode",
            "Skill",
            "ToolSearch",
        ],
    ),
    (MCP, &["ListMcpResourcesTool", "ReadMcpResourceTool"]),
];

const CODEX: &ToolNames = &[
    ("client/shell", &["Bash"]),
    ("client/edit", &["apply_patch"]),
    ("client/read", &["view_image"]),
    ("client/fetch", &["web_search"]),
    (
        "client/agent",
        &[
            "update_plan",
            "spawn_agent",
            "send_input",
            "wait_agent",
            "wait",
            "close_agent",
            "resume_agent",
            "request_user_input",
            "get_goal",
            "create_goal",
            "update_goal",
        ],
    ),
    (MCP, &["list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource"]),
];

const CURSOR: &ToolNames = &[
    ("client/shell", &["Shell"]),
    ("client/write", &["Write", "Delete"]),
    ("client/edit", &["Edit", "StrReplace", "EditNotebook"]),
    ("client/read", &["Read", "Grep", "Glob", "List", "LS", "SemanticSearch", "ReadLints"]),
    ("client/fetch", &["WebFetch", "WebSearch"]),
    ("client/agent", &["Task", "TodoWrite", "AskQuestion", "SwitchMode"]),
];

const GEMINI: &ToolNames = &[
    ("client/shell", &["run_shell_command"]),
    ("client/write", &["write_file"]),
    ("client/edit", &["replace"]),
    (
        "client/read",
        &[
            "read_file",
            "read_many_files",
            "list_directory",
            "glob",
            "grep_search",
            "search_file_content",
            "get_internal_docs",
        ],
    ),
    ("client/fetch", &["web_fetch", "google_web_search"]),
    (
        "client/agent",
        &[
            "write_todos",
            "activate_skill",
            "ask_user",
            "enter_plan_mode",
            "exit_plan_mode",
            "update_topic",
            "codebase_investigator",
            "cli_help",
        ],
    ),
];

const VSCODE: &ToolNames = &[
    ("client/shell", &["run_in_terminal"]),
    ("client/write", &["create_file", "create_directory"]),
    (
        "client/edit",
        &[
            "replace_string_in_file",
            "multi_replace_string_in_file",
            "insert_edit_into_file",
            "edit_notebook_file",
            "apply_patch",
            "edit_files",
            "editFiles",
        ],
    ),
    (
        "client/read",
        &[
            "read_file",
            "list_dir",
            "file_search",
            "grep_search",
            "semantic_search",
            "list_code_usages",
            "search_workspace_symbols",
            "get_errors",
            "get_changed_files",
            "get_search_view_results",
            "get_vscode_api",
            "get_doc_info",
            "get_terminal_output",
            "get_task_output",
            "terminal_selection",
            "terminal_last_command",
            "read_project_structure",
            "read_notebook_cell_output",
            "copilot_getNotebookSummary",
            "test_search",
            "test_failure",
        ],
    ),
    ("client/fetch", &["fetch_webpage", "github_repo", "open_simple_browser"]),
    ("client/agent", &["runSubagent", "manage_todo_list"]),
];

const COPILOT: &ToolNames = &[
    ("client/shell", &["bash", "powershell"]),
    ("client/write", &["create"]),
    ("client/edit", &["edit", "str_replace_editor", "apply_patch"]),
    ("client/read", &["view", "grep", "rg", "glob", "read_bash", "read_powershell"]),
    ("client/fetch", &["web_fetch", "web_search"]),
    ("client/agent", &["task", "ask_user", "update_todo", "report_intent"]),
];

/// The names that a client uses: its own, then those of the client whose hooks it runs too.
fn tables(client: HookClient) -> &'static [&'static ToolNames] {
    match client {
        HookClient::ClaudeCode => &[CLAUDE_CODE, VSCODE],
        HookClient::Codex => &[CODEX],
        HookClient::Cursor => &[CURSOR],
        HookClient::Gemini => &[GEMINI],
        HookClient::Vscode => &[VSCODE, CLAUDE_CODE],
        HookClient::Copilot => &[COPILOT, CLAUDE_CODE],
    }
}

/// The call with the tool as the journal names it, and with arguments that have the names that rules read. `name` is the
/// client's.
pub fn normalize_call(client: HookClient, name: &str, input: Value) -> GuardedCall {
    let client_tool = Some(name.to_owned());
    if let Some((server, tool)) = mcp_tool(name) {
        let joined = ServerToolName::Joined { name: name["mcp__".len()..].to_owned(), separator: "__" };
        return server_call(name, (server, tool), joined, input);
    }
    if let Some(server_tool) = nameless_mcp_tool(client, name) {
        let (tool, rest) = (MCP.to_owned(), name.trim_start_matches("MCP:").trim_start_matches("mcp_"));
        let arguments = json!({ "tool": rest, "arguments": input });
        return GuardedCall {
            tool,
            arguments,
            client_tool,
            server_tool: Some(server_tool),
            ..GuardedCall::default()
        };
    }
    let known = tables(client).iter().copied().flatten().find(|(_, theirs)| theirs.contains(&name));
    let tool = known.map_or(OTHER, |(ours, _)| ours);
    let input = if tool == OTHER || tool == MCP { with_name(name, input) } else { input };
    let arguments = normalize_arguments(name, input);
    GuardedCall { tool: tool.to_owned(), arguments, client_tool, ..GuardedCall::default() }
}

/// A call of a server's tool, both of which the client names apart from the tool's whole name.
pub fn normalize_mcp_call(name: &str, (server, tool): (&str, &str), input: Value) -> GuardedCall {
    let apart = ServerToolName::Apart { server: server.to_owned(), tool: tool.to_owned() };
    server_call(name, (server, tool), apart, input)
}

/// A call of a server's tool. That of a server named `client` must not pass for one of the client's own tools, and the
/// name of a server ends at the first `/`.
fn server_call(
    name: &str,
    (server, tool): (&str, &str),
    server_tool: ServerToolName,
    input: Value,
) -> GuardedCall {
    let is_hidden = is_reserved(server) || server.is_empty() || server.contains('/');
    let named = format!("{server}/{tool}");
    let (tool, arguments) = if is_hidden {
        (MCP.to_owned(), json!({ "tool": named, "arguments": input }))
    } else {
        (named, input)
    };
    let (client_tool, server_tool) = (Some(name.to_owned()), Some(server_tool));
    GuardedCall { tool, arguments, client_tool, server_tool, ..GuardedCall::default() }
}

/// Server and tool of a name such as `mcp__files__read_file`, if the server's name has no `__`.
fn mcp_tool(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("mcp__")?.split_once("__")
}

/// The name of an MCP server's tool, where the client does not say where the server's name ends.
fn nameless_mcp_tool(client: HookClient, name: &str) -> Option<ServerToolName> {
    match client {
        HookClient::Cursor => {
            name.strip_prefix("MCP:").map(|tool| ServerToolName::Nameless { tool: tool.to_owned() })
        }
        HookClient::Gemini | HookClient::Vscode => name
            .strip_prefix("mcp_")
            .map(|name| ServerToolName::Joined { name: name.to_owned(), separator: "_" }),
        HookClient::ClaudeCode | HookClient::Codex | HookClient::Copilot => None,
    }
}

/// The arguments of a tool that is not known, with its name, which a rule may want to read.
fn with_name(name: &str, input: Value) -> Value {
    let Value::Object(mut fields) = input else { return input };
    fields.entry("tool").or_insert_with(|| name.into());
    Value::Object(fields)
}

/// Adds the names that rules read; what the client calls them stays too, so that the journal has the whole input.
fn normalize_arguments(name: &str, input: Value) -> Value {
    const PATHS: [&str; 6] =
        ["file_path", "filePath", "notebook_path", "dir_path", "dirPath", "absolute_path"];
    let Value::Object(mut fields) = input else { return input };
    for theirs in PATHS {
        copy_field(&mut fields, theirs, "path");
    }
    if name == "apply_patch" {
        let patch = fields.get("command").or_else(|| fields.get("input")).or_else(|| fields.get("patch"));
        let paths = patch.and_then(Value::as_str).map(patch_paths).unwrap_or_default();
        fields.insert("paths".to_owned(), paths.into());
    }
    searches::add_paths(name, &mut fields);
    Value::Object(fields)
}

fn copy_field(fields: &mut Map<String, Value>, theirs: &str, ours: &str) {
    if let (Some(value), false) = (fields.get(theirs).cloned(), fields.contains_key(ours)) {
        fields.insert(ours.to_owned(), value);
    }
}

/// The files that a patch in Codex' format adds, updates, deletes or moves to.
fn patch_paths(patch: &str) -> Vec<String> {
    const MARKS: [&str; 4] = ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];
    // Codex takes a header with spaces around it.
    let path = |line: &str| {
        MARKS.iter().find_map(|mark| line.trim().strip_prefix(mark).map(|path| path.trim().to_owned()))
    };
    patch.lines().filter_map(path).collect()
}
