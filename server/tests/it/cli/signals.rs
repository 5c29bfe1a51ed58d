//! Ctrl-C once and twice, SIGTERM, and a closed stdout.

use rustix::process::{Pid, Signal, kill_process};

use super::*;
use crate::waiting::{wait_for, wait_until};

const HELD_PLAN: &str =
    "name: held\nsteps:\n  - { id: first, tool: command/hold }\n  - { id: second, tool: files/echo }\n";

/// Starts a run and waits until its first call has reached the tool; returns the process and its stderr. An
/// intent in the journal is not enough: a run that is interrupted before it sends does not send at all.
fn run_with_call_in_flight(sandbox: &Sandbox) -> (Child, Receiver<String>) {
    sandbox.write("held.yaml", HELD_PLAN);
    let journal = sandbox.follow_journal();
    let mut run = sandbox.start(&["run", "held.yaml"]);
    let stderr = read_lines(run.stderr.take().unwrap());
    journal.wait_for("attempt_started", Some("first"));
    wait_until("the call to be held", || sandbox.path("holding").exists());
    (run, stderr)
}

fn interrupt(child: &Child) {
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
}

#[test]
fn first_ctrl_c_pauses_the_execution_and_lets_the_call_finish() {
    let sandbox = Sandbox::new();
    let (run, stderr) = run_with_call_in_flight(&sandbox);
    let journal = sandbox.follow_journal();
    interrupt(&run);
    wait_for_line(&stderr, "pausing");
    let paused = journal.wait_for("paused", None);
    assert_eq!(paused["body"]["reason"], "Ctrl-C");
    assert!(paused["actor"].as_str().unwrap().starts_with("person:"), "{paused}");
    sandbox.release();
    let ran = CliOutput::from(run.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(3));
    assert!(ran.stdout.contains("actbook resume"), "{}", ran.stdout);
    let id = sandbox.newest();
    let view = sandbox.json(&["show", &id]);
    assert_eq!(view["status"], "paused");
    assert_eq!(
        (&step(&view, "first")["status"], &step(&view, "second")["status"]),
        (&json!("succeeded"), &json!("pending"))
    );
    sandbox.expect(0, &["resume", &id]);
}

#[test]
fn sigterm_stops_driving_and_leaves_the_execution_resumable() {
    let sandbox = Sandbox::new();
    let (mut run, stderr) = run_with_call_in_flight(&sandbox);
    kill_process(Pid::from_child(&run), Signal::TERM).unwrap();
    wait_for_line(&stderr, "stopping");
    sandbox.release();
    wait_for_line(&stderr, "actbook resume");
    assert_eq!(run.wait().unwrap().code(), Some(1));
    let id = sandbox.newest();
    let view = sandbox.json(&["show", &id]);
    assert_eq!(view["status"], "running");
    assert_eq!(
        (&step(&view, "first")["status"], &step(&view, "second")["status"]),
        (&json!("succeeded"), &json!("pending"))
    );
    sandbox.expect(0, &["resume", &id]);
}

#[test]
fn second_ctrl_c_exits_at_once_and_the_call_is_unknown() {
    let sandbox = Sandbox::new();
    let (mut run, stderr) = run_with_call_in_flight(&sandbox);
    let call: u32 = std::fs::read_to_string(sandbox.path("pid")).unwrap().trim().parse().unwrap();
    interrupt(&run);
    wait_for_line(&stderr, "pausing");
    sandbox.follow_journal().wait_for("paused", None);
    interrupt(&run);
    assert_eq!(run.wait().unwrap().code(), Some(130));
    wait_until_group_is_gone(call);
    let id = sandbox.newest();
    wait_for_line(&stderr, &format!("ended at once: `actbook resume {}` continues it", &id[..8]));
    let asked = sandbox.expect(3, &["resume", &id]);
    assert!(asked.contains("It is unknown whether step `first` took effect"), "{asked}");
    sandbox.release();
    sandbox.expect(0, &["decide", &id, "first", "did-not-happen", "--reason", "nothing was written"]);
    sandbox.expect(0, &["resume", &id]);
}

/// Waits until no process of the group is left.
fn wait_until_group_is_gone(group: u32) {
    wait_until("the process group to end", || crate::tools::live_processes(group).is_empty());
}

#[test]
fn ctrl_c_ends_servers_that_ignore_signals_and_eof() {
    // Never answers, ignores signals and end of input, and has a child that left its process group.
    let deaf =
        "trap '' TERM INT; echo $$ > started; setsid sleep 600 & echo $! > fled; while :; do sleep 1; done";
    for words in [&["tools", "list"][..], &["doctor"], &["run", "held.yaml"]] {
        let sandbox = Sandbox::new();
        sandbox.write_config(json!({ "mcpServers": { "deaf": { "command": "sh", "args": ["-c", deaf] } } }));
        sandbox.write("held.yaml", "name: held\nsteps: [{ id: a, tool: deaf/any }]");
        let mut child = sandbox.start(words);
        let pid = |name: &str| std::fs::read_to_string(sandbox.path(name)).ok()?.trim().parse::<u32>().ok();
        let (server, fled) = wait_for("the server to start", || pid("started").zip(pid("fled")));
        interrupt(&child);
        assert_eq!(child.wait().unwrap().code(), Some(130), "{words:?}");
        wait_until_group_is_gone(server);
        wait_until_group_is_gone(fled);
    }
}

#[test]
fn interrupted_watch_leaves_the_execution_running() {
    let sandbox = Sandbox::new();
    let (run, _stderr) = run_with_call_in_flight(&sandbox);
    let id = sandbox.newest();
    let mut watcher = sandbox.start(&["watch", &id]);
    let shown = read_lines(watcher.stdout.take().unwrap());
    wait_for_line(&shown, "first running");
    interrupt(&watcher);
    wait_for_line(&read_lines(watcher.stderr.take().unwrap()), "no longer watching");
    watcher.wait().unwrap();
    assert_eq!(sandbox.json(&["show", &id])["status"], "running");
    sandbox.release();
    assert_eq!(run.wait_with_output().unwrap().status.code(), Some(0));
}

#[test]
fn closed_stdout_does_not_stop_the_run() {
    let sandbox = Sandbox::new();
    let steps: Vec<Value> =
        (0..60).map(|n| json!({ "id": format!("s{n}"), "tool": "files/echo", "read_only": true })).collect();
    sandbox.write("many.json", &json!({ "name": "many", "steps": steps }).to_string());
    for words in [vec!["run", "many.json"], vec!["journal", "--json"], vec!["--help"], vec!["export", "*"]] {
        let id = if words[0] == "export" { sandbox.newest() } else { String::new() };
        let words: Vec<&str> = words.into_iter().map(|word| if word == "*" { &id } else { word }).collect();
        let mut child = sandbox.start(&words);
        drop(child.stdout.take());
        let ran = CliOutput::from(child.wait_with_output().unwrap());
        assert!(!ran.stderr.contains("panicked"), "{words:?}: {}", ran.stderr);
        assert!(ran.code.is_some(), "{words:?} died of a signal");
    }
    assert_eq!(sandbox.json(&["list"])[0]["status"], "succeeded");
}
