//! A database outage that begins while a call is in flight and lasts longer than a lease.

use std::io::{BufRead as _, BufReader};
use std::process::Child;

use serde_json::{Value, json};

use super::reference_plan::{new_fixture, received_calls, step};
use super::wait_for_exit;
use crate::store::Kind;
use crate::store::proxy::Proxy;
use crate::waiting::wait_for;

/// Waits for a stderr line that contains `text`. Takes the pipe, so stderr is not read afterwards.
fn wait_for_stderr_line(child: &mut Child, text: &'static str) {
    let lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
    let reading = std::thread::spawn(move || lines.map_while(Result::ok).any(|line| line.contains(text)));
    wait_for(text, || reading.is_finished().then_some(()));
    assert!(reading.join().unwrap(), "stderr ended without: {text}");
}

#[test]
fn call_outcome_is_kept_until_the_database_returns() {
    let mut fixture =
        new_fixture(Kind::Postgres, &json!({ "name": "two", "steps": [step("hold"), step("put")] }));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let proxy = runtime.block_on(Proxy::in_front_of(&fixture.url));
    let direct = std::mem::replace(&mut fixture.url, proxy.url.clone());
    let mut driver = fixture.spawn(&["run", "plan.json"]);
    fixture.url = direct;
    wait_for("the first call", || (received_calls(&fixture).len() == 1).then_some(()));

    runtime.block_on(proxy.cut());
    std::fs::write(fixture.path("release"), "").unwrap();
    wait_for_stderr_line(&mut driver, "it continues once the database answers");
    proxy.restore();

    let output = wait_for_exit(driver);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let verbs: Vec<String> = received_calls(&fixture).into_iter().map(|call| call.verb).collect();
    assert_eq!(verbs, ["hold", "put"]);
    let ended: Vec<Value> = fixture
        .entries()
        .into_iter()
        .filter(|entry| entry.kind == "attempt_ended.1")
        .map(|entry| entry.body["outcome"].clone())
        .collect();
    assert_eq!(ended, ["succeeded", "succeeded"]);
    fixture.assert_verifies();
}
