//! Undo of sessions whose calls Actbook sends: the files that a server's tools and commands change, and what the config
//! says for other tools.

use super::*;
use crate::cli::BINARY;
use crate::guard::proxy::{call, connect};
use crate::guard::relay_clients::{client, results};
use crate::reference_servers::npm_script;

/// A sandbox whose servers are the file server of npm, and a command that tidies up.
fn sandbox_with_files() -> Sandbox {
    let sandbox = Sandbox::new();
    let project = sandbox.path("project");
    std::fs::create_dir_all(project.join("d")).unwrap();
    std::fs::write(project.join("a.txt"), "one\n").unwrap();
    std::fs::write(project.join("d/b.txt"), "b\n").unwrap();
    std::fs::write(project.join("d/c.txt"), "c\n").unwrap();
    let script = npm_script("server-filesystem");
    let tidy = "cd project && sed -i s/two/three/ a.txt && rm -r d && mkdir -p x/y && echo z > x/y/z.txt";
    sandbox.write_config(json!({
        "mcpServers": { "files": { "command": "node", "args": [script, project] } },
        "commands": { "tidy": { "argv": ["sh", "-c", tidy] } },
        "servers": { "files": {}, "command": {} },
        "guard": { "snapshot": { "folder": "project" } },
    }));
    sandbox
}

fn tree_of(sandbox: &Sandbox) -> Tree {
    let mut tree = Tree::new();
    collect(&sandbox.path("project"), "", &mut tree);
    tree
}

#[test]
fn files_that_relayed_calls_changed_are_restored() {
    let sandbox = sandbox_with_files();
    let before = tree_of(&sandbox);
    let path = |name: &str| sandbox.path("project").join(name).to_str().unwrap().to_owned();
    let calls = [
        ("files__write_file", json!({ "path": path("a.txt"), "content": "two\n" })),
        ("files__create_directory", json!({ "path": path("n") })),
        ("files__write_file", json!({ "path": path("n/new.txt"), "content": "new\n" })),
        ("files__move_file", json!({ "source": path("d/b.txt"), "destination": path("n/b.txt") })),
        (
            "files__edit_file",
            json!({ "path": path("d/c.txt"), "edits": [{ "oldText": "c", "newText": "C" }] }),
        ),
        ("command__tidy", json!({})),
        ("files__write_file", json!({ "path": path("a.txt"), "content": "four\n" })),
    ];
    let named: Vec<(String, Value)> =
        calls.iter().map(|(tool, input)| ((*tool).to_owned(), input.clone())).collect();
    let through = [BINARY, "mcp", "--guard"].map(str::to_owned);
    for answer in results(&sandbox, client("python", "legacy", &through), &named) {
        assert_ne!(answer["isError"], true, "{answer}");
    }
    assert!(!sandbox.path("project/d").exists() && sandbox.path("project/x/y/z.txt").exists());
    let id = sandbox.newest();
    let outlook = sandbox.json(&["undo", &id, "--dry-run"]);
    let classes: Vec<&Value> = outlook["calls"].as_array().unwrap().iter().map(|one| &one["class"]).collect();
    assert_eq!(classes, vec!["restored"; calls.len()], "{outlook}");
    sandbox.expect(0, &["undo", &id]);
    assert_eq!(differences(&before, &tree_of(&sandbox)), Vec::<String>::new());
    assert_eq!(statuses(&sandbox), vec!["compensated"; calls.len()]);
    sandbox.expect(0, &["verify"]);
}

#[test]
fn persons_edit_after_a_relayed_call_is_asked_about() {
    let sandbox = sandbox_with_files();
    let mut agent = connect(&sandbox);
    let path = sandbox.path("project/a.txt");
    let written = call(&mut agent, "files__write_file", json!({ "path": path, "content": "two\n" }));
    assert_ne!(written["isError"], true, "{written}");
    agent.close();
    std::fs::write(&path, "mine\n").unwrap();
    let ran = sandbox.run(&["undo", &sandbox.newest()]);
    assert_eq!(ran.code, Some(3), "{}{}", ran.stdout, ran.stderr);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine\n");
}

#[test]
fn relayed_call_is_taken_back_as_the_config_says_unless_something_else_changed_it() {
    let tools = json!({ "write_file": {
        "before": { "tool": "files/read_file", "arguments": { "path": "${arguments.path}" } },
        "undo": { "tool": "files/write_file", "arguments": { "path": "${arguments.path}", "content": "${before.content}" } },
    } });
    for changed in [false, true] {
        let sandbox = crate::guard::proxy::sandbox(json!({}), json!({ "tools": tools }));
        let file = sandbox.path("work/a.txt");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "one").unwrap();
        let mut agent = connect(&sandbox);
        let written = call(&mut agent, "files__write_file", json!({ "path": "a.txt", "content": "two" }));
        assert_ne!(written["isError"], true, "{written}");
        agent.close();
        if changed {
            std::fs::write(&file, "mine").unwrap();
        }
        let ran = sandbox.run(&["undo", &sandbox.newest()]);
        let (code, content) = if changed { (3, "mine") } else { (0, "one") };
        assert_eq!(ran.code, Some(code), "{}{}", ran.stdout, ran.stderr);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), content);
    }
}

#[test]
fn call_whose_server_changes_no_file_cannot_be_undone() {
    let sandbox = sandbox_with_files();
    let mut agent = connect(&sandbox);
    let path = sandbox.path("project/d");
    let made = call(&mut agent, "files__create_directory", json!({ "path": path }));
    assert_ne!(made["isError"], true, "{made}");
    agent.close();
    let outlook = sandbox.json(&["undo", &sandbox.newest(), "--dry-run"]);
    let call = &outlook["calls"][0];
    assert_eq!(
        (&call["class"], &call["stays"][0]["why"]),
        (&json!("cannot_undo"), &json!("no_undo")),
        "{outlook}"
    );
    let undone = sandbox.run(&["undo", &sandbox.newest()]);
    assert_ne!(undone.code, Some(0), "{}{}", undone.stdout, undone.stderr);
    assert_eq!(sandbox.json(&["show", &sandbox.newest()])["steps"][0]["status"], "compensation_failed");
}

#[test]
fn undo_by_a_server_that_is_defined_otherwise_is_not_made() {
    let sandbox = Sandbox::new();
    let demo = |folder: &str| json!({ "command": BINARY, "args": ["demo-tools", "--folder", folder] });
    let undo = json!({ "tool": "undoer/write_file", "arguments": { "path": "${arguments.path}", "content": "one" } });
    let write_config = |folder: &str| {
        sandbox.write_config(json!({
            "mcpServers": { "files": demo("work"), "undoer": demo(folder) },
            "servers": { "files": { "tools": { "write_file": { "undo": undo } } } },
            "guard": {},
        }));
    };
    write_config("work");
    let mut agent = connect(&sandbox);
    let written = call(&mut agent, "files__write_file", json!({ "path": "a.txt", "content": "two" }));
    assert_ne!(written["isError"], true, "{written}");
    agent.close();
    write_config("elsewhere");
    let ran = sandbox.run(&["undo", &sandbox.newest()]);
    assert_ne!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert!(!sandbox.path("elsewhere/a.txt").exists());
    write_config("work");
    sandbox.expect(0, &["undo", &sandbox.newest()]);
    assert_eq!(std::fs::read_to_string(sandbox.path("work/a.txt")).unwrap(), "one");
}
