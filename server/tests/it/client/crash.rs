//! kill -9 of a program that embeds Actbook, during two calls, and a restart of the same program.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command};

use actbook::{Client, ExecutionStatus, Executor, StepAnswer, StepStatus};
use serde_json::json;

use super::{builder, plan, step, step_view};
use crate::durability::helper_process::{ARGUMENTS, emit, emitted_lines, equip, parse_emitted};
use crate::store::for_each_database;

/// Part names for `durability::helper_process`.
pub const CRASHING_PROGRAM: &str = "crashing program";
pub const RESTARTED_PROGRAM: &str = "restarted program";

#[test]
fn killed_program_resumes_its_executions_after_restart() {
    for_each_database(async |scratch| {
        let home = tempfile::tempdir().unwrap();
        let start = |part: &str| -> Child {
            let mut command = Command::new(std::env::current_exe().unwrap());
            equip(command.args(ARGUMENTS), part, &scratch.url, home.path()).spawn().unwrap()
        };
        let mut crashing = start(CRASHING_PROGRAM);
        let output = BufReader::new(crashing.stdout.take().unwrap());
        let lines =
            output.lines().map_while(Result::ok).filter_map(|line| parse_emitted(&line).map(str::to_owned));
        let mut before: Vec<String> = lines.take(3).collect();
        crashing.kill().unwrap();
        crashing.wait().unwrap();
        before.sort_unstable();
        let begins = |line: &str, prefix: &str| assert!(line.starts_with(prefix), "`{line}`");
        begins(&before[0], "1 t/do ");
        begins(&before[1], "1 t/post ");
        begins(&before[2], "1 t/put ");

        let mut after = emitted_lines(&start(RESTARTED_PROGRAM).wait_with_output().unwrap());
        after.sort_unstable();
        let key = |line: &str| line.rsplit(' ').next().unwrap().to_owned();
        assert_eq!(after.len(), 3, "finished and non-idempotent calls are not repeated: {after:?}");
        begins(&after[0], "1 t/last ");
        begins(&after[1], "2 t/put ");
        assert_eq!(key(&after[1]), key(&before[2]), "an idempotent call is repeated with its key");
        assert_eq!(after[2], "whole");
    });
}

/// An executor that prints each call, and answers it if `answers`, else hangs (except `t/do`).
fn tool(answers: bool) -> Executor {
    Executor::new(move |call| async move {
        let origin = call.origin.as_ref().expect("an execution calls");
        emit(&format!("{} {} {}", origin.attempt, call.tool, call.key));
        if !answers && call.tool != "t/do" {
            std::future::pending::<()>().await;
        }
        Ok(json!({ "id": 7 }))
    })
}

async fn open(url: &str, answers: bool) -> Client {
    let builder = builder(url).tool("t/do", tool(answers)).tool("t/post", tool(answers));
    builder.tool("t/last", tool(answers)).tool("t/put", tool(answers).idempotent()).open().await.unwrap()
}

pub async fn run_until_crash(url: &str) {
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

pub async fn run_after_restart(url: &str) {
    let client = open(url, true).await;
    assert_eq!(client.take_up().await.unwrap(), 2, "executions of the dead process are taken up");
    for row in client.executions(&Default::default(), 10).await.unwrap() {
        let view = client.wait(&row.id).await.unwrap();
        if view.plan.name == "puts" {
            assert_eq!(view.status, ExecutionStatus::Succeeded);
            continue;
        }
        assert_eq!(
            (view.status, step_view(&view, "post").status),
            (ExecutionStatus::Blocked, StepStatus::Unknown)
        );
        let seen = Some(json!({ "id": 7 }));
        client.decide(&row.id, "post", StepAnswer::Happened, Some("it was seen"), seen).await.unwrap();
        assert_eq!(client.wait(&row.id).await.unwrap().status, ExecutionStatus::Succeeded);
    }
    assert!(client.verify().await.unwrap().ok);
    emit("whole");
}
