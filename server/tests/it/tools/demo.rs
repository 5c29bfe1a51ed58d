//! The demo server through the real binary: effects, errors, and a crash during a call.

use std::fs;

use actbook_engine::policy::ErrorCategory;
use serde_json::{Value, json};
use tempfile::tempdir;

use super::*;

fn demo_tools(folder: &Path) -> Tools {
    tools(folder, json!({ "mcpServers": { "demo": demo_server(folder) } }))
}

#[tokio::test]
async fn calls_take_effect_and_log_the_idempotency_key() {
    let folder = tempdir().unwrap();
    let tools = demo_tools(folder.path());
    let written = call(&tools, "demo/write_file", json!({ "path": "a/b.txt", "content": "one" })).await;
    assert_eq!(expect_output(written), json!({ "path": "a/b.txt", "bytes": 3, "created": true }));
    call(&tools, "demo/append_file", json!({ "path": "a/b.txt", "content": " two" })).await;
    call(&tools, "demo/move_file", json!({ "from": "a/b.txt", "to": "c.txt" })).await;
    assert_eq!(fs::read_to_string(folder.path().join("c.txt")).unwrap(), "one two");

    let read = call(&tools, "demo/read_file", json!({ "path": "c.txt" })).await;
    assert_eq!(expect_output(read)["content"], "one two");
    let listed = call(&tools, "demo/list_files", json!({})).await;
    assert_eq!(expect_output(listed), json!({ "files": ["c.txt"] }));
    let gone = call(&tools, "demo/delete_file", json!({ "path": "c.txt" })).await;
    assert_eq!(expect_output(gone)["existed"], true);
    let gone_already = call(&tools, "demo/delete_file", json!({ "path": "c.txt" })).await;
    assert_eq!(expect_output(gone_already)["existed"], false);

    let witness = fs::read_to_string(folder.path().join(".calls.log")).unwrap();
    let expected = ["write_file", "append_file", "move_file", "delete_file", "delete_file"];
    let expected: Vec<String> = expected.iter().map(|tool| format!("{tool} key-1")).collect();
    assert_eq!(witness.lines().collect::<Vec<_>>(), expected);
    tools.shutdown().await;
}

#[tokio::test]
async fn counters_persist_across_server_restarts() {
    let folder = tempdir().unwrap();
    for round in 1..=2 {
        let tools = demo_tools(folder.path());
        let added = call(&tools, "demo/counter_add", json!({ "name": "n", "amount": 5 })).await;
        assert_eq!(expect_output(added)["value"], round * 5);
        tools.shutdown().await;
    }
    let tools = demo_tools(folder.path());
    let flaky = json!({ "name": "f", "times": 2 });
    for expected in ["1 of 2", "2 of 2"] {
        let (category, message, sent) = expect_failure(call(&tools, "demo/fail_times", flaky.clone()).await);
        assert_eq!((category, sent), (ErrorCategory::ToolError, true));
        assert!(message.contains(expected), "{message}");
    }
    assert_eq!(expect_output(call(&tools, "demo/fail_times", flaky).await)["calls"], 3);
    tools.shutdown().await;
}

#[tokio::test]
async fn paths_cannot_escape_the_folder() {
    let (folder, outside) = (tempdir().unwrap(), tempdir().unwrap());
    std::os::unix::fs::symlink(outside.path(), folder.path().join("out")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("new.txt"), folder.path().join("dangling")).unwrap();
    let tools = demo_tools(folder.path());
    let absolute = outside.path().join("x").to_string_lossy().into_owned();
    for path in ["../x", "a/../../x", &absolute, "out/x", "out/deep/x", "dangling", ".calls.log"] {
        let ended = call(&tools, "demo/write_file", json!({ "path": path, "content": "x" })).await;
        assert_eq!(expect_failure(ended).0, ErrorCategory::ToolError, "{path}");
    }
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    tools.shutdown().await;
}

#[tokio::test]
async fn crash_during_a_call_is_unknown_and_the_server_restarts() {
    let folder = tempdir().unwrap();
    let tools = demo_tools(folder.path());
    let crash = new_call("demo/crash", json!({ "after_effect": "left.txt" }));
    let (ended, processes) = watched_call(&tools, crash).await;
    let (category, message) = expect_unknown(ended);
    assert_eq!(category, ErrorCategory::Unavailable);
    assert!(message.contains("exited with code 70"), "{message}");
    assert!(folder.path().join("left.txt").exists());

    let (ended, later_processes) = watched_call(&tools, new_call("demo/echo", json!({ "again": 1 }))).await;
    assert_eq!(expect_output(ended), json!({ "again": 1 }));
    let (first, second) = (processes[0].unwrap(), later_processes[0].unwrap());
    assert_ne!(first.pid, second.pid);
    assert!(first.start_time > 0 && second.start_time >= first.start_time);
    tools.shutdown().await;
    assert_group_ends(second.pid).await;
}

#[tokio::test]
async fn timed_out_call_is_unknown_and_a_responsive_server_is_kept() {
    let folder = tempdir().unwrap();
    let tools = demo_tools(folder.path());
    let (_, processes) = watched_call(&tools, new_call("demo/echo", json!({}))).await;
    let slow =
        Call { timeout: Duration::from_millis(50), ..new_call("demo/sleep", json!({ "ms": 600_000 })) };
    let (ended, _) = call_until_sent(&tools, slow).await;
    assert_eq!(expect_unknown(ended).0, ErrorCategory::Timeout);
    let (ended, later_processes) = watched_call(&tools, new_call("demo/echo", json!({}))).await;
    expect_output(ended);
    assert_eq!(processes, later_processes);
    tools.shutdown().await;
}

#[tokio::test]
async fn server_errors_map_to_categories() {
    let folder = tempdir().unwrap();
    let tools = demo_tools(folder.path());
    let cases = [
        ("demo/no_such_tool", json!({}), ErrorCategory::NotFound),
        ("demo/read_file", json!({ "path": "not there" }), ErrorCategory::ToolError),
    ];
    for (tool, arguments, expected) in cases {
        let (category, message, sent) = expect_failure(call(&tools, tool, arguments).await);
        assert_eq!((category, sent), (expected, true), "{tool}: {message}");
    }
    tools.shutdown().await;
}

#[tokio::test]
async fn arguments_that_violate_the_live_schema_are_not_sent() {
    let folder = tempdir().unwrap();
    let tools = demo_tools(folder.path());
    let cases = [
        ("demo/write_file", json!({ "path": "x" }), "content"),
        ("demo/write_file", json!({ "path": "x", "content": "y", "mode": 1 }), "mode"),
        ("demo/sleep", json!({ "ms": "long" }), "/ms"),
        ("demo/sleep", json!({ "ms": -1 }), "/ms"),
    ];
    for (tool, arguments, words) in cases {
        let (ended, processes) = watched_call(&tools, new_call(tool, arguments)).await;
        let (category, message, sent) = expect_failure(ended);
        assert_eq!(
            (category, sent, processes),
            (ErrorCategory::InvalidArguments, false, vec![]),
            "{message}"
        );
        assert!(message.contains(words), "{message}");
    }
    assert!(!folder.path().join("x").exists());
    tools.shutdown().await;
}

#[tokio::test]
async fn concurrency_one_serializes_calls() {
    let folder = tempdir().unwrap();
    let config = json!({
        "mcpServers": { "demo": demo_server(folder.path()) },
        "servers": { "demo": { "concurrency": 1 } },
    });
    let tools = tools(folder.path(), config);
    let events = Mutex::new(Vec::new());
    let one = async |name| {
        let call = new_call("demo/sleep", json!({ "ms": 20 }));
        expect_output(
            tools.call(call, |_| events.lock().unwrap().push("sent"), std::future::pending()).await,
        );
        events.lock().unwrap().push(name);
    };
    tokio::join!(one("ended"), one("ended"));
    assert_eq!(events.into_inner().unwrap(), ["sent", "ended", "sent", "ended"]);
    tools.shutdown().await;
}

/// Every tool's answer validates against its output schema.
#[tokio::test]
async fn answers_match_their_output_schema() {
    let folder = tempdir().unwrap();
    let tools = demo_tools(folder.path());
    let calls = [
        ("write_file", json!({ "path": "f", "content": "x" })),
        ("append_file", json!({ "path": "f", "content": "y" })),
        ("stat_file", json!({ "path": "f" })),
        ("read_file", json!({ "path": "f" })),
        ("move_file", json!({ "from": "f", "to": "g" })),
        ("delete_file", json!({ "path": "g" })),
        ("list_files", json!({})),
        ("counter_add", json!({ "name": "n" })),
        ("counter_get", json!({ "name": "n" })),
        ("echo", json!({ "any": [1] })),
        ("sleep", json!({ "ms": 1 })),
        ("fail_times", json!({ "name": "n", "times": 0 })),
    ];
    let listed = &tools.list_servers().await[0];
    assert_eq!(listed.tools.len(), calls.len() + 1, "all but `crash` answer");
    for (tool, arguments) in calls {
        let info = tools.describe(&format!("demo/{tool}")).await.unwrap();
        let answer = expect_output(call(&tools, &info.name, arguments).await);
        jsonschema::validate(&info.output_schema.unwrap(), &answer).unwrap();
    }
    tools.shutdown().await;
}

/// Sends raw messages of the older protocol, to see what other clients see.
#[tokio::test]
async fn sleep_tool_reports_progress() {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    let folder = tempdir().unwrap();
    let mut server = tokio::process::Command::new(env!("CARGO_BIN_EXE_actbook"))
        .args(["demo-tools", "--folder"])
        .arg(folder.path())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let (mut stdin, stdout) = (server.stdin.take().unwrap(), server.stdout.take().unwrap());
    let client = json!({ "name": "by hand", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    let sleep = json!({ "name": "sleep", "arguments": { "ms": 250 }, "_meta": { "progressToken": "p" } });
    let messages = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": sleep }),
    ];
    for message in messages {
        stdin.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }
    let mut lines = BufReader::new(stdout).lines();
    let mut progress = Vec::new();
    loop {
        let line = lines.next_line().await.unwrap().expect("the server answers before it ends");
        let message: Value = serde_json::from_str(&line).unwrap();
        if message["method"] == "notifications/progress" {
            assert_eq!(message["params"]["progressToken"], "p");
            progress.push(message["params"]["progress"].as_f64().unwrap());
        }
        if message["id"] == 2 {
            assert_eq!(message["result"]["structuredContent"], json!({ "slept_ms": 250 }));
            break;
        }
    }
    assert!(!progress.is_empty() && progress.is_sorted(), "{progress:?}");
}
