//! `actbook install` writes Actbook into the configs of MCP clients; the registry manifest matches the
//! release.

use serde_json::{Value, json};

use crate::cli::{BINARY, Sandbox};

fn read_json(sandbox: &Sandbox, name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(sandbox.path(name)).unwrap()).unwrap()
}

#[test]
fn install_adds_a_server_and_keeps_the_rest_of_the_file() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path(".cursor")).unwrap();
    sandbox
        .write(".cursor/mcp.json", r#"{ "mcpServers": { "other": { "command": "x" } }, "theme": "dark" }"#);
    sandbox.expect(0, &["install", "--client", "cursor", "--with-config", "actbook.yaml"]);
    let file = read_json(&sandbox, ".cursor/mcp.json");
    let config = sandbox.path("actbook.yaml");
    let own = json!({ "command": BINARY, "args": ["mcp", "--config", config] });
    assert_eq!(file["mcpServers"], json!({ "other": { "command": "x" }, "actbook": own }));
    assert_eq!(file["theme"], "dark");
    sandbox.expect(0, &["install", "--client", "vscode"]);
    let file = read_json(&sandbox, "config/Code/User/mcp.json");
    assert_eq!(file["servers"]["actbook"], json!({ "type": "stdio", "command": BINARY, "args": ["mcp"] }));
    sandbox.expect(0, &["install", "--client", "claude-desktop"]);
    assert!(
        read_json(&sandbox, "config/Claude/claude_desktop_config.json")["mcpServers"]["actbook"].is_object()
    );
}

#[test]
fn install_refuses_a_file_with_comments() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path(".cursor")).unwrap();
    let text = "// mine\n{ \"mcpServers\": {} }\n";
    sandbox.write(".cursor/mcp.json", text);
    let ran = sandbox.run(&["install", "--client", "cursor"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("--print"), "{}", ran.stderr);
    assert_eq!(std::fs::read_to_string(sandbox.path(".cursor/mcp.json")).unwrap(), text);
}

#[test]
fn install_with_print_writes_nothing() {
    let sandbox = Sandbox::new();
    let printed = sandbox.expect(0, &["install", "--client", "claude-code", "--print"]);
    assert_eq!(printed, format!("claude mcp add actbook -- {BINARY} mcp\n"));
    let printed: Value =
        serde_json::from_str(&sandbox.expect(0, &["install", "--client", "cursor", "--print"])).unwrap();
    assert_eq!(printed["mcpServers"]["actbook"]["command"], BINARY);
    assert!(!sandbox.path(".cursor").exists());
}

#[test]
fn registry_manifest_has_this_version_and_readme_has_its_name() {
    let registered: Value = serde_json::from_str(include_str!("../../../../server.json")).unwrap();
    assert_eq!(registered["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(registered["packages"][0]["version"], env!("CARGO_PKG_VERSION"));
    assert!(registered["description"].as_str().unwrap().len() <= 100);
    let name = format!("mcp-name: {}", registered["name"].as_str().unwrap());
    assert!(include_str!("../../../../README.md").lines().any(|line| line == name));
}

#[test]
fn install_answers_in_json_and_names_the_config_flag() {
    let sandbox = Sandbox::new();
    let printed: Value = serde_json::from_str(
        &sandbox.expect(0, &["install", "--client", "claude-code", "--print", "--json"]),
    )
    .unwrap();
    assert_eq!(printed["args"], json!(["mcp", "add", "actbook", "--", BINARY, "mcp"]));
    let written = sandbox.run(&["install", "--client", "cursor", "--json"]);
    let document: Value = serde_json::from_str(&written.stdout).unwrap();
    assert_eq!(document["mcpServers"]["actbook"]["command"], BINARY);
    assert_eq!(document["file"], json!(sandbox.path(".cursor/mcp.json")));
    assert!(written.stderr.contains("--with-config"), "{}", written.stderr);
    let refused = sandbox.json(&["install", "--client", "vscode", "--with-config", "none.yaml"]);
    assert!(refused["message"].as_str().unwrap().contains("none.yaml"), "{refused}");
    assert!(!sandbox.path("config/Code").exists(), "nothing was written");
}
