//! The stream of an execution's changes.

use std::time::Duration;

use actbook::{ExecutionStatus, StepStatus};
use futures_util::StreamExt as _;
use serde_json::json;

use super::{Gate, RecordedCalls, builder, plan, step, step_view};
use crate::store::{TENANT, for_each_database, off_runtime};

#[test]
fn watch_yields_increasing_positions_until_the_end() {
    for_each_database(async |scratch| {
        let gate = Gate::new();
        let client = builder(&scratch.url)
            .tool("t/gate", gate.tool())
            .tool("t/do", RecordedCalls::default().echo())
            .open()
            .await
            .unwrap();
        client.save_plan(&plan("watched", json!([step("a", "t/gate"), step("b", "t/do")]))).await.unwrap();
        let started = client.start("watched", None).await.unwrap();
        gate.wait_for_call().await;
        let neighbour = builder(&scratch.url).open().await.unwrap();
        let mut watch = client.watch(started.id.as_str()).await.unwrap();
        let from_outside = neighbour.watch(started.id.as_str()).await.unwrap();

        let first = watch.next().await.unwrap().unwrap();
        assert_eq!(
            (first.status, step_view(&first, "a").status),
            (ExecutionStatus::Running, StepStatus::Running)
        );
        gate.release_one();
        let mut position = first.position;
        let mut last = first;
        while let Some(view) = watch.next().await {
            last = view.unwrap();
            assert!(last.position > position, "every view has a later position");
            position = last.position;
        }
        assert_eq!((last.status, last.progress.done), (ExecutionStatus::Succeeded, 2));
        let seen: Vec<_> = from_outside.map(|view| view.unwrap().status).collect().await;
        assert_eq!((seen[0], *seen.last().unwrap()), (ExecutionStatus::Running, ExecutionStatus::Succeeded));
        let over: Vec<_> = client.watch(started.id.as_str()).await.unwrap().collect().await;
        assert_eq!(over.len(), 1, "an ended execution yields one view");
    });
}

#[test]
fn dropping_a_wait_or_watch_does_not_stop_the_execution() {
    for_each_database(async |scratch| {
        let gate = Gate::new();
        let client = builder(&scratch.url).tool("t/gate", gate.tool()).open().await.unwrap();
        client.save_plan(&plan("goes on", json!([step("a", "t/gate"), step("b", "t/gate")]))).await.unwrap();
        let mut running = Box::pin(client.run("goes on", None));
        tokio::select! {
            ended = &mut running => panic!("the run ended before the gate was released: {ended:?}"),
            () = gate.wait_for_call() => {}
        }
        drop(running);
        let row = client.executions(&Default::default(), 1).await.unwrap().remove(0);
        drop(client.watch(&row.id).await.unwrap());
        gate.release_one();
        gate.wait_for_call().await;
        gate.release_one();
        assert_eq!(client.wait(&row.id).await.unwrap().status, ExecutionStatus::Succeeded);
    });
}

#[test]
fn uncommitted_decision_is_not_shown() {
    for_each_database(async |scratch| {
        let gate = Gate::new();
        let client = builder(&scratch.url).tool("t/gate", gate.tool()).open().await.unwrap();
        client.save_plan(&plan("held up", json!([step("a", "t/gate")]))).await.unwrap();
        let id = client.start("held up", None).await.unwrap().id.to_string();
        gate.wait_for_call().await;
        let mut other = scratch.db.appender().unwrap();
        off_runtime(|| other.lock_head(TENANT)).unwrap();
        let looking = async {
            for _ in 0..100 {
                assert_eq!(client.view(&id).await.unwrap().status, ExecutionStatus::Running);
            }
            off_runtime(|| other.unlock_head()).unwrap();
        };
        let (paused, ()) = tokio::join!(client.pause(&id, None), looking);
        paused.unwrap();
        assert_eq!(client.view(&id).await.unwrap().status, ExecutionStatus::Paused);
        gate.release_one();
    });
}

#[test]
fn watch_from_another_client_sees_every_step() {
    for_each_database(async |scratch| {
        let gate = Gate::new();
        let client = builder(&scratch.url).tool("t/gate", gate.tool()).open().await.unwrap();
        let steps: Vec<_> = (0..20).map(|no| step(&format!("s{no}"), "t/gate")).collect();
        client.save_plan(&plan("seen", json!(steps))).await.unwrap();
        let id = client.start("seen", None).await.unwrap().id.to_string();
        let neighbour = builder(&scratch.url).open().await.unwrap();
        let mut watch = neighbour.watch(&id).await.unwrap();
        for done in 1..=steps.len() {
            gate.wait_for_call().await;
            gate.release_one();
            let seen = async { while watch.next().await.unwrap().unwrap().progress.done < done {} };
            tokio::time::timeout(Duration::from_secs(60), seen).await.expect("the watch reports every step");
        }
    });
}
