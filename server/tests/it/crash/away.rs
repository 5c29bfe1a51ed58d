//! A database that goes away while a call is out, for longer than a lease, and comes back.

use std::io::{BufRead as _, BufReader};
use std::process::Child;

use serde_json::{Value, json};

use super::reference::{arrived, new_book, step};
use super::{finish, wait_for};
use crate::store::Kind;
use crate::store::proxy::Proxy;

/// Until the process has said it on stderr, which nobody reads from then on.
fn hear(child: &mut Child, words: &'static str) {
    let lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
    let reading = std::thread::spawn(move || lines.map_while(Result::ok).any(|line| line.contains(words)));
    wait_for(words, || reading.is_finished().then_some(()));
    assert!(reading.join().unwrap(), "it ended without a word of: {words}");
}

#[test]
fn what_came_of_a_call_is_kept_until_the_database_is_back() {
    let mut book = new_book(Kind::Postgres, &json!({ "name": "two", "steps": [step("hold"), step("put")] }));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let proxy = runtime.block_on(Proxy::before(&book.url));
    let direct = std::mem::replace(&mut book.url, proxy.url.clone());
    let mut driver = book.spawn(&["run", "plan.json"]);
    book.url = direct;
    wait_for("the first call", || (arrived(&book).len() == 1).then_some(()));

    runtime.block_on(proxy.cut());
    std::fs::write(book.path("release"), "").unwrap();
    hear(&mut driver, "it goes on once the database answers");
    proxy.restore();

    let output = finish(driver);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let verbs: Vec<String> = arrived(&book).into_iter().map(|call| call.verb).collect();
    assert_eq!(verbs, ["hold", "put"]);
    let ended: Vec<Value> = book
        .entries()
        .into_iter()
        .filter(|entry| entry.kind == "attempt_ended.1")
        .map(|entry| entry.body["outcome"].clone())
        .collect();
    assert_eq!(ended, ["succeeded", "succeeded"]);
    book.verify();
}
