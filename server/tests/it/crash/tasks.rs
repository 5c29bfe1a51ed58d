//! A call that its server goes on with by itself outlives the process that made it: whoever takes over
//! asks after it, and never makes it again.

use serde_json::json;

use super::book::Book;
use super::wait_for;
use crate::store::Kind;

fn with_task(kind: Kind, undo: bool) -> Book {
    let args = ["demo-tools", "--folder", "work", "--long"];
    let server = json!({ "command": env!("CARGO_BIN_EXE_actbook"), "args": args });
    let book = Book::new(kind, &json!({ "mcpServers": { "files": server } }));
    let later = json!({ "path": "out.txt", "content": "done\n", "ms": A_DAY_MS });
    let step = match undo {
        false => json!({
            "id": "later", "tool": "files/append_later", "timeout": "5m", "arguments": later,
        }),
        true => json!({
            "id": "later", "tool": "files/write_file", "arguments": { "path": "a", "content": "" },
            "compensation": {
                "tool": "files/append_later", "timeout": "5m", "arguments": later,
            },
        }),
    };
    std::fs::write(book.path("plan.json"), json!({ "name": "later", "steps": [step] }).to_string()).unwrap();
    book
}

/// A task takes this long, or until `let_tasks_end`, however slow the machine is.
const A_DAY_MS: u64 = 24 * 3600 * 1000;

/// The demo server keeps its tasks in files, with the time at which each is due.
pub fn let_tasks_end(work: &std::path::Path) {
    for name in super::book::names_in(&work.join(".tasks")) {
        let (file, draft) = (work.join(".tasks").join(&name), work.join(format!("draft of {name}")));
        let mut task: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        task["due_at_ms"] = json!(0);
        std::fs::write(&draft, task.to_string()).unwrap();
        std::fs::rename(draft, file).unwrap();
    }
}

fn calls(book: &Book, tool: &str) -> usize {
    let log = std::fs::read_to_string(book.path("work/.calls.log")).unwrap_or_default();
    log.lines().filter(|line| line.starts_with(tool)).count()
}

fn accepted(book: &Book) {
    wait_for("the handle to be kept", || {
        book.entries().iter().any(|entry| entry.kind == "task_accepted.1").then_some(())
    });
}

fn execution(book: &Book) -> String {
    let entries = book.entries();
    let started = entries.iter().find(|entry| entry.kind == "execution_started.2").expect("it has started");
    started.body["id"].as_str().unwrap().to_owned()
}

fn killed_twice(kind: Kind) {
    let book = with_task(kind, false);
    let mut first = book.spawn(&["run", "plan.json"]);
    accepted(&book);
    first.kill().unwrap();
    first.wait().unwrap();
    let id = execution(&book);
    let mut second = book.spawn(&["resume", &id]);
    wait_for("another driver", || {
        let changed = book.entries().into_iter().filter(|entry| entry.kind == "driver_changed.1");
        (changed.count() == 2).then_some(())
    });
    second.kill().unwrap();
    second.wait().unwrap();
    let_tasks_end(&book.path("work"));
    let said = book.say(&["resume", &id]);
    assert_eq!((said.code, said.status()), (Some(0), "succeeded"), "{said:?}");
    assert_eq!(calls(&book, "append_later"), 1, "it was made once");
    assert_eq!(std::fs::read_to_string(book.path("work/out.txt")).unwrap(), "done\n");
    let ends = book.entries().into_iter().filter(|entry| entry.kind == "attempt_ended.1");
    assert_eq!(ends.count(), 1, "nobody took it for lost");
    book.verify();
}

#[test]
fn a_task_outlives_two_drivers_and_is_called_once() {
    killed_twice(Kind::Sqlite);
}

#[test]
fn a_task_outlives_two_drivers_and_is_called_once_on_postgresql() {
    killed_twice(Kind::Postgres);
}

#[test]
fn a_compensation_that_became_a_task_outlives_its_driver() {
    let book = with_task(Kind::Sqlite, true);
    assert_eq!(book.say(&["run", "plan.json"]).code, Some(0));
    let id = execution(&book);
    let mut undo = book.spawn(&["undo", &id]);
    accepted(&book);
    undo.kill().unwrap();
    undo.wait().unwrap();
    let_tasks_end(&book.path("work"));
    let said = book.say(&["resume", &id]);
    assert_eq!(said.status(), "compensated", "{said:?}");
    assert_eq!(calls(&book, "append_later"), 1);
}

#[test]
fn a_task_that_its_server_has_forgotten_is_unknown() {
    let book = with_task(Kind::Sqlite, false);
    let mut first = book.spawn(&["run", "plan.json"]);
    accepted(&book);
    first.kill().unwrap();
    first.wait().unwrap();
    std::fs::remove_dir_all(book.path("work/.tasks")).unwrap();
    let said = book.say(&["resume", &execution(&book)]);
    assert_eq!(said.json["steps"][0]["status"], "unknown", "{said:?}");
    assert_eq!(said.json["steps"][0]["error"]["category"], "unavailable");
    assert_eq!(calls(&book, "append_later"), 1, "and it is not made again unasked");
}
