//! The binary as an MCP bundle: a zip with a manifest that says how a client starts it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::dist;
use crate::stage::{self, command, loud, quiet, root, target};

/// Builds it first, as it is shipped, unless it is told which binary to take.
pub fn run(binary: Option<&str>) -> Result<()> {
    let binary = match binary {
        Some(binary) => PathBuf::from(binary),
        None => {
            let mut build = dist::cargo(&["build", "--package", "actbook"])?;
            loud("build", &mut build, "The compiler says why, above.")?;
            dist::program()?
        }
    };
    let version = version_of(&binary)?;
    let folder = target().join("package");
    let inside = folder.join("bundle");
    std::fs::create_dir_all(inside.join("server"))?;
    std::fs::copy(&binary, inside.join("server/actbook")).with_context(|| binary.display().to_string())?;
    std::fs::write(inside.join("manifest.json"), serde_json::to_string_pretty(&manifest(&version))?)?;
    std::fs::copy(root().join("README.md"), inside.join("README.md"))?;
    let bundle = folder.join(format!("actbook-{version}-{}.mcpb", std::env::consts::ARCH));
    zip(&inside, &bundle)?;
    println!("{}", bundle.display());
    Ok(())
}

/// What the binary itself says, which must be what the registry is told.
fn version_of(binary: &Path) -> Result<String> {
    let output = command(&[&binary.to_string_lossy(), "--version"]).output().context("actbook --version")?;
    let said = stage::text_of(&output);
    let version = said.trim().strip_prefix("actbook ").context("actbook --version names no version")?;
    let registered: Value = serde_json::from_str(&std::fs::read_to_string(root().join("server.json"))?)?;
    if registered["version"] != version || registered["packages"][0]["version"] != version {
        bail!("server.json has another version than the binary, {version}");
    }
    Ok(version.to_owned())
}

fn manifest(version: &str) -> Value {
    json!({
        "manifest_version": "0.4",
        "name": "actbook",
        "display_name": "Actbook",
        "version": version,
        "description": "Runs an agent's plan of tool calls, journals every outcome, stops at failures, undoes.",
        "author": { "name": "Actbook" },
        "license": "MIT OR Apache-2.0",
        "server": {
            "type": "binary",
            "entry_point": "server/actbook",
            "mcp_config": { "command": "${__dirname}/server/actbook", "args": ["mcp"] },
        },
        "tools_generated": true,
        "prompts_generated": true,
        "compatibility": { "platforms": [platform()] },
    })
}

fn platform() -> &'static str {
    match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    }
}

fn zip(inside: &Path, bundle: &Path) -> Result<()> {
    let mut zip = command(&["python3", "-m", "zipfile", "-c"]);
    let parts = ["manifest.json", "README.md", "server/"].map(|name| inside.join(name));
    quiet("zip", zip.arg(bundle).args(parts), "It is made with Python's zipfile.")
}
