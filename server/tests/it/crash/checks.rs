//! What must hold at the end of an execution, checked across the witness file, the work folder and the
//! journal.

use std::collections::BTreeMap;

use serde_json::Value;

use super::book::{Book, names_in};
use super::outside::Entry;
use super::reference::{Arrived, ONCE, arrived, effects};

/// Events the journal has of one step, or of its compensation.
#[derive(Debug, Default)]
struct Counted {
    started: usize,
    unsent: usize,
    seen: usize,
    said_no: usize,
    unknown: usize,
    again: usize,
}

fn count(entries: &[Entry], step: &str, started: &str, ended: &str) -> Counted {
    let mut counted = Counted::default();
    for entry in entries.iter().filter(|entry| entry.step() == Some(step)) {
        let flag = |name: &str| entry.body[name] == true;
        let outcome = entry.body["outcome"].as_str();
        if entry.kind == started {
            counted.started += 1;
        } else if entry.kind == ended {
            counted.unsent += usize::from(flag("unsent"));
            counted.seen += usize::from(!flag("unsent") && !flag("takeover"));
            counted.said_no += usize::from(!flag("unsent") && outcome == Some("failed"));
            counted.unknown += usize::from(outcome == Some("unknown"));
        } else if entry.kind == "probe_ended.1" && started == "attempt_started.1" {
            counted.again += usize::from(entry.body["found"] == "did_not_happen");
        } else if entry.kind == "decided.2" {
            let answer = entry.body["answer"].as_str().unwrap();
            counted.again += usize::from(["retry", "did-not-happen", "did_not_happen"].contains(&answer));
        }
    }
    counted
}

pub fn all(fixture: &Book, view: &Value, entries: &[Entry]) {
    let calls = arrived(fixture);
    for step in ["look", "a", "b", "c", "d", "e", "f"] {
        let name = if step == "look" { "a" } else { step };
        let runs = |call: &&Arrived| match step {
            "look" => call.verb == "stat" && call.step == name,
            _ => call.step == name && ["post", "put", "flaky", "refuse"].contains(&call.verb.as_str()),
        };
        let undoes =
            |call: &&Arrived| call.step == name && ["unpost", "remove"].contains(&call.verb.as_str());
        let sent: Vec<&Arrived> = calls.iter().filter(runs).collect();
        let run = count(entries, step, "attempt_started.1", "attempt_ended.1");
        accounted_for(step, &run, &sent);
        if step != "look" {
            let sent: Vec<&Arrived> = calls.iter().filter(undoes).collect();
            accounted_for(
                step,
                &count(entries, step, "compensation_started.1", "compensation_ended.1"),
                &sent,
            );
        }
        if ONCE.contains(&step) {
            sent_once_per_decision(step, &run, &sent);
        }
        never_again_after_success(step, entries);
    }
    effects_are_as_stated(fixture, view);
}

/// Every call that arrived has an intent that is not marked unsent, and every observed outcome belongs to a
/// call that arrived.
fn accounted_for(step: &str, counted: &Counted, sent: &[&Arrived]) {
    assert!(sent.len() <= counted.started - counted.unsent, "{step}: {counted:?}, but arrived: {sent:?}");
    assert!(sent.len() >= counted.seen, "{step}: {counted:?}, but arrived: {sent:?}");
}

fn sent_once_per_decision(step: &str, counted: &Counted, sent: &[&Arrived]) {
    let allowed = 1 + counted.again + counted.said_no;
    assert!(sent.len() <= allowed, "{step}: sent {} times, {allowed} allowed: {counted:?}", sent.len());
    let mut keys: BTreeMap<&str, usize> = BTreeMap::new();
    for call in sent {
        *keys.entry(&call.key).or_default() += 1;
    }
    assert!(keys.values().all(|times| *times == 1), "{step}: a key was sent twice: {keys:?}");
}

fn never_again_after_success(step: &str, entries: &[Entry]) {
    let of = |entry: &&Entry| entry.step() == Some(step);
    let succeeded = |entry: &Entry| entry.kind == "attempt_ended.1" && entry.body["outcome"] == "succeeded";
    let after = entries.iter().filter(of).skip_while(|entry| !succeeded(entry));
    let again = after.filter(|entry| entry.kind == "attempt_started.1").count();
    assert_eq!(again, 0, "{step} ran again though it had succeeded");
}

/// Compensated: the folder is empty again. Succeeded: each step took effect exactly once.
fn effects_are_as_stated(fixture: &Book, view: &Value) {
    let status = view["status"].as_str().unwrap();
    match status {
        "compensated" => assert_eq!(names_in(&fixture.path("work")), Vec::<String>::new(), "{view}"),
        "succeeded" => {
            for step in ["a", "b", "c", "d", "e"] {
                assert_eq!(effects(fixture, step), 1, "step {step} of {view}");
            }
        }
        other => panic!("the execution ended {other}: {view}"),
    }
}
