//! kill -9 of `actbook mcp --guard` at every position of its session's journal: nothing is lost, no call is relayed
//! twice, and the agent's next call goes on.

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::direct_sql::DirectSql;
use super::fixture::CliFixture;
use crate::mcp::agent::Agent;
use crate::store::Kind;

/// The calls that the agent makes, each with another number.
const CALLS: usize = 5;
/// Short against the time between two entries, so that a kill can fall after each.
const HEAD_POLL_INTERVAL: Duration = Duration::from_micros(200);

/// A fixture whose one tool notes the number that it is called with.
fn new_fixture(kind: Kind) -> CliFixture {
    let note = json!({ "argv": ["sh", "-c", "echo \"$1\" >> calls", "note", "${arguments.number}"] });
    CliFixture::new(kind, &json!({ "commands": { "note": note }, "servers": { "command": {} } }))
}

fn connect(fixture: &CliFixture) -> Agent {
    let mut agent = Agent::launch(fixture.command(&["mcp", "--guard"]));
    agent.initialize("2025-11-25", json!({}));
    agent
}

/// Kills the process once the journal has reached `position`, or is told to stop by the end of the channel.
fn kill_at(agent: &Agent, database: DirectSql, position: i64) -> std::sync::mpsc::Sender<()> {
    let process = Pid::from_child(&agent.child);
    let (stop, stopped) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        while let Err(std::sync::mpsc::RecvTimeoutError::Timeout) = stopped.recv_timeout(HEAD_POLL_INTERVAL) {
            if database.head() >= position {
                return kill_process(process, Signal::KILL).unwrap();
            }
        }
    });
    stop
}

/// Makes the calls, with one kill at `position`; returns the numbers whose call was answered. The process that follows
/// a killed one makes the calls that are left.
fn make_calls(fixture: &CliFixture, position: Option<i64>) -> Vec<usize> {
    let mut agent = connect(fixture);
    let mut killer = position.map(|position| kill_at(&agent, fixture.direct_sql(), position));
    let mut answered = Vec::new();
    for number in 1..=CALLS {
        let params = json!({ "name": "command__note", "arguments": { "number": number.to_string() } });
        match agent.request_to_live_server("tools/call", params) {
            Some(result) => {
                let result = result.unwrap();
                assert_ne!(result["isError"], true, "killed at {position:?}, call {number}: {result}");
                answered.push(number);
            }
            None => {
                killer.take();
                agent = connect(fixture);
            }
        }
    }
    drop(killer);
    drop(agent);
    answered
}

/// By number: how often the tool was called with it.
fn received(fixture: &CliFixture) -> BTreeMap<usize, usize> {
    let calls = std::fs::read_to_string(fixture.path("calls")).unwrap_or_default();
    let mut counts = BTreeMap::new();
    calls.lines().for_each(|number| *counts.entry(number.parse().unwrap()).or_insert(0) += 1);
    counts
}

/// By number: the statuses of the steps that were added for it, in all sessions.
fn steps(fixture: &CliFixture) -> BTreeMap<usize, Vec<String>> {
    let mut steps: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for execution in fixture.run(&["list"]).json.as_array().unwrap() {
        let id = execution["id"].as_str().unwrap();
        for step in fixture.run(&["show", id]).json["steps"].as_array().unwrap() {
            let whole = fixture.run(&["show", id, step["id"].as_str().unwrap()]).json;
            let number: usize = whole["arguments"]["number"].as_str().unwrap().parse().unwrap();
            steps.entry(number).or_default().push(step["status"].as_str().unwrap().to_owned());
        }
    }
    steps
}

fn check(fixture: &CliFixture, answered: &[usize], position: Option<i64>) {
    // Starting again settles what the killed process had in flight.
    drop(connect(fixture));
    let (received, steps) = (received(fixture), steps(fixture));
    for number in 1..=CALLS {
        let times = received.get(&number).copied().unwrap_or(0);
        let statuses = steps.get(&number).map(Vec::as_slice).unwrap_or_default();
        let context = format!("killed at {position:?}, call {number}: received {times}, {statuses:?}");
        assert!(times <= 1, "{context}");
        assert!(statuses.len() <= 1, "{context}");
        match statuses.first().map(String::as_str) {
            Some("succeeded") => assert_eq!(times, 1, "{context}"),
            Some("unknown") => assert!(!answered.contains(&number), "{context}"),
            Some("failed") => assert!(times == 0 && !answered.contains(&number), "{context}"),
            None => assert!(times == 0 && !answered.contains(&number), "{context}"),
            Some(_) => panic!("{context}"),
        }
    }
    fixture.assert_verifies();
}

#[test]
fn kill_9_at_every_position_of_a_guarded_session_loses_and_resends_nothing() {
    for kind in [Kind::Sqlite, Kind::Postgres] {
        let undisturbed = new_fixture(kind);
        let answered = make_calls(&undisturbed, None);
        assert_eq!(answered.len(), CALLS);
        check(&undisturbed, &answered, None);
        let last = undisturbed.direct_sql().head();
        for position in 1..last {
            let fixture = new_fixture(kind);
            let answered = make_calls(&fixture, Some(position));
            check(&fixture, &answered, Some(position));
        }
    }
}

/// What a killed process had in flight is settled before a command would wait for it.
#[test]
fn cancel_of_a_killed_session_settles_its_calls() {
    let hold = json!({ "argv": ["sh", "-c", "touch holding; sleep 600"] });
    let fixture =
        CliFixture::new(Kind::Sqlite, &json!({ "commands": { "hold": hold }, "servers": { "command": {} } }));
    let mut agent = connect(&fixture);
    agent.send_request("tools/call", json!({ "name": "command__hold", "arguments": {} }));
    crate::waiting::wait_for("the call to arrive", || fixture.path("holding").exists().then_some(()));
    agent.child.kill().unwrap();
    drop(agent);
    let id = fixture.run(&["list"]).json[0]["id"].as_str().unwrap().to_owned();
    fixture.run(&["cancel", &id]);
    let shown = fixture.run(&["show", &id]).json;
    assert_eq!(
        (&shown["steps"][0]["status"], &shown["status"]),
        (&json!("unknown"), &json!("cancelled")),
        "{shown}"
    );
}
