//! Drivers frozen (SIGSTOP) between journaling an intent and sending the call.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::direct_sql::RawEntry;
use super::fixture::CliFixture;
use super::reference_plan::{config, new_fixture, received_calls, step};
use super::{freeze, is_stopped, take_over, thread_states, wait_for_exit};
use crate::store::Kind;
use crate::waiting::wait_for;

/// A process without progress for this long is stopped for another reason than its last traced call.
const STALL_LIMIT: Duration = Duration::from_millis(100);

/// The binary under strace, stopped after each system call of one kind.
struct FrozenProcess {
    strace: Child,
    log: tempfile::NamedTempFile,
    process: Pid,
    /// The system call, as strace writes it.
    call: &'static str,
}

impl FrozenProcess {
    /// Stops after each lock or unlock: that is when other processes see what was written.
    fn start(fixture: &CliFixture, args: &[&str]) -> Self {
        Self::after_each("fcntl", fixture, args)
    }

    fn after_each(call: &'static str, fixture: &CliFixture, args: &[&str]) -> Self {
        let log = tempfile::NamedTempFile::new().unwrap();
        let run = fixture.command(args);
        let mut strace = Command::new("strace");
        let (trace, inject) = (format!("trace={call}"), format!("inject={call}:signal=SIGSTOP"));
        strace.args(["-f", "-qq", "-e", &trace, "-e", &inject, "-o"]);
        strace.arg(log.path()).arg(run.get_program()).args(run.get_args());
        strace
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .current_dir(&fixture.folder);
        let strace = strace.spawn().expect("strace is missing: `cargo xtask test` installs it");
        let process = wait_for("the first stop", || {
            let seen = std::fs::read_to_string(log.path()).unwrap();
            Pid::from_raw(seen.split_whitespace().next()?.parse().ok()?)
        });
        Self { strace, log, process, call }
    }

    /// Continues from stop to stop until `condition` holds, and leaves the process stopped.
    fn run_until(&self, condition: impl Fn() -> bool) {
        let (mut calls, mut since) = (0, Instant::now());
        let call = format!("{}(", self.call);
        wait_for("the point to freeze at", || {
            let seen = std::fs::read_to_string(self.log.path()).unwrap().matches(&call).count();
            let is_between_stops = seen == calls && since.elapsed() < STALL_LIMIT;
            if is_between_stops || !is_stopped(self.process) {
                return None;
            }
            if condition() {
                return Some(());
            }
            (calls, since) = (seen, Instant::now());
            kill_process(self.process, Signal::CONT).expect("the process has not ended");
            None
        });
    }

    /// Detaches strace, continues the process and waits for it to end.
    fn thaw(mut self) {
        self.strace.kill().unwrap();
        self.strace.wait().unwrap();
        kill_process(self.process, Signal::CONT).unwrap();
        let ended = || thread_states(self.process).iter().all(|state| *state == 'Z');
        wait_for("the thawed process to end", || ended().then_some(()));
    }
}

impl FrozenProcess {
    /// Kills the process while it is stopped.
    fn discard(mut self) {
        kill_process(self.process, Signal::KILL).unwrap();
        self.strace.wait().unwrap();
    }
}

impl Drop for FrozenProcess {
    fn drop(&mut self) {
        // A failed test must not leave a stopped process behind.
        if std::thread::panicking() {
            let ended = self.strace.kill().and_then(|()| Ok(kill_process(self.process, Signal::KILL)?));
            ended.unwrap_or_else(|error| eprintln!("{:?} stays behind, stopped: {error}", self.process));
        }
    }
}

fn execution_id(fixture: &CliFixture) -> String {
    entries_of_kind(fixture, "execution_started.3")[0].body["id"].as_str().unwrap().to_owned()
}

fn entries_of_kind(fixture: &CliFixture, kind: &str) -> Vec<RawEntry> {
    fixture.entries().into_iter().filter(|entry| entry.kind == kind).collect()
}

/// A driver frozen between its intent and the call, with no write transaction of another thread open.
fn frozen_before_send() -> (CliFixture, FrozenProcess) {
    loop {
        let fixture = new_fixture(Kind::Sqlite, &json!({ "name": "once", "steps": [step("post")] }));
        let frozen = FrozenProcess::start(&fixture, &["run", "plan.json"]);
        // Without a node file the process may still be opening the database, which is not readable then.
        let has_node = || fixture.path("data/actbook/seats").exists();
        frozen.run_until(|| has_node() && !entries_of_kind(&fixture, "attempt_started.2").is_empty());
        if fixture.sent_call_count() == 0 && fixture.direct_sql().is_writable() {
            return (fixture, frozen);
        }
        frozen.discard();
    }
}

#[test]
fn driver_frozen_before_send_does_not_send_after_takeover() {
    let (fixture, frozen) = frozen_before_send();
    let taker = take_over(&fixture, &execution_id(&fixture));
    assert_eq!((taker.code, taker.status()), (Some(3), "blocked"), "{taker:?}");
    assert_eq!(taker.json["steps"][0]["status"], "unknown", "{taker:?}");
    assert_eq!(received_calls(&fixture).len(), 0, "the driver was frozen before it sent");
    let before = fixture.direct_sql().head();
    frozen.thaw();
    assert_eq!(received_calls(&fixture).len(), 0, "sent after another driver settled the call");
    assert_eq!(fixture.direct_sql().head(), before, "the thawed driver appended an entry");
    fixture.assert_verifies();
}

/// True when a node file has a note that a call is about to be sent.
fn has_sent_note(fixture: &CliFixture) -> bool {
    let nodes = std::fs::read_dir(fixture.path("data/actbook/seats")).into_iter().flatten().flatten();
    let mut notes = nodes.filter_map(|node| std::fs::read_to_string(node.path()).ok());
    notes.any(|notes| notes.lines().any(|line| line.starts_with("sent ")))
}

#[test]
fn driver_frozen_between_note_and_send_does_not_send_after_its_lease() {
    let fixture = new_fixture(Kind::Sqlite, &json!({ "name": "once", "steps": [step("post")] }));
    let frozen = FrozenProcess::after_each("write", &fixture, &["run", "plan.json"]);
    frozen.run_until(|| has_sent_note(&fixture));

    let taker = take_over(&fixture, &execution_id(&fixture));
    assert_eq!((taker.code, taker.status()), (Some(3), "blocked"), "{taker:?}");
    assert_eq!(received_calls(&fixture).len(), 0, "the driver was frozen before it sent");
    frozen.thaw();
    assert_eq!(received_calls(&fixture).len(), 0, "sent after another driver settled the call");
    fixture.assert_verifies();
}

/// A driver frozen while the rate limit holds its second call back, a second after the first.
fn frozen_in_rate_limit_queue(kind: Kind) -> (CliFixture, Child) {
    loop {
        let fixture = new_fixture(kind, &json!({ "name": "two", "steps": [step("post"), step("put")] }));
        let mut config = config();
        config["servers"] = json!({ "command": { "rate": "1/s" } });
        std::fs::write(fixture.path("actbook.yaml"), config.to_string()).unwrap();
        let mut frozen = fixture.spawn(&["run", "plan.json"]);
        wait_for("both calls", || (entries_of_kind(&fixture, "attempt_started.2").len() == 2).then_some(()));
        freeze(&frozen, &fixture.direct_sql());
        if fixture.sent_call_count() == 1 {
            return (fixture, frozen);
        }
        frozen.kill().unwrap();
        wait_for_exit(frozen);
    }
}

#[test]
fn rate_limited_call_of_a_frozen_driver_is_not_sent_after_takeover() {
    for kind in [Kind::Sqlite, Kind::Postgres] {
        let (fixture, frozen) = frozen_in_rate_limit_queue(kind);
        let taker = take_over(&fixture, &execution_id(&fixture));
        assert_eq!(taker.status(), "blocked", "{taker:?}");
        kill_process(Pid::from_child(&frozen), Signal::CONT).unwrap();
        wait_for_exit(frozen);
        let verbs: Vec<String> = received_calls(&fixture).into_iter().map(|call| call.verb).collect();
        assert_eq!(verbs, ["post"], "{kind:?}: sent after another driver settled the call");
        fixture.assert_verifies();
    }
}

/// Continues a frozen driver after its lease lapsed without a takeover, and returns the verbs it sent.
fn sent_after_lease_lapsed(fixture: &CliFixture, frozen: Child) -> Vec<String> {
    let watched = fixture.run(&["watch", &execution_id(fixture)]);
    assert_eq!(watched.json["code"], "nobody_drives", "{watched:?}");
    kill_process(Pid::from_child(&frozen), Signal::CONT).unwrap();
    wait_for_exit(frozen);
    fixture.assert_verifies();
    received_calls(fixture).into_iter().map(|call| call.verb).collect()
}

#[test]
fn call_cancelled_while_its_driver_was_frozen_is_not_sent() {
    let (fixture, frozen) = frozen_in_rate_limit_queue(Kind::Sqlite);
    let mut cancel = fixture.spawn(&["cancel", &execution_id(&fixture)]);
    wait_for("the cancel", || (!entries_of_kind(&fixture, "cancel_asked.1").is_empty()).then_some(()));
    cancel.kill().unwrap();
    wait_for_exit(cancel);
    assert_eq!(sent_after_lease_lapsed(&fixture, frozen), ["post"]);
    let ended = entries_of_kind(&fixture, "attempt_ended.1");
    assert_eq!(ended.last().unwrap().body["unsent"], true, "{ended:?}");
}

#[test]
fn driver_frozen_past_its_lease_reclaims_before_sending() {
    for kind in [Kind::Sqlite, Kind::Postgres] {
        let (fixture, frozen) = frozen_in_rate_limit_queue(kind);
        assert_eq!(
            sent_after_lease_lapsed(&fixture, frozen),
            ["post", "put"],
            "{kind:?}: no other process took over"
        );
        let epochs: Vec<Value> = entries_of_kind(&fixture, "driver_changed.1")
            .into_iter()
            .map(|entry| entry.body["epoch"].clone())
            .collect();
        assert_eq!(epochs, [1, 2], "{kind:?}: sent without claiming a new epoch");
    }
}
