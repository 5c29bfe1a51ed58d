//! Clients that shut down, are dropped or lose their runtime, and other clients of the same database.

use std::time::Duration;

use actbook::{ExecutionStatus, JournalFilter, StepAnswer, StepStatus};
use futures_util::FutureExt as _;
use serde_json::json;

use super::{Gate, Heard, builder, of, plan, run, step};
use crate::store::{Kind, Scratch, for_each_database};

#[test]
fn two_clients_share_a_database_and_answer_each_other() {
    for_each_database(async |scratch| {
        let (recorded, other_recorded) = (Heard::default(), Heard::default());
        let one = builder(&scratch.url).tool("t/do", recorded.echo()).open().await.unwrap();
        let two = builder(&scratch.url).tool("t/do", other_recorded.echo()).open().await.unwrap();
        let mut asks = step("asks", "t/do");
        asks["approval"] = json!("required");
        let view = run(&one, "shared", json!([step("first", "t/do"), asks])).await;
        assert_eq!((view.status, view.waiting[0].kind), (ExecutionStatus::Blocked, "approval"));

        assert_eq!(two.take_up().await.unwrap(), 0, "an execution with a live driver is not taken up");
        let mia = two.acting_as("person:mia");
        mia.approve(view.id.as_str(), Some("asks"), Some("looks right")).await.unwrap();
        assert_eq!(two.wait(view.id.as_str()).await.unwrap().status, ExecutionStatus::Succeeded);
        assert_eq!(
            (recorded.tools().len(), other_recorded.tools().len()),
            (2, 0),
            "the driver runs the approved step"
        );
        let hers = JournalFilter { actor: Some("person:mia".into()), ..JournalFilter::default() };
        let hers: Vec<_> = two.journal(&hers, 9).await.unwrap().into_iter().map(|entry| entry.kind).collect();
        assert_eq!(hers, ["step_approved.1"]);
        assert!(one.verify().await.unwrap().ok);
    });
}

#[test]
fn what_a_client_leaves_behind_is_taken_up_by_one_that_has_all_its_tools() {
    for_each_database(async |scratch| {
        let gate = Gate::new();
        let recorded = Heard::default();
        let one = builder(&scratch.url)
            .tool("t/gate", gate.tool())
            .tool("t/do", recorded.echo())
            .open()
            .await
            .unwrap();
        one.save_plan(&plan("left", json!([step("a", "t/gate"), step("b", "t/do")]))).await.unwrap();
        let id = one.start("left", None).await.unwrap().id.to_string();
        gate.arrived().await;
        let mut leaving = Box::pin(one.shutdown(Duration::from_secs(60)));
        assert!((&mut leaving).now_or_never().is_none(), "a call is in flight");
        gate.let_through();
        leaving.await;
        let left = one.view(&id).await.unwrap();
        assert_eq!(of(&left, "a").status, StepStatus::Succeeded, "calls in flight finish and are recorded");
        assert_eq!((left.status, of(&left, "b").status), (ExecutionStatus::Running, StepStatus::Pending));
        assert_eq!(one.start("left", None).await.unwrap_err().code, "closed");

        let partial = builder(&scratch.url).tool("t/do", recorded.echo()).open().await.unwrap();
        assert_eq!(partial.take_up().await.unwrap(), 0, "a client that lacks a tool takes nothing up");
        assert_eq!(partial.resume(&id).await.unwrap_err().code, "other_place");
        let other_recorded = Heard::default();
        let two = builder(&scratch.url)
            .tool("t/gate", other_recorded.echo())
            .tool("t/do", other_recorded.echo())
            .open()
            .await
            .unwrap();
        assert_eq!(two.take_up().await.unwrap(), 1, "the shut down client released its node");
        assert_eq!(two.wait(&id).await.unwrap().status, ExecutionStatus::Succeeded);
        assert_eq!((recorded.tools().len(), other_recorded.tools()), (0, vec!["t/do".to_owned()]));
    });
}

#[test]
fn a_client_that_is_dropped_records_what_is_in_flight_and_starts_nothing() {
    for_each_database(async |scratch| {
        let gate = Gate::new();
        let one = builder(&scratch.url).tool("t/gate", gate.tool()).open().await.unwrap();
        one.save_plan(&plan("dropped", json!([step("a", "t/gate"), step("b", "t/gate")]))).await.unwrap();
        let id = one.start("dropped", None).await.unwrap().id.to_string();
        gate.arrived().await;
        drop(one);
        let two = builder(&scratch.url).tool("t/gate", gate.tool()).open().await.unwrap();
        let mut watch = two.watch(&id).await.unwrap();
        assert_eq!(of(&watch.next().await.unwrap().unwrap(), "a").status, StepStatus::Running);
        gate.let_through();
        let view = watch.next().await.unwrap().unwrap();
        assert_eq!(
            (of(&view, "a").status, of(&view, "b").status),
            (StepStatus::Succeeded, StepStatus::Pending)
        );
    });
}

/// A runtime dropped with a call in flight records nothing, like a crash.
#[test]
fn what_ends_with_its_runtime_is_unknown_and_taken_up_at_once() {
    for kind in [Kind::Sqlite, Kind::Postgres] {
        let here = tokio::runtime::Runtime::new().unwrap();
        let there = tokio::runtime::Runtime::new().unwrap();
        let scratch = here.block_on(Scratch::new(kind));
        let gate = Gate::new();
        let (torn, id) = there.block_on(async {
            let client = builder(&scratch.url).tool("t/gate", gate.tool()).open().await.unwrap();
            client.save_plan(&plan("torn", json!([step("a", "t/gate"), step("b", "t/gate")]))).await.unwrap();
            let id = client.start("torn", None).await.unwrap().id.to_string();
            gate.arrived().await;
            (client, id)
        });
        drop(there);
        drop(torn);
        here.block_on(async {
            let client = builder(&scratch.url).tool("t/gate", gate.tool()).open().await.unwrap();
            assert_eq!(client.take_up().await.unwrap(), 1);
            let view = client.wait(&id).await.unwrap();
            assert_eq!((view.status, of(&view, "a").status), (ExecutionStatus::Blocked, StepStatus::Unknown));
            client.decide(&id, "a", StepAnswer::Happened, Some("it was seen"), None).await.unwrap();
            gate.arrived().await;
            gate.let_through();
            assert_eq!(client.wait(&id).await.unwrap().status, ExecutionStatus::Succeeded);
        });
    }
}
