//! Drivers frozen (SIGSTOP) between journaling an intent and sending the call.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::book::Book;
use super::outside::Entry;
use super::reference::{arrived, config, new_book, step};
use super::{finish, freeze, is_stopped, take_over, thread_states, wait_for};
use crate::store::Kind;

/// A process without progress for this long is stopped for another reason than its last traced call.
const STANDS_STILL: Duration = Duration::from_millis(100);

/// The binary under strace, stopped after each system call of one kind.
struct Frozen {
    strace: Child,
    log: tempfile::NamedTempFile,
    process: Pid,
    /// The system call, as strace writes it.
    call: &'static str,
}

impl Frozen {
    /// Stops after each lock or unlock: that is when other processes see what was written.
    fn start(fixture: &Book, args: &[&str]) -> Self {
        Self::after_each("fcntl", fixture, args)
    }

    fn after_each(call: &'static str, fixture: &Book, args: &[&str]) -> Self {
        let log = tempfile::NamedTempFile::new().unwrap();
        let run = fixture.actbook(args);
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
    fn go_until(&self, condition: impl Fn() -> bool) {
        let (mut calls, mut since) = (0, Instant::now());
        let call = format!("{}(", self.call);
        wait_for("the point to freeze at", || {
            let seen = std::fs::read_to_string(self.log.path()).unwrap().matches(&call).count();
            let is_between_stops = seen == calls && since.elapsed() < STANDS_STILL;
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

impl Frozen {
    /// Kills the process while it is stopped.
    fn discard(mut self) {
        kill_process(self.process, Signal::KILL).unwrap();
        self.strace.wait().unwrap();
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // A failed test must not leave a stopped process behind.
        if std::thread::panicking() {
            let ended = self.strace.kill().and_then(|()| Ok(kill_process(self.process, Signal::KILL)?));
            ended.unwrap_or_else(|error| eprintln!("{:?} stays behind, stopped: {error}", self.process));
        }
    }
}

fn id(fixture: &Book) -> String {
    entries(fixture, "execution_started.2")[0].body["id"].as_str().unwrap().to_owned()
}

fn entries(fixture: &Book, kind: &str) -> Vec<Entry> {
    fixture.entries().into_iter().filter(|entry| entry.kind == kind).collect()
}

/// A driver frozen between its intent and the call, with no write transaction of another thread open.
fn before_it_sends() -> (Book, Frozen) {
    loop {
        let fixture = new_book(Kind::Sqlite, &json!({ "name": "once", "steps": [step("post")] }));
        let frozen = Frozen::start(&fixture, &["run", "plan.json"]);
        // Without a node file the process may still be opening the database, which is not readable then.
        let has_node = || fixture.path("data/actbook/seats").exists();
        frozen.go_until(|| has_node() && !entries(&fixture, "attempt_started.1").is_empty());
        if fixture.sent() == 0 && fixture.outside().is_writable() {
            return (fixture, frozen);
        }
        frozen.discard();
    }
}

#[test]
fn a_driver_that_is_frozen_before_it_sends_and_taken_for_dead_does_not_send() {
    let (fixture, frozen) = before_it_sends();
    let taker = take_over(&fixture, &id(&fixture));
    assert_eq!((taker.code, taker.status()), (Some(3), "blocked"), "{taker:?}");
    assert_eq!(taker.json["steps"][0]["status"], "unknown", "{taker:?}");
    assert_eq!(arrived(&fixture).len(), 0, "the driver was frozen before it sent");
    let before = fixture.outside().head();
    frozen.thaw();
    assert_eq!(arrived(&fixture).len(), 0, "sent after another driver settled the call");
    assert_eq!(fixture.outside().head(), before, "the thawed driver appended an entry");
    fixture.verify();
}

/// True when a node file has a note that a call is about to be sent.
fn has_noted_a_call(fixture: &Book) -> bool {
    let nodes = std::fs::read_dir(fixture.path("data/actbook/seats")).into_iter().flatten().flatten();
    let mut notes = nodes.filter_map(|node| std::fs::read_to_string(node.path()).ok());
    notes.any(|notes| notes.lines().any(|line| line.starts_with("sent ")))
}

#[test]
fn driver_frozen_between_its_note_and_the_send_does_not_send_after_its_lease() {
    let fixture = new_book(Kind::Sqlite, &json!({ "name": "once", "steps": [step("post")] }));
    let frozen = Frozen::after_each("write", &fixture, &["run", "plan.json"]);
    frozen.go_until(|| has_noted_a_call(&fixture));

    let taker = take_over(&fixture, &id(&fixture));
    assert_eq!((taker.code, taker.status()), (Some(3), "blocked"), "{taker:?}");
    assert_eq!(arrived(&fixture).len(), 0, "the driver was frozen before it sent");
    frozen.thaw();
    assert_eq!(arrived(&fixture).len(), 0, "sent after another driver settled the call");
    fixture.verify();
}

/// A driver frozen while the rate limit holds its second call back, a second after the first.
fn waiting_for_its_turn(kind: Kind) -> (Book, Child) {
    loop {
        let fixture = new_book(kind, &json!({ "name": "two", "steps": [step("post"), step("put")] }));
        let mut config = config();
        config["servers"] = json!({ "command": { "rate": "1/s" } });
        std::fs::write(fixture.path("actbook.yaml"), config.to_string()).unwrap();
        let mut frozen = fixture.spawn(&["run", "plan.json"]);
        wait_for("both calls", || (entries(&fixture, "attempt_started.1").len() == 2).then_some(()));
        freeze(&frozen, &fixture);
        if fixture.sent() == 1 {
            return (fixture, frozen);
        }
        frozen.kill().unwrap();
        finish(frozen);
    }
}

#[test]
fn a_call_that_waited_for_its_turn_while_its_driver_was_frozen_is_not_sent() {
    for kind in [Kind::Sqlite, Kind::Postgres] {
        let (fixture, frozen) = waiting_for_its_turn(kind);
        let taker = take_over(&fixture, &id(&fixture));
        assert_eq!(taker.status(), "blocked", "{taker:?}");
        kill_process(Pid::from_child(&frozen), Signal::CONT).unwrap();
        finish(frozen);
        let verbs: Vec<String> = arrived(&fixture).into_iter().map(|call| call.verb).collect();
        assert_eq!(verbs, ["post"], "{kind:?}: sent after another driver settled the call");
        fixture.verify();
    }
}

/// Continues a frozen driver after its lease lapsed without a takeover, and returns the verbs it sent.
fn comes_back(fixture: &Book, frozen: Child) -> Vec<String> {
    let watched = fixture.say(&["watch", &id(fixture)]);
    assert_eq!(watched.json["code"], "nobody_drives", "{watched:?}");
    kill_process(Pid::from_child(&frozen), Signal::CONT).unwrap();
    finish(frozen);
    fixture.verify();
    arrived(fixture).into_iter().map(|call| call.verb).collect()
}

#[test]
fn a_call_that_was_cancelled_while_its_driver_was_away_is_not_sent() {
    let (fixture, frozen) = waiting_for_its_turn(Kind::Sqlite);
    let mut cancel = fixture.spawn(&["cancel", &id(&fixture)]);
    wait_for("the cancel", || (!entries(&fixture, "cancel_asked.1").is_empty()).then_some(()));
    cancel.kill().unwrap();
    finish(cancel);
    assert_eq!(comes_back(&fixture, frozen), ["post"]);
    let ended = entries(&fixture, "attempt_ended.1");
    assert_eq!(ended.last().unwrap().body["unsent"], true, "{ended:?}");
}

#[test]
fn a_driver_that_was_away_for_longer_than_its_lease_claims_again_before_it_sends() {
    for kind in [Kind::Sqlite, Kind::Postgres] {
        let (fixture, frozen) = waiting_for_its_turn(kind);
        assert_eq!(comes_back(&fixture, frozen), ["post", "put"], "{kind:?}: no other process took over");
        let epochs: Vec<Value> = entries(&fixture, "driver_changed.1")
            .into_iter()
            .map(|entry| entry.body["epoch"].clone())
            .collect();
        assert_eq!(epochs, [1, 2], "{kind:?}: sent without claiming a new epoch");
    }
}
