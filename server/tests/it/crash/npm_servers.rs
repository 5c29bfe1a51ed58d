//! Plans through third-party MCP servers from npm: files in a folder, and a memory kept in a file.

use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::OFlags;
use serde_json::{Value, json};

use super::fixture::{CliFixture, file_names};
use super::wait_for_exit;
use crate::reference_servers::npm_script;
use crate::store::Kind;
use crate::tools::live_processes;
use crate::waiting::wait_for;

fn npm_fixture(kind: Kind, plan: &Value) -> CliFixture {
    let fixture = CliFixture::new(
        kind,
        &json!({ "mcpServers": {
            "files": { "command": "node", "args": [npm_script("server-filesystem"), "work"] },
            "memory": { "command": "sh", "args": ["-c", "MEMORY_FILE_PATH=$PWD/work/memory.jsonl exec node \"$0\"",
                npm_script("server-memory")] },
        }}),
    );
    std::fs::write(fixture.path("plan.json"), plan.to_string()).unwrap();
    fixture
}

/// Every file under a folder, with its bytes.
fn file_contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = vec![];
    for name in file_names(folder) {
        let path = folder.join(name);
        if path.is_dir() {
            found.push((path.clone(), vec![]));
            found.extend(file_contents(&path));
        } else {
            found.push((path.clone(), std::fs::read(&path).unwrap()));
        }
    }
    found
}

fn call_step(id: &str, tool: &str, arguments: Value, undo: Option<(&str, Value)>) -> Value {
    let mut step = json!({ "id": id, "tool": tool, "arguments": arguments });
    match undo {
        Some((tool, arguments)) => step["compensation"] = json!({ "tool": tool, "arguments": arguments }),
        None => step["read_only"] = json!(true),
    }
    step
}

fn ten_step_plan() -> Value {
    let at = |name: &str| format!("${{inputs.folder}}/{name}");
    let edit = |old: &str, new: &str| json!({ "path": at("notes.md"), "edits": [{ "oldText": old, "newText": new }] });
    let moved = |from: &str, to: &str| json!({ "source": at(from), "destination": at(to) });
    let relation = json!({ "relations": [{ "from": "notes", "to": "team", "relationType": "belongs to" }] });
    let entity = json!({ "name": "notes", "entityType": "document", "observations": ["${steps.notes.output.content}"] });
    let archived = format!("{} of ${{steps.remember.output.entities[0].name}}", at("archive"));
    let added = json!([{ "entityName": "team", "contents": [archived] }]);
    let removed = json!([{ "entityName": "team", "observations": [archived] }]);
    let mut skipped = call_step(
        "skipped",
        "files/write_file",
        json!({ "path": at("draft.md"), "content": "" }),
        Some(("files/write_file", json!({ "path": at("draft.md"), "content": "" }))),
    );
    skipped["when"] = json!("steps.notes.output.content.contains('draft')");
    let mut rewrite = call_step(
        "rewrite",
        "files/write_file",
        json!({ "path": at("summary.md"), "content": "about: ${steps.notes.output.content}" }),
        Some((
            "files/write_file",
            json!({ "path": at("summary.md"), "content": "${steps.summary.output.content}" }),
        )),
    );
    rewrite["depends_on"] = json!(["summary"]);
    let folder =
        json!({ "type": "object", "properties": { "folder": { "type": "string" } }, "required": ["folder"] });
    json!({ "name": "ten", "inputs": folder, "steps": [
        call_step("notes", "files/read_text_file", json!({ "path": at("notes.md") }), None),
        call_step("summary", "files/read_text_file", json!({ "path": at("summary.md") }), None),
        call_step("remember", "memory/create_entities", json!({ "entities": [entity] }),
            Some(("memory/delete_entities", json!({ "entityNames": ["notes"] })))),
        call_step("relate", "memory/create_relations", relation.clone(), Some(("memory/delete_relations", relation))),
        call_step("edit", "files/edit_file", edit("one", "two"), Some(("files/edit_file", edit("two", "one")))),
                rewrite,
        skipped,
        call_step("archive", "files/move_file", moved("notes.md", "archive/notes.md"),
            Some(("files/move_file", moved("archive/notes.md", "notes.md")))),
        call_step("observe", "memory/add_observations", json!({ "observations": added }),
            Some(("memory/delete_observations", json!({ "deletions": removed })))),
        call_step("publish", "files/move_file", moved("missing.md", "published.md"),
            Some(("files/move_file", moved("published.md", "missing.md")))),
    ]})
}

#[test]
fn undo_through_npm_servers_restores_every_byte() {
    for kind in [Kind::Sqlite, Kind::Postgres] {
        let fixture = npm_fixture(kind, &ten_step_plan());
        let work = fixture.path("work");
        std::fs::create_dir(work.join("archive")).unwrap();
        std::fs::write(work.join("notes.md"), "version one\n").unwrap();
        std::fs::write(work.join("summary.md"), "nothing yet, é\n").unwrap();
        let team = r#"{"type":"entity","name":"team","entityType":"group","observations":["two people"]}"#;
        std::fs::write(work.join("memory.jsonl"), team).unwrap();
        let before = file_contents(&work);

        let output = fixture.run(&["run", "plan.json", "--input", &format!("folder={}", work.display())]);
        assert_eq!((output.code, output.status()), (Some(3), "blocked"), "{output:?}");
        let steps = output.json["steps"].as_array().unwrap();
        let statuses: Vec<&str> = steps.iter().map(|step| step["status"].as_str().unwrap()).collect();
        let expected =
            [["succeeded"; 6].as_slice(), &["skipped", "succeeded", "succeeded", "failed"]].concat();
        assert_eq!(statuses, expected, "{output:?}");
        assert_eq!(std::fs::read_to_string(work.join("archive/notes.md")).unwrap(), "version two\n");
        assert_eq!(std::fs::read_to_string(work.join("summary.md")).unwrap(), "about: version one\n");
        let memory = std::fs::read_to_string(work.join("memory.jsonl")).unwrap();
        assert!(memory.contains("version one") && memory.contains("archive of notes"), "{memory}");
        let undo = output.json["brief"]["undo"].as_array().unwrap();
        let order: Vec<&str> = undo.iter().map(|one| one["step"].as_str().unwrap()).collect();
        assert_eq!(order, ["observe", "archive", "rewrite", "edit", "relate", "remember"], "{output:?}");

        let undone = fixture.run(&["undo", output.json["id"].as_str().unwrap()]);
        assert_eq!((undone.code, undone.status()), (Some(0), "compensated"), "{undone:?}");
        assert_eq!(file_contents(&work), before, "{kind:?}: the folder is as before");
        fixture.assert_verifies();
    }
}

#[test]
fn call_in_flight_at_a_crash_is_unknown_and_its_server_is_ended() {
    for kind in [Kind::Sqlite, Kind::Postgres] {
        let pipe = json!({ "path": "${inputs.folder}/pipe" });
        let folder = json!({ "type": "object", "properties": { "folder": { "type": "string" } } });
        let undo = Some(("files/get_file_info", pipe.clone()));
        let fixture = npm_fixture(
            kind,
            &json!({ "name": "pipe", "inputs": folder,
            "steps": [call_step("held", "files/read_text_file", pipe, undo)] }),
        );
        let path = fixture.path("work/pipe");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let folder = format!("folder={}", fixture.path("work").display());
        let mut driver = fixture.spawn(&["run", "plan.json", "--input", &folder]);
        // A non-blocking open of a pipe for writing succeeds only once a reader has it open.
        let write = |path| {
            std::fs::OpenOptions::new()
                .write(true)
                .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
                .open(path)
        };
        let _held = wait_for("the server to read the pipe", || write(&path).ok());
        let server = child_pid_in_node_file(&fixture);
        driver.kill().unwrap();
        wait_for_exit(driver);
        let started =
            fixture.entries().into_iter().find(|entry| entry.kind == "execution_started.3").unwrap();
        let taker = fixture.run(&["resume", started.body["id"].as_str().unwrap()]);
        assert_eq!(taker.json["steps"][0]["status"], "unknown", "{taker:?}");
        assert_eq!(taker.json["steps"][0]["attempts"], 1, "{taker:?}");
        wait_for("the server to end", || live_processes(server).is_empty().then_some(()));
    }
}

/// The process id that the driver's node file has for its call.
fn child_pid_in_node_file(fixture: &CliFixture) -> u32 {
    let nodes = fixture.path("data/actbook/seats");
    let texts = file_names(&nodes).into_iter().map(|name| std::fs::read_to_string(nodes.join(name)).unwrap());
    let text: String = texts.collect();
    let noted = text.lines().find_map(|line| line.strip_prefix("sent ")?.split(' ').nth(1)?.parse().ok());
    noted.unwrap_or_else(|| panic!("no child in {text}"))
}
