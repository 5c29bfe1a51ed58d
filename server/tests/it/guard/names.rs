//! Names of tools that clients rewrite: what the config says of a tool or a server holds for it however it is spelled.

use super::*;

/// A config with these settings under `servers`, which asks nothing by itself.
fn configured(servers: Value, guard: Value) -> Sandbox {
    let sandbox = Sandbox::new();
    let mut guard = guard;
    (guard["unknown"], guard["ask"]) = (json!("allow"), json!({ "via": "refuse" }));
    let defined = json!({ "client__calendar": { "command": "true" } });
    sandbox.write_config(json!({ "guard": guard, "servers": servers, "mcpServers": defined }));
    sandbox
}

#[track_caller]
fn check(sandbox: &Sandbox, tool: &str, is_denied: bool) {
    let call = before(sandbox, tool, tool, json!({ "a": tool }));
    let decided = decide(sandbox, &call).map(|(decision, _)| decision);
    assert_eq!(decided.as_deref(), is_denied.then_some("deny"), "{tool}");
}

#[test]
fn rewritten_name_of_a_tool_reaches_its_entry() {
    let asks = json!({ "approval": "required" });
    let sandbox = configured(
        json!({
            "my files": { "tools": { "fs.delete": asks } },
            "my__notes": { "tools": { "delete": asks } },
            "my": { "tools": { "list": asks } },
            "pay": asks,
            "client__calendar": { "tools": { "send": asks } },
        }),
        json!({}),
    );
    for tool in [
        "mcp__my_files__fs_delete",
        "mcp__my files__fs.delete",
        "mcp__my_files__fs.delete",
        "mcp__my__notes__delete",
        "mcp__my__list",
        "mcp__pay__charge",
        "mcp__client__calendar__send",
    ] {
        check(&sandbox, tool, true);
    }
    for tool in ["mcp__my_files__fs_list", "mcp__my_files__list", "mcp__my__delete", "mcp__other__fs_delete"]
    {
        check(&sandbox, tool, false);
    }
    let view = sandbox.json(&["show", &sandbox.newest()]);
    assert_eq!(view["steps"][0]["tool"], "my files/fs.delete", "{view}");
}

#[test]
fn strictest_entry_counts_where_a_name_fits_several() {
    let rules = json!([
        { "name": "writes", "when": "call.tool.endsWith('write') && !call.read_only", "then": "deny" },
        { "name": "egress", "when": "'egress' in tool.labels", "then": "deny" },
        { "name": "named", "when": "call.tool == 'a.b/named'", "then": "deny" },
    ]);
    let sandbox = configured(
        json!({
            "a.b": { "tools": { "x": { "read_only": true }, "write": { "read_only": true }, "z": { "labels": ["egress"] } } },
            "a_b": { "tools": { "x": { "approval": "required" }, "write": {}, "z": {} } },
        }),
        json!({ "rules": rules }),
    );
    for tool in ["mcp__a_b__x", "mcp__a_b__write", "mcp__a_b__z", "mcp__a_b__named"] {
        check(&sandbox, tool, true);
    }
    check(&sandbox, "mcp__a_b__other", false);
}

#[test]
fn budget_of_a_tool_counts_its_rewritten_name() {
    let sandbox = configured(json!({}), json!({ "budget": { "per_tool": { "files/fs.send": 1 } } }));
    let send = |id: &str| before(&sandbox, id, "mcp__files__fs_send", json!({ "a": id }));
    assert_eq!(decide(&sandbox, &send("t1")), None);
    assert!(decide(&sandbox, &send("t2")).unwrap().1.contains("budget"));
}

#[test]
fn tool_of_a_server_that_the_client_does_not_name_reaches_the_entries_of_all() {
    let sandbox =
        configured(json!({ "files": { "tools": { "fs.delete": { "approval": "required" } } } }), json!({}));
    let decide_as = |client: &str, event: &str, tool: &str| {
        let mut event_before = before(&sandbox, tool, tool, json!({ "a": 1 }));
        event_before["hook_event_name"] = json!(event);
        start_hook(&sandbox, client, &event_before.to_string(), &[]).wait_with_output().unwrap().into()
    };
    let cursor: CliOutput = decide_as("cursor", "preToolUse", "MCP:fs_delete");
    assert!(cursor.stdout.contains(r#""permission":"deny""#), "{}", cursor.stdout);
    let gemini: CliOutput = decide_as("gemini", "BeforeTool", "mcp_files_fs_delete");
    assert!(gemini.stdout.contains(r#""decision":"deny""#), "{}", gemini.stdout);
    let other: CliOutput = decide_as("cursor", "preToolUse", "MCP:fs_list");
    assert!(other.stdout.contains(r#""permission":"allow""#), "{}", other.stdout);
}

#[test]
fn entry_of_one_of_the_clients_tools_tells_nothing_of_the_others() {
    let sandbox = Sandbox::new();
    let shell = json!({ "tools": { "shell": { "approval": "required" } } });
    sandbox.write_config(json!({ "guard": { "ask": { "via": "refuse" } }, "servers": { "client": shell } }));
    check(&sandbox, "RemoteTrigger", true);
    let own = json!({ "tools": { "deploy": { "read_only": true } } });
    sandbox.write_config(json!({ "guard": { "ask": { "via": "refuse" } }, "servers": { "command": own } }));
    check(&sandbox, "mcp__command__deploy", true);
}
