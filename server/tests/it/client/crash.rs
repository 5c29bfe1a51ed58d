//! kill -9 of a program with Actbook in it, in the middle of two calls, and the same program started again.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command};

use actbook::{Client, ExecutionStatus, Executor, StepAnswer, StepStatus};
use serde_json::json;

use super::{builder, of, plan, step};
use crate::durability::process::{ARGUMENTS, equip, said, say, spoken};
use crate::store::for_each_database;

/// The program's parts, for `durability::process`.
pub const DIES: &str = "a program that dies";
pub const COMES_BACK: &str = "a program that comes back";

#[test]
fn a_program_that_was_killed_takes_its_executions_up_again() {
    for_each_database(async |scratch| {
        let home = tempfile::tempdir().unwrap();
        let start = |part: &str| -> Child {
            let mut command = Command::new(std::env::current_exe().unwrap());
            equip(command.args(ARGUMENTS), part, &scratch.url, home.path()).spawn().unwrap()
        };
        let mut dies = start(DIES);
        let output = BufReader::new(dies.stdout.take().unwrap());
        let lines = output.lines().map_while(Result::ok).filter_map(|line| spoken(&line).map(str::to_owned));
        let mut before: Vec<String> = lines.take(3).collect();
        dies.kill().unwrap();
        dies.wait().unwrap();
        before.sort_unstable();
        let begins = |line: &str, words: &str| assert!(line.starts_with(words), "`{line}`");
        begins(&before[0], "1 t/do ");
        begins(&before[1], "1 t/post ");
        begins(&before[2], "1 t/put ");

        let mut after = said(&start(COMES_BACK).wait_with_output().unwrap());
        after.sort_unstable();
        let key = |line: &str| line.rsplit(' ').next().unwrap().to_owned();
        assert_eq!(after.len(), 3, "what was finished is not done again, nor what may not be: {after:?}");
        begins(&after[0], "1 t/last ");
        begins(&after[1], "2 t/put ");
        assert_eq!(key(&after[1]), key(&before[2]), "an idempotent call goes out again under its key");
        assert_eq!(after[2], "whole");
    });
}

/// Says what it is called for, and does it where `lives`.
fn tool(lives: bool) -> Executor {
    Executor::new(move |call| async move {
        let origin = call.origin.as_ref().expect("an execution calls");
        say(&format!("{} {} {}", origin.attempt, call.tool, call.key));
        if !lives && call.tool != "t/do" {
            std::future::pending::<()>().await;
        }
        Ok(json!({ "id": 7 }))
    })
}

async fn open(url: &str, lives: bool) -> Client {
    let builder = builder(url).tool("t/do", tool(lives)).tool("t/post", tool(lives));
    builder.tool("t/last", tool(lives)).tool("t/put", tool(lives).idempotent()).open().await.unwrap()
}

pub async fn die(url: &str) {
    let client = open(url, false).await;
    let mut last = step("last", "t/last");
    last["arguments"] = json!({ "id": "${steps.post.output.id}" });
    client
        .save_plan(&plan("posts", json!([step("do", "t/do"), step("post", "t/post"), last])))
        .await
        .unwrap();
    let mut put = step("put", "t/put");
    put["retry"] = json!({ "max_attempts": 2, "backoff": "1ms", "on": ["unavailable"] });
    client.save_plan(&plan("puts", json!([put]))).await.unwrap();
    client.start("posts", None).await.unwrap();
    client.start("puts", None).await.unwrap();
    std::future::pending().await
}

pub async fn come_back(url: &str) {
    let client = open(url, true).await;
    assert_eq!(client.take_up().await.unwrap(), 2, "the dead process holds nobody up");
    for row in client.executions(&Default::default(), 10).await.unwrap() {
        let view = client.wait(&row.id).await.unwrap();
        if view.plan.name == "puts" {
            assert_eq!(view.status, ExecutionStatus::Succeeded);
            continue;
        }
        assert_eq!((view.status, of(&view, "post").status), (ExecutionStatus::Blocked, StepStatus::Unknown));
        let seen = Some(json!({ "id": 7 }));
        client.decide(&row.id, "post", StepAnswer::Happened, Some("it was seen"), seen).await.unwrap();
        assert_eq!(client.wait(&row.id).await.unwrap().status, ExecutionStatus::Succeeded);
    }
    assert!(client.verify().await.unwrap().ok);
    say("whole");
}
