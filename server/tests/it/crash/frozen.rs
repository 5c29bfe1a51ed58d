//! A driver that is frozen after it wrote that it will call, and before it calls.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::book::Book;
use super::outside::Entry;
use super::reference::{arrived, config, new_book, step};
use super::{finish, freeze, is_stopped, take_over, thread_states, wait_for};
use crate::store::Kind;

/// A process that has not gone on for so long was stopped for another reason than its last lock.
const STANDS_STILL: Duration = Duration::from_millis(100);

/// The binary, stopped after each system call of one kind.
struct Frozen {
    strace: Child,
    log: tempfile::NamedTempFile,
    process: Pid,
    /// The system call, as strace writes it.
    call: &'static str,
}

impl Frozen {
    /// Stopped each time it has taken a lock or given one back, which is when others see what it wrote.
    fn start(book: &Book, words: &[&str]) -> Self {
        Self::after_each("fcntl", book, words)
    }

    fn after_each(call: &'static str, book: &Book, words: &[&str]) -> Self {
        let log = tempfile::NamedTempFile::new().unwrap();
        let run = book.actbook(words);
        let mut strace = Command::new("strace");
        let (trace, inject) = (format!("trace={call}"), format!("inject={call}:signal=SIGSTOP"));
        strace.args(["-f", "-qq", "-e", &trace, "-e", &inject, "-o"]);
        strace.arg(log.path()).arg(run.get_program()).args(run.get_args());
        strace
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .current_dir(&book.folder);
        let strace = strace.spawn().expect("strace is missing: `cargo xtask test` installs it");
        let process = wait_for("the first stop", || {
            let seen = std::fs::read_to_string(log.path()).unwrap();
            Pid::from_raw(seen.split_whitespace().next()?.parse().ok()?)
        });
        Self { strace, log, process, call }
    }

    /// Goes from stop to stop until `there`, and stays there.
    fn go_until(&self, there: impl Fn() -> bool) {
        let (mut locks, mut since) = (0, Instant::now());
        let call = format!("{}(", self.call);
        wait_for("the moment to freeze at", || {
            let seen = std::fs::read_to_string(self.log.path()).unwrap().matches(&call).count();
            let goes_on = seen == locks && since.elapsed() < STANDS_STILL;
            if goes_on || !is_stopped(self.process) {
                return None;
            }
            if there() {
                return Some(());
            }
            (locks, since) = (seen, Instant::now());
            kill_process(self.process, Signal::CONT).expect("it has not ended");
            None
        });
    }

    /// Nobody stops it from here on.
    fn thaw(mut self) {
        self.strace.kill().unwrap();
        self.strace.wait().unwrap();
        kill_process(self.process, Signal::CONT).unwrap();
        let ended = || thread_states(self.process).iter().all(|state| *state == 'Z');
        wait_for("the thawed process to end", || ended().then_some(()));
    }
}

impl Frozen {
    /// Ends it where it stands.
    fn discard(mut self) {
        kill_process(self.process, Signal::KILL).unwrap();
        self.strace.wait().unwrap();
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // Nothing stays behind, stopped for good.
        if std::thread::panicking() {
            let ended = self.strace.kill().and_then(|()| Ok(kill_process(self.process, Signal::KILL)?));
            ended.unwrap_or_else(|error| eprintln!("{:?} stays behind, stopped: {error}", self.process));
        }
    }
}

fn id(book: &Book) -> String {
    entries(book, "execution_started.2")[0].body["id"].as_str().unwrap().to_owned()
}

fn entries(book: &Book, kind: &str) -> Vec<Entry> {
    book.entries().into_iter().filter(|entry| entry.kind == kind).collect()
}

/// A driver that is frozen between its intent and the call, with no write of another thread under way.
fn before_it_sends() -> (Book, Frozen) {
    loop {
        let book = new_book(Kind::Sqlite, &json!({ "name": "once", "steps": [step("post")] }));
        let frozen = Frozen::start(&book, &["run", "plan.json"]);
        // Without a seat it may still be opening the database, which nobody can read then.
        let seated = || book.path("data/actbook/seats").exists();
        frozen.go_until(|| seated() && !entries(&book, "attempt_started.1").is_empty());
        if book.sent() == 0 && book.outside().is_writable() {
            return (book, frozen);
        }
        frozen.discard();
    }
}

#[test]
fn a_driver_that_is_frozen_before_it_sends_and_taken_for_dead_does_not_send() {
    let (book, frozen) = before_it_sends();
    let taker = take_over(&book, &id(&book));
    assert_eq!((taker.code, taker.status()), (Some(3), "blocked"), "{taker:?}");
    assert_eq!(taker.json["steps"][0]["status"], "unknown", "{taker:?}");
    assert_eq!(arrived(&book).len(), 0, "it was to be frozen before it sends");
    let before = book.outside().head();
    frozen.thaw();
    assert_eq!(arrived(&book).len(), 0, "it sent what another has answered for since");
    assert_eq!(book.outside().head(), before, "and it has nothing to say");
    book.verify();
}

/// Whether some process has noted that it is about to send a call.
fn has_noted_a_call(book: &Book) -> bool {
    let seats = std::fs::read_dir(book.path("data/actbook/seats")).into_iter().flatten().flatten();
    let mut notes = seats.filter_map(|seat| std::fs::read_to_string(seat.path()).ok());
    notes.any(|notes| notes.lines().any(|line| line.starts_with("sent ")))
}

#[test]
fn driver_frozen_between_its_note_and_the_send_does_not_send_after_its_lease() {
    let book = new_book(Kind::Sqlite, &json!({ "name": "once", "steps": [step("post")] }));
    let frozen = Frozen::after_each("write", &book, &["run", "plan.json"]);
    frozen.go_until(|| has_noted_a_call(&book));

    let taker = take_over(&book, &id(&book));
    assert_eq!((taker.code, taker.status()), (Some(3), "blocked"), "{taker:?}");
    assert_eq!(arrived(&book).len(), 0, "it was to be frozen before it sends");
    frozen.thaw();
    assert_eq!(arrived(&book).len(), 0, "it sent what another has answered for since");
    book.verify();
}

/// A driver that is frozen while its second call waits for its turn, which comes a second after the first.
fn waiting_for_its_turn(kind: Kind) -> (Book, Child) {
    loop {
        let book = new_book(kind, &json!({ "name": "two", "steps": [step("post"), step("put")] }));
        let mut config = config();
        config["servers"] = json!({ "command": { "rate": "1/s" } });
        std::fs::write(book.path("actbook.yaml"), config.to_string()).unwrap();
        let mut frozen = book.spawn(&["run", "plan.json"]);
        wait_for("both calls", || (entries(&book, "attempt_started.1").len() == 2).then_some(()));
        freeze(&frozen, &book);
        if book.sent() == 1 {
            return (book, frozen);
        }
        frozen.kill().unwrap();
        finish(frozen);
    }
}

#[test]
fn a_call_that_waited_for_its_turn_while_its_driver_was_frozen_is_not_sent() {
    for kind in [Kind::Sqlite, Kind::Postgres] {
        let (book, frozen) = waiting_for_its_turn(kind);
        let taker = take_over(&book, &id(&book));
        assert_eq!(taker.status(), "blocked", "{taker:?}");
        kill_process(Pid::from_child(&frozen), Signal::CONT).unwrap();
        finish(frozen);
        let verbs: Vec<String> = arrived(&book).into_iter().map(|call| call.verb).collect();
        assert_eq!(verbs, ["post"], "{kind:?}: it sent what another has answered for since");
        book.verify();
    }
}

/// What it sent, once its lease has run out with nobody taking over, and it goes on.
fn comes_back(book: &Book, frozen: Child) -> Vec<String> {
    let watched = book.say(&["watch", &id(book)]);
    assert_eq!(watched.json["code"], "nobody_drives", "{watched:?}");
    kill_process(Pid::from_child(&frozen), Signal::CONT).unwrap();
    finish(frozen);
    book.verify();
    arrived(book).into_iter().map(|call| call.verb).collect()
}

#[test]
fn a_call_that_was_cancelled_while_its_driver_was_away_is_not_sent() {
    let (book, frozen) = waiting_for_its_turn(Kind::Sqlite);
    let mut cancel = book.spawn(&["cancel", &id(&book)]);
    wait_for("the cancel", || (!entries(&book, "cancel_asked.1").is_empty()).then_some(()));
    cancel.kill().unwrap();
    finish(cancel);
    assert_eq!(comes_back(&book, frozen), ["post"]);
    let ended = entries(&book, "attempt_ended.1");
    assert_eq!(ended.last().unwrap().body["unsent"], true, "{ended:?}");
}

#[test]
fn a_driver_that_was_away_for_longer_than_its_lease_claims_again_before_it_sends() {
    for kind in [Kind::Sqlite, Kind::Postgres] {
        let (book, frozen) = waiting_for_its_turn(kind);
        assert_eq!(comes_back(&book, frozen), ["post", "put"], "{kind:?}: nobody else has taken it up");
        let epochs: Vec<Value> =
            entries(&book, "driver_changed.1").into_iter().map(|entry| entry.body["epoch"].clone()).collect();
        assert_eq!(epochs, [1, 2], "{kind:?}: who had found it gone could still claim");
    }
}
