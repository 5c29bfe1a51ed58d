//! The wall clock is set while the real binary waits or works. Backoffs and time-outs count elapsed time, so
//! no retry comes a day late and no time-out fires early.

use std::path::PathBuf;
use std::process::{Child, Command};

use serde_json::{Value, json};

use crate::cli::Sandbox;
use crate::waiting::{wait_for, wait_until};

const DAY_S: i64 = 24 * 3600;

/// A CLI fixture whose processes see a wall clock that the test can set.
struct FakeClockSandbox {
    sandbox: Sandbox,
    shim: PathBuf,
}

impl FakeClockSandbox {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        let shim = sandbox.path("clock.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/durability/clock.c");
        let built =
            Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&shim).arg(source).status();
        assert!(built.unwrap().success(), "the C compiler that linked this test builds the shim");
        Self { sandbox, shim }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.sandbox.command(words);
        command.env("LD_PRELOAD", &self.shim).env("CLOCK_OFFSET_FILE", self.sandbox.path("offset"));
        command
    }

    fn start(&self, plan: &Value) -> Child {
        self.sandbox.write("plan.json", &plan.to_string());
        self.command(&["run", "plan.json"]).spawn().unwrap()
    }

    /// Sets the wall clock, also for running processes. The file is renamed into place, so that none reads
    /// half.
    fn set_clock(&self, offset_s: i64) {
        self.sandbox.write("offset.new", &offset_s.to_string());
        std::fs::rename(self.sandbox.path("offset.new"), self.sandbox.path("offset")).unwrap();
    }
}

/// Waits for the exit code, within the time-out.
#[track_caller]
fn exit_code(mut child: Child) -> Option<i32> {
    wait_for("the process to exit", || child.try_wait().unwrap()).code()
}

/// A plan whose only call fails at first and is retried after a backoff.
fn retried_plan() -> Value {
    json!({ "name": "retried", "steps": [{
        "id": "only", "tool": "command/once-away",
        "retry": { "max_attempts": 2, "backoff": "5s", "on": ["tool_error", "unavailable"] },
    }] })
}

fn write_flaky_command_config(faked: &FakeClockSandbox) {
    let script = "if [ -e came ]; then echo '{}'; else touch came; exit 1; fi";
    let config = json!({ "commands": { "once-away": { "argv": ["sh", "-c", script] } } });
    faked.sandbox.write("actbook.yaml", &config.to_string());
}

#[test]
fn clock_set_back_a_day_during_a_backoff_does_not_delay_the_retry() {
    let faked = FakeClockSandbox::new();
    write_flaky_command_config(&faked);
    let journal = faked.sandbox.follow_journal();
    let run = faked.start(&retried_plan());
    journal.wait_for("retry_scheduled", Some("only"));
    faked.set_clock(-DAY_S);
    assert_eq!(exit_code(run), Some(0));
}

#[test]
fn execution_resumed_after_the_clock_was_set_back_a_day_retries_in_time() {
    let faked = FakeClockSandbox::new();
    write_flaky_command_config(&faked);
    let journal = faked.sandbox.follow_journal();
    let mut run = faked.start(&retried_plan());
    journal.wait_for("retry_scheduled", Some("only"));
    run.kill().unwrap();
    run.wait().unwrap();
    faked.set_clock(-DAY_S);
    let id = faked.sandbox.newest();
    assert_eq!(exit_code(faked.command(&["resume", &id]).spawn().unwrap()), Some(0));
}

#[test]
fn clock_set_forward_a_day_does_not_exhaust_the_execution_timeout() {
    let faked = FakeClockSandbox::new();
    let steps = json!([{ "id": "first", "tool": "command/hold" }, { "id": "second", "tool": "files/echo" }]);
    let run = faked.start(&json!({ "name": "timed", "policy": { "timeout": "1h" }, "steps": steps }));
    wait_until("the call to be held", || faked.sandbox.path("holding").exists());
    faked.set_clock(DAY_S);
    faked.sandbox.release();
    assert_eq!(exit_code(run), Some(0));
}
