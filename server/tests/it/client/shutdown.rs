//! Clients that shut down, are dropped or lose their runtime, and other clients of the same database.

use std::time::Duration;

use actbook::{ExecutionStatus, JournalFilter, QuestionKind, StepAnswer, StepStatus};
use futures_util::FutureExt as _;
use serde_json::json;

use super::{Gate, RecordedCalls, builder, plan, run, step, step_view};
use crate::store::{Kind, ScratchDatabase, for_each_database};

#[test]
fn approval_by_a_second_client_reaches_the_driver() {
    for_each_database(async |scratch| {
        let (recorded, other_recorded) = (RecordedCalls::default(), RecordedCalls::default());
        let one = builder(&scratch.url).tool("t/do", recorded.echo()).open().await.unwrap();
        let two = builder(&scratch.url).tool("t/do", other_recorded.echo()).open().await.unwrap();
        let mut asks = step("asks", "t/do");
        asks["approval"] = json!("required");
        let view = run(&one, "shared", json!([step("first", "t/do"), asks])).await;
        assert_eq!((view.status, view.waiting[0].kind), (ExecutionStatus::Blocked, QuestionKind::Approval));

        assert_eq!(two.take_up().await.unwrap(), 0, "an execution with a live driver is not taken up");
        let mia = two.acting_as("person:mia");
        mia.approve(view.id.as_str(), Some("asks"), Some("looks right")).await.unwrap();
        assert_eq!(two.wait(view.id.as_str()).await.unwrap().status, ExecutionStatus::Succeeded);
        assert_eq!(
            (recorded.tool_names().len(), other_recorded.tool_names().len()),
            (2, 0),
            "the driver runs the approved step"
        );
        let hers = JournalFilter { actor: Some("person:mia".into()), ..JournalFilter::default() };
        let hers: Vec<_> = two.journal(&hers, 9).await.unwrap().into_iter().map(|entry| entry.kind).collect();
        assert_eq!(hers, ["step_approved.2"]);
        assert!(one.verify().await.unwrap().ok);
    });
}

#[test]
fn execution_left_by_shutdown_is_resumed_by_a_client_with_all_tools() {
    for_each_database(async |scratch| {
        let gate = Gate::new();
        let recorded = RecordedCalls::default();
        let one = builder(&scratch.url)
            .tool("t/gate", gate.tool())
            .tool("t/do", recorded.echo())
            .open()
            .await
            .unwrap();
        one.save_plan(&plan("left", json!([step("a", "t/gate"), step("b", "t/do")]))).await.unwrap();
        let id = one.start("left", None).await.unwrap().id.to_string();
        gate.wait_for_call().await;
        let mut leaving = Box::pin(one.shutdown(Duration::from_secs(60)));
        assert!((&mut leaving).now_or_never().is_none(), "a call is in flight");
        gate.release_one();
        leaving.await;
        let left = one.view(&id).await.unwrap();
        assert_eq!(
            step_view(&left, "a").status,
            StepStatus::Succeeded,
            "calls in flight finish and are recorded"
        );
        assert_eq!(
            (left.status, step_view(&left, "b").status),
            (ExecutionStatus::Running, StepStatus::Pending)
        );
        assert_eq!(one.start("left", None).await.unwrap_err().code(), "closed");

        let partial = builder(&scratch.url).tool("t/do", recorded.echo()).open().await.unwrap();
        assert_eq!(partial.take_up().await.unwrap(), 0, "a client that lacks a tool takes nothing up");
        assert_eq!(partial.resume(&id).await.unwrap_err().code(), "other_place");
        let other_recorded = RecordedCalls::default();
        let two = builder(&scratch.url)
            .tool("t/gate", other_recorded.echo())
            .tool("t/do", other_recorded.echo())
            .open()
            .await
            .unwrap();
        assert_eq!(two.take_up().await.unwrap(), 1, "the shut down client released its node");
        assert_eq!(two.wait(&id).await.unwrap().status, ExecutionStatus::Succeeded);
        assert_eq!((recorded.tool_names().len(), other_recorded.tool_names()), (0, vec!["t/do".to_owned()]));
    });
}

#[test]
fn dropped_client_records_calls_in_flight_and_starts_none() {
    for_each_database(async |scratch| {
        let gate = Gate::new();
        let one = builder(&scratch.url).tool("t/gate", gate.tool()).open().await.unwrap();
        one.save_plan(&plan("dropped", json!([step("a", "t/gate"), step("b", "t/gate")]))).await.unwrap();
        let id = one.start("dropped", None).await.unwrap().id.to_string();
        gate.wait_for_call().await;
        drop(one);
        let two = builder(&scratch.url).tool("t/gate", gate.tool()).open().await.unwrap();
        let mut watch = two.watch(&id).await.unwrap();
        assert_eq!(step_view(&watch.next().await.unwrap().unwrap(), "a").status, StepStatus::Running);
        gate.release_one();
        let view = watch.next().await.unwrap().unwrap();
        assert_eq!(
            (step_view(&view, "a").status, step_view(&view, "b").status),
            (StepStatus::Succeeded, StepStatus::Pending)
        );
    });
}

/// A runtime dropped with a call in flight records nothing, like a crash.
#[test]
fn call_lost_with_its_runtime_is_unknown_and_resumable_at_once() {
    for kind in [Kind::Sqlite, Kind::Postgres] {
        let here = tokio::runtime::Runtime::new().unwrap();
        let there = tokio::runtime::Runtime::new().unwrap();
        let scratch = here.block_on(ScratchDatabase::new(kind));
        let gate = Gate::new();
        let (torn, id) = there.block_on(async {
            let client = builder(&scratch.url).tool("t/gate", gate.tool()).open().await.unwrap();
            client.save_plan(&plan("torn", json!([step("a", "t/gate"), step("b", "t/gate")]))).await.unwrap();
            let id = client.start("torn", None).await.unwrap().id.to_string();
            gate.wait_for_call().await;
            (client, id)
        });
        drop(there);
        drop(torn);
        here.block_on(async {
            let client = builder(&scratch.url).tool("t/gate", gate.tool()).open().await.unwrap();
            assert_eq!(client.take_up().await.unwrap(), 1);
            let view = client.wait(&id).await.unwrap();
            assert_eq!(
                (view.status, step_view(&view, "a").status),
                (ExecutionStatus::Blocked, StepStatus::Unknown)
            );
            client.decide(&id, "a", StepAnswer::Happened, Some("it was seen"), None).await.unwrap();
            gate.wait_for_call().await;
            gate.release_one();
            assert_eq!(client.wait(&id).await.unwrap().status, ExecutionStatus::Succeeded);
        });
    }
}
