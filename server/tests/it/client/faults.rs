//! Executors that panic, hang or fail with a foreign error. The outcome of such a call is unknown, and the
//! program keeps running.

use std::time::Duration;

use actbook::{ErrorCategory, ExecutionStatus, Executor, Fault, JournalFilter, StepStatus};
use serde_json::{Value, json};

use super::{RecordedCalls, builder, run, step, step_error, step_view, undoable};
use crate::store::for_each_database;

/// Panics when it is dropped.
struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        panic!("let go of");
    }
}

#[test]
fn panicking_executor_is_unknown_and_journaled() {
    for_each_database(async |scratch| {
        let recorded = RecordedCalls::default();
        let at_once = Executor::new(|_| -> std::future::Ready<Result<Value, Fault>> { panic!("at once") });
        let half_way = Executor::new(async |call| {
            tokio::task::yield_now().await;
            let arguments: [Value; 0] = serde_json::from_value(call.arguments).expect("half way");
            Ok(json!(arguments))
        });
        let client = builder(&scratch.url)
            .tool("t/at-once", at_once)
            .tool("t/half-way", half_way)
            .tool("t/do", recorded.echo())
            .tool("t/undo", recorded.echo())
            .open()
            .await
            .unwrap();
        for (tool, word) in [("t/at-once", "at once"), ("t/half-way", "half way")] {
            let view = run(&client, "panics", json!([undoable("do", "t/do"), undoable("panic", tool)])).await;
            assert_eq!(
                (view.status, step_view(&view, "panic").status),
                (ExecutionStatus::Blocked, StepStatus::Unknown)
            );
            let (category, message) = step_error(&view, "panic");
            assert_eq!(category, "internal");
            assert!(message.contains(word), "{message}");
            let brief = view.brief.expect("something went wrong");
            assert_eq!(brief.may_have_run.len(), 1, "a step that may have run is listed for undo: {brief:?}");

            let filter = JournalFilter {
                execution: Some(view.id.to_string()),
                kind: Some("attempt_ended.1".into()),
                ..JournalFilter::default()
            };
            let ended = client.journal(&filter, 10).await.unwrap();
            assert_eq!(ended.last().unwrap().body["outcome"], "unknown");
            client.undo(view.id.as_str(), None).await.unwrap();
            assert_eq!(client.wait(view.id.as_str()).await.unwrap().status, ExecutionStatus::Compensated);
        }
        assert!(client.verify().await.unwrap().ok);
    });
}

#[test]
fn timed_out_executor_is_dropped_and_unknown() {
    for_each_database(async |scratch| {
        let hangs = Executor::new(async |_| {
            let _panics = PanicsOnDrop;
            std::future::pending().await
        });
        let client = builder(&scratch.url).tool("t/hangs", hangs).open().await.unwrap();
        let mut slow = step("slow", "t/hangs");
        slow["timeout"] = json!("20ms");
        let view = run(&client, "slow", json!([slow])).await;
        assert_eq!(
            (view.status, step_view(&view, "slow").status),
            (ExecutionStatus::Blocked, StepStatus::Unknown)
        );
        assert_eq!(step_error(&view, "slow").0, "timeout");
    });
}

#[test]
fn propagated_error_is_unknown_and_fault_keeps_its_category() {
    for_each_database(async |scratch| {
        let aborted = Executor::new(async |_| {
            let work = tokio::spawn(std::future::pending::<Value>());
            work.abort();
            Ok(work.await?)
        });
        let tired = Executor::new(async |_| {
            let tired = Fault::failed(ErrorCategory::RateLimited, "not so fast");
            Err(tired.retry_after(Duration::from_millis(1)))
        });
        let client =
            builder(&scratch.url).tool("t/aborted", aborted).tool("t/tired", tired).open().await.unwrap();
        let view = run(&client, "aborted", json!([step("a", "t/aborted")])).await;
        assert_eq!(step_view(&view, "a").status, StepStatus::Unknown);
        let (category, message) = step_error(&view, "a");
        assert!(category == "internal" && message.contains("cancelled"), "{category}: {message}");

        let mut patient = step("a", "t/tired");
        patient["retry"] = json!({ "max_attempts": 3, "backoff": "1ms", "on": ["rate_limited"] });
        let view = run(&client, "tired", json!([patient])).await;
        assert_eq!((step_view(&view, "a").status, step_view(&view, "a").attempts), (StepStatus::Failed, 3));
        assert_eq!(step_error(&view, "a"), ("rate_limited".into(), "not so fast".into()));
    });
}
