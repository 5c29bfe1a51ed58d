//! Two processes and one execution: which one drives, what a frozen driver may still append, and how fast
//! another process's command takes effect.

use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::direct_sql::RawEntry;
use super::fixture::CliFixture;
use super::reference_plan::{effect_count, new_fixture, received_calls};
use super::{freeze, take_over, wait_for_exit};
use crate::store::Kind;
use crate::tools::live_processes;
use crate::waiting::wait_for;

const BOTH_DATABASES: [Kind; 2] = [Kind::Sqlite, Kind::Postgres];

/// Limit in milliseconds for another process's command to take effect, even on a busy machine; shorter than
/// the background poll of five seconds, so that only a notification can meet it.
const EFFECT_LIMIT_MS: i64 = 4_000;

fn step(id: &str, verb: &str) -> Value {
    let undo = json!({ "tool": "command/unpost", "arguments": { "step": id, "text": "" } });
    let arguments = json!({ "step": id, "text": "" });
    json!({ "id": id, "tool": format!("command/{verb}"), "arguments": arguments, "compensation": undo })
}

/// A plan whose first call lasts until `release`, with a step after it.
fn held_plan() -> Value {
    json!({ "name": "held", "steps": [step("held", "hold"), step("after", "post")] })
}

/// Starts a driver and waits until its held call has arrived.
fn spawn_driver(fixture: &CliFixture) -> Child {
    let child = fixture.spawn(&["run", "plan.json"]);
    wait_for("the held call to arrive", || {
        received_calls(fixture).iter().any(|call| call.verb == "hold").then_some(())
    });
    child
}

fn release(fixture: &CliFixture) {
    std::fs::write(fixture.path("release"), "").unwrap();
}

fn execution_id(fixture: &CliFixture) -> String {
    let started = find_entry(fixture, "execution_started.3", None).expect("it has started");
    started.body["id"].as_str().unwrap().to_owned()
}

/// The last entry of a kind, optionally of one step.
fn find_entry(fixture: &CliFixture, kind: &str, step: Option<&str>) -> Option<RawEntry> {
    let entries = fixture.entries();
    entries.into_iter().rfind(|entry| entry.kind == kind && (step.is_none() || entry.step() == step))
}

fn journal_lines(fixture: &CliFixture) -> Vec<String> {
    fixture.entries().into_iter().map(|entry| format!("{} {}", entry.kind, entry.body)).collect()
}

fn count_kind(fixture: &CliFixture, kind: &str) -> usize {
    fixture.entries().iter().filter(|entry| entry.kind == kind).count()
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    wait_for_exit(child);
}

#[test]
fn resume_while_the_driver_lives_only_watches() {
    for kind in BOTH_DATABASES {
        let fixture = new_fixture(kind, &held_plan());
        let driver = spawn_driver(&fixture);
        let id = execution_id(&fixture);
        let watcher = fixture.spawn(&["resume", &id]);
        let watching = [watcher.id()];
        wait_for("the second process to register its node", || {
            (fixture.direct_sql().node_count(&watching) == 1).then_some(())
        });
        release(&fixture);
        for child in [driver, watcher] {
            assert_eq!(wait_for_exit(child).status.code(), Some(0), "{kind:?}");
        }
        assert_eq!(count_kind(&fixture, "driver_changed.1"), 1, "only one of them drove");
        assert_eq!(received_calls(&fixture).len(), 2);
    }
}

#[test]
fn concurrent_resumes_elect_one_driver() {
    // A race: each round gives two processes another chance to claim.
    for kind in BOTH_DATABASES.into_iter().cycle().take(6) {
        let fixture = new_fixture(
            kind,
            &json!({ "name": "held", "steps": [
                { "id": "held", "tool": "command/hold", "arguments": { "step": "held", "text": "" },
                  "idempotent": true, "retry": { "max_attempts": 9, "backoff": "1ms", "on": ["unavailable"] } },
            ]}),
        );
        kill(spawn_driver(&fixture));
        let id = execution_id(&fixture);
        let rivals: Vec<Child> = (0..4).map(|_| fixture.spawn(&["resume", &id])).collect();
        // The dead driver's node row may be removed meanwhile.
        let processes: Vec<u32> = rivals.iter().map(Child::id).collect();
        wait_for("all of them to register their nodes", || {
            (fixture.direct_sql().node_count(&processes) == 4).then_some(())
        });
        wait_for("the call to arrive again", || (received_calls(&fixture).len() == 2).then_some(()));
        release(&fixture);
        for rival in rivals {
            let output = wait_for_exit(rival);
            assert_eq!(output.status.code(), Some(0), "{kind:?}: {output:?}");
        }
        assert_eq!(count_kind(&fixture, "driver_changed.1"), 2, "{kind:?}: {:#?}", journal_lines(&fixture));
        assert_eq!(received_calls(&fixture).len(), 2, "one call of each driver");
    }
}

#[test]
fn late_answer_of_a_frozen_driver_is_recorded_and_starts_nothing() {
    for kind in BOTH_DATABASES {
        let fixture = new_fixture(kind, &held_plan());
        let frozen = spawn_driver(&fixture);
        let id = execution_id(&fixture);
        freeze(&frozen, &fixture.direct_sql());
        fixture.direct_sql().expire_leases();
        let taker = take_over(&fixture, &id);
        assert_eq!((taker.code, taker.status()), (Some(3), "blocked"), "{taker:?}");
        assert_eq!(taker.json["steps"][0]["status"], "unknown", "{taker:?}");
        assert_eq!(received_calls(&fixture).len(), 1, "an open intent is not sent again");

        let before = fixture.direct_sql().head();
        signal(&frozen, Signal::CONT);
        release(&fixture);
        wait_for_exit(frozen);
        let since: Vec<String> = fixture
            .entries()
            .into_iter()
            .filter(|entry| entry.position > before)
            .map(|entry| entry.kind)
            .collect();
        assert_eq!(since, ["late_answer.1"], "the driver reports the late answer and appends nothing else");
        assert_eq!(received_calls(&fixture).len(), 1);

        let done = fixture.run(&["resume", &id]);
        assert_eq!(done.status(), "succeeded", "the late success settles the step: {done:?}");
        assert_eq!((effect_count(&fixture, "held"), effect_count(&fixture, "after")), (1, 1));
        fixture.assert_verifies();
    }
}

#[test]
fn takeover_ends_the_dead_drivers_child_processes() {
    for (kind, noted) in BOTH_DATABASES.into_iter().flat_map(|kind| [(kind, true), (kind, false)]) {
        let fixture = new_fixture(kind, &held_plan());
        kill(spawn_driver(&fixture));
        let child = received_calls(&fixture)[0].process;
        assert!(!live_processes(child).is_empty(), "the call outlives its driver");
        if !noted {
            remove_child_pid_notes(&fixture);
        }
        let taker = fixture.run(&["resume", &execution_id(&fixture)]);
        assert_eq!(taker.json["steps"][0]["status"], "unknown", "{taker:?}");
        wait_for("the call's process to end", || live_processes(child).is_empty().then_some(()));
        assert_eq!(effect_count(&fixture, "held"), 0);
    }
}

#[test]
fn node_file_of_another_boot_is_ignored() {
    for kind in BOTH_DATABASES {
        let fixture = new_fixture(kind, &held_plan());
        kill(spawn_driver(&fixture));
        rewrite_node_files(&fixture, |text| {
            let process =
                text.lines().find(|line| line.starts_with("process ")).expect("it names its process");
            format!("boot another\n{process}\n")
        });
        fixture.direct_sql().expire_leases();
        let taker = fixture.run(&["resume", &execution_id(&fixture)]);
        assert_eq!(taker.json["steps"][0]["status"], "unknown", "{taker:?}");
        assert_eq!(received_calls(&fixture).len(), 1, "an open intent is not sent again");
        release(&fixture);
    }
}

/// As if the crash had come between starting the command and writing its process id.
fn remove_child_pid_notes(fixture: &CliFixture) {
    let has_no_pid = |line: &&str| !line.starts_with("sent ") || line.split(' ').count() == 2;
    rewrite_node_files(fixture, |text| {
        text.lines().filter(has_no_pid).map(|line| format!("{line}\n")).collect()
    });
}

fn rewrite_node_files(fixture: &CliFixture, rewritten: impl Fn(&str) -> String) {
    let nodes = fixture.path("data/actbook/seats");
    for name in super::fixture::file_names(&nodes) {
        let text = std::fs::read_to_string(nodes.join(&name)).unwrap();
        std::fs::write(nodes.join(&name), rewritten(&text)).unwrap();
    }
}

#[test]
fn command_from_another_process_takes_effect_at_once() {
    for kind in BOTH_DATABASES {
        let mut asks = step("asks", "post");
        asks["approval"] = json!("required");
        let mut last = step("last", "post");
        last["depends_on"] = json!(["held"]);
        let steps = json!([step("held", "hold"), step("flaky", "flaky"), asks, last]);
        let fixture =
            new_fixture(kind, &json!({ "name": "words", "policy": { "concurrency": 3 }, "steps": steps }));
        let driver = spawn_driver(&fixture);
        let id = execution_id(&fixture);
        wait_for("a step to fail", || find_entry(&fixture, "step_failed.1", Some("flaky")));

        let retry = ["decide", &id, "flaky", "retry", "--reason", "try again"];
        assert_takes_effect(&fixture, &retry, "decided.2", ("attempt_started.2", "flaky"));
        wait_for("a step to ask", || find_entry(&fixture, "approval_asked.1", Some("asks")));
        assert_takes_effect(
            &fixture,
            &["approve", &id, "asks"],
            "step_approved.2",
            ("attempt_started.2", "asks"),
        );

        assert_eq!(fixture.run(&["pause", &id]).code, Some(0));
        release(&fixture);
        assert_eq!(wait_for_exit(driver).status.code(), Some(3), "the paused driver leaves");
        assert!(
            find_entry(&fixture, "attempt_ended.1", Some("held")).is_some(),
            "the call in flight finished"
        );
        assert!(
            find_entry(&fixture, "attempt_started.2", Some("last")).is_none(),
            "nothing starts while paused"
        );
        assert_eq!(fixture.run(&["resume", &id]).status(), "succeeded");
    }
}

#[test]
fn cancel_from_another_process_stops_a_running_call_at_once() {
    for kind in BOTH_DATABASES {
        let fixture = new_fixture(kind, &held_plan());
        let driver = spawn_driver(&fixture);
        let id = execution_id(&fixture);
        assert_takes_effect(&fixture, &["cancel", &id], "cancel_asked.1", ("attempt_ended.1", "held"));
        wait_for_exit(driver);
        assert_eq!(fixture.run(&["show", &id]).status(), "cancelled");
        assert!(find_entry(&fixture, "attempt_started.2", Some("after")).is_none());
    }
}

/// Runs a command, and asserts that the driver's reaction is journaled soon after the command's entry.
fn assert_takes_effect(fixture: &CliFixture, args: &[&str], command: &str, (kind, step): (&str, &str)) {
    let output = fixture.run(args);
    assert!(output.code == Some(0), "{output:?}");
    let given = wait_for("the command's entry", || find_entry(fixture, command, None));
    let effect = wait_for("the command's effect", || {
        find_entry(fixture, kind, Some(step)).filter(|entry| entry.position > given.position)
    });
    let gap = effect.at - given.at;
    eprintln!("{} → {kind} {step}: {gap} ms", args[0]);
    assert!(gap < EFFECT_LIMIT_MS, "{args:?} took {gap} ms to take effect");
}
