//! Idempotency keys: a request that is cut off and repeated, or sent many times at once, takes effect once.

use std::collections::BTreeSet;
use std::io::{Read, Write};

use serde_json::{Value, json};

use super::serve_process::ServeProcess;
use super::{count_executions, work_plan};
use crate::cli::Sandbox;
use crate::counts::times;
use crate::durability::rng::SeededRng;

/// The number of keys; each is requested `CUTS_PER_KEY` times and cut off, then once to the end.
const KEYS: usize = 2_000;
const CUTS_PER_KEY: usize = 5;
const THREADS: usize = 8;
const DUPLICATES: usize = 1_000;

/// A plan that waits for an agent step, so that nothing runs.
fn waiting_plan() -> Value {
    work_plan(&[json!({ "id": "own", "action": "Wait" })])
}

/// The bytes of an `execute_plan` request with this key.
fn start_request(server: &ServeProcess, plan: &str, key: &str) -> Vec<u8> {
    let arguments = json!({ "plan_id": plan, "idempotency_key": key });
    server.request_bytes("tools/call", json!({ "name": "execute_plan", "arguments": arguments }))
}

/// Sends a prefix of the request, or all of it and reads a prefix of the response, and disconnects.
fn send_and_disconnect(server: &ServeProcess, bytes: &[u8], dice: &mut SeededRng) {
    let mut stream = server.connect();
    // Half of the cuts fall into the request, half into the response.
    let sent = dice.below(2 * bytes.len());
    drop(stream.write_all(&bytes[..sent.min(bytes.len())]));
    if sent >= bytes.len() {
        let mut response = vec![0; 1 + dice.below(900)];
        drop(stream.read(&mut response));
    }
}

fn execution_id(reply: &Value) -> String {
    reply["result"]["structuredContent"]["id"].as_str().unwrap_or_else(|| panic!("{reply}")).to_owned()
}

#[test]
fn interrupted_starts_create_one_execution_per_key() {
    let keys = times("ACTBOOK_KEYS", KEYS);
    let sandbox = Sandbox::new();
    let server = ServeProcess::start(&sandbox);
    let saved = server.call("save_plan", json!({ "plan": waiting_plan() }));
    let plan = saved["structuredContent"]["plan_id"].as_str().unwrap();
    let ids: BTreeSet<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|worker| {
                let server = &server;
                let mut dice = SeededRng::from_env(&format!("starts cut off, hand {worker}"));
                scope.spawn(move || {
                    let own = (worker..keys).step_by(THREADS);
                    own.map(|key| {
                        let bytes = start_request(server, plan, &format!("key {key}"));
                        (0..CUTS_PER_KEY).for_each(|_| send_and_disconnect(server, &bytes, &mut dice));
                        execution_id(&server.exchange(&bytes).message())
                    })
                    .collect::<Vec<_>>()
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert_eq!(ids.len(), keys);
    assert_eq!(count_executions(&sandbox), keys);
}

#[test]
fn concurrent_duplicate_starts_create_one_execution() {
    let sandbox = Sandbox::new();
    let server = ServeProcess::start(&sandbox);
    let saved = server.call("save_plan", json!({ "plan": waiting_plan() }));
    let plan = saved["structuredContent"]["plan_id"].as_str().unwrap();
    let bytes = start_request(&server, plan, "twins");
    let ids: BTreeSet<String> = std::thread::scope(|scope| {
        let twins: Vec<_> = (0..times("ACTBOOK_TWINS", DUPLICATES))
            .map(|_| scope.spawn(|| execution_id(&server.exchange(&bytes).message())))
            .collect();
        twins.into_iter().map(|twin| twin.join().unwrap()).collect()
    });
    assert_eq!(ids.len(), 1);
    assert_eq!(count_executions(&sandbox), 1);
}

#[test]
fn idempotency_key_deduplicates_every_changing_tool() {
    let sandbox = Sandbox::new();
    let server = ServeProcess::start(&sandbox);
    let call = |tool: &str, arguments: Value| server.call(tool, arguments)["structuredContent"].clone();
    let save = json!({ "plan": waiting_plan(), "idempotency_key": "save" });
    let saved = call("save_plan", save.clone());
    assert_eq!(call("save_plan", save)["plan_id"], saved["plan_id"]);
    let other = call("save_plan", json!({ "plan": work_plan(&[]), "idempotency_key": "save" }));
    assert_eq!(other["error"]["code"], "key_reused", "{other}");
    let id = call("execute_plan", json!({ "plan_id": saved["plan_id"] }))["id"].clone();
    let twice = |tool: &str, arguments: Value, status: &str| {
        for _ in 0..2 {
            let answer = call(tool, arguments.clone());
            assert_eq!(answer["status"], status, "{tool}: {answer}");
        }
    };
    twice("control", json!({ "execution_id": id, "action": "pause", "idempotency_key": "p" }), "paused");
    twice("control", json!({ "execution_id": id, "action": "resume", "idempotency_key": "r" }), "blocked");
    let report = json!({
        "execution_id": id, "step_id": "own", "status": "started", "description": "begun", "idempotency_key": "s",
    });
    twice("record_action", report, "blocked");
    let stop = json!({ "execution_id": id, "decision": "stop", "reason": "enough", "idempotency_key": "d" });
    call("record_decision", stop.clone());
    let again = call("record_decision", stop);
    assert!(again.get("error").is_none(), "{again}");
}
