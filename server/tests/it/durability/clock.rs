//! The wall clock is set while the real binary waits or works. Backoffs and time-outs count elapsed time, so
//! no retry comes a day late and no time-out fires early.

use std::path::PathBuf;
use std::process::{Child, Command};

use serde_json::{Value, json};

use crate::cli::{House, PATIENCE};

const DAY_S: i64 = 24 * 3600;

/// A CLI fixture whose processes see a wall clock that the test can set.
struct Faked {
    house: House,
    shim: PathBuf,
}

impl Faked {
    fn new() -> Self {
        let house = House::new();
        let shim = house.path("clock.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/durability/clock.c");
        let built =
            Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&shim).arg(source).status();
        assert!(built.unwrap().success(), "the C compiler that linked this test builds the shim");
        Self { house, shim }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.house.command(words);
        command.env("LD_PRELOAD", &self.shim).env("CLOCK_OFFSET_FILE", self.house.path("offset"));
        command
    }

    fn start(&self, plan: &Value) -> Child {
        self.house.write("plan.json", &plan.to_string());
        self.command(&["run", "plan.json"]).spawn().unwrap()
    }

    /// Sets the wall clock, also for running processes. The file is renamed into place, so that none reads
    /// half.
    fn set_clock(&self, offset_s: i64) {
        self.house.write("offset.new", &offset_s.to_string());
        std::fs::rename(self.house.path("offset.new"), self.house.path("offset")).unwrap();
    }
}

/// Waits for the exit code, within the time-out.
#[track_caller]
fn code(mut child: Child) -> Option<i32> {
    let begun = std::time::Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if begun.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the process has not exited");
        }
        std::thread::yield_now();
    }
}

/// A plan whose only call fails at first and is retried after a backoff.
fn retried() -> Value {
    json!({ "name": "retried", "steps": [{
        "id": "only", "tool": "command/once-away",
        "retry": { "max_attempts": 2, "backoff": "5s", "on": ["tool_error", "unavailable"] },
    }] })
}

fn with_flaky_command(faked: &Faked) {
    let script = "if [ -e came ]; then echo '{}'; else touch came; exit 1; fi";
    let config = json!({ "commands": { "once-away": { "argv": ["sh", "-c", script] } } });
    faked.house.write("actbook.yaml", &config.to_string());
}

#[test]
fn clock_set_back_a_day_during_a_backoff_does_not_delay_the_retry() {
    let faked = Faked::new();
    with_flaky_command(&faked);
    let journal = faked.house.journal();
    let run = faked.start(&retried());
    journal.until("retry_scheduled", Some("only"));
    faked.set_clock(-DAY_S);
    assert_eq!(code(run), Some(0));
}

#[test]
fn execution_resumed_after_the_clock_was_set_back_a_day_retries_in_time() {
    let faked = Faked::new();
    with_flaky_command(&faked);
    let journal = faked.house.journal();
    let mut run = faked.start(&retried());
    journal.until("retry_scheduled", Some("only"));
    run.kill().unwrap();
    run.wait().unwrap();
    faked.set_clock(-DAY_S);
    let id = faked.house.newest();
    assert_eq!(code(faked.command(&["resume", &id]).spawn().unwrap()), Some(0));
}

#[test]
fn clock_set_on_a_day_does_not_spend_the_execution_time() {
    let faked = Faked::new();
    let steps = json!([{ "id": "first", "tool": "command/hold" }, { "id": "second", "tool": "files/echo" }]);
    let run = faked.start(&json!({ "name": "timed", "policy": { "timeout": "1h" }, "steps": steps }));
    while !faked.house.path("holding").exists() {
        std::thread::yield_now();
    }
    faked.set_clock(DAY_S);
    faked.house.release();
    assert_eq!(code(run), Some(0));
}
