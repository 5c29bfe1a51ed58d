//! Tools that ask questions or answer later as tasks, through the command line and a real server.

use super::*;
use crate::crash::tasks::let_tasks_end;

impl House {
    /// A sandbox with the demo server's tools that ask questions or answer as tasks.
    fn with_long_tools() -> Self {
        let house = Self::new();
        let args = ["demo-tools", "--folder", "work", "--long"];
        let config = json!({ "mcpServers": { "files": { "command": BINARY, "args": args } } });
        house.write("actbook.yaml", &config.to_string());
        house
    }

    /// The log of calls with an effect that reached the server, each with its idempotency key.
    fn calls(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.path("work/.calls.log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }
}

const SIGN: &str = r#"
name: sign
policy: { on_failure: auto }
steps:
  - id: draft
    tool: files/write_file
    arguments: { path: note.md, content: "hello\n" }
    compensation: { tool: files/delete_file, arguments: { path: note.md } }
  - { id: sign, tool: files/sign, arguments: { path: note.md }, cancellable: irreversible }
"#;

#[test]
fn what_a_tool_asks_waits_for_an_answer_and_goes_back_with_it() {
    let house = House::with_long_tools();
    house.write("sign.yaml", SIGN);
    let asked = house.expect(3, &["run", "sign.yaml"]);
    assert!(asked.contains("Who signs this?"), "{asked}");
    let id = house.newest();
    let shown = house.expect(0, &["show", &id]);
    assert!(shown.contains("name (string)"), "the fields of the form: {shown}");
    assert!(shown.contains(r#"sign retry --reason "…" --output '{"name":"…"}'"#), "the command: {shown}");
    let view = house.json(&["show", &id]);
    let waiting = &view["waiting"][0];
    assert_eq!((&waiting["step"], &waiting["for"]), (&json!("sign"), &json!("decision")));
    assert_eq!(view["status"], "blocked", "an open question must not trigger the automatic undo");
    assert!(house.path("work/note.md").exists());

    let wrong = house.run(&["decide", &id, "sign", "retry", "--reason", "r", "--output", "7"]);
    assert_eq!(wrong.code, Some(1), "{}", wrong.err);
    assert!(wrong.err.contains("`author`"), "{}", wrong.err);
    house.expect(0, &["decide", &id, "sign", "retry", "--reason", "mine", "--output", r#"{"name": "Ada"}"#]);
    house.expect(0, &["resume", &id]);
    assert_eq!(std::fs::read_to_string(house.path("work/note.md")).unwrap(), "hello\nsigned by Ada\n");
    let calls: Vec<String> = house.calls().into_iter().filter(|call| call.starts_with("sign ")).collect();
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0], calls[1], "both rounds of one call have one key");
    house.expect(0, &["verify"]);
}

/// A plan with one call that is answered as a task after `ms` milliseconds, or after a question if `ask`.
fn later(ms: u32, ask: bool) -> String {
    json!({ "name": "later", "steps": [{
        "id": "later", "tool": "files/append_later", "timeout": "5m",
        "arguments": { "path": "out.txt", "content": "done\n", "ms": ms, "ask": ask },
    }] })
    .to_string()
}

#[test]
fn a_task_is_asked_after_until_it_has_ended() {
    let house = House::with_long_tools();
    house.write("later.json", &later(200, false));
    house.expect(0, &["run", "later.json"]);
    assert_eq!(std::fs::read_to_string(house.path("work/out.txt")).unwrap(), "done\n");
    assert_eq!(house.calls().len(), 1);
    let kept = house.expect(0, &["journal", "--kind", "task_accepted"]);
    assert_eq!(kept.lines().count(), 1, "{kept}");
}

#[test]
fn a_task_that_asks_goes_on_with_the_answer() {
    let house = House::with_long_tools();
    house.write("later.json", &later(0, true));
    house.expect(3, &["run", "later.json"]);
    let id = house.newest();
    assert_eq!(step(&house.json(&["show", &id]), "later")["status"], "unknown");
    house.expect(0, &["decide", &id, "later", "retry", "--reason", "r", "--output", r#"{"name": "Ada"}"#]);
    house.expect(0, &["resume", &id]);
    assert_eq!(std::fs::read_to_string(house.path("work/out.txt")).unwrap(), "done\nAda\n");
    assert_eq!(house.calls().len(), 1, "the task continued and was not started again");
}

#[test]
fn a_cancelled_execution_cancels_its_task() {
    let house = House::with_long_tools();
    house.write("later.json", &later(3_600_000, false));
    let journal = house.journal();
    let run = house.start(&["run", "later.json"]);
    journal.until("task_accepted", Some("later"));
    let id = house.newest();
    house.expect(0, &["cancel", &id]);
    let ran = Ran::from(run.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    let view = house.json(&["show", &id]);
    assert_eq!((&view["status"], &step(&view, "later")["status"]), (&json!("cancelled"), &json!("unknown")));
    let message = step(&view, "later")["error"]["message"].as_str().unwrap();
    assert!(message.contains("was cancelled"), "{message}");
}

#[test]
fn one_wish_to_leave_leaves_a_task_to_whoever_comes_next() {
    let house = House::with_long_tools();
    house.write("later.json", &later(3_600_000, false));
    let journal = house.journal();
    let mut run = house.start(&["run", "later.json"]);
    journal.until("task_accepted", Some("later"));
    let id = house.newest();
    let pid = rustix::process::Pid::from_child(&run);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    run.wait().unwrap();
    assert!(!house.path("work/out.txt").exists(), "the run must not wait for the task");
    let_tasks_end(&house.path("work"));
    house.expect(0, &["resume", &id]);
    assert_eq!(std::fs::read_to_string(house.path("work/out.txt")).unwrap(), "done\n");
    assert_eq!(house.calls().len(), 1);
}
