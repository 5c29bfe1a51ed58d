//! Limits per server: circuit breaker, rate, answer size, restart backoff, health check after a pause,
//! progress.

use std::sync::Arc;

use actbook::tools::{CallContext, CallProgress, CircuitState};
use futures_util::future::join_all;
use tempfile::tempdir;

use super::hostile_stdio::{hostile_server_with, started_pids, wait_until_up};
use super::*;
use crate::durability::fixture::ServiceFixture;

/// A time-out within which a server that is up is sent a call and reports progress, on a busy machine too.
const SENT_LIMIT: Duration = Duration::from_secs(3);

fn recorded_times(folder: &Path, file: &str) -> Vec<f64> {
    let text = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

fn circuit_state(tools: &Tools) -> CircuitState {
    tools.server_state("zoo").unwrap().circuit
}

/// The call behind a task was sent: an open breaker must not report it as unsent.
#[tokio::test]
async fn task_at_a_server_with_an_open_breaker_is_unknown_not_unsent() {
    let (_folder, tools) = hostile_server_with("well_once_fixed", json!({ "breaker": { "after": 1 } }));
    expect_failure(call(&tools, "zoo/any", json!({})).await);
    assert!(matches!(circuit_state(&tools), CircuitState::Open { .. }));
    let context = CallContext { mcp_task: Some("task-1".to_owned()), ..CallContext::default() };
    let asked = Call { context: context.clone(), timeout: Duration::ZERO, ..new_call("zoo/any", json!({})) };
    let (ended, processes) = watched_call(&tools, asked).await;
    assert_eq!((expect_unknown(ended).0, processes), (ErrorCategory::Timeout, vec![]));
    let (ended, _) = watched_call(&tools, Call { context, ..new_call("nowhere/any", json!({})) }).await;
    assert_eq!(expect_unknown(ended).0, ErrorCategory::Unavailable);
}

#[tokio::test]
async fn breaker_opens_after_failures_and_one_call_probes_it() {
    let settings = json!({ "breaker": { "after": 3, "cool_down": "4s" },
                        "restart": { "backoff": "1ms", "max_backoff": "1ms" } });
    let (folder, tools) = hostile_server_with("well_once_fixed", settings);
    for _ in 0..3 {
        assert_eq!(circuit_state(&tools), CircuitState::Closed);
        let (category, message, sent) = expect_failure(call(&tools, "zoo/any", json!({})).await);
        assert_eq!((category, sent), (ErrorCategory::Unavailable, false), "{message}");
    }
    let before = started_pids(&folder).await.len();
    let (ended, processes) = watched_call(&tools, new_call("zoo/any", json!({}))).await;
    assert!(
        matches!(&ended, CallOutcome::Failed { retry_after: Some(wait), .. } if *wait <= Duration::from_secs(4))
    );
    let (category, message, sent) = expect_failure(ended);
    assert_eq!((category, sent, processes), (ErrorCategory::Unavailable, false, vec![]));
    assert!(message.contains("3 times in a row") && message.contains("no call is sent"), "{message}");
    assert!(message.contains("exited with code 4") && message.contains("UTC"), "{message}");
    assert_eq!(started_pids(&folder).await.len(), before, "no server was started for an unsent call");

    poll_until("the cool-down", || circuit_state(&tools) == CircuitState::HalfOpen).await;
    expect_failure(call(&tools, "zoo/any", json!({})).await);
    assert!(matches!(circuit_state(&tools), CircuitState::Open { .. }), "the probing call failed");

    std::fs::write(folder.path().join("fixed"), "").unwrap();
    poll_until("the cool-down", || circuit_state(&tools) == CircuitState::HalfOpen).await;
    let (one, other) = tokio::join!(call(&tools, "zoo/any", json!({})), call(&tools, "zoo/any", json!({})));
    assert_eq!(expect_output(one), json!({ "text": "well again" }));
    let (_, message, sent) = expect_failure(other);
    assert!(!sent && message.contains("one call is in flight as a test"), "{message}");
    assert_eq!(circuit_state(&tools), CircuitState::Closed);
    expect_output(call(&tools, "zoo/any", json!({})).await);
    tools.shutdown().await;
}

#[tokio::test]
async fn breaker_counts_a_shared_crash_once_and_ignores_timeouts() {
    let (folder, tools) = hostile_server_with("falls_with_five_calls", json!({ "breaker": { "after": 2 } }));
    let ended = join_all((0..5).map(|_| call(&tools, "zoo/any", json!({})))).await;
    for ended in ended {
        assert_eq!(expect_unknown(ended).0, ErrorCategory::Unavailable);
    }
    assert_eq!(recorded_times(folder.path(), "falls").len(), 1);
    assert_eq!(circuit_state(&tools), CircuitState::Closed, "five calls, one crash");
    tools.shutdown().await;

    let (_folder, tools) = hostile_server_with("never_answers", json!({ "breaker": { "after": 1 } }));
    wait_until_up(&tools).await;
    let (ended, _) =
        watched_call(&tools, Call { timeout: SENT_LIMIT, ..new_call("zoo/any", json!({})) }).await;
    assert_eq!(expect_unknown(ended).0, ErrorCategory::Timeout);
    assert_eq!(circuit_state(&tools), CircuitState::Closed);
    tools.shutdown().await;
}

#[tokio::test]
async fn rate_limit_spreads_calls_over_time() {
    let (folder, tools) = hostile_server_with("tells_when_asked", json!({ "rate": "5/s" }));
    let begun = Instant::now();
    for ended in join_all((0..15).map(|_| call(&tools, "zoo/any", json!({})))).await {
        expect_output(ended);
    }
    // A lower bound: a slow machine can only take longer.
    assert!(begun.elapsed() >= Duration::from_secs(2), "fifteen calls within {:?}", begun.elapsed());
    assert_eq!(recorded_times(folder.path(), "arrivals").len(), 15);
    tools.shutdown().await;
}

#[tokio::test]
async fn answer_over_the_limit_is_truncated_and_marked() {
    for limit in [1_000, 50_000] {
        let (folder, tools) = hostile_server_with("large_answer", json!({ "output_bytes_max": limit }));
        let cut = expect_output(call(&tools, "zoo/any", json!({})).await);
        let size = cut.to_string().len();
        assert!(size <= limit && size > limit - 100, "{size} bytes of {limit}");
        assert_eq!((&cut["truncated"], cut["bytes"].as_u64().unwrap() > 2_000_000), (&json!(true), true));
        tools.shutdown().await;

        let argv = json!(["sh", "-c", "yes '\"\\' | head -c 500000"]);
        let config = json!({ "commands": { "loud": { "argv": argv } },
                             "servers": { "command": { "output_bytes_max": limit } } });
        let tools = super::tools(folder.path(), config);
        let cut = expect_output(call(&tools, "command/loud", json!({})).await);
        assert!(cut.to_string().len() <= limit && cut["truncated"] == true, "{limit}");
    }
}

/// Also where another process follows the task of a call.
#[tokio::test]
async fn output_of_a_resumed_task_is_cut_at_its_servers_limit() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = super::demo_server(folder.path());
    demo["args"].as_array_mut().unwrap().push(json!("--long"));
    let config =
        json!({ "mcpServers": { "demo": demo }, "servers": { "demo": { "output_bytes_max": 100 } } });
    let tools = super::tools(folder.path(), config);
    let path = "long/".repeat(35) + "name";
    expect_output(call(&tools, "demo/append_later", json!({ "path": path, "content": "x", "ms": 0 })).await);
    let task = std::fs::read_dir(folder.path().join(".tasks")).unwrap().next().unwrap().unwrap();
    let task = Some(task.path().file_stem().unwrap().to_str().unwrap().to_owned());
    let context = CallContext { mcp_task: task, ..CallContext::default() };
    let resumed = Call { context, ..new_call("demo/append_later", json!({})) };
    let cut = expect_output(watched_call(&tools, resumed).await.0);
    assert!(cut["truncated"] == true && cut.to_string().len() <= 100, "{cut}");
    tools.shutdown().await;
}

#[tokio::test]
async fn restart_backoff_grows_while_a_server_keeps_crashing() {
    let settings = json!({ "breaker": { "after": 100 },
                        "restart": { "backoff": "300ms", "max_backoff": "600ms" } });
    let (folder, tools) = hostile_server_with("falls_at_every_call", settings.clone());
    for _ in 0..5 {
        assert_eq!(expect_unknown(call(&tools, "zoo/any", json!({})).await).0, ErrorCategory::Unavailable);
    }
    let falls = recorded_times(folder.path(), "falls");
    let gaps: Vec<f64> = falls.windows(2).map(|two| two[1] - two[0]).collect();
    // 300, 600 and 600 ms, less what one start may take longer than another.
    assert!(gaps.len() == 4 && gaps[1..].iter().sum::<f64>() > 1.1, "{gaps:?}");
    assert_eq!(tools.server_state("zoo").unwrap().falls, 4);
    let ended = call_within(&tools, "zoo/any", Duration::from_millis(100)).await;
    let (category, message, sent) = expect_failure(ended);
    assert_eq!((category, sent), (ErrorCategory::Timeout, false));
    assert!(message.contains("failed 5 times in a row"), "{message}");
    tools.shutdown().await;

    let (folder, tools) = hostile_server_with("falls_at_every_second_call", settings);
    for _ in 0..4 {
        expect_output(call(&tools, "zoo/any", json!({})).await);
        expect_unknown(call(&tools, "zoo/any", json!({})).await);
    }
    assert_eq!(recorded_times(folder.path(), "falls").len(), 4);
    assert_eq!(tools.server_state("zoo").unwrap().falls, 1, "a successful call resets the count");
    tools.shutdown().await;
}

#[tokio::test]
async fn stopped_server_is_detected_before_the_next_call() {
    let (folder, tools) = hostile_server_with("falls_asleep", json!({ "check_after": "50ms" }));
    expect_output(call(&tools, "zoo/any", json!({})).await);
    let first = started_pids(&folder).await[0];
    let stat = format!("/proc/{first}/stat");
    let asleep = Instant::now();
    poll_until("the server to stop", || std::fs::read_to_string(&stat).unwrap().contains(") T ")).await;
    poll_until("the check interval", || asleep.elapsed() > Duration::from_millis(60)).await;
    assert_eq!(expect_output(call(&tools, "zoo/any", json!({})).await), json!({ "text": "good night" }));
    assert_eq!(started_pids(&folder).await.len(), 2);
    assert_group_ends(first).await;
    tools.shutdown().await;
}

#[tokio::test]
async fn progress_is_passed_on_and_does_not_extend_the_timeout() {
    let folder = tempdir().unwrap();
    let tools = super::tools(folder.path(), json!({ "mcpServers": { "demo": demo_server(folder.path()) } }));
    tools.describe("demo/sleep").await.unwrap();
    let reported: Arc<Mutex<Vec<CallProgress>>> = Arc::default();
    let recorder = reported.clone();
    let progress = Arc::new(move |progress| recorder.lock().unwrap().push(progress));
    let call = Call { timeout: SENT_LIMIT, ..new_call("demo/sleep", json!({ "ms": 60_000 })) };
    let started = Instant::now();
    let ended = tools.call_with_progress(call, |_| true, progress, std::future::pending()).await;
    assert_eq!(expect_unknown(ended).0, ErrorCategory::Timeout);
    assert!(started.elapsed() < Duration::from_secs(30));
    let reported = reported.lock().unwrap().clone();
    assert!(
        reported.len() >= 2 && reported.iter().all(|progress| progress.total == Some(60_000.0)),
        "{reported:?}"
    );
    assert!(reported.windows(2).all(|two| two[0].done <= two[1].done), "{reported:?}");
    tools.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn view_of_a_running_step_shows_its_progress() {
    let folder = tempdir().unwrap();
    let tools = super::tools(folder.path(), json!({ "mcpServers": { "demo": demo_server(folder.path()) } }));
    let (_storage, url) = crate::store::create_storage(crate::store::Kind::Sqlite).await;
    let fixture = ServiceFixture::with_tools(&url, tools).await;
    let sleeps = json!({ "id": "sleeps", "tool": "demo/sleep", "arguments": { "ms": 60_000 } });
    let started = fixture.start(&json!({ "name": "slow", "steps": [sleeps] }), None, true).await;
    let id = started.id.to_string();
    let watch_and_cancel = async {
        let watching = fixture.executions().watch(&id).await.unwrap();
        poll_until("progress", || watching.step_snapshots().any(|step| step.progress.is_some())).await;
        let view = watching.view().await.unwrap();
        assert_eq!(view.steps[0].progress.as_ref().unwrap().total, Some(60_000.0));
        let shown = serde_json::to_value(fixture.executions().view(&id).await.unwrap()).unwrap();
        assert!(shown["steps"][0]["progress"]["done"].as_f64() > Some(0.0), "{shown}");
        fixture.executions().cancel(&fixture.caller, &id, None).await.unwrap();
    };
    let (status, ()) = tokio::join!(fixture.drive(started), watch_and_cancel);
    assert_eq!(status, actbook_engine::policy::ExecutionStatus::Cancelled);
    let view = fixture.executions().view(&id).await.unwrap();
    assert_eq!(view.steps[0].progress, None, "progress is shown only while the call runs");
    fixture.service.close().await;
}
