//! Two processes and one execution: who drives, who watches, what a frozen driver may still say, and how
//! fast another process's word arrives.

use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::book::Book;
use super::outside::Entry;
use super::reference::{arrived, effects, new_book};
use super::{finish, freeze, take_over, wait_for};
use crate::store::Kind;
use crate::tools::living;

const BOTH: [Kind; 2] = [Kind::Sqlite, Kind::Postgres];

/// A command that another process gave has taken effect after this many milliseconds even on a busy
/// machine; the background's look for work, every five seconds, would not keep to it.
const AT_ONCE_MS: i64 = 4_000;

fn step(id: &str, verb: &str) -> Value {
    let undo = json!({ "tool": "command/unpost", "arguments": { "step": id, "text": "" } });
    let arguments = json!({ "step": id, "text": "" });
    json!({ "id": id, "tool": format!("command/{verb}"), "arguments": arguments, "compensation": undo })
}

/// A call that lasts until it is released, and a step after it.
fn held() -> Value {
    json!({ "name": "held", "steps": [step("held", "hold"), step("after", "post")] })
}

/// The driver, with the held call on its way.
fn driver(book: &Book) -> Child {
    let child = book.spawn(&["run", "plan.json"]);
    wait_for("the held call to arrive", || {
        arrived(book).iter().any(|call| call.verb == "hold").then_some(())
    });
    child
}

fn release(book: &Book) {
    std::fs::write(book.path("release"), "").unwrap();
}

fn execution(book: &Book) -> String {
    let started = find(book, "execution_started.2", None).expect("it has started");
    started.body["id"].as_str().unwrap().to_owned()
}

/// The last entry of a kind, of one step where one is named.
fn find(book: &Book, kind: &str, step: Option<&str>) -> Option<Entry> {
    let entries = book.entries();
    entries.into_iter().rfind(|entry| entry.kind == kind && (step.is_none() || entry.step() == step))
}

fn kinds(book: &Book) -> Vec<String> {
    book.entries().into_iter().map(|entry| format!("{} {}", entry.kind, entry.body)).collect()
}

fn count(book: &Book, kind: &str) -> usize {
    book.entries().iter().filter(|entry| entry.kind == kind).count()
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    finish(child);
}

#[test]
fn who_resumes_while_the_driver_lives_watches() {
    for kind in BOTH {
        let book = new_book(kind, &held());
        let driver = driver(&book);
        let id = execution(&book);
        let watcher = book.spawn(&["resume", &id]);
        let watching = [watcher.id()];
        wait_for("the second process to take a seat", || {
            (book.outside().seated(&watching) == 1).then_some(())
        });
        release(&book);
        for child in [driver, watcher] {
            assert_eq!(finish(child).status.code(), Some(0), "{kind:?}");
        }
        assert_eq!(count(&book, "driver_changed.1"), 1, "only one of them drove");
        assert_eq!(arrived(&book).len(), 2);
    }
}

#[test]
fn of_several_who_resume_at_once_one_drives() {
    // A race: each round is another chance for two to claim.
    for kind in BOTH.into_iter().cycle().take(6) {
        let book = new_book(
            kind,
            &json!({ "name": "held", "steps": [
                { "id": "held", "tool": "command/hold", "arguments": { "step": "held", "text": "" },
                  "idempotent": true, "retry": { "max_attempts": 9, "backoff": "1ms", "on": ["unavailable"] } },
            ]}),
        );
        kill(driver(&book));
        let id = execution(&book);
        let rivals: Vec<Child> = (0..4).map(|_| book.spawn(&["resume", &id])).collect();
        // The dead one's row may be swept meanwhile.
        let processes: Vec<u32> = rivals.iter().map(Child::id).collect();
        wait_for("all of them to take a seat", || (book.outside().seated(&processes) == 4).then_some(()));
        wait_for("the call to arrive again", || (arrived(&book).len() == 2).then_some(()));
        release(&book);
        for rival in rivals {
            let output = finish(rival);
            assert_eq!(output.status.code(), Some(0), "{kind:?}: {output:?}");
        }
        assert_eq!(count(&book, "driver_changed.1"), 2, "{kind:?}: {:#?}", kinds(&book));
        assert_eq!(arrived(&book).len(), 2, "one call of each driver");
    }
}

#[test]
fn a_frozen_driver_s_late_answer_is_evidence_and_it_starts_nothing_more() {
    for kind in BOTH {
        let book = new_book(kind, &held());
        let frozen = driver(&book);
        let id = execution(&book);
        freeze(&frozen, &book);
        book.outside().let_leases_run_out();
        let taker = take_over(&book, &id);
        assert_eq!((taker.code, taker.status()), (Some(3), "blocked"), "{taker:?}");
        assert_eq!(taker.json["steps"][0]["status"], "unknown", "{taker:?}");
        assert_eq!(arrived(&book).len(), 1, "an open intent is not sent again");

        let before = book.outside().head();
        signal(&frozen, Signal::CONT);
        release(&book);
        finish(frozen);
        let since: Vec<String> = book
            .entries()
            .into_iter()
            .filter(|entry| entry.position > before)
            .map(|entry| entry.kind)
            .collect();
        assert_eq!(since, ["late_answer.1"], "it tells what it knows, and does nothing more");
        assert_eq!(arrived(&book).len(), 1);

        let done = book.say(&["resume", &id]);
        assert_eq!(done.status(), "succeeded", "the late success settles the step: {done:?}");
        assert_eq!((effects(&book, "held"), effects(&book, "after")), (1, 1));
        book.verify();
    }
}

#[test]
fn the_taker_ends_what_a_dead_driver_left_running() {
    for (kind, noted) in BOTH.into_iter().flat_map(|kind| [(kind, true), (kind, false)]) {
        let book = new_book(kind, &held());
        kill(driver(&book));
        let child = arrived(&book)[0].process;
        assert!(!living(child).is_empty(), "the call outlives its driver");
        if !noted {
            forget_the_child(&book);
        }
        let taker = book.say(&["resume", &execution(&book)]);
        assert_eq!(taker.json["steps"][0]["status"], "unknown", "{taker:?}");
        wait_for("the call's process to end", || living(child).is_empty().then_some(()));
        assert_eq!(effects(&book, "held"), 0);
    }
}

#[test]
fn a_seat_file_of_another_boot_proves_nothing() {
    for kind in BOTH {
        let book = new_book(kind, &held());
        kill(driver(&book));
        rewrite_seats(&book, |text| {
            let process =
                text.lines().find(|line| line.starts_with("process ")).expect("it names its process");
            format!("boot another\n{process}\n")
        });
        book.outside().let_leases_run_out();
        let taker = book.say(&["resume", &execution(&book)]);
        assert_eq!(taker.json["steps"][0]["status"], "unknown", "{taker:?}");
        assert_eq!(arrived(&book).len(), 1, "an open intent is not sent again");
        release(&book);
    }
}

/// As if the kill had fallen between starting the command and noting its number.
fn forget_the_child(book: &Book) {
    let nameless = |line: &&str| !line.starts_with("sent ") || line.split(' ').count() == 2;
    rewrite_seats(book, |text| text.lines().filter(nameless).map(|line| format!("{line}\n")).collect());
}

fn rewrite_seats(book: &Book, rewritten: impl Fn(&str) -> String) {
    let seats = book.path("data/actbook/seats");
    for name in super::book::names_in(&seats) {
        let text = std::fs::read_to_string(seats.join(&name)).unwrap();
        std::fs::write(seats.join(&name), rewritten(&text)).unwrap();
    }
}

#[test]
fn another_process_s_word_takes_effect_at_once() {
    for kind in BOTH {
        let mut asks = step("asks", "post");
        asks["approval"] = json!("required");
        let mut last = step("last", "post");
        last["depends_on"] = json!(["held"]);
        let steps = json!([step("held", "hold"), step("flaky", "flaky"), asks, last]);
        let book =
            new_book(kind, &json!({ "name": "words", "policy": { "concurrency": 3 }, "steps": steps }));
        let driver = driver(&book);
        let id = execution(&book);
        wait_for("a step to fail", || find(&book, "step_failed.1", Some("flaky")));

        let retry = ["decide", &id, "flaky", "retry", "--reason", "try again"];
        takes_effect(&book, &retry, "decided.2", ("attempt_started.1", "flaky"));
        wait_for("a step to ask", || find(&book, "approval_asked.1", Some("asks")));
        takes_effect(&book, &["approve", &id, "asks"], "step_approved.1", ("attempt_started.1", "asks"));

        assert_eq!(book.say(&["pause", &id]).code, Some(0));
        release(&book);
        assert_eq!(finish(driver).status.code(), Some(3), "the paused driver leaves");
        assert!(find(&book, "attempt_ended.1", Some("held")).is_some(), "the call in flight finished");
        assert!(find(&book, "attempt_started.1", Some("last")).is_none(), "nothing starts while paused");
        assert_eq!(book.say(&["resume", &id]).status(), "succeeded");
    }
}

#[test]
fn cancel_from_another_process_stops_a_running_call_at_once() {
    for kind in BOTH {
        let book = new_book(kind, &held());
        let driver = driver(&book);
        let id = execution(&book);
        takes_effect(&book, &["cancel", &id], "cancel_asked.1", ("attempt_ended.1", "held"));
        finish(driver);
        assert_eq!(book.say(&["show", &id]).status(), "cancelled");
        assert!(find(&book, "attempt_started.1", Some("after")).is_none());
    }
}

/// The word is journaled, and soon after it what the driver makes of it.
fn takes_effect(book: &Book, words: &[&str], word: &str, (kind, step): (&str, &str)) {
    let said = book.say(words);
    assert!(said.code == Some(0), "{said:?}");
    let given = wait_for("the word", || find(book, word, None));
    let taken = wait_for("its effect", || {
        find(book, kind, Some(step)).filter(|entry| entry.position > given.position)
    });
    let gap = taken.at - given.at;
    eprintln!("{} → {kind} {step}: {gap} ms", words[0]);
    assert!(gap < AT_ONCE_MS, "{words:?} took {gap} ms to take effect");
}
