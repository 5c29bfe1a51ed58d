//! Ctrl-C once and twice, SIGTERM, and a closed stdout.

use rustix::process::{Pid, Signal, kill_process};

use super::*;

const HELD: &str =
    "name: held\nsteps:\n  - { id: first, tool: command/hold }\n  - { id: second, tool: files/echo }\n";

/// Starts a run and waits until its first call has reached the tool; returns the process and its stderr. An
/// intent in the journal is not enough: a run that is interrupted before it sends does not send at all.
fn at_work(house: &House) -> (Child, Receiver<String>) {
    house.write("held.yaml", HELD);
    let journal = house.journal();
    let mut run = house.start(&["run", "held.yaml"]);
    let stderr = lines(run.stderr.take().unwrap());
    journal.until("attempt_started", Some("first"));
    while !house.path("holding").exists() {
        std::thread::yield_now();
    }
    (run, stderr)
}

fn interrupt(child: &Child) {
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
}

#[test]
fn first_ctrl_c_pauses_the_execution_and_lets_the_call_finish() {
    let house = House::new();
    let (run, stderr) = at_work(&house);
    let journal = house.journal();
    interrupt(&run);
    hears(&stderr, "pausing");
    let paused = journal.until("paused", None);
    assert_eq!(paused["body"]["reason"], "Ctrl-C");
    assert!(paused["actor"].as_str().unwrap().starts_with("person:"), "{paused}");
    house.release();
    let ran = Ran::from(run.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(3));
    assert!(ran.out.contains("actbook resume"), "{}", ran.out);
    let id = house.newest();
    let view = house.json(&["show", &id]);
    assert_eq!(view["status"], "paused");
    assert_eq!(
        (&step(&view, "first")["status"], &step(&view, "second")["status"]),
        (&json!("succeeded"), &json!("pending"))
    );
    house.expect(0, &["resume", &id]);
}

#[test]
fn sigterm_ends_the_driving_and_leaves_the_execution_to_others() {
    let house = House::new();
    let (mut run, stderr) = at_work(&house);
    kill_process(Pid::from_child(&run), Signal::TERM).unwrap();
    hears(&stderr, "stopping");
    house.release();
    hears(&stderr, "actbook resume");
    assert_eq!(run.wait().unwrap().code(), Some(1));
    let id = house.newest();
    let view = house.json(&["show", &id]);
    assert_eq!(view["status"], "running");
    assert_eq!(
        (&step(&view, "first")["status"], &step(&view, "second")["status"]),
        (&json!("succeeded"), &json!("pending"))
    );
    house.expect(0, &["resume", &id]);
}

#[test]
fn two_interrupts_leave_at_once_and_the_call_is_unknown() {
    let house = House::new();
    let (mut run, stderr) = at_work(&house);
    let call: u32 = std::fs::read_to_string(house.path("pid")).unwrap().trim().parse().unwrap();
    interrupt(&run);
    hears(&stderr, "pausing");
    house.journal().until("paused", None);
    interrupt(&run);
    assert_eq!(run.wait().unwrap().code(), Some(130));
    gone(call);
    let id = house.newest();
    hears(&stderr, &format!("left at once: `actbook resume {}` goes on", &id[..8]));
    let asked = house.expect(3, &["resume", &id]);
    assert!(asked.contains("Nobody knows whether step `first` took effect"), "{asked}");
    house.release();
    house.expect(0, &["decide", &id, "first", "did-not-happen", "--reason", "nothing was written"]);
    house.expect(0, &["resume", &id]);
}

/// Waits until no process of the group is left.
fn gone(group: u32) {
    let started = std::time::Instant::now();
    while !crate::tools::living(group).is_empty() {
        assert!(started.elapsed() < PATIENCE, "still running: {:?}", crate::tools::living(group));
        std::thread::yield_now();
    }
}

#[test]
fn ctrl_c_ends_servers_that_ignore_the_end_of_their_input() {
    // Never answers, ignores signals and end of input, and has a child that left its process group.
    let deaf =
        "trap '' TERM INT; echo $$ > started; setsid sleep 600 & echo $! > fled; while :; do sleep 1; done";
    for words in [&["tools", "list"][..], &["doctor"], &["run", "held.yaml"]] {
        let house = House::new();
        house.config(json!({ "mcpServers": { "deaf": { "command": "sh", "args": ["-c", deaf] } } }));
        house.write("held.yaml", "name: held\nsteps: [{ id: a, tool: deaf/any }]");
        let mut child = house.start(words);
        let pid = |name: &str| std::fs::read_to_string(house.path(name)).ok()?.trim().parse::<u32>().ok();
        let (server, fled) = loop {
            if let Some(pids) = pid("started").zip(pid("fled")) {
                break pids;
            }
            std::thread::yield_now();
        };
        interrupt(&child);
        assert_eq!(child.wait().unwrap().code(), Some(130), "{words:?}");
        gone(server);
        gone(fled);
    }
}

#[test]
fn a_watcher_that_is_interrupted_leaves_the_execution_alone() {
    let house = House::new();
    let (run, _stderr) = at_work(&house);
    let id = house.newest();
    let mut watcher = house.start(&["watch", &id]);
    let shown = lines(watcher.stdout.take().unwrap());
    hears(&shown, "first running");
    interrupt(&watcher);
    hears(&lines(watcher.stderr.take().unwrap()), "no longer watching");
    watcher.wait().unwrap();
    assert_eq!(house.json(&["show", &id])["status"], "running");
    house.release();
    assert_eq!(run.wait_with_output().unwrap().status.code(), Some(0));
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
