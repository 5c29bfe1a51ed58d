//! The examples in `examples/` run unchanged.

use super::*;

/// A sandbox with copies of all examples and their trusted config.
fn house() -> House {
    let house = House { folder: tempfile::tempdir().unwrap(), database: None, variables: Vec::new() };
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    for entry in std::fs::read_dir(examples).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), house.folder.path().join(entry.file_name())).unwrap();
    }
    house.expect(0, &["trust", "--yes"]);
    house
}

#[test]
fn every_example_passes_its_check() {
    let house = house();
    let names: Vec<String> = std::fs::read_dir(house.folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".yaml") && name != "actbook.yaml")
        .collect();
    assert!(names.len() >= 4, "{names:?}");
    for name in names {
        let check = house.json(&["check", &name]);
        assert_eq!(check["ok"], true, "{name}: {check}");
    }
}

#[test]
fn the_file_pipeline_and_the_graph_run_to_their_ends_and_back() {
    let house = house();
    house.expect(0, &["run", "file-pipeline.yaml", "--input", "customer=ada"]);
    assert!(house.path("work/archive/ada.txt").exists());
    assert_eq!(step(&house.json(&["show", &house.newest()]), "hurry")["status"], "skipped");
    house.expect(0, &["undo", &house.newest()]);
    assert!(!house.path("work/archive/ada.txt").exists() && !house.path("work/receipts/ada.txt").exists());
    house.expect(0, &["run", "parallel.yaml"]);
    assert_eq!(step(&house.json(&["show", &house.newest()]), "check")["attempts"], 2);
}

#[test]
fn the_release_asks_before_its_point_of_no_return() {
    let house = house();
    house.expect(3, &["run", "release.yaml", "--input", "version=1.2"]);
    assert!(house.path("work/website/1.2.md").exists() && !house.path("work/outbox.txt").exists());
    house.expect(0, &["approve", &house.newest(), "announce"]);
    house.expect(0, &["resume", &house.newest()]);
    assert!(house.path("work/outbox.txt").exists());
    house.expect(3, &["run", "release", "--input", "version=1.3"]);
    house.expect(0, &["undo", &house.newest()]);
    assert!(!house.path("work/website/1.3.md").exists());
}

#[test]
fn the_agent_steps_wait_for_their_report() {
    let house = house();
    house.expect(3, &["run", "agent-steps.yaml"]);
    house
        .expect(0, &["record", &house.newest(), "review", "succeeded", "--output", r#"{"verdict": "good"}"#]);
    house.expect(0, &["resume", &house.newest()]);
    assert!(house.path("work/public/draft.md").exists());
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
    let house = House::new();
    let modules =
        PathBuf::from(std::env::var("ACTBOOK_TEST_NPM").expect("the reference servers are installed"));
    let server =
        |name: &str| modules.join("node_modules/@modelcontextprotocol").join(name).join("dist/index.js");
    std::fs::create_dir_all(house.path("work")).unwrap();
    assert!(start_page_block("mcpServers:").contains("server-filesystem"));
    house.config(json!({ "mcpServers": {
        "files": { "command": "node", "args": [server("server-filesystem"), house.path("work")] },
        "memory": { "command": "node", "args": [server("server-memory")],
                    "env": { "MEMORY_FILE_PATH": house.path("memory.json") } },
    } }));
    let work = house.path("work");
    let plan = start_page_block("name: keep-note")
        .replace("path: note.md", &format!("path: {}/note.md", work.display()))
        .replace("\"undone-", &format!("\"{}/undone-", work.display()));
    house.write("note.yaml", &plan);
    for _ in 0..2 {
        house.expect(3, &["run", "note.yaml", "--input", "text=Buy milk"]);
        let id = house.newest();
        house.expect(0, &["approve", &id, "remember"]);
        house.expect(0, &["resume", &id]);
        house.expect(0, &["undo", &id]);
        assert!(!house.path("work/note.md").exists() && house.path(&format!("work/undone-{id}.md")).exists());
    }
}
