//! kill -9 of a driver while a probe is in flight, again and again: how often the probe is sent.

use std::process::Child;

use serde_json::{Value, json};

use super::fixture::CliFixture;
use super::reference_plan::{config, new_fixture, received_calls};
use super::wait_for_exit;
use crate::store::Kind;
use crate::waiting::wait_for;

/// A call that lasts until it is released, with a probe that does too.
fn probed_plan() -> Value {
    let arguments = json!({ "step": "held", "text": "" });
    let probe = json!({ "tool": "command/look", "arguments": arguments, "happened": "output.exists" });
    let step = json!({ "id": "held", "tool": "command/hold", "arguments": arguments, "probe": probe });
    json!({ "name": "probed", "steps": [step] })
}

fn arrived(fixture: &CliFixture, verb: &str) -> usize {
    received_calls(fixture).iter().filter(|call| call.verb == verb).count()
}

/// Kills the process once one more call of `verb` has arrived. False: it exited without another call.
fn kill_in_next_call(fixture: &CliFixture, mut driver: Child, verb: &str, before: usize) -> bool {
    let has_called = wait_for("another call, or the end of the process", || {
        let has_called = arrived(fixture, verb) > before;
        (has_called || driver.try_wait().unwrap().is_some()).then_some(has_called)
    });
    if has_called {
        driver.kill().unwrap();
    }
    wait_for_exit(driver);
    has_called
}

/// Kills the driver in its call, then in each probe that a `resume` sends; the number of probes that were sent.
fn count_probes_over_kills(fixture: &CliFixture) -> usize {
    assert!(kill_in_next_call(fixture, fixture.spawn(&["run", "plan.json"]), "hold", 0));
    let started = fixture.entries().into_iter().find(|entry| entry.kind == "execution_started.3").unwrap();
    let id = started.body["id"].as_str().unwrap().to_owned();
    let mut sent = 0;
    while kill_in_next_call(fixture, fixture.spawn(&["resume", &id]), "look", sent) {
        sent += 1;
        assert!(sent < 20, "the probe is sent without end");
    }
    let shown = fixture.run(&["show", &id]);
    assert_eq!((shown.status(), &shown.json["steps"][0]["status"]), ("blocked", &json!("unknown")));
    assert_eq!(arrived(fixture, "hold"), 1, "the call itself is never sent again");
    fixture.assert_verifies();
    sent
}

#[test]
fn probe_of_a_killed_driver_is_sent_again_only_if_config_calls_it_read_only() {
    for kind in [Kind::Sqlite, Kind::Postgres] {
        let fixture = new_fixture(kind, &probed_plan());
        assert_eq!(count_probes_over_kills(&fixture), 1, "{kind:?}: read-only by the plan's word alone");

        let fixture = new_fixture(kind, &probed_plan());
        let mut config = config();
        config["servers"] = json!({ "command": { "tools": { "look": { "read_only": true } } } });
        std::fs::write(fixture.path("actbook.yaml"), config.to_string()).unwrap();
        assert_eq!(count_probes_over_kills(&fixture), 4, "{kind:?}: at most three times more");
    }
}
