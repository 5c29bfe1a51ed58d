//! Real MCP clients: the Python library, fastmcp, Inspector and Claude Code.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use super::conformance::{clients, node};
use super::web::Server;
use crate::cli::{BINARY, House};

/// Runs the command in the sandbox's folder and environment.
fn at_home(house: &House, mut command: Command) -> Output {
    let own = house.command(&[]);
    for (name, value) in own.get_envs() {
        match value {
            // Node and Python need the PATH that contains them.
            _ if name == "PATH" => {}
            Some(value) => drop(command.env(name, value)),
            None => drop(command.env_remove(name)),
        }
    }
    command.current_dir(house.folder.path()).output().unwrap()
}

#[track_caller]
fn good(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    out.into_owned()
}

fn python(program: &str) -> Command {
    Command::new(clients().join("python/bin").join(program))
}

#[test]
fn the_python_client_of_both_eras_calls_every_tool_over_stdio_and_http() {
    let house = House::new();
    let server = Server::start(&house);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/mcp/clients.py");
    let url = server.url();
    for era in ["legacy", "modern"] {
        for target in [&[url.as_str()][..], &[BINARY, "mcp"]] {
            let mut command = python("python");
            command.arg(&script).arg(era).args(target);
            let result: Value = serde_json::from_str(good(&at_home(&house, command)).trim()).unwrap();
            assert_eq!(result["status"], "compensated", "{era} {target:?}: {result}");
        }
    }
}

#[test]
fn fastmcp_lists_and_calls_over_stdio_and_http() {
    let house = House::new();
    let server = Server::start(&house);
    let own = format!("{BINARY} mcp");
    for target in [vec![server.url()], vec!["--command".to_owned(), own]] {
        let mut list = python("fastmcp");
        list.arg("list").args(&target).arg("--json");
        let listed: Value = serde_json::from_str(&good(&at_home(&house, list))).unwrap();
        assert!(listed.to_string().contains("query_ledger"), "{listed}");
        let mut call = python("fastmcp");
        // Without a URL the tool needs `--target`: a positional argument would be read as the server.
        match target.len() {
            1 => call.arg("call").args(&target).arg("status").arg("--json"),
            _ => call.arg("call").args(&target).args(["--target", "status", "--json"]),
        };
        assert!(good(&at_home(&house, call)).contains("Nothing is active"));
    }
}

/// Runs Inspector; returns the result and its stderr.
fn inspector(house: &House, target: &[&str], words: &[&str]) -> (Value, String) {
    let program =
        clients().join("node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js");
    let mut command = node();
    command.arg(program).arg("--cli").args(target).args(words).args(["--format", "json"]);
    let output = at_home(house, command);
    let result: Value = serde_json::from_str(&good(&output)).unwrap();
    (result["result"].clone(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn inspector_finds_nothing_to_complain_of_in_either_era() {
    let house = House::new();
    let server = Server::start(&house);
    let url = server.url();
    for era in ["legacy", "modern"] {
        let http = [url.as_str(), "--transport", "http", "--protocol-era", era];
        let (listed, warned) = inspector(&house, &http, &["--strict", "--method", "tools/list"]);
        assert_eq!(listed["tools"].as_array().unwrap().len(), 12, "{listed}");
        assert!(!warned.contains("Warning") && !warned.contains("Error"), "{warned}");
        let call = ["--method", "tools/call", "--tool-name", "status"];
        let (called, _) = inspector(&house, &http, &call);
        assert!(called.to_string().contains("Nothing is active"), "{called}");
        for method in ["resources/list", "prompts/list", "resources/templates/list"] {
            inspector(&house, &http, &["--method", method]);
        }
    }
    let (_, warned) = inspector(&house, &[BINARY, "mcp"], &["--strict", "--method", "tools/list"]);
    assert!(!warned.contains("Warning") && !warned.contains("Error"), "{warned}");
}

#[test]
fn claude_code_connects_over_stdio_and_http() {
    let house = House::new();
    let program = clients().join("node_modules/.bin/claude");
    if !program.exists() {
        eprintln!("skipped: Claude Code's package is not installed");
        return;
    }
    let server = Server::start(&house);
    let claude = |words: &[&str]| {
        let mut command = Command::new(&program);
        command.args(words).env("CLAUDE_CONFIG_DIR", house.path("claude"));
        good(&at_home(&house, command))
    };
    claude(&["mcp", "add", "book", "--", BINARY, "mcp"]);
    claude(&["mcp", "add", "--transport", "http", "book-http", &server.url()]);
    let listed = claude(&["mcp", "list"]);
    let connected = listed.lines().filter(|line| line.starts_with("book") && line.contains("Connected"));
    assert_eq!(connected.count(), 2, "{listed}");
}
