//! Third-party MCP servers over HTTP, of both protocol versions.

use std::path::PathBuf;
use std::process::Stdio;

use serde_json::json;
use tempfile::tempdir;
use tokio::process::{Child, Command};

use super::*;

/// A server process on a free port, ended on drop.
struct SpawnedServer {
    _child: Child,
    url: String,
}

/// The folder that `cargo xtask test` installed the servers into.
pub fn install_folder(variable: &str) -> PathBuf {
    std::env::var_os(variable).unwrap_or_else(|| panic!("{variable} is set by `cargo xtask test`")).into()
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

async fn spawn_server(mut command: Command, port: u16) -> SpawnedServer {
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = child.kill_on_drop(true).spawn().unwrap();
    let started = Instant::now();
    while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        assert!(started.elapsed() < TIMEOUT, "the server did not come up");
        tokio::task::yield_now().await;
    }
    SpawnedServer { _child: child, url: format!("http://127.0.0.1:{port}/mcp") }
}

async fn spawn_older_server() -> SpawnedServer {
    let server =
        install_folder("ACTBOOK_TEST_NPM").join("node_modules/@modelcontextprotocol/server-everything");
    let port = free_port();
    let mut command = Command::new("node");
    command.arg(server.join("dist/index.js")).arg("streamableHttp").env("PORT", port.to_string());
    spawn_server(command, port).await
}

const NEWER_SERVER: &str = r#"
import sys
from mcp.server.mcpserver import MCPServer, Context
server = MCPServer("modern")
@server.tool()
def add(a: int, b: int) -> int:
    "Adds."
    return a + b
server.run(transport="streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
"#;

async fn spawn_newer_server() -> SpawnedServer {
    let python = install_folder("ACTBOOK_TEST_PYPI").join("servers/bin/python");
    let port = free_port();
    let mut command = Command::new(python);
    command.args(["-c", NEWER_SERVER, &port.to_string()]);
    spawn_server(command, port).await
}

#[tokio::test]
async fn older_protocol_server_is_called_over_http() {
    let (folder, server) = (tempdir().unwrap(), spawn_older_server().await);
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
    let (folder, server) = (tempdir().unwrap(), spawn_newer_server().await);
    let tools = tools(folder.path(), json!({ "mcpServers": { "sums": { "url": server.url } } }));
    let ended = call(&tools, "sums/add", json!({ "a": 2, "b": 3 })).await;
    assert_eq!(expect_output(ended), json!({ "result": 5 }));
    tools.shutdown().await;
}

#[tokio::test]
async fn unreachable_http_server_was_sent_nothing() {
    let folder = tempdir().unwrap();
    let url = format!("http://127.0.0.1:{}/mcp", free_port());
    let tools = tools(folder.path(), json!({ "mcpServers": { "gone": { "url": url } } }));
    let (ended, processes) = watched_call(&tools, new_call("gone/any", json!({}))).await;
    let (category, message, sent) = expect_failure(ended);
    assert_eq!((category, sent, processes), (ErrorCategory::Unavailable, false, vec![]), "{message}");
}
