//! Stdio servers that misbehave, each in its own way (`zoo.py`), and the outcomes of calls to them.

use actbook_engine::policy::ErrorCategory;
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

use super::*;

/// One server of `zoo.py`, in its scratch folder.
pub fn animal(name: &str) -> (TempDir, Tools) {
    animal_under(name, json!({}))
}

/// The same, with this entry in the config's `servers`.
pub fn animal_under(name: &str, config: Value) -> (TempDir, Tools) {
    let folder = tempdir().unwrap();
    let zoo = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tools/zoo.py");
    let server = json!({ "command": "python3", "args": ["-I", "-S", zoo, name] });
    let tools =
        tools(folder.path(), json!({ "mcpServers": { "zoo": server }, "servers": { "zoo": config } }));
    (folder, tools)
}

const SHORT: Duration = Duration::from_millis(200);

#[tokio::test]
async fn noise_around_an_answer_does_not_hide_it() {
    for (name, expected) in [("garbage", "through the noise"), ("floods_stderr", "still here")] {
        let (_folder, tools) = animal(name);
        for _ in 0..2 {
            assert_eq!(output(call(&tools, "zoo/any", json!({})).await), json!({ "text": expected }));
        }
        tools.shutdown().await;
    }
}

#[tokio::test]
async fn silence_after_sending_is_unknown_and_keeps_a_server_that_still_listens() {
    for name in ["wrong_ids", "never_answers"] {
        let (_folder, tools) = animal(name);
        up(&tools).await;
        let (ended, processes) = watched_call(&tools, Call { timeout: SHORT, ..first_use() }).await;
        assert_eq!(unknown(ended).0, ErrorCategory::Timeout, "{name}");
        assert!(!living(processes[0].unwrap().pid).is_empty(), "{name} was ended");
        tools.shutdown().await;
    }
}

fn first_use() -> Call {
    a_call("zoo/any", json!({}))
}

/// Waits until the server is up, so that a short time-out measures the call and not the start.
pub async fn up(tools: &Tools) {
    tools.describe("zoo/any").await.unwrap();
}

#[tokio::test]
async fn a_server_that_no_longer_answers_anything_is_ended_with_its_group() {
    let (_folder, tools) = animal("wedged");
    up(&tools).await;
    let (ended, processes) = watched_call(&tools, Call { timeout: SHORT, ..first_use() }).await;
    assert_eq!(unknown(ended).0, ErrorCategory::Timeout);
    assert_group_ends(processes[0].unwrap().pid).await;
    let (_, later_processes) = watched_call(&tools, Call { timeout: SHORT, ..first_use() }).await;
    assert!(later_processes.first() != processes.first(), "the next call starts it again");
    tools.shutdown().await;
}

#[tokio::test]
async fn what_never_comes_up_was_never_sent() {
    let (_folder, tools) = animal("exits_at_once");
    let (ended, processes) = watched_call(&tools, first_use()).await;
    let (category, message, sent) = failure(ended);
    assert_eq!((category, sent, processes), (ErrorCategory::Unavailable, false, vec![]));
    assert!(message.contains("exited with code 4: cannot find my settings"), "{message}");

    let (folder, tools) = animal("silent");
    let (ended, processes) = watched_call(&tools, Call { timeout: SHORT, ..first_use() }).await;
    let (category, message, sent) = failure(ended);
    assert_eq!((category, sent, processes), (ErrorCategory::Timeout, false, vec![]), "{message}");
    let started = starts(&folder).await;
    tools.shutdown().await;
    assert_group_ends(started[0]).await;
}

/// The process ids of the server's starts so far; waits for the first.
pub async fn starts(folder: &TempDir) -> Vec<u32> {
    loop {
        let marks = std::fs::read_to_string(folder.path().join("starts")).unwrap_or_default();
        if marks.ends_with('\n') {
            return marks.lines().map(|pid| pid.parse().unwrap()).collect();
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_slow_start_fails_the_impatient_call_unsent_and_serves_the_next_one() {
    let (folder, tools) = animal("slow_to_come_up");
    let ended = call_within(&tools, "zoo/any", SHORT).await;
    let (category, _, sent) = failure(ended);
    assert_eq!((category, sent), (ErrorCategory::Timeout, false));
    std::fs::write(folder.path().join("go"), "").unwrap();
    assert_eq!(output(call(&tools, "zoo/any", json!({})).await), json!({ "text": "at last" }));
    assert_eq!(starts(&folder).await.len(), 1, "the pending start serves the next call");
    tools.shutdown().await;
}

#[tokio::test]
async fn a_connection_that_breaks_after_sending_is_unknown() {
    for (name, text) in [("closes_its_output", "closed its output"), ("endless_line", "a line of more than")]
    {
        let (_folder, tools) = animal(name);
        let (ended, processes) = watched_call(&tools, first_use()).await;
        let (category, message) = unknown(ended);
        assert_eq!(category, ErrorCategory::Unavailable);
        assert!(message.contains(text), "{name}: {message}");
        assert_group_ends(processes[0].unwrap().pid).await;
    }
}

#[tokio::test]
async fn an_answer_that_is_no_tool_result_is_unknown() {
    let (_folder, tools) = animal("no_tool_result");
    for kind in ["any", "list", "flat task", "task"] {
        let ended = call(&tools, &format!("zoo/{kind}"), json!({})).await;
        assert_eq!(unknown(ended).0, ErrorCategory::Protocol, "{kind}");
    }
    tools.shutdown().await;
}

#[tokio::test]
async fn too_large_an_answer_is_cut_and_stays_a_success() {
    let (_folder, tools) = animal("large_answer");
    let output = output(call(&tools, "zoo/any", json!({})).await);
    assert_eq!(output["truncated"], true);
    assert!(output.to_string().len() < actbook::tools::OUTPUT_BYTES_MAX);
    tools.shutdown().await;
}

#[tokio::test]
async fn shutdown_ends_a_server_that_ignores_everything_and_its_children() {
    let (_folder, tools) = animal("ignores_everything");
    let (ended, processes) = watched_call(&tools, first_use()).await;
    output(ended);
    let group = processes[0].unwrap().pid;
    assert_eq!(living(group).len(), 2);
    tools.shutdown().await;
    assert_group_ends(group).await;
}

#[tokio::test]
async fn dropping_the_tools_ends_the_servers_too() {
    let (_folder, tools) = animal("ignores_everything");
    let (_, processes) = watched_call(&tools, first_use()).await;
    drop(tools);
    assert_group_ends(processes[0].unwrap().pid).await;
}

#[tokio::test]
async fn two_calls_are_out_at_once_and_each_gets_its_own_answer() {
    let (_folder, tools) = animal("answers_in_reverse");
    let (first, second) = tokio::join!(call(&tools, "zoo/a", json!({})), call(&tools, "zoo/b", json!({})));
    assert_eq!((output(first), output(second)), (json!({ "text": "a" }), json!({ "text": "b" })));
    tools.shutdown().await;
}

#[tokio::test]
async fn a_call_that_is_given_up_in_the_middle_of_its_line_leaves_the_line_whole() {
    let (folder, tools) = animal("reads_late");
    up(&tools).await;
    let long = json!({ "long": "w".repeat(1_000_000) });
    let ended = watched_call(&tools, Call { timeout: SHORT, ..a_call("zoo/any", long) }).await.0;
    assert_eq!(unknown(ended).0, ErrorCategory::Timeout);
    std::fs::write(folder.path().join("go"), "").unwrap();
    assert_eq!(output(call(&tools, "zoo/any", json!({})).await), json!({ "text": "1000000 before" }));
    tools.shutdown().await;
}

#[tokio::test]
async fn the_key_and_the_arguments_are_sent() {
    let (_folder, tools) = animal("plain");
    let sent = output(call(&tools, "zoo/params", json!({ "x": [1] })).await);
    assert_eq!((&sent["name"], &sent["arguments"]), (&json!("params"), &json!({ "x": [1] })));
    assert_eq!(sent["_meta"]["actbook/idempotency-key"], "key-1");
    assert_eq!(output(call(&tools, "zoo/blocks", json!({})).await), json!({ "text": "one\ntwo" }));
    tools.shutdown().await;
}

#[tokio::test]
async fn an_answer_is_read_as_one_to_the_call_whatever_else_it_resembles() {
    let (_folder, tools) = animal("plain");
    assert_eq!(output(call(&tools, "zoo/too much", json!({})).await), json!({ "text": "found" }));
    tools.shutdown().await;
}

#[tokio::test]
async fn each_no_has_its_category() {
    let (_folder, tools) = animal("plain");
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
        let (category, message, sent) = failure(call(&tools, &format!("zoo/{tool}"), json!({})).await);
        assert_eq!((category, sent), (expected, true), "{tool}: {message}");
    }
    let lost_downstream = [
        ("-32001 Request timed out", ErrorCategory::Timeout),
        ("-32000 Connection closed", ErrorCategory::Unavailable),
    ];
    for (tool, expected) in lost_downstream {
        assert_eq!(unknown(call(&tools, &format!("zoo/{tool}"), json!({})).await).0, expected);
    }
    tools.shutdown().await;
}

#[tokio::test]
async fn arguments_that_are_no_object_are_not_sent() {
    let (_folder, tools) = animal("plain");
    for arguments in [json!([1]), json!("text"), json!(1)] {
        let (category, _, sent) = failure(call(&tools, "zoo/params", arguments).await);
        assert_eq!((category, sent), (ErrorCategory::InvalidArguments, false));
    }
}

#[tokio::test]
async fn a_server_that_leaves_at_the_newer_handshake_is_met_in_the_older_one() {
    let (_folder, tools) = animal("leaves_at_the_first_unknown_word");
    assert_eq!(output(call(&tools, "zoo/any", json!({})).await), json!({ "text": "as in the old days" }));
    tools.shutdown().await;
}

async fn stopped_once_up(name: &str) -> CallOutcome {
    let (folder, tools) = animal(name);
    let marker = folder.path().join("up");
    let stop = async {
        while !marker.exists() {
            tokio::task::yield_now().await;
        }
    };
    let ended = tools.call(first_use(), |_| {}, stop).await;
    tools.shutdown().await;
    ended
}

#[tokio::test]
async fn asked_to_stop_a_success_is_believed_and_a_no_is_not() {
    let finished: Value = output(stopped_once_up("finishes_when_told_to_stop").await);
    assert_eq!(finished, json!({ "text": "finished all the same" }));
    let (_, message) = unknown(stopped_once_up("fails_when_told_to_stop").await);
    assert!(message.contains("Request cancelled"), "{message}");
}

#[tokio::test]
async fn stopped_before_it_was_sent_it_has_failed_unsent() {
    let (_folder, tools) = animal("silent");
    let processes = Mutex::new(0);
    let ended = tools.call(first_use(), |_| *processes.lock().unwrap() += 1, std::future::ready(())).await;
    assert!(!failure(ended).2);
    assert_eq!(processes.into_inner().unwrap(), 0);
}

#[tokio::test]
async fn a_list_without_end_is_given_up() {
    let (_folder, tools) = animal("endless_list");
    let listed = tools.list_servers().await;
    let error = listed[0].error.as_ref().unwrap();
    assert!(error.contains("never ends its list"), "{error}");
    tools.shutdown().await;
}
