//! The binary as an MCP bundle: a zip with a manifest that tells a client how to start it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::dist;
use crate::stage::{self, command, root, run_loud, run_quiet, target};

/// Writes the bundle of this binary, or of a new release build, and prints its path.
pub fn run(binary: Option<&str>) -> Result<()> {
    let binary = match binary {
        Some(binary) => PathBuf::from(binary),
        None => {
            let mut build = dist::cargo(&["build", "--package", "actbook"])?;
            run_loud("build", &mut build, "The compiler says why, above.")?;
            dist::program()?
        }
    };
    let version = version_of(&binary)?;
    let folder = target().join("package");
    let bundle_folder = folder.join("bundle");
    std::fs::create_dir_all(bundle_folder.join("server"))?;
    std::fs::copy(&binary, bundle_folder.join("server/actbook"))
        .with_context(|| binary.display().to_string())?;
    std::fs::write(bundle_folder.join("manifest.json"), serde_json::to_string_pretty(&manifest(&version))?)?;
    std::fs::copy(root().join("README.md"), bundle_folder.join("README.md"))?;
    let bundle = folder.join(format!("actbook-{version}-{}.mcpb", std::env::consts::ARCH));
    zip(&bundle_folder, &bundle)?;
    println!("{}", bundle.display());
    Ok(())
}

/// The version that the binary prints; fails if `server.json` has another.
fn version_of(binary: &Path) -> Result<String> {
    let output = command(&[&binary.to_string_lossy(), "--version"]).output().context("actbook --version")?;
    let output_text = stage::output_text(&output);
    let version =
        output_text.trim().strip_prefix("actbook ").context("actbook --version names no version")?;
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

fn zip(bundle_folder: &Path, bundle: &Path) -> Result<()> {
    let mut zip = command(&["python3", "-m", "zipfile", "-c"]);
    let parts = ["manifest.json", "README.md", "server/"].map(|name| bundle_folder.join(name));
    run_quiet("zip", zip.arg(bundle).args(parts), "It is made with Python's zipfile.")
}
