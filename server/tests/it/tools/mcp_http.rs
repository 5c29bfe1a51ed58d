//! Third-party MCP servers over HTTP, of both protocol versions.

use std::process::Command;

use serde_json::json;
use tempfile::tempdir;

use super::*;
use crate::reference_servers::{HttpServerProcess, pypi_program};

/// The discard port: nothing listens there, and no other test can be given it.
const UNREACHABLE: &str = "http://127.0.0.1:9/mcp";

const NEWER_SERVER: &str = r#"
from mcp.server.mcpserver import MCPServer, Context
server = MCPServer("modern")
@server.tool()
def add(a: int, b: int) -> int:
    "Adds."
    return a + b
server.run(transport="streamable-http", host="127.0.0.1", port=0)
"#;

/// A server of the newer protocol, from the Python SDK.
fn start_newer_server() -> HttpServerProcess {
    let mut command = Command::new(pypi_program("servers/bin/python"));
    command.args(["-c", NEWER_SERVER]);
    HttpServerProcess::start(command)
}

#[tokio::test]
async fn older_protocol_server_is_called_over_http() {
    let (folder, server) = (tempdir().unwrap(), HttpServerProcess::everything());
    let tools = tools(folder.path(), json!({ "mcpServers": { "all": { "url": server.url } } }));
    let listed = tools.list_servers().await;
    assert_eq!(listed[0].error, None);
    assert!(listed[0].tools.iter().any(|tool| tool.name == "all/echo"));
    let (ended, processes) = watched_call(&tools, new_call("all/echo", json!({ "message": "hello" }))).await;
    assert_eq!((expect_output(ended), processes), (json!({ "text": "Echo: hello" }), vec![None]));
    let ended = call(&tools, "all/echo", json!({ "message": 1 })).await;
    assert_eq!(expect_failure(ended).0, ErrorCategory::InvalidArguments);
    assert_eq!(expect_failure(call(&tools, "all/none", json!({})).await).0, ErrorCategory::NotFound);
    tools.shutdown().await;
}

#[tokio::test]
async fn newer_protocol_server_is_called_over_http() {
    let (folder, server) = (tempdir().unwrap(), start_newer_server());
    let tools = tools(folder.path(), json!({ "mcpServers": { "sums": { "url": server.url } } }));
    let ended = call(&tools, "sums/add", json!({ "a": 2, "b": 3 })).await;
    assert_eq!(expect_output(ended), json!({ "result": 5 }));
    tools.shutdown().await;
}

#[tokio::test]
async fn unreachable_http_server_was_sent_nothing() {
    let folder = tempdir().unwrap();
    let tools = tools(folder.path(), json!({ "mcpServers": { "gone": { "url": UNREACHABLE } } }));
    let (ended, processes) = watched_call(&tools, new_call("gone/any", json!({}))).await;
    let (category, message, sent) = expect_failure(ended);
    assert_eq!((category, sent, processes), (ErrorCategory::Unavailable, false, vec![]), "{message}");
}
