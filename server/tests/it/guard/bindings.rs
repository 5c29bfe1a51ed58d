//! What a yes to a hooked call binds beside tool and input: the folder, the client's own tool, and the secrets that are
//! struck out of what is stored.

use super::*;

/// A config that asks about shell commands and unknown tools; the question stays for `actbook approve`.
fn asking() -> Sandbox {
    let rule = json!({ "name": "shell", "when": "call.tool == 'client/shell'", "then": "ask" });
    guarded(json!({ "rules": [rule], "ask": { "via": "refuse" } }))
}

fn in_folder(mut event: Value, folder: &std::path::Path) -> Value {
    event["cwd"] = json!(folder);
    event
}

#[test]
fn yes_in_one_folder_is_not_spent_in_another() {
    let sandbox = asking();
    let sub = sandbox.path("sub");
    std::fs::create_dir(&sub).unwrap();
    let clean = |id: &str| before(&sandbox, id, "Bash", json!({ "command": "rm -rf ./*" }));
    assert_eq!(decide(&sandbox, &clean("t1")).unwrap().0, "deny");
    let id = sandbox.newest();
    sandbox.expect(0, &["approve", &id, "c1"]);
    assert_eq!(decide(&sandbox, &in_folder(clean("t2"), &sub)).unwrap().0, "deny");
    let shown = sandbox.expect(0, &["show", &id]);
    let folder = format!("Folder: {}", sub.canonicalize().unwrap().display());
    assert!(shown.contains(&folder), "{shown}");
    // The same call by the client's id is another one where it is made elsewhere.
    assert_eq!(decide(&sandbox, &in_folder(clean("t1"), &sub)).unwrap().0, "deny");
    assert_eq!(decide(&sandbox, &clean("t3")).unwrap().0, "allow");
}

#[test]
fn yes_to_one_tool_of_the_client_is_not_for_another() {
    let sandbox = asking();
    let call = |id: &str, tool: &str, input: &str| before(&sandbox, id, tool, json!({ "command": input }));
    for (first, other) in [("RemoteTrigger", "CronCreate"), ("Bash", "PowerShell")] {
        for scope in ["once", "session"] {
            let input = format!("{first} {scope}");
            assert_eq!(decide(&sandbox, &call(&input, first, &input)).unwrap().0, "deny");
            let (id, step) = (sandbox.newest(), format!("c{}", statuses(&sandbox).len()));
            let shown = sandbox.expect(0, &["show", &id]);
            assert!(shown.contains(&format!("The client's name of the tool: {first}")), "{shown}");
            let approve = ["approve", &id, &step, "--for", "session"];
            sandbox.expect(0, if scope == "session" { &approve } else { &approve[..3] });
            let elsewhere = decide(&sandbox, &call(&format!("{input} other"), other, &input)).unwrap();
            assert_eq!(elsewhere.0, "deny", "{other} with a yes to {first}, for {scope}");
            let again = decide(&sandbox, &call(&format!("{input} again"), first, &input)).unwrap();
            assert_eq!(again.0, "allow", "{first}, for {scope}");
        }
    }
}

#[test]
fn yes_to_one_secret_is_neither_for_another_nor_for_the_text_that_stands_for_it() {
    let variables = vec![("SECRET_A", "supersecretAAAA"), ("SECRET_B", "othersecretBBBB")];
    let sandbox = Sandbox { variables, ..Sandbox::new() };
    sandbox.write_config(json!({
        "guard": { "ask": { "via": "refuse" } },
        "mcpServers": { "files": { "command": "true", "env": { "A": "${env:SECRET_A}", "B": "${env:SECRET_B}" } } },
        "servers": { "files": { "tools": { "x": { "approval": "required" } } } },
    }));
    let with = |id: &str, key: &str| before(&sandbox, id, "mcp__files__x", json!({ "key": key }));
    assert_eq!(decide(&sandbox, &with("t1", "[redacted]")).unwrap().0, "deny");
    let id = sandbox.newest();
    sandbox.expect(0, &["approve", &id, "c1"]);
    assert_eq!(
        decide(&sandbox, &with("t2", "supersecretAAAA")).unwrap().0,
        "deny",
        "with a yes to the marker"
    );
    sandbox.expect(0, &["approve", &id, "c2"]);
    assert_eq!(decide(&sandbox, &with("t3", "othersecretBBBB")).unwrap().0, "deny", "with a yes to another");
    assert_eq!(decide(&sandbox, &with("t4", "supersecretAAAA")).unwrap().0, "allow");
    let journal = sandbox.expect(0, &["journal", "--json"]);
    assert!(!journal.contains("supersecret") && !journal.contains("SECRET_A"), "{journal}");
    sandbox.expect(0, &["verify"]);
}
