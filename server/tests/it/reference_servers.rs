//! Third-party MCP servers that `cargo xtask test` installs, and processes of them that serve HTTP.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::waiting::wait_for;

/// The folder that `cargo xtask test` names in this variable.
pub fn install_folder(variable: &str) -> PathBuf {
    std::env::var_os(variable).unwrap_or_else(|| panic!("{variable} is set by `cargo xtask test`")).into()
}

/// The program of a reference server from npm, for `node`.
pub fn npm_script(server: &str) -> PathBuf {
    let modules = install_folder("ACTBOOK_TEST_NPM").join("node_modules/@modelcontextprotocol");
    modules.join(server).join("dist/index.js")
}

/// A program of a virtual environment.
pub fn pypi_program(program: &str) -> PathBuf {
    install_folder("ACTBOOK_TEST_PYPI").join(program)
}

/// A server process that serves MCP over HTTP, ended on drop.
pub struct HttpServerProcess {
    child: Child,
    pub url: String,
}

impl Drop for HttpServerProcess {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl HttpServerProcess {
    /// Starts a server that listens on port 0, and waits until it listens: a port that the test chose might be
    /// taken before the server binds it.
    pub fn start(mut command: Command) -> Self {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let port = wait_for("the HTTP server", || listening_port(child.id()));
        Self { child, url: format!("http://127.0.0.1:{port}/mcp") }
    }

    /// The reference server with every feature, of the older protocol.
    pub fn everything() -> Self {
        let mut command = Command::new("node");
        command.arg(npm_script("server-everything")).arg("streamableHttp").env("PORT", "0");
        Self::start(command)
    }
}

/// The TCP port on which a process listens; `None`: it does not yet, or has ended.
fn listening_port(pid: u32) -> Option<u16> {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    let links: Vec<PathBuf> = descriptors.filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect();
    let tables = ["tcp", "tcp6"].map(|table| std::fs::read_to_string(format!("/proc/{pid}/net/{table}")));
    let rows = tables.iter().flatten().flat_map(|table| table.lines());
    rows.map(|row| row.split_ascii_whitespace().collect::<Vec<_>>())
        .find(|row| row[3] == "0A" && links.contains(&format!("socket:[{}]", row[9]).into()))
        .and_then(|row| u16::from_str_radix(row[1].rsplit(':').next()?, 16).ok())
}
