//! `tools import` takes servers from the configs of other MCP clients. It writes none of their secret values,
//! and keeps every line of the existing config.

use super::*;

/// Writes a file and creates its parent folders.
fn write(house: &House, name: &str, text: &str) {
    let path = house.path(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn ours(house: &House) -> String {
    std::fs::read_to_string(house.path("actbook.yaml")).unwrap()
}

/// Runs `tools import --from` with these arguments.
fn import(house: &House, words: &[&str]) -> Ran {
    let words = [&["tools", "import", "--from"], words].concat();
    let variables = [("GITHUB_TOKEN", "ghp_of-the-environment"), ("DOCS_URL", "https://docs.example/mcp")];
    house.command(&words).envs(variables).env_remove("CLAUDE_CONFIG_DIR").output().unwrap().into()
}

/// The `--json` report of an import: which names were added, kept and left out.
fn told(house: &House, from: &str) -> Value {
    let ran = import(house, &[from, "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    serde_json::from_str(&ran.out).unwrap()
}

const CLAUDE_CODE: &str = r#"{
  "mcpServers": {
    "files": { "type": "stdio", "command": "npx", "args": ["-y", "server-filesystem", "${HOME}/work"], "env": {} },
    "github": { "command": "github-server", "env": { "GITHUB_TOKEN": "${GITHUB_TOKEN}", "MODE": "rw", "LEVEL": "${LEVEL:-3}" } },
    "actbook": { "command": "/usr/local/bin/actbook", "args": ["mcp"] }
  }
}"#;

/// The user's own servers, those of this project, and those of another project, which must not be imported.
fn claude_user_file(house: &House) -> String {
    let here = house.folder.path().canonicalize().unwrap();
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
fn each_clients_servers_are_taken_over() {
    let house = House::new();
    std::fs::remove_file(house.path("actbook.yaml")).unwrap();
    write(&house, ".mcp.json", CLAUDE_CODE);
    write(&house, ".claude.json", &claude_user_file(&house));
    write(&house, ".cursor/mcp.json", CURSOR);
    write(&house, ".vscode/mcp.json", VSCODE);
    write(&house, "config/Claude/claude_desktop_config.json", CLAUDE_DESKTOP);
    let cases = [
        ("claude-code", vec!["files", "github", "local", "memory"], 1),
        ("cursor", vec!["docs", "old"], 3),
        ("vscode", vec!["http-server", "play", "web"], 0),
        ("claude-desktop", vec!["notes"], 0),
    ];
    for (client, names, left_out) in cases {
        let report = told(&house, client);
        assert_eq!(
            (&report["added"], report["left_out"].as_array().unwrap().len()),
            (&json!(names), left_out),
            "{report}"
        );
    }
    let text = ours(&house);
    for secret in ["ghp_of-the-environment", "sk-written-down", "key-written-down", "docs.example", "foreign"]
    {
        assert!(!text.contains(secret), "{secret} in\n{text}");
    }
    let here = house.folder.path().canonicalize().unwrap();
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
    let config = actbook::config::Config::parse(&text, house.folder.path()).unwrap();
    let names: Vec<&str> = config.mcp_servers.keys().map(String::as_str).collect();
    let expected =
        ["docs", "files", "github", "http-server", "local", "memory", "notes", "old", "play", "web"];
    assert_eq!(names, expected);
}

#[test]
fn what_stands_in_our_config_stays_as_it_is() {
    let house = House::new();
    let before = "# Ours.\nmcpServers:\n    # The first.\n    files: { command: mine }   # by hand\n\n# What may run.\ncommands:\n  build: { argv: [make] }\n";
    house.write("actbook.yaml", before);
    write(&house, ".mcp.json", CLAUDE_CODE);
    let report = told(&house, "claude-code");
    assert_eq!((&report["added"], &report["kept"]), (&json!(["github"]), &json!(["files"])), "{report}");
    let text = ours(&house);
    for line in before.lines() {
        assert!(text.lines().any(|other| other == line), "{line:?} is gone from\n{text}");
    }
    let (github, build) = (text.find("    github:").unwrap(), text.find("commands:").unwrap());
    assert!(github < build, "not added to `mcpServers`:\n{text}");
    let again = import(&house, &["claude-code"]);
    assert!(again.out.contains("there is nothing to add"), "{}", again.out);
    assert_eq!(ours(&house), text);
}

#[test]
fn nothing_is_written_where_something_is_missing_or_only_asked_about() {
    let house = House::new();
    let before = ours(&house);
    write(
        &house,
        "theirs.json",
        r#"{ "servers": { "a": { "command": "x", "args": ["${NOT_SET}"] }, "b": { "url": "https://x/${input:key}" } } }"#,
    );
    let ran = import(&house, &["theirs.json"]);
    assert_eq!(ran.code, Some(1), "{}", ran.out);
    for words in ["`a` needs the variable NOT_SET", "`b` asks its client for ${input:key}"] {
        assert!(ran.err.contains(words), "{}", ran.err);
    }
    std::fs::remove_file(house.path("actbook.yaml")).unwrap();
    write(&house, "theirs.json", CURSOR);
    let dry = import(&house, &["theirs.json", "--dry-run"]);
    assert!(dry.code == Some(0) && dry.out.contains("docs:"), "{}{}", dry.out, dry.err);
    assert!(!house.path("actbook.yaml").exists());
    house.write("actbook.yaml", &before);
    let inline = import(&house, &["theirs.json"]);
    assert!(inline.code == Some(1) && inline.err.contains("by hand"), "{}", inline.err);
    assert_eq!(ours(&house), before);
    for (words, message) in [(&["nobody.json"][..], "no client of that name"), (&["vscode"], "looked at")] {
        let ran = import(&house, words);
        assert!(ran.code == Some(1) && ran.err.contains(message), "{}", ran.err);
    }
}

/// The new server would end the text block before a line of it that looks like a comment.
#[test]
fn import_that_would_change_an_existing_server_is_refused() {
    let house = House::new();
    let text = "mcpServers:\n  mine:\n    command: sh\n    args:\n      - -c\n      - |\n        one\n        # two\n";
    write(&house, "actbook.yaml", text);
    write(&house, "theirs.json", r#"{ "mcpServers": { "new": { "command": "x" } } }"#);
    let ran = import(&house, &["theirs.json"]);
    assert_eq!(ran.code, Some(1), "{}\n{}", ran.out, ours(&house));
    assert!(ran.err.contains("without losing something"), "{}", ran.err);
    assert_eq!(ours(&house), text);
}

/// A cloned folder may bring a link under the name of a temporary file.
#[test]
fn import_and_install_write_through_no_link_and_keep_permissions() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let house = House::new();
    write(&house, "theirs.json", r#"{ "mcpServers": { "new": { "command": "x" } } }"#);
    write(&house, ".cursor/mcp.json", "{}");
    write(&house, "precious", "mine");
    let files = ["actbook.yaml", ".cursor/mcp.json"].map(|name| house.path(name));
    for file in &files {
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    symlink(house.path("precious"), house.path("actbook.yaml.new")).unwrap();
    symlink(house.path("precious"), house.path(".cursor/mcp.json.new")).unwrap();
    write(&house, "actbook.yaml", "{}\n");
    assert_eq!(import(&house, &["theirs.json"]).code, Some(1), "a map on one line");
    write(&house, "actbook.yaml", "");
    assert_eq!(import(&house, &["theirs.json"]).code, Some(0));
    house.expect(0, &["install", "--client", "cursor", "--with-config", "actbook.yaml"]);
    assert!(ours(&house).contains("new:"));
    assert!(std::fs::read_to_string(&files[1]).unwrap().contains("actbook"));
    assert_eq!(std::fs::read_to_string(house.path("precious")).unwrap(), "mine");
    for file in &files {
        assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
    }
    let left = std::fs::read_dir(house.folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(
        left.filter(|name| name.to_string_lossy().ends_with(".new")).count(),
        1,
        "nothing is left behind"
    );
}
