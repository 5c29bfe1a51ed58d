//! `command/…` tools: arguments, input, exit codes, time-outs, and process groups.

use actbook_engine::policy::ErrorCategory;
use serde_json::{Value, json};
use tempfile::tempdir;

use super::*;

fn command_tools(folder: &Path, definition: Value) -> Tools {
    tools(folder, json!({ "commands": { "it": definition } }))
}

fn shell_command(script: &str) -> Value {
    json!({ "argv": ["sh", "-c", script] })
}

async fn run_command(definition: Value, arguments: Value) -> CallOutcome {
    let folder = tempdir().unwrap();
    call(&command_tools(folder.path(), definition), "command/it", arguments).await
}

#[tokio::test]
async fn argument_stays_one_argv_element() {
    let print = json!({ "argv": ["printf", "<%s>", "${arguments.a}", "x${arguments.b.c}", "$${literal}"] });
    let cases = [
        (json!({ "a": "one two; rm -rf $HOME", "b": { "c": 1 } }), "<one two; rm -rf $HOME><x1><${literal}>"),
        (json!({ "a": ["p", "q"], "b": { "c": true } }), r#"<["p","q"]><xtrue><${literal}>"#),
        (json!({ "a": "${arguments.b.c}", "b": { "c": "" } }), "<${arguments.b.c}><x><${literal}>"),
    ];
    for (arguments, expected) in cases {
        assert_eq!(expect_output(run_command(print.clone(), arguments).await), json!({ "text": expected }));
    }
}

#[tokio::test]
async fn unbindable_arguments_are_not_sent() {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
    let typed = json!({ "argv": ["printf", "${arguments.n}"], "input_schema": schema });
    let untyped = json!({ "argv": ["printf", "${arguments.n}"] });
    let cases = [
        (typed.clone(), json!({ "n": "seven" }), ErrorCategory::InvalidArguments, "integer"),
        (typed, json!({}), ErrorCategory::InvalidArguments, "\"n\" is a required property"),
        (untyped.clone(), json!({}), ErrorCategory::InvalidArguments, "no argument `n`"),
        (untyped.clone(), json!({ "n": null }), ErrorCategory::InvalidArguments, "no argument `n`"),
        (untyped, json!({ "n": "nul\u{0}byte" }), ErrorCategory::InvalidArguments, "could not be started"),
        (
            json!({ "argv": ["no-such-program"] }),
            json!({}),
            ErrorCategory::Unavailable,
            "could not be started",
        ),
        (
            json!({ "argv": ["true"], "cwd": "no/such/folder" }),
            json!({}),
            ErrorCategory::Unavailable,
            "could not",
        ),
    ];
    for (definition, arguments, expected, words) in cases {
        let (category, message, sent) = expect_failure(run_command(definition, arguments).await);
        assert_eq!((category, sent), (expected, false), "{message}");
        assert!(message.contains(words), "{message}");
    }
}

#[tokio::test]
async fn input_key_folder_and_variables_reach_the_program() {
    let folder = tempdir().unwrap();
    std::fs::create_dir(folder.path().join("inner")).unwrap();
    let script = r#"printf '{"input": %s, "key": "%s", "v": "%s", "in": "%s"}' "$(cat)" "$ACTBOOK_IDEMPOTENCY_KEY" "$V" "$(basename "$PWD")""#;
    let definition =
        json!({ "argv": ["sh", "-c", script], "cwd": "inner", "env": { "V": "<${arguments.a}>" } });
    let ended = call(&command_tools(folder.path(), definition), "command/it", json!({ "a": 1 })).await;
    assert_eq!(
        expect_output(ended),
        json!({ "input": { "a": 1 }, "key": "key-1", "v": "<1>", "in": "inner" })
    );
}

#[tokio::test]
async fn nonzero_exit_is_failed_and_a_signal_is_unknown() {
    let ended = run_command(shell_command("echo out; echo why >&2; exit 3"), json!({})).await;
    let CallOutcome::Failed { category, message, sent, output, .. } = ended else { panic!("{ended:?}") };
    assert_eq!(
        (category, message.as_str(), sent),
        (ErrorCategory::ToolError, "exited with code 3: why", true)
    );
    assert_eq!(output.unwrap(), json!({ "exit_code": 3, "stdout": "out\n", "stderr": "why" }));

    let (category, message) = expect_unknown(run_command(shell_command("kill -9 $$"), json!({})).await);
    assert_eq!(category, ErrorCategory::Unavailable);
    assert!(message.contains("killed by signal 9"), "{message}");
}

#[tokio::test]
async fn program_with_unread_input_and_excess_output_succeeds() {
    let arguments = json!({ "large": "x".repeat(300_000) });
    let ended = run_command(
        shell_command("head -c 3000000 /dev/zero | tr '\\0' y; head -c 3000000 /dev/zero >&2"),
        arguments,
    )
    .await;
    let output = expect_output(ended);
    assert_eq!(output["truncated"], true);
    assert!(output["text"].as_str().unwrap().starts_with("yyyy"));
    assert!(output.to_string().len() < actbook::tools::OUTPUT_BYTES_MAX);
}

/// The grandchild and the child that ignores SIGTERM both end.
#[tokio::test]
async fn timed_out_command_is_unknown_and_its_group_is_ended() {
    let folder = tempdir().unwrap();
    let tools = command_tools(
        folder.path(),
        shell_command("trap '' TERM; sleep 1000 & while :; do sleep 1000; done"),
    );
    let slow = Call { timeout: Duration::from_millis(100), ..new_call("command/it", json!({})) };
    let (ended, processes) = call_until_sent(&tools, slow).await;
    assert_eq!(expect_unknown(ended).0, ErrorCategory::Timeout);
    assert_eq!(processes[0], None, "reported before the start");
    assert_group_ends(processes[1].expect("reported after the start, with the child").pid).await;
}

#[tokio::test]
async fn configured_timeout_limits_a_longer_call_timeout() {
    let folder = tempdir().unwrap();
    let tools = command_tools(folder.path(), json!({ "argv": ["sleep", "1000"], "timeout": "50ms" }));
    let (ended, _) = call_until_sent(&tools, new_call("command/it", json!({}))).await;
    assert_eq!(expect_unknown(ended).0, ErrorCategory::Timeout);
}

#[tokio::test]
async fn background_children_end_with_their_command() {
    let folder = tempdir().unwrap();
    let tools = command_tools(folder.path(), shell_command("sleep 1000 & echo started"));
    let (ended, processes) = watched_call(&tools, new_call("command/it", json!({}))).await;
    assert_eq!(expect_output(ended), json!({ "text": "started\n" }));
    assert_group_ends(processes[1].unwrap().pid).await;
}

#[tokio::test]
async fn cancelled_command_with_clean_exit_succeeds_else_unknown() {
    let cases = [
        ("trap 'echo finished; exit 0' TERM; echo > up; while :; do sleep 0.01; done", true),
        ("trap 'exit 5' TERM; echo > up; while :; do sleep 0.01; done", false),
        ("echo > up; exec sleep 1000", false),
    ];
    for (script, clean) in cases {
        let folder = tempdir().unwrap();
        let tools = command_tools(folder.path(), shell_command(script));
        let up = folder.path().join("up");
        let stop = poll_until("the command to be up", || up.exists());
        let ended = tools.call(new_call("command/it", json!({})), |_| {}, stop).await;
        if clean {
            assert_eq!(expect_output(ended), json!({ "text": "finished\n" }));
        } else {
            expect_unknown(ended);
        }
    }
}

#[tokio::test]
async fn cancelled_command_before_its_turn_is_never_sent() {
    let folder = tempdir().unwrap();
    let tools = command_tools(folder.path(), shell_command("echo > up"));
    let never = |_| panic!("reported as sent");
    let (category, message, sent) =
        expect_failure(tools.call(new_call("command/it", json!({})), never, std::future::ready(())).await);
    assert_eq!((category, sent), (ErrorCategory::Policy, false), "{message}");
    assert!(!folder.path().join("up").exists());
}

/// Calls from many tasks at once, as the runner makes them.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_commands_stay_within_the_limit() {
    let folder = tempdir().unwrap();
    let script = "mkdir busy && sleep 0.01 && rmdir busy";
    let config = json!({
        "commands": { "it": shell_command(script) },
        "servers": { "command": { "concurrency": 1 } },
    });
    let tools = std::sync::Arc::new(tools(folder.path(), config));
    let one = || {
        let tools = tools.clone();
        tokio::spawn(async move { call(&tools, "command/it", json!({})).await })
    };
    let running: Vec<_> = (0..8).map(|_| one()).collect();
    for ended in running {
        assert_eq!(expect_output(ended.await.unwrap()), json!({ "text": "" }));
    }
}
