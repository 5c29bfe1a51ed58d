//! Tools that ask questions or answer later as tasks, through the command line and a real server.

use super::*;
use crate::crash::tasks::make_tasks_due;

impl Sandbox {
    /// A sandbox with the demo server's tools that ask questions or answer as tasks.
    pub fn with_long_tools() -> Self {
        let sandbox = Self::new();
        let args = ["demo-tools", "--folder", "work", "--long"];
        let config = json!({ "mcpServers": { "files": { "command": BINARY, "args": args } } });
        sandbox.write("actbook.yaml", &config.to_string());
        sandbox
    }

    /// The log of calls with an effect that reached the server, each with its idempotency key.
    fn logged_calls(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.path("work/.calls.log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }
}

const SIGN_PLAN: &str = r#"
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
fn tool_question_blocks_until_decided_and_resends_with_the_answer() {
    let sandbox = Sandbox::with_long_tools();
    sandbox.write("sign.yaml", SIGN_PLAN);
    let asked = sandbox.expect(3, &["run", "sign.yaml"]);
    assert!(asked.contains("Who signs this?"), "{asked}");
    let id = sandbox.newest();
    let shown = sandbox.expect(0, &["show", &id]);
    assert!(shown.contains("name (string)"), "the fields of the form: {shown}");
    assert!(shown.contains(r#"sign retry --reason "…" --output '{"name":"…"}'"#), "the command: {shown}");
    let view = sandbox.json(&["show", &id]);
    let waiting = &view["waiting"][0];
    assert_eq!((&waiting["step"], &waiting["for"]), (&json!("sign"), &json!("decision")));
    assert_eq!(view["status"], "blocked", "an open question must not trigger the automatic undo");
    assert!(sandbox.path("work/note.md").exists());

    let wrong = sandbox.run(&["decide", &id, "sign", "retry", "--reason", "r", "--output", "7"]);
    assert_eq!(wrong.code, Some(1), "{}", wrong.stderr);
    assert!(wrong.stderr.contains("`author`"), "{}", wrong.stderr);
    sandbox
        .expect(0, &["decide", &id, "sign", "retry", "--reason", "mine", "--output", r#"{"name": "Ada"}"#]);
    sandbox.expect(0, &["resume", &id]);
    assert_eq!(std::fs::read_to_string(sandbox.path("work/note.md")).unwrap(), "hello\nsigned by Ada\n");
    let calls: Vec<String> =
        sandbox.logged_calls().into_iter().filter(|call| call.starts_with("sign ")).collect();
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0], calls[1], "both rounds of one call have one key");
    sandbox.expect(0, &["verify"]);
}

/// A plan with one call that is answered as a task after `ms` milliseconds, or after a question if `ask`.
fn plan_with_async_call(ms: u32, ask: bool) -> String {
    json!({ "name": "later", "steps": [{
        "id": "later", "tool": "files/append_later", "timeout": "5m",
        "arguments": { "path": "out.txt", "content": "done\n", "ms": ms, "ask": ask },
    }] })
    .to_string()
}

#[test]
fn task_is_polled_until_it_ends() {
    let sandbox = Sandbox::with_long_tools();
    sandbox.write("later.json", &plan_with_async_call(200, false));
    sandbox.expect(0, &["run", "later.json"]);
    assert_eq!(std::fs::read_to_string(sandbox.path("work/out.txt")).unwrap(), "done\n");
    assert_eq!(sandbox.logged_calls().len(), 1);
    let kept = sandbox.expect(0, &["journal", "--kind", "task_accepted"]);
    assert_eq!(kept.lines().count(), 1, "{kept}");
}

#[test]
fn task_that_asks_continues_with_the_answer() {
    let sandbox = Sandbox::with_long_tools();
    sandbox.write("later.json", &plan_with_async_call(0, true));
    sandbox.expect(3, &["run", "later.json"]);
    let id = sandbox.newest();
    assert_eq!(step(&sandbox.json(&["show", &id]), "later")["status"], "unknown");
    sandbox.expect(0, &["decide", &id, "later", "retry", "--reason", "r", "--output", r#"{"name": "Ada"}"#]);
    sandbox.expect(0, &["resume", &id]);
    assert_eq!(std::fs::read_to_string(sandbox.path("work/out.txt")).unwrap(), "done\nAda\n");
    assert_eq!(sandbox.logged_calls().len(), 1, "the task continued and was not started again");
}

#[test]
fn cancelling_the_execution_cancels_its_task() {
    let sandbox = Sandbox::with_long_tools();
    sandbox.write("later.json", &plan_with_async_call(3_600_000, false));
    let journal = sandbox.follow_journal();
    let run = sandbox.start(&["run", "later.json"]);
    journal.wait_for("task_accepted", Some("later"));
    let id = sandbox.newest();
    sandbox.expect(0, &["cancel", &id]);
    let ran = CliOutput::from(run.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(1), "{}{}", ran.stdout, ran.stderr);
    let view = sandbox.json(&["show", &id]);
    assert_eq!((&view["status"], &step(&view, "later")["status"]), (&json!("cancelled"), &json!("unknown")));
    let message = step(&view, "later")["error"]["message"].as_str().unwrap();
    assert!(message.contains("was cancelled"), "{message}");
}

#[test]
fn task_left_by_an_interrupted_run_is_finished_by_resume() {
    let sandbox = Sandbox::with_long_tools();
    sandbox.write("later.json", &plan_with_async_call(3_600_000, false));
    let journal = sandbox.follow_journal();
    let mut run = sandbox.start(&["run", "later.json"]);
    journal.wait_for("task_accepted", Some("later"));
    let id = sandbox.newest();
    let pid = rustix::process::Pid::from_child(&run);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    run.wait().unwrap();
    assert!(!sandbox.path("work/out.txt").exists(), "the run must not wait for the task");
    make_tasks_due(&sandbox.path("work"));
    sandbox.expect(0, &["resume", &id]);
    assert_eq!(std::fs::read_to_string(sandbox.path("work/out.txt")).unwrap(), "done\n");
    assert_eq!(sandbox.logged_calls().len(), 1);
}
