//! Stdio servers that misbehave, each in its own way (`zoo.py`), and the outcomes of calls to them.

use actbook_engine::policy::ErrorCategory;
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

use super::*;

/// One server of `zoo.py`, in its scratch folder.
pub fn hostile_server(name: &str) -> (TempDir, Tools) {
    hostile_server_with(name, json!({}))
}

/// The same, with this entry in the config's `servers`.
pub fn hostile_server_with(name: &str, config: Value) -> (TempDir, Tools) {
    let folder = tempdir().unwrap();
    let zoo = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tools/zoo.py");
    let server = json!({ "command": "python3", "args": ["-I", "-S", zoo, name] });
    let tools =
        tools(folder.path(), json!({ "mcpServers": { "zoo": server }, "servers": { "zoo": config } }));
    (folder, tools)
}

const SHORT_TIMEOUT: Duration = Duration::from_millis(200);

#[tokio::test]
async fn answer_is_found_among_noise() {
    for (name, expected) in [("garbage", "through the noise"), ("floods_stderr", "still here")] {
        let (_folder, tools) = hostile_server(name);
        for _ in 0..2 {
            assert_eq!(expect_output(call(&tools, "zoo/any", json!({})).await), json!({ "text": expected }));
        }
        tools.shutdown().await;
    }
}

#[tokio::test]
async fn unanswered_call_is_unknown_and_a_responsive_server_is_kept() {
    for name in ["wrong_ids", "never_answers"] {
        let (_folder, tools) = hostile_server(name);
        wait_until_up(&tools).await;
        let (ended, processes) = call_until_sent(&tools, Call { timeout: SHORT_TIMEOUT, ..any_call() }).await;
        assert_eq!(expect_unknown(ended).0, ErrorCategory::Timeout, "{name}");
        assert!(!live_processes(processes[0].unwrap().pid).is_empty(), "{name} was ended");
        tools.shutdown().await;
    }
}

fn any_call() -> Call {
    new_call("zoo/any", json!({}))
}

/// Waits until the server is up, so that a short time-out measures the call and not the start.
pub async fn wait_until_up(tools: &Tools) {
    tools.describe("zoo/any").await.unwrap();
}

#[tokio::test]
async fn unresponsive_server_is_ended_with_its_group() {
    let (_folder, tools) = hostile_server("wedged");
    wait_until_up(&tools).await;
    let (ended, processes) = call_until_sent(&tools, Call { timeout: SHORT_TIMEOUT, ..any_call() }).await;
    assert_eq!(expect_unknown(ended).0, ErrorCategory::Timeout);
    assert_group_ends(processes[0].unwrap().pid).await;
    let (_, later_processes) = watched_call(&tools, Call { timeout: SHORT_TIMEOUT, ..any_call() }).await;
    assert!(later_processes.first() != processes.first(), "the next call starts it again");
    tools.shutdown().await;
}

#[tokio::test]
async fn call_to_a_server_that_never_starts_is_unsent() {
    let (_folder, tools) = hostile_server("exits_at_once");
    let (ended, processes) = watched_call(&tools, any_call()).await;
    let (category, message, sent) = expect_failure(ended);
    assert_eq!((category, sent, processes), (ErrorCategory::Unavailable, false, vec![]));
    assert!(message.contains("exited with code 4: cannot find my settings"), "{message}");

    let (folder, tools) = hostile_server("silent");
    let (ended, processes) = watched_call(&tools, Call { timeout: SHORT_TIMEOUT, ..any_call() }).await;
    let (category, message, sent) = expect_failure(ended);
    assert_eq!((category, sent, processes), (ErrorCategory::Timeout, false, vec![]), "{message}");
    let started = started_pids(&folder).await;
    tools.shutdown().await;
    assert_group_ends(started[0]).await;
}

/// The process ids of the server's starts so far; waits for the first.
pub async fn started_pids(folder: &TempDir) -> Vec<u32> {
    let marks = || std::fs::read_to_string(folder.path().join("starts")).unwrap_or_default();
    poll_until("the first start", || marks().ends_with('\n')).await;
    marks().lines().map(|pid| pid.parse().unwrap()).collect()
}

#[tokio::test]
async fn slow_start_fails_the_first_call_unsent_and_serves_the_next() {
    let (folder, tools) = hostile_server("slow_to_come_up");
    let ended = call_within(&tools, "zoo/any", SHORT_TIMEOUT).await;
    let (category, _, sent) = expect_failure(ended);
    assert_eq!((category, sent), (ErrorCategory::Timeout, false));
    std::fs::write(folder.path().join("go"), "").unwrap();
    assert_eq!(expect_output(call(&tools, "zoo/any", json!({})).await), json!({ "text": "at last" }));
    assert_eq!(started_pids(&folder).await.len(), 1, "the pending start serves the next call");
    tools.shutdown().await;
}

#[tokio::test]
async fn connection_broken_after_sending_is_unknown() {
    for (name, text) in [("closes_its_output", "closed its output"), ("endless_line", "a line of more than")]
    {
        let (_folder, tools) = hostile_server(name);
        let (ended, processes) = watched_call(&tools, any_call()).await;
        let (category, message) = expect_unknown(ended);
        assert_eq!(category, ErrorCategory::Unavailable);
        assert!(message.contains(text), "{name}: {message}");
        assert_group_ends(processes[0].unwrap().pid).await;
    }
}

#[tokio::test]
async fn malformed_tool_result_is_unknown() {
    let (_folder, tools) = hostile_server("no_tool_result");
    for kind in ["any", "list", "flat task", "task"] {
        let ended = call(&tools, &format!("zoo/{kind}"), json!({})).await;
        assert_eq!(expect_unknown(ended).0, ErrorCategory::Protocol, "{kind}");
    }
    tools.shutdown().await;
}

#[tokio::test]
async fn oversized_answer_is_truncated_and_succeeds() {
    let (_folder, tools) = hostile_server("large_answer");
    let output = expect_output(call(&tools, "zoo/any", json!({})).await);
    assert_eq!(output["truncated"], true);
    assert!(output.to_string().len() < actbook::tools::OUTPUT_BYTES_MAX);
    tools.shutdown().await;
}

#[tokio::test]
async fn shutdown_ends_a_server_that_ignores_everything_and_its_children() {
    let (_folder, tools) = hostile_server("ignores_everything");
    let (ended, processes) = watched_call(&tools, any_call()).await;
    expect_output(ended);
    let group = processes[0].unwrap().pid;
    assert_eq!(live_processes(group).len(), 2);
    tools.shutdown().await;
    assert_group_ends(group).await;
}

#[tokio::test]
async fn dropping_tools_ends_their_servers() {
    let (_folder, tools) = hostile_server("ignores_everything");
    let (_, processes) = watched_call(&tools, any_call()).await;
    drop(tools);
    assert_group_ends(processes[0].unwrap().pid).await;
}

#[tokio::test]
async fn concurrent_calls_get_their_own_answers() {
    let (_folder, tools) = hostile_server("answers_in_reverse");
    let (first, second) = tokio::join!(call(&tools, "zoo/a", json!({})), call(&tools, "zoo/b", json!({})));
    assert_eq!(
        (expect_output(first), expect_output(second)),
        (json!({ "text": "a" }), json!({ "text": "b" }))
    );
    tools.shutdown().await;
}

#[tokio::test]
async fn abandoned_call_still_writes_its_whole_line() {
    let (folder, tools) = hostile_server("reads_late");
    wait_until_up(&tools).await;
    let long = json!({ "long": "w".repeat(1_000_000) });
    let abandoned = Call { timeout: SHORT_TIMEOUT, ..new_call("zoo/any", long) };
    let ended = call_until_sent(&tools, abandoned).await.0;
    assert_eq!(expect_unknown(ended).0, ErrorCategory::Timeout);
    std::fs::write(folder.path().join("go"), "").unwrap();
    assert_eq!(expect_output(call(&tools, "zoo/any", json!({})).await), json!({ "text": "1000000 before" }));
    tools.shutdown().await;
}

#[tokio::test]
async fn key_and_arguments_are_sent() {
    let (_folder, tools) = hostile_server("plain");
    let sent = expect_output(call(&tools, "zoo/params", json!({ "x": [1] })).await);
    assert_eq!((&sent["name"], &sent["arguments"]), (&json!("params"), &json!({ "x": [1] })));
    assert_eq!(sent["_meta"]["actbook/idempotency-key"], "key-1");
    assert_eq!(expect_output(call(&tools, "zoo/blocks", json!({})).await), json!({ "text": "one\ntwo" }));
    tools.shutdown().await;
}

#[tokio::test]
async fn answer_with_extra_fields_is_read_as_a_tool_result() {
    let (_folder, tools) = hostile_server("plain");
    assert_eq!(expect_output(call(&tools, "zoo/too much", json!({})).await), json!({ "text": "found" }));
    tools.shutdown().await;
}

#[tokio::test]
async fn each_error_maps_to_its_category() {
    let (_folder, tools) = hostile_server("plain");
    let failed = [
        ("no", ErrorCategory::ToolError),
        ("wordless no", ErrorCategory::ToolError),
        ("-32602 path is missing", ErrorCategory::InvalidArguments),
        ("-32602 Unknown tool: x", ErrorCategory::NotFound),
        ("-32602 Tool x not found", ErrorCategory::NotFound),
        ("-32601 Method not found", ErrorCategory::NotFound),
        ("-32600 bad request", ErrorCategory::Protocol),
        ("-32603 oops", ErrorCategory::Internal),
        ("-32000 server error", ErrorCategory::ToolError),
        ("MCP error -32602: Tool x not found", ErrorCategory::NotFound),
        ("MCP error -32602: Input validation error", ErrorCategory::InvalidArguments),
        ("MCP error of our own", ErrorCategory::ToolError),
        ("403 forbidden", ErrorCategory::Permission),
        ("429 slow down", ErrorCategory::RateLimited),
    ];
    for (tool, expected) in failed {
        let (category, message, sent) = expect_failure(call(&tools, &format!("zoo/{tool}"), json!({})).await);
        assert_eq!((category, sent), (expected, true), "{tool}: {message}");
    }
    let lost_downstream = [
        ("-32001 Request timed out", ErrorCategory::Timeout),
        ("-32000 Connection closed", ErrorCategory::Unavailable),
    ];
    for (tool, expected) in lost_downstream {
        assert_eq!(expect_unknown(call(&tools, &format!("zoo/{tool}"), json!({})).await).0, expected);
    }
    tools.shutdown().await;
}

#[tokio::test]
async fn non_object_arguments_are_not_sent() {
    let (_folder, tools) = hostile_server("plain");
    for arguments in [json!([1]), json!("text"), json!(1)] {
        let (category, _, sent) = expect_failure(call(&tools, "zoo/params", arguments).await);
        assert_eq!((category, sent), (ErrorCategory::InvalidArguments, false));
    }
}

#[tokio::test]
async fn server_that_exits_on_the_newer_handshake_gets_the_older_one() {
    let (_folder, tools) = hostile_server("leaves_at_the_first_unknown_word");
    assert_eq!(
        expect_output(call(&tools, "zoo/any", json!({})).await),
        json!({ "text": "as in the old days" })
    );
    tools.shutdown().await;
}

async fn cancel_once_up(name: &str) -> CallOutcome {
    let (folder, tools) = hostile_server(name);
    let marker = folder.path().join("up");
    let stop = poll_until("the server to be up", || marker.exists());
    let ended = tools.call(any_call(), |_| {}, stop).await;
    tools.shutdown().await;
    ended
}

#[tokio::test]
async fn cancelled_call_that_succeeds_is_succeeded_else_unknown() {
    let finished: Value = expect_output(cancel_once_up("finishes_when_told_to_stop").await);
    assert_eq!(finished, json!({ "text": "finished all the same" }));
    let (_, message) = expect_unknown(cancel_once_up("fails_when_told_to_stop").await);
    assert!(message.contains("Request cancelled"), "{message}");
}

#[tokio::test]
async fn call_cancelled_before_sending_is_unsent() {
    let (_folder, tools) = hostile_server("silent");
    let processes = Mutex::new(0);
    let ended = tools.call(any_call(), |_| *processes.lock().unwrap() += 1, std::future::ready(())).await;
    assert!(!expect_failure(ended).2);
    assert_eq!(processes.into_inner().unwrap(), 0);
}

#[tokio::test]
async fn endless_tool_list_is_refused() {
    let (_folder, tools) = hostile_server("endless_list");
    let listed = tools.list_servers().await;
    let error = listed[0].error.as_ref().unwrap();
    assert!(error.contains("never ends its list"), "{error}");
    tools.shutdown().await;
}
