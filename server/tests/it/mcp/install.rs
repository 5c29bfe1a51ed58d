//! `actbook install` writes Actbook into the configs of MCP clients; the registry manifest matches the
//! release.

use serde_json::{Value, json};

use crate::cli::{BINARY, House};

fn read(house: &House, name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(house.path(name)).unwrap()).unwrap()
}

#[test]
fn a_clients_file_gets_one_more_server_and_keeps_the_rest() {
    let house = House::new();
    std::fs::create_dir(house.path(".cursor")).unwrap();
    house.write(".cursor/mcp.json", r#"{ "mcpServers": { "other": { "command": "x" } }, "theme": "dark" }"#);
    house.expect(0, &["install", "--client", "cursor", "--with-config", "actbook.yaml"]);
    let file = read(&house, ".cursor/mcp.json");
    let config = house.path("actbook.yaml");
    let own = json!({ "command": BINARY, "args": ["mcp", "--config", config] });
    assert_eq!(file["mcpServers"], json!({ "other": { "command": "x" }, "actbook": own }));
    assert_eq!(file["theme"], "dark");
    house.expect(0, &["install", "--client", "vscode"]);
    let file = read(&house, "config/Code/User/mcp.json");
    assert_eq!(file["servers"]["actbook"], json!({ "type": "stdio", "command": BINARY, "args": ["mcp"] }));
    house.expect(0, &["install", "--client", "claude-desktop"]);
    assert!(read(&house, "config/Claude/claude_desktop_config.json")["mcpServers"]["actbook"].is_object());
}

#[test]
fn a_file_that_would_lose_something_is_left_alone() {
    let house = House::new();
    std::fs::create_dir(house.path(".cursor")).unwrap();
    let text = "// mine\n{ \"mcpServers\": {} }\n";
    house.write(".cursor/mcp.json", text);
    let ran = house.run(&["install", "--client", "cursor"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("--print"), "{}", ran.err);
    assert_eq!(std::fs::read_to_string(house.path(".cursor/mcp.json")).unwrap(), text);
}

#[test]
fn printing_changes_nothing() {
    let house = House::new();
    let printed = house.expect(0, &["install", "--client", "claude-code", "--print"]);
    assert_eq!(printed, format!("claude mcp add actbook -- {BINARY} mcp\n"));
    let printed: Value =
        serde_json::from_str(&house.expect(0, &["install", "--client", "cursor", "--print"])).unwrap();
    assert_eq!(printed["mcpServers"]["actbook"]["command"], BINARY);
    assert!(!house.path(".cursor").exists());
}

#[test]
fn the_registry_is_told_this_version_and_the_readme_names_the_server() {
    let registered: Value = serde_json::from_str(include_str!("../../../../server.json")).unwrap();
    assert_eq!(registered["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(registered["packages"][0]["version"], env!("CARGO_PKG_VERSION"));
    assert!(registered["description"].as_str().unwrap().len() <= 100);
    let name = format!("mcp-name: {}", registered["name"].as_str().unwrap());
    assert!(include_str!("../../../../README.md").lines().any(|line| line == name));
}

#[test]
fn install_answers_in_json_and_names_the_config_flag() {
    let house = House::new();
    let printed: Value =
        serde_json::from_str(&house.expect(0, &["install", "--client", "claude-code", "--print", "--json"]))
            .unwrap();
    assert_eq!(printed["args"], json!(["mcp", "add", "actbook", "--", BINARY, "mcp"]));
    let written = house.run(&["install", "--client", "cursor", "--json"]);
    let document: Value = serde_json::from_str(&written.out).unwrap();
    assert_eq!(document["mcpServers"]["actbook"]["command"], BINARY);
    assert_eq!(document["file"], json!(house.path(".cursor/mcp.json")));
    assert!(written.err.contains("--with-config"), "{}", written.err);
    let refused = house.json(&["install", "--client", "vscode", "--with-config", "none.yaml"]);
    assert!(refused["message"].as_str().unwrap().contains("none.yaml"), "{refused}");
    assert!(!house.path("config/Code").exists(), "nothing was written");
}
