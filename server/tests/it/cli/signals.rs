//! Ctrl-C once and twice, and a reader that goes away.

use rustix::process::{Pid, Signal, kill_process};

use super::*;

const HELD: &str =
    "name: held\nsteps:\n  - { id: first, tool: command/hold }\n  - { id: second, tool: files/echo }\n";

/// A run whose first call is out, and what it says on stderr. An intent alone is not enough: whoever is
/// interrupted before it sends does not send at all.
fn at_work(house: &House) -> (Child, Receiver<String>) {
    house.write("held.yaml", HELD);
    let journal = house.journal();
    let mut run = house.start(&["run", "held.yaml"]);
    let said = lines(run.stderr.take().unwrap());
    journal.until("attempt_started", Some("first"));
    while !house.path("holding").exists() {
        std::thread::yield_now();
    }
    (run, said)
}

fn interrupt(child: &Child) {
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
}

#[test]
fn one_interrupt_lets_the_call_finish_and_starts_nothing() {
    let house = House::new();
    let (mut run, said) = at_work(&house);
    interrupt(&run);
    hears(&said, "stopping");
    house.release();
    hears(&said, "actbook resume");
    assert_eq!(run.wait().unwrap().code(), Some(1));
    let id = house.newest();
    let view = house.json(&["show", &id]);
    assert_eq!(
        (&step(&view, "first")["status"], &step(&view, "second")["status"]),
        (&json!("succeeded"), &json!("pending"))
    );
    house.expect(0, &["resume", &id]);
}

#[test]
fn two_interrupts_leave_at_once_and_the_call_is_unknown() {
    let house = House::new();
    let (mut run, said) = at_work(&house);
    interrupt(&run);
    hears(&said, "stopping");
    interrupt(&run);
    assert_eq!(run.wait().unwrap().code(), Some(130));
    let id = house.newest();
    let asked = house.expect(3, &["resume", &id]);
    assert!(asked.contains("Nobody knows whether step `first` took effect"), "{asked}");
    house.release();
    house.expect(0, &["decide", &id, "first", "did-not-happen", "--reason", "nothing was written"]);
    house.expect(0, &["resume", &id]);
}

#[test]
fn a_reader_that_goes_away_ends_the_output_and_not_the_work() {
    let house = House::new();
    let steps: Vec<Value> =
        (0..60).map(|n| json!({ "id": format!("s{n}"), "tool": "files/echo", "read_only": true })).collect();
    house.write("many.json", &json!({ "name": "many", "steps": steps }).to_string());
    for words in [vec!["run", "many.json"], vec!["journal", "--json"], vec!["--help"], vec!["export", "*"]] {
        let id = if words[0] == "export" { house.newest() } else { String::new() };
        let words: Vec<&str> = words.into_iter().map(|word| if word == "*" { &id } else { word }).collect();
        let mut child = house.start(&words);
        drop(child.stdout.take());
        let ran = Ran::from(child.wait_with_output().unwrap());
        assert!(!ran.err.contains("panicked"), "{words:?}: {}", ran.err);
        assert!(ran.code.is_some(), "{words:?} died of a signal");
    }
    assert_eq!(house.json(&["list"])[0]["status"], "succeeded");
}
