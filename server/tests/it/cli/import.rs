//! `tools import` takes servers from the configs of other MCP clients. It writes none of their secret values,
//! and keeps every line of the existing config.

use super::*;

/// Writes a file and creates its parent folders.
fn write_file(sandbox: &Sandbox, name: &str, text: &str) {
    let path = sandbox.path(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn read_config(sandbox: &Sandbox) -> String {
    std::fs::read_to_string(sandbox.path("actbook.yaml")).unwrap()
}

/// Runs `tools import --from` with these arguments.
fn run_import(sandbox: &Sandbox, words: &[&str]) -> CliOutput {
    let words = [&["tools", "import", "--from"], words].concat();
    let variables = [("GITHUB_TOKEN", "ghp_of-the-environment"), ("DOCS_URL", "https://docs.example/mcp")];
    sandbox.command(&words).envs(variables).env_remove("CLAUDE_CONFIG_DIR").output().unwrap().into()
}

/// The `--json` report of an import: which names were added, kept and left out.
fn import_report(sandbox: &Sandbox, from: &str) -> Value {
    let ran = run_import(sandbox, &[from, "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

const CLAUDE_CODE: &str = r#"{
  "mcpServers": {
    "files": { "type": "stdio", "command": "npx", "args": ["-y", "server-filesystem", "${HOME}/work"], "env": {} },
    "github": { "command": "github-server", "env": { "GITHUB_TOKEN": "${GITHUB_TOKEN}", "MODE": "rw", "LEVEL": "${LEVEL:-3}" } },
    "actbook": { "command": "/usr/local/bin/actbook", "args": ["mcp"] }
  }
}"#;

/// The user's own servers, those of this project, and those of another project, which must not be imported.
fn claude_user_file(sandbox: &Sandbox) -> String {
    let here = sandbox.folder.path().canonicalize().unwrap();
    json!({
        "numStartups": 3,
        "mcpServers": { "memory": { "command": "memory-server" }, "files": { "command": "another" } },
        "projects": {
            here.to_str().unwrap(): { "mcpServers": { "local": { "command": "local-server" } } },
            "/elsewhere": { "mcpServers": { "foreign": { "command": "foreign-server" } } },
        },
    })
    .to_string()
}

const CURSOR: &str = r#"{
  // The docs are served from afar.
  "mcpServers": {
    "docs": { "url": "${env:DOCS_URL}", "headers": { "Authorization": "Bearer sk-written-down", "X-Team": "a//b" } },
    "old": { "serverUrl": "https://old.example/sse", /* for now */ },
    "off": { "command": "x", "disabled": true },
    "self": { "command": "npx", "args": ["-y", "@actbook/actbook@1.0", "mcp"] },
    "boxed": { "command": "docker", "args": ["run", "-i", "--rm", "ghcr.io/somebody/actbook:latest", "mcp"] },
  },
}"#;

const VSCODE: &str = r#"{
  "inputs": [],
  "servers": {
    "play": { "type": "stdio", "command": "npx", "args": ["play", "--dir", "${workspaceFolder}/x", "--tag=\"//\""] },
    "web": { "type": "http", "url": "https://web.example/mcp" },
    "http": { "type": "http", "url": "https://named.example/mcp" },
  },
}"#;

const CLAUDE_DESKTOP: &str =
    r#"{ "mcpServers": { "notes": { "command": "notes", "env": { "API_KEY": "key-written-down" } } } }"#;

#[test]
fn import_takes_the_servers_of_every_supported_client() {
    let sandbox = Sandbox::new();
    std::fs::remove_file(sandbox.path("actbook.yaml")).unwrap();
    write_file(&sandbox, ".mcp.json", CLAUDE_CODE);
    write_file(&sandbox, ".claude.json", &claude_user_file(&sandbox));
    write_file(&sandbox, ".cursor/mcp.json", CURSOR);
    write_file(&sandbox, ".vscode/mcp.json", VSCODE);
    write_file(&sandbox, "config/Claude/claude_desktop_config.json", CLAUDE_DESKTOP);
    let cases = [
        ("claude-code", vec!["files", "github", "local", "memory"], 1),
        ("cursor", vec!["docs", "old"], 3),
        ("vscode", vec!["http-server", "play", "web"], 0),
        ("claude-desktop", vec!["notes"], 0),
    ];
    for (client, names, left_out) in cases {
        let report = import_report(&sandbox, client);
        assert_eq!(
            (&report["added"], report["left_out"].as_array().unwrap().len()),
            (&json!(names), left_out),
            "{report}"
        );
    }
    let text = read_config(&sandbox);
    for secret in ["ghp_of-the-environment", "sk-written-down", "key-written-down", "docs.example", "foreign"]
    {
        assert!(!text.contains(secret), "{secret} in\n{text}");
    }
    let here = sandbox.folder.path().canonicalize().unwrap();
    for kept in [
        "\"GITHUB_TOKEN\":\"${env:GITHUB_TOKEN}\"",
        "\"LEVEL\":\"${env:LEVEL:-3}\"",
        "${env:HOME}/work",
        "url: \"${env:DOCS_URL}\"",
        "Bearer ${env:DOCS_AUTHORIZATION}",
        "\"API_KEY\":\"${env:API_KEY}\"",
        &format!("{}/x", here.display()),
        "--tag=\\\"//\\\"",
    ] {
        assert!(text.contains(kept), "{kept} is not in\n{text}");
    }
    let config = actbook::config::Config::parse(&text, sandbox.folder.path()).unwrap();
    let names: Vec<&str> = config.mcp_servers.keys().map(String::as_str).collect();
    let expected =
        ["docs", "files", "github", "http-server", "local", "memory", "notes", "old", "play", "web"];
    assert_eq!(names, expected);
}

#[test]
fn import_keeps_existing_config_lines() {
    let sandbox = Sandbox::new();
    let before = "# Ours.\nmcpServers:\n    # The first.\n    files: { command: mine }   # by hand\n\n# What may run.\ncommands:\n  build: { argv: [make] }\n";
    sandbox.write("actbook.yaml", before);
    write_file(&sandbox, ".mcp.json", CLAUDE_CODE);
    let report = import_report(&sandbox, "claude-code");
    assert_eq!((&report["added"], &report["kept"]), (&json!(["github"]), &json!(["files"])), "{report}");
    let text = read_config(&sandbox);
    for line in before.lines() {
        assert!(text.lines().any(|other| other == line), "{line:?} is gone from\n{text}");
    }
    let (github, build) = (text.find("    github:").unwrap(), text.find("commands:").unwrap());
    assert!(github < build, "not added to `mcpServers`:\n{text}");
    let again = run_import(&sandbox, &["claude-code"]);
    assert!(again.stdout.contains("there is nothing to add"), "{}", again.stdout);
    assert_eq!(read_config(&sandbox), text);
}

#[test]
fn import_with_a_missing_variable_or_dry_run_writes_nothing() {
    let sandbox = Sandbox::new();
    let before = read_config(&sandbox);
    write_file(
        &sandbox,
        "theirs.json",
        r#"{ "servers": { "a": { "command": "x", "args": ["${NOT_SET}"] }, "b": { "url": "https://x/${input:key}" } } }"#,
    );
    let ran = run_import(&sandbox, &["theirs.json"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    for words in ["`a` needs the variable NOT_SET", "`b` asks its client for ${input:key}"] {
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    }
    std::fs::remove_file(sandbox.path("actbook.yaml")).unwrap();
    write_file(&sandbox, "theirs.json", CURSOR);
    let dry = run_import(&sandbox, &["theirs.json", "--dry-run"]);
    assert!(dry.code == Some(0) && dry.stdout.contains("docs:"), "{}{}", dry.stdout, dry.stderr);
    assert!(!sandbox.path("actbook.yaml").exists());
    sandbox.write("actbook.yaml", &before);
    let inline = run_import(&sandbox, &["theirs.json"]);
    assert!(inline.code == Some(1) && inline.stderr.contains("by hand"), "{}", inline.stderr);
    assert_eq!(read_config(&sandbox), before);
    for (words, message) in [(&["nobody.json"][..], "no client of that name"), (&["vscode"], "looked at")] {
        let ran = run_import(&sandbox, words);
        assert!(ran.code == Some(1) && ran.stderr.contains(message), "{}", ran.stderr);
    }
}

/// The new server would end the text block before a line of it that looks like a comment.
#[test]
fn import_that_would_change_an_existing_server_is_refused() {
    let sandbox = Sandbox::new();
    let text = "mcpServers:\n  mine:\n    command: sh\n    args:\n      - -c\n      - |\n        one\n        # two\n";
    write_file(&sandbox, "actbook.yaml", text);
    write_file(&sandbox, "theirs.json", r#"{ "mcpServers": { "new": { "command": "x" } } }"#);
    let ran = run_import(&sandbox, &["theirs.json"]);
    assert_eq!(ran.code, Some(1), "{}\n{}", ran.stdout, read_config(&sandbox));
    assert!(ran.stderr.contains("without losing something"), "{}", ran.stderr);
    assert_eq!(read_config(&sandbox), text);
}

/// A cloned folder may bring a link under the name of a temporary file.
#[test]
fn import_and_install_write_through_no_link_and_keep_permissions() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let sandbox = Sandbox::new();
    write_file(&sandbox, "theirs.json", r#"{ "mcpServers": { "new": { "command": "x" } } }"#);
    write_file(&sandbox, ".cursor/mcp.json", "{}");
    write_file(&sandbox, "precious", "mine");
    let files = ["actbook.yaml", ".cursor/mcp.json"].map(|name| sandbox.path(name));
    for file in &files {
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    symlink(sandbox.path("precious"), sandbox.path("actbook.yaml.new")).unwrap();
    symlink(sandbox.path("precious"), sandbox.path(".cursor/mcp.json.new")).unwrap();
    write_file(&sandbox, "actbook.yaml", "{}\n");
    assert_eq!(run_import(&sandbox, &["theirs.json"]).code, Some(1), "a map on one line");
    write_file(&sandbox, "actbook.yaml", "");
    assert_eq!(run_import(&sandbox, &["theirs.json"]).code, Some(0));
    sandbox.expect(0, &["install", "--client", "cursor", "--with-config", "actbook.yaml"]);
    assert!(read_config(&sandbox).contains("new:"));
    assert!(std::fs::read_to_string(&files[1]).unwrap().contains("actbook"));
    assert_eq!(std::fs::read_to_string(sandbox.path("precious")).unwrap(), "mine");
    for file in &files {
        assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
    }
    let left = std::fs::read_dir(sandbox.folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(
        left.filter(|name| name.to_string_lossy().ends_with(".new")).count(),
        1,
        "nothing is left behind"
    );
}
