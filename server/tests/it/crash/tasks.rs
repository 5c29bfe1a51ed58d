//! MCP tasks: a call that its server continues as a task outlives the driver's process. The process that
//! takes over polls the task and never makes the call again.

use serde_json::json;

use super::fixture::CliFixture;
use crate::store::Kind;
use crate::waiting::wait_for;

fn task_fixture(kind: Kind, undo: bool) -> CliFixture {
    let args = ["demo-tools", "--folder", "work", "--long"];
    let server = json!({ "command": env!("CARGO_BIN_EXE_actbook"), "args": args });
    let fixture = CliFixture::new(kind, &json!({ "mcpServers": { "files": server } }));
    let later = json!({ "path": "out.txt", "content": "done\n", "ms": DAY_MS });
    let step = if undo {
        json!({
            "id": "later", "tool": "files/write_file", "arguments": { "path": "a", "content": "" },
            "compensation": {
                "tool": "files/append_later", "timeout": "5m", "arguments": later,
            },
        })
    } else {
        json!({
            "id": "later", "tool": "files/append_later", "timeout": "5m", "arguments": later,
        })
    };
    std::fs::write(fixture.path("plan.json"), json!({ "name": "later", "steps": [step] }).to_string())
        .unwrap();
    fixture
}

/// A task's duration: longer than any test, so that it ends only by `make_tasks_due`.
const DAY_MS: u64 = 24 * 3600 * 1000;

/// Makes every task of the demo server due now, by editing the files in which it keeps them.
pub fn make_tasks_due(work: &std::path::Path) {
    for name in super::fixture::file_names(&work.join(".tasks")) {
        let (file, draft) = (work.join(".tasks").join(&name), work.join(format!("draft of {name}")));
        let mut task: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        task["due_at_ms"] = json!(0);
        std::fs::write(&draft, task.to_string()).unwrap();
        std::fs::rename(draft, file).unwrap();
    }
}

fn call_count(fixture: &CliFixture, tool: &str) -> usize {
    let log = std::fs::read_to_string(fixture.path("work/.calls.log")).unwrap_or_default();
    log.lines().filter(|line| line.starts_with(tool)).count()
}

fn wait_for_task_accepted(fixture: &CliFixture) {
    wait_for("the task handle to be journaled", || {
        fixture.entries().iter().any(|entry| entry.kind == "task_accepted.1").then_some(())
    });
}

fn execution_id(fixture: &CliFixture) -> String {
    let entries = fixture.entries();
    let started = entries.iter().find(|entry| entry.kind == "execution_started.3").expect("it has started");
    started.body["id"].as_str().unwrap().to_owned()
}

fn crash_two_drivers_of_a_task(kind: Kind) {
    let fixture = task_fixture(kind, false);
    let mut first = fixture.spawn(&["run", "plan.json"]);
    wait_for_task_accepted(&fixture);
    first.kill().unwrap();
    first.wait().unwrap();
    let id = execution_id(&fixture);
    let mut second = fixture.spawn(&["resume", &id]);
    wait_for("another driver", || {
        let changed = fixture.entries().into_iter().filter(|entry| entry.kind == "driver_changed.1");
        (changed.count() == 2).then_some(())
    });
    second.kill().unwrap();
    second.wait().unwrap();
    make_tasks_due(&fixture.path("work"));
    let output = fixture.run(&["resume", &id]);
    assert_eq!((output.code, output.status()), (Some(0), "succeeded"), "{output:?}");
    assert_eq!(call_count(&fixture, "append_later"), 1, "the call was made once");
    assert_eq!(std::fs::read_to_string(fixture.path("work/out.txt")).unwrap(), "done\n");
    let ends = fixture.entries().into_iter().filter(|entry| entry.kind == "attempt_ended.1");
    assert_eq!(ends.count(), 1, "no driver recorded the task as lost");
    fixture.assert_verifies();
}

#[test]
fn task_survives_two_driver_crashes_and_is_called_once_on_sqlite() {
    crash_two_drivers_of_a_task(Kind::Sqlite);
}

#[test]
fn task_survives_two_driver_crashes_and_is_called_once_on_postgres() {
    crash_two_drivers_of_a_task(Kind::Postgres);
}

#[test]
fn compensation_task_survives_a_driver_crash() {
    let fixture = task_fixture(Kind::Sqlite, true);
    assert_eq!(fixture.run(&["run", "plan.json"]).code, Some(0));
    let id = execution_id(&fixture);
    let mut undo = fixture.spawn(&["undo", &id]);
    wait_for_task_accepted(&fixture);
    undo.kill().unwrap();
    undo.wait().unwrap();
    make_tasks_due(&fixture.path("work"));
    let output = fixture.run(&["resume", &id]);
    assert_eq!(output.status(), "compensated", "{output:?}");
    assert_eq!(call_count(&fixture, "append_later"), 1);
}

#[test]
fn task_forgotten_by_its_server_is_unknown() {
    let fixture = task_fixture(Kind::Sqlite, false);
    let mut first = fixture.spawn(&["run", "plan.json"]);
    wait_for_task_accepted(&fixture);
    first.kill().unwrap();
    first.wait().unwrap();
    std::fs::remove_dir_all(fixture.path("work/.tasks")).unwrap();
    let output = fixture.run(&["resume", &execution_id(&fixture)]);
    assert_eq!(output.json["steps"][0]["status"], "unknown", "{output:?}");
    assert_eq!(output.json["steps"][0]["error"]["category"], "unavailable");
    assert_eq!(call_count(&fixture, "append_later"), 1, "the call was made again without a decision");
}
