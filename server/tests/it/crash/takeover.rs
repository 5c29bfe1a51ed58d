//! Two processes and one execution: which one drives, what a frozen driver may still append, and how fast
//! another process's command takes effect.

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

/// Limit in milliseconds for another process's command to take effect, even on a busy machine; shorter than
/// the background poll of five seconds, so that only a notification can meet it.
const AT_ONCE_MS: i64 = 4_000;

fn step(id: &str, verb: &str) -> Value {
    let undo = json!({ "tool": "command/unpost", "arguments": { "step": id, "text": "" } });
    let arguments = json!({ "step": id, "text": "" });
    json!({ "id": id, "tool": format!("command/{verb}"), "arguments": arguments, "compensation": undo })
}

/// A plan whose first call lasts until `release`, with a step after it.
fn held() -> Value {
    json!({ "name": "held", "steps": [step("held", "hold"), step("after", "post")] })
}

/// Starts a driver and waits until its held call has arrived.
fn driver(fixture: &Book) -> Child {
    let child = fixture.spawn(&["run", "plan.json"]);
    wait_for("the held call to arrive", || {
        arrived(fixture).iter().any(|call| call.verb == "hold").then_some(())
    });
    child
}

fn release(fixture: &Book) {
    std::fs::write(fixture.path("release"), "").unwrap();
}

fn execution(fixture: &Book) -> String {
    let started = find(fixture, "execution_started.2", None).expect("it has started");
    started.body["id"].as_str().unwrap().to_owned()
}

/// The last entry of a kind, optionally of one step.
fn find(fixture: &Book, kind: &str, step: Option<&str>) -> Option<Entry> {
    let entries = fixture.entries();
    entries.into_iter().rfind(|entry| entry.kind == kind && (step.is_none() || entry.step() == step))
}

fn kinds(fixture: &Book) -> Vec<String> {
    fixture.entries().into_iter().map(|entry| format!("{} {}", entry.kind, entry.body)).collect()
}

fn count(fixture: &Book, kind: &str) -> usize {
    fixture.entries().iter().filter(|entry| entry.kind == kind).count()
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
        let fixture = new_book(kind, &held());
        let driver = driver(&fixture);
        let id = execution(&fixture);
        let watcher = fixture.spawn(&["resume", &id]);
        let watching = [watcher.id()];
        wait_for("the second process to register its node", || {
            (fixture.outside().seated(&watching) == 1).then_some(())
        });
        release(&fixture);
        for child in [driver, watcher] {
            assert_eq!(finish(child).status.code(), Some(0), "{kind:?}");
        }
        assert_eq!(count(&fixture, "driver_changed.1"), 1, "only one of them drove");
        assert_eq!(arrived(&fixture).len(), 2);
    }
}

#[test]
fn of_several_who_resume_at_once_one_drives() {
    // A race: each round gives two processes another chance to claim.
    for kind in BOTH.into_iter().cycle().take(6) {
        let fixture = new_book(
            kind,
            &json!({ "name": "held", "steps": [
                { "id": "held", "tool": "command/hold", "arguments": { "step": "held", "text": "" },
                  "idempotent": true, "retry": { "max_attempts": 9, "backoff": "1ms", "on": ["unavailable"] } },
            ]}),
        );
        kill(driver(&fixture));
        let id = execution(&fixture);
        let rivals: Vec<Child> = (0..4).map(|_| fixture.spawn(&["resume", &id])).collect();
        // The dead driver's node row may be removed meanwhile.
        let processes: Vec<u32> = rivals.iter().map(Child::id).collect();
        wait_for("all of them to register their nodes", || {
            (fixture.outside().seated(&processes) == 4).then_some(())
        });
        wait_for("the call to arrive again", || (arrived(&fixture).len() == 2).then_some(()));
        release(&fixture);
        for rival in rivals {
            let output = finish(rival);
            assert_eq!(output.status.code(), Some(0), "{kind:?}: {output:?}");
        }
        assert_eq!(count(&fixture, "driver_changed.1"), 2, "{kind:?}: {:#?}", kinds(&fixture));
        assert_eq!(arrived(&fixture).len(), 2, "one call of each driver");
    }
}

#[test]
fn a_frozen_driver_s_late_answer_is_evidence_and_it_starts_nothing_more() {
    for kind in BOTH {
        let fixture = new_book(kind, &held());
        let frozen = driver(&fixture);
        let id = execution(&fixture);
        freeze(&frozen, &fixture);
        fixture.outside().let_leases_run_out();
        let taker = take_over(&fixture, &id);
        assert_eq!((taker.code, taker.status()), (Some(3), "blocked"), "{taker:?}");
        assert_eq!(taker.json["steps"][0]["status"], "unknown", "{taker:?}");
        assert_eq!(arrived(&fixture).len(), 1, "an open intent is not sent again");

        let before = fixture.outside().head();
        signal(&frozen, Signal::CONT);
        release(&fixture);
        finish(frozen);
        let since: Vec<String> = fixture
            .entries()
            .into_iter()
            .filter(|entry| entry.position > before)
            .map(|entry| entry.kind)
            .collect();
        assert_eq!(since, ["late_answer.1"], "the driver reports the late answer and appends nothing else");
        assert_eq!(arrived(&fixture).len(), 1);

        let done = fixture.say(&["resume", &id]);
        assert_eq!(done.status(), "succeeded", "the late success settles the step: {done:?}");
        assert_eq!((effects(&fixture, "held"), effects(&fixture, "after")), (1, 1));
        fixture.verify();
    }
}

#[test]
fn the_taker_ends_what_a_dead_driver_left_running() {
    for (kind, noted) in BOTH.into_iter().flat_map(|kind| [(kind, true), (kind, false)]) {
        let fixture = new_book(kind, &held());
        kill(driver(&fixture));
        let child = arrived(&fixture)[0].process;
        assert!(!living(child).is_empty(), "the call outlives its driver");
        if !noted {
            forget_the_child(&fixture);
        }
        let taker = fixture.say(&["resume", &execution(&fixture)]);
        assert_eq!(taker.json["steps"][0]["status"], "unknown", "{taker:?}");
        wait_for("the call's process to end", || living(child).is_empty().then_some(()));
        assert_eq!(effects(&fixture, "held"), 0);
    }
}

#[test]
fn a_seat_file_of_another_boot_proves_nothing() {
    for kind in BOTH {
        let fixture = new_book(kind, &held());
        kill(driver(&fixture));
        rewrite_seats(&fixture, |text| {
            let process =
                text.lines().find(|line| line.starts_with("process ")).expect("it names its process");
            format!("boot another\n{process}\n")
        });
        fixture.outside().let_leases_run_out();
        let taker = fixture.say(&["resume", &execution(&fixture)]);
        assert_eq!(taker.json["steps"][0]["status"], "unknown", "{taker:?}");
        assert_eq!(arrived(&fixture).len(), 1, "an open intent is not sent again");
        release(&fixture);
    }
}

/// As if the crash had come between starting the command and writing its process id.
fn forget_the_child(fixture: &Book) {
    let has_no_pid = |line: &&str| !line.starts_with("sent ") || line.split(' ').count() == 2;
    rewrite_seats(fixture, |text| text.lines().filter(has_no_pid).map(|line| format!("{line}\n")).collect());
}

fn rewrite_seats(fixture: &Book, rewritten: impl Fn(&str) -> String) {
    let nodes = fixture.path("data/actbook/seats");
    for name in super::book::names_in(&nodes) {
        let text = std::fs::read_to_string(nodes.join(&name)).unwrap();
        std::fs::write(nodes.join(&name), rewritten(&text)).unwrap();
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
        let fixture =
            new_book(kind, &json!({ "name": "words", "policy": { "concurrency": 3 }, "steps": steps }));
        let driver = driver(&fixture);
        let id = execution(&fixture);
        wait_for("a step to fail", || find(&fixture, "step_failed.1", Some("flaky")));

        let retry = ["decide", &id, "flaky", "retry", "--reason", "try again"];
        takes_effect(&fixture, &retry, "decided.2", ("attempt_started.1", "flaky"));
        wait_for("a step to ask", || find(&fixture, "approval_asked.1", Some("asks")));
        takes_effect(&fixture, &["approve", &id, "asks"], "step_approved.1", ("attempt_started.1", "asks"));

        assert_eq!(fixture.say(&["pause", &id]).code, Some(0));
        release(&fixture);
        assert_eq!(finish(driver).status.code(), Some(3), "the paused driver leaves");
        assert!(find(&fixture, "attempt_ended.1", Some("held")).is_some(), "the call in flight finished");
        assert!(find(&fixture, "attempt_started.1", Some("last")).is_none(), "nothing starts while paused");
        assert_eq!(fixture.say(&["resume", &id]).status(), "succeeded");
    }
}

#[test]
fn cancel_from_another_process_stops_a_running_call_at_once() {
    for kind in BOTH {
        let fixture = new_book(kind, &held());
        let driver = driver(&fixture);
        let id = execution(&fixture);
        takes_effect(&fixture, &["cancel", &id], "cancel_asked.1", ("attempt_ended.1", "held"));
        finish(driver);
        assert_eq!(fixture.say(&["show", &id]).status(), "cancelled");
        assert!(find(&fixture, "attempt_started.1", Some("after")).is_none());
    }
}

/// Runs a command, and asserts that the driver's reaction is journaled soon after the command's entry.
fn takes_effect(fixture: &Book, args: &[&str], command: &str, (kind, step): (&str, &str)) {
    let output = fixture.say(args);
    assert!(output.code == Some(0), "{output:?}");
    let given = wait_for("the command's entry", || find(fixture, command, None));
    let effect = wait_for("the command's effect", || {
        find(fixture, kind, Some(step)).filter(|entry| entry.position > given.position)
    });
    let gap = effect.at - given.at;
    eprintln!("{} → {kind} {step}: {gap} ms", args[0]);
    assert!(gap < AT_ONCE_MS, "{args:?} took {gap} ms to take effect");
}
