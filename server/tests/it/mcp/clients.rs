//! Real MCP clients: the Python library, fastmcp, Inspector and Claude Code.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use super::conformance::{clients_folder, node_command};
use super::serve_process::ServeProcess;
use crate::cli::{BINARY, Sandbox};

/// Runs the command in the sandbox's folder and environment.
fn run_in_sandbox(sandbox: &Sandbox, mut command: Command) -> Output {
    let own = sandbox.command(&[]);
    for (name, value) in own.get_envs() {
        match value {
            // Node and Python need the PATH that contains them.
            _ if name == "PATH" => {}
            Some(value) => drop(command.env(name, value)),
            None => drop(command.env_remove(name)),
        }
    }
    command.current_dir(sandbox.folder.path()).output().unwrap()
}

#[track_caller]
fn expect_success(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    out.into_owned()
}

fn python(program: &str) -> Command {
    Command::new(clients_folder().join("python/bin").join(program))
}

#[test]
fn python_client_calls_every_tool_over_stdio_and_http() {
    let sandbox = Sandbox::new();
    let server = ServeProcess::start(&sandbox);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/mcp/clients.py");
    let url = server.url();
    for era in ["legacy", "modern"] {
        for target in [&[url.as_str()][..], &[BINARY, "mcp"]] {
            let mut command = python("python");
            command.arg(&script).arg(era).args(target);
            let result: Value =
                serde_json::from_str(expect_success(&run_in_sandbox(&sandbox, command)).trim()).unwrap();
            assert_eq!(result["status"], "compensated", "{era} {target:?}: {result}");
        }
    }
}

#[test]
fn fastmcp_lists_and_calls_over_stdio_and_http() {
    let sandbox = Sandbox::new();
    let server = ServeProcess::start(&sandbox);
    let own = format!("{BINARY} mcp");
    for target in [vec![server.url()], vec!["--command".to_owned(), own]] {
        let mut list = python("fastmcp");
        list.arg("list").args(&target).arg("--json");
        let listed: Value = serde_json::from_str(&expect_success(&run_in_sandbox(&sandbox, list))).unwrap();
        assert!(listed.to_string().contains("query_ledger"), "{listed}");
        let mut call = python("fastmcp");
        // Without a URL the tool needs `--target`: a positional argument would be read as the server.
        match target.len() {
            1 => call.arg("call").args(&target).arg("status").arg("--json"),
            _ => call.arg("call").args(&target).args(["--target", "status", "--json"]),
        };
        assert!(expect_success(&run_in_sandbox(&sandbox, call)).contains("Nothing is active"));
    }
}

/// Runs Inspector; returns the result and its stderr.
fn inspector(sandbox: &Sandbox, target: &[&str], words: &[&str]) -> (Value, String) {
    let program =
        clients_folder().join("node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js");
    let mut command = node_command();
    command.arg(program).arg("--cli").args(target).args(words).args(["--format", "json"]);
    let output = run_in_sandbox(sandbox, command);
    let result: Value = serde_json::from_str(&expect_success(&output)).unwrap();
    (result["result"].clone(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn inspector_reports_no_warnings_in_either_protocol() {
    let sandbox = Sandbox::new();
    let server = ServeProcess::start(&sandbox);
    let url = server.url();
    for era in ["legacy", "modern"] {
        let http = [url.as_str(), "--transport", "http", "--protocol-era", era];
        let (listed, warned) = inspector(&sandbox, &http, &["--strict", "--method", "tools/list"]);
        assert_eq!(listed["tools"].as_array().unwrap().len(), 12, "{listed}");
        assert!(!warned.contains("Warning") && !warned.contains("Error"), "{warned}");
        let call = ["--method", "tools/call", "--tool-name", "status"];
        let (called, _) = inspector(&sandbox, &http, &call);
        assert!(called.to_string().contains("Nothing is active"), "{called}");
        for method in ["resources/list", "prompts/list", "resources/templates/list"] {
            inspector(&sandbox, &http, &["--method", method]);
        }
    }
    let (_, warned) = inspector(&sandbox, &[BINARY, "mcp"], &["--strict", "--method", "tools/list"]);
    assert!(!warned.contains("Warning") && !warned.contains("Error"), "{warned}");
}

#[test]
fn claude_code_connects_over_stdio_and_http() {
    let sandbox = Sandbox::new();
    let program = clients_folder().join("node_modules/.bin/claude");
    if !program.exists() {
        eprintln!("skipped: Claude Code's package is not installed");
        return;
    }
    let server = ServeProcess::start(&sandbox);
    let claude = |words: &[&str]| {
        let mut command = Command::new(&program);
        command.args(words).env("CLAUDE_CONFIG_DIR", sandbox.path("claude"));
        expect_success(&run_in_sandbox(&sandbox, command))
    };
    claude(&["mcp", "add", "book", "--", BINARY, "mcp"]);
    claude(&["mcp", "add", "--transport", "http", "book-http", &server.url()]);
    let listed = claude(&["mcp", "list"]);
    let connected = listed.lines().filter(|line| line.starts_with("book") && line.contains("Connected"));
    assert_eq!(connected.count(), 2, "{listed}");
}
