//! The stream of an execution's changes.

use std::time::Duration;

use actbook::{ExecutionStatus, StepStatus};
use futures_util::StreamExt as _;
use serde_json::json;

use super::{Gate, Heard, builder, of, plan, step};
use crate::store::{TENANT, apart, for_each_database};

#[test]
fn a_watch_shows_every_stand_from_the_first_look_to_the_end() {
    for_each_database(async |scratch| {
        let gate = Gate::new();
        let client = builder(&scratch.url)
            .tool("t/gate", gate.tool())
            .tool("t/do", Heard::default().echo())
            .open()
            .await
            .unwrap();
        client.save_plan(&plan("watched", json!([step("a", "t/gate"), step("b", "t/do")]))).await.unwrap();
        let started = client.start("watched", None).await.unwrap();
        gate.arrived().await;
        let neighbour = builder(&scratch.url).open().await.unwrap();
        let mut watch = client.watch(started.id.as_str()).await.unwrap();
        let from_outside = neighbour.watch(started.id.as_str()).await.unwrap();

        let first = watch.next().await.unwrap().unwrap();
        assert_eq!((first.status, of(&first, "a").status), (ExecutionStatus::Running, StepStatus::Running));
        gate.let_through();
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
fn to_drop_a_wait_or_a_watch_stops_nothing() {
    for_each_database(async |scratch| {
        let gate = Gate::new();
        let client = builder(&scratch.url).tool("t/gate", gate.tool()).open().await.unwrap();
        client.save_plan(&plan("goes on", json!([step("a", "t/gate"), step("b", "t/gate")]))).await.unwrap();
        let mut running = Box::pin(client.run("goes on", None));
        tokio::select! {
            ended = &mut running => panic!("the run ended before the gate was released: {ended:?}"),
            () = gate.arrived() => {}
        }
        drop(running);
        let row = client.executions(&Default::default(), 1).await.unwrap().remove(0);
        drop(client.watch(&row.id).await.unwrap());
        gate.let_through();
        gate.arrived().await;
        gate.let_through();
        assert_eq!(client.wait(&row.id).await.unwrap().status, ExecutionStatus::Succeeded);
    });
}

#[test]
fn what_is_decided_but_not_yet_written_is_not_shown() {
    for_each_database(async |scratch| {
        let gate = Gate::new();
        let client = builder(&scratch.url).tool("t/gate", gate.tool()).open().await.unwrap();
        client.save_plan(&plan("held up", json!([step("a", "t/gate")]))).await.unwrap();
        let id = client.start("held up", None).await.unwrap().id.to_string();
        gate.arrived().await;
        let mut other = scratch.db.appender().unwrap();
        apart(|| other.lock_head(TENANT)).unwrap();
        let looking = async {
            for _ in 0..100 {
                assert_eq!(client.view(&id).await.unwrap().status, ExecutionStatus::Running);
            }
            apart(|| other.unlock_head()).unwrap();
        };
        let (paused, ()) = tokio::join!(client.pause(&id, None), looking);
        paused.unwrap();
        assert_eq!(client.view(&id).await.unwrap().status, ExecutionStatus::Paused);
        gate.let_through();
    });
}

#[test]
fn a_neighbour_sees_every_step_of_a_driver_that_is_alone() {
    for_each_database(async |scratch| {
        let gate = Gate::new();
        let client = builder(&scratch.url).tool("t/gate", gate.tool()).open().await.unwrap();
        let steps: Vec<_> = (0..20).map(|no| step(&format!("s{no}"), "t/gate")).collect();
        client.save_plan(&plan("seen", json!(steps))).await.unwrap();
        let id = client.start("seen", None).await.unwrap().id.to_string();
        let neighbour = builder(&scratch.url).open().await.unwrap();
        let mut watch = neighbour.watch(&id).await.unwrap();
        for done in 1..=steps.len() {
            gate.arrived().await;
            gate.let_through();
            let seen = async { while watch.next().await.unwrap().unwrap().progress.done < done {} };
            tokio::time::timeout(Duration::from_secs(60), seen).await.expect("the watch reports every step");
        }
    });
}
