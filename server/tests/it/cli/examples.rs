//! The examples in `examples/` run unchanged.

use super::*;
use crate::reference_servers::npm_script;

/// A sandbox with copies of all examples and their trusted config.
fn sandbox_with_examples() -> Sandbox {
    let sandbox = Sandbox { folder: tempfile::tempdir().unwrap(), database: None, variables: Vec::new() };
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    for entry in std::fs::read_dir(examples).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), sandbox.folder.path().join(entry.file_name())).unwrap();
    }
    sandbox.expect(0, &["trust", "--yes"]);
    sandbox
}

#[test]
fn every_example_passes_its_check() {
    let sandbox = sandbox_with_examples();
    let names: Vec<String> = std::fs::read_dir(sandbox.folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".yaml") && name != "actbook.yaml")
        .collect();
    assert!(names.len() >= 4, "{names:?}");
    for name in names {
        let check = sandbox.json(&["check", &name]);
        assert_eq!(check["ok"], true, "{name}: {check}");
    }
}

#[test]
fn file_pipeline_and_parallel_examples_run_and_undo() {
    let sandbox = sandbox_with_examples();
    sandbox.expect(0, &["run", "file-pipeline.yaml", "--input", "customer=ada"]);
    assert!(sandbox.path("work/archive/ada.txt").exists());
    assert_eq!(step(&sandbox.json(&["show", &sandbox.newest()]), "hurry")["status"], "skipped");
    sandbox.expect(0, &["undo", &sandbox.newest()]);
    assert!(
        !sandbox.path("work/archive/ada.txt").exists() && !sandbox.path("work/receipts/ada.txt").exists()
    );
    sandbox.expect(0, &["run", "parallel.yaml"]);
    assert_eq!(step(&sandbox.json(&["show", &sandbox.newest()]), "check")["attempts"], 2);
}

#[test]
fn release_example_asks_before_its_point_of_no_return() {
    let sandbox = sandbox_with_examples();
    sandbox.expect(3, &["run", "release.yaml", "--input", "version=1.2"]);
    assert!(sandbox.path("work/website/1.2.md").exists() && !sandbox.path("work/outbox.txt").exists());
    sandbox.expect(0, &["approve", &sandbox.newest(), "announce"]);
    sandbox.expect(0, &["resume", &sandbox.newest()]);
    assert!(sandbox.path("work/outbox.txt").exists());
    sandbox.expect(3, &["run", "release", "--input", "version=1.3"]);
    sandbox.expect(0, &["undo", &sandbox.newest()]);
    assert!(!sandbox.path("work/website/1.3.md").exists());
}

#[test]
fn agent_steps_example_waits_for_a_record() {
    let sandbox = sandbox_with_examples();
    sandbox.expect(3, &["run", "agent-steps.yaml"]);
    sandbox.expect(
        0,
        &["record", &sandbox.newest(), "review", "succeeded", "--output", r#"{"verdict": "good"}"#],
    );
    sandbox.expect(0, &["resume", &sandbox.newest()]);
    assert!(sandbox.path("work/public/draft.md").exists());
}

/// The fenced block of the start page that begins with this.
fn start_page_block(beginning: &str) -> &'static str {
    let blocks = include_str!("../../../../docs/start.md").split("```");
    let block =
        blocks.filter_map(|block| block.strip_prefix("yaml\n")).find(|block| block.starts_with(beginning));
    block.expect("the block is on the page")
}

#[test]
fn start_page_plan_runs_and_is_undone_twice() {
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.path("work")).unwrap();
    assert!(start_page_block("mcpServers:").contains("server-filesystem"));
    sandbox.write_config(json!({ "mcpServers": {
        "files": { "command": "node", "args": [npm_script("server-filesystem"), sandbox.path("work")] },
        "memory": { "command": "node", "args": [npm_script("server-memory")],
                    "env": { "MEMORY_FILE_PATH": sandbox.path("memory.json") } },
    } }));
    let work = sandbox.path("work");
    let plan = start_page_block("name: keep-note")
        .replace("path: note.md", &format!("path: {}/note.md", work.display()))
        .replace("\"undone-", &format!("\"{}/undone-", work.display()));
    sandbox.write("note.yaml", &plan);
    for _ in 0..2 {
        sandbox.expect(3, &["run", "note.yaml", "--input", "text=Buy milk"]);
        let id = sandbox.newest();
        sandbox.expect(0, &["approve", &id, "remember"]);
        sandbox.expect(0, &["resume", &id]);
        sandbox.expect(0, &["undo", &id]);
        assert!(
            !sandbox.path("work/note.md").exists() && sandbox.path(&format!("work/undone-{id}.md")).exists()
        );
    }
}
