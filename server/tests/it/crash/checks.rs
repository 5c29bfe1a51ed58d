//! What must hold at the end of an execution, checked across the witness file, the work folder and the
//! journal.

use std::collections::BTreeMap;

use serde_json::Value;

use super::direct_sql::RawEntry;
use super::fixture::{CliFixture, file_names};
use super::reference_plan::{ReceivedCall, SEND_ONCE_STEPS, effect_count, received_calls};

/// Events the journal has of one step, or of its compensation.
#[derive(Debug, Default)]
struct StepCounts {
    started: usize,
    unsent: usize,
    observed: usize,
    failed: usize,
    unknown: usize,
    resends_allowed: usize,
}

fn count_events(entries: &[RawEntry], step: &str, started: &str, ended: &str) -> StepCounts {
    let mut counted = StepCounts::default();
    for entry in entries.iter().filter(|entry| entry.step() == Some(step)) {
        let flag = |name: &str| entry.body[name] == true;
        let outcome = entry.body["outcome"].as_str();
        if entry.kind == started {
            counted.started += 1;
        } else if entry.kind == ended {
            counted.unsent += usize::from(flag("unsent"));
            counted.observed += usize::from(!flag("unsent") && !flag("takeover"));
            counted.failed += usize::from(!flag("unsent") && outcome == Some("failed"));
            counted.unknown += usize::from(outcome == Some("unknown"));
        } else if entry.kind == "probe_ended.1" && started == "attempt_started.2" {
            counted.resends_allowed += usize::from(entry.body["found"] == "did_not_happen");
        } else if entry.kind == "decided.2" {
            let answer = entry.body["answer"].as_str().unwrap();
            counted.resends_allowed +=
                usize::from(["retry", "did-not-happen", "did_not_happen"].contains(&answer));
        }
    }
    counted
}

pub fn check_all(fixture: &CliFixture, view: &Value, entries: &[RawEntry]) {
    let calls = received_calls(fixture);
    for step in ["look", "a", "b", "c", "d", "e", "f"] {
        let name = if step == "look" { "a" } else { step };
        let runs = |call: &&ReceivedCall| match step {
            "look" => call.verb == "stat" && call.step == name,
            _ => call.step == name && ["post", "put", "flaky", "refuse"].contains(&call.verb.as_str()),
        };
        let undoes =
            |call: &&ReceivedCall| call.step == name && ["unpost", "remove"].contains(&call.verb.as_str());
        let sent: Vec<&ReceivedCall> = calls.iter().filter(runs).collect();
        let run = count_events(entries, step, "attempt_started.2", "attempt_ended.1");
        assert_calls_match_journal(step, &run, &sent);
        if step != "look" {
            let sent: Vec<&ReceivedCall> = calls.iter().filter(undoes).collect();
            assert_calls_match_journal(
                step,
                &count_events(entries, step, "compensation_started.1", "compensation_ended.1"),
                &sent,
            );
        }
        if SEND_ONCE_STEPS.contains(&step) {
            assert_sent_once_per_decision(step, &run, &sent);
        }
        assert_no_attempt_after_success(step, entries);
    }
    assert_effects_match_status(fixture, view);
}

/// Every call that arrived has an intent that is not marked unsent, and every observed outcome belongs to a
/// call that arrived.
fn assert_calls_match_journal(step: &str, counted: &StepCounts, sent: &[&ReceivedCall]) {
    assert!(sent.len() <= counted.started - counted.unsent, "{step}: {counted:?}, but arrived: {sent:?}");
    assert!(sent.len() >= counted.observed, "{step}: {counted:?}, but arrived: {sent:?}");
}

fn assert_sent_once_per_decision(step: &str, counted: &StepCounts, sent: &[&ReceivedCall]) {
    let allowed = 1 + counted.resends_allowed + counted.failed;
    assert!(sent.len() <= allowed, "{step}: sent {} times, {allowed} allowed: {counted:?}", sent.len());
    let mut keys: BTreeMap<&str, usize> = BTreeMap::new();
    for call in sent {
        *keys.entry(&call.key).or_default() += 1;
    }
    assert!(keys.values().all(|times| *times == 1), "{step}: a key was sent twice: {keys:?}");
}

fn assert_no_attempt_after_success(step: &str, entries: &[RawEntry]) {
    let of = |entry: &&RawEntry| entry.step() == Some(step);
    let succeeded =
        |entry: &RawEntry| entry.kind == "attempt_ended.1" && entry.body["outcome"] == "succeeded";
    let after = entries.iter().filter(of).skip_while(|entry| !succeeded(entry));
    let again = after.filter(|entry| entry.kind == "attempt_started.2").count();
    assert_eq!(again, 0, "{step} ran again though it had succeeded");
}

/// Compensated: the folder is empty again. Succeeded: each step took effect exactly once.
fn assert_effects_match_status(fixture: &CliFixture, view: &Value) {
    let status = view["status"].as_str().unwrap();
    match status {
        "compensated" => assert_eq!(file_names(&fixture.path("work")), Vec::<String>::new(), "{view}"),
        "succeeded" => {
            for step in ["a", "b", "c", "d", "e"] {
                assert_eq!(effect_count(fixture, step), 1, "step {step} of {view}");
            }
        }
        other => panic!("the execution ended {other}: {view}"),
    }
}
