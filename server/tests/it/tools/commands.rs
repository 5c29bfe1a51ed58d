//! `command/…` tools: arguments, input, exit codes, time-outs, and process groups.

use actbook_engine::policy::ErrorCategory;
use serde_json::{Value, json};
use tempfile::tempdir;

use super::*;

fn command(folder: &Path, definition: Value) -> Tools {
    tools(folder, json!({ "commands": { "it": definition } }))
}

fn shell(script: &str) -> Value {
    json!({ "argv": ["sh", "-c", script] })
}

async fn run(definition: Value, arguments: Value) -> CallOutcome {
    let folder = tempdir().unwrap();
    call(&command(folder.path(), definition), "command/it", arguments).await
}

#[tokio::test]
async fn an_argument_is_one_word_of_the_command_line_whatever_is_in_it() {
    let print = json!({ "argv": ["printf", "<%s>", "${arguments.a}", "x${arguments.b.c}", "$${literal}"] });
    let cases = [
        (json!({ "a": "one two; rm -rf $HOME", "b": { "c": 1 } }), "<one two; rm -rf $HOME><x1><${literal}>"),
        (json!({ "a": ["p", "q"], "b": { "c": true } }), r#"<["p","q"]><xtrue><${literal}>"#),
        (json!({ "a": "${arguments.b.c}", "b": { "c": "" } }), "<${arguments.b.c}><x><${literal}>"),
    ];
    for (arguments, expected) in cases {
        assert_eq!(output(run(print.clone(), arguments).await), json!({ "text": expected }));
    }
}

#[tokio::test]
async fn what_cannot_be_bound_is_not_sent() {
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
        let (category, message, sent) = failure(run(definition, arguments).await);
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
    let ended = call(&command(folder.path(), definition), "command/it", json!({ "a": 1 })).await;
    assert_eq!(output(ended), json!({ "input": { "a": 1 }, "key": "key-1", "v": "<1>", "in": "inner" }));
}

#[tokio::test]
async fn an_exit_code_is_a_no_and_a_signal_is_nobody_knows() {
    let ended = run(shell("echo out; echo why >&2; exit 3"), json!({})).await;
    let CallOutcome::Failed { category, message, sent, output, .. } = ended else { panic!("{ended:?}") };
    assert_eq!(
        (category, message.as_str(), sent),
        (ErrorCategory::ToolError, "exited with code 3: why", true)
    );
    assert_eq!(output.unwrap(), json!({ "exit_code": 3, "stdout": "out\n", "stderr": "why" }));

    let (category, message) = unknown(run(shell("kill -9 $$"), json!({})).await);
    assert_eq!(category, ErrorCategory::Unavailable);
    assert!(message.contains("killed by signal 9"), "{message}");
}

#[tokio::test]
async fn a_program_that_reads_nothing_and_writes_too_much_still_succeeds() {
    let arguments = json!({ "large": "x".repeat(300_000) });
    let ended =
        run(shell("head -c 3000000 /dev/zero | tr '\\0' y; head -c 3000000 /dev/zero >&2"), arguments).await;
    let output = output(ended);
    assert_eq!(output["truncated"], true);
    assert!(output["text"].as_str().unwrap().starts_with("yyyy"));
    assert!(output.to_string().len() < actbook::tools::OUTPUT_BYTES_MAX);
}

/// The grandchild and the child that ignores SIGTERM both end.
#[tokio::test]
async fn at_the_timeout_the_whole_group_is_ended_and_the_outcome_is_unknown() {
    let folder = tempdir().unwrap();
    let tools = command(folder.path(), shell("trap '' TERM; sleep 1000 & while :; do sleep 1000; done"));
    let slow = Call { timeout: Duration::from_millis(100), ..a_call("command/it", json!({})) };
    let (ended, processes) = watched_call(&tools, slow).await;
    assert_eq!(unknown(ended).0, ErrorCategory::Timeout);
    assert_eq!(processes[0], None, "reported before the start");
    assert_group_ends(processes[1].expect("reported after the start, with the child").pid).await;
}

#[tokio::test]
async fn the_configured_timeout_holds_where_the_call_would_wait_longer() {
    let definition = json!({ "argv": ["sleep", "1000"], "timeout": "50ms" });
    assert_eq!(unknown(run(definition, json!({})).await).0, ErrorCategory::Timeout);
}

#[tokio::test]
async fn what_a_program_leaves_running_is_ended_with_it() {
    let folder = tempdir().unwrap();
    let tools = command(folder.path(), shell("sleep 1000 & echo started"));
    let (ended, processes) = watched_call(&tools, a_call("command/it", json!({}))).await;
    assert_eq!(output(ended), json!({ "text": "started\n" }));
    assert_group_ends(processes[1].unwrap().pid).await;
}

#[tokio::test]
async fn asked_to_stop_a_clean_end_is_believed_and_a_no_is_not() {
    let cases = [
        ("trap 'echo finished; exit 0' TERM; echo > up; while :; do sleep 0.01; done", true),
        ("trap 'exit 5' TERM; echo > up; while :; do sleep 0.01; done", false),
        ("echo > up; exec sleep 1000", false),
    ];
    for (script, clean) in cases {
        let folder = tempdir().unwrap();
        let tools = command(folder.path(), shell(script));
        let up = folder.path().join("up");
        let stop = async {
            while !up.exists() {
                tokio::task::yield_now().await;
            }
        };
        let ended = tools.call(a_call("command/it", json!({})), |_| {}, stop).await;
        if clean {
            assert_eq!(output(ended), json!({ "text": "finished\n" }));
        } else {
            unknown(ended);
        }
    }
}

#[tokio::test]
async fn asked_to_stop_before_its_turn_it_is_never_sent() {
    let folder = tempdir().unwrap();
    let tools = command(folder.path(), shell("echo > up"));
    let never = |_| panic!("reported as sent");
    let (category, message, sent) =
        failure(tools.call(a_call("command/it", json!({})), never, std::future::ready(())).await);
    assert_eq!((category, sent), (ErrorCategory::Policy, false), "{message}");
    assert!(!folder.path().join("up").exists());
}

/// Calls from many tasks at once, as the runner makes them.
#[tokio::test(flavor = "multi_thread")]
async fn no_more_commands_run_at_once_than_the_config_says() {
    let folder = tempdir().unwrap();
    let script = "mkdir busy && sleep 0.01 && rmdir busy";
    let config = json!({
        "commands": { "it": shell(script) },
        "servers": { "command": { "concurrency": 1 } },
    });
    let tools = std::sync::Arc::new(tools(folder.path(), config));
    let one = || {
        let tools = tools.clone();
        tokio::spawn(async move { call(&tools, "command/it", json!({})).await })
    };
    let running: Vec<_> = (0..8).map(|_| one()).collect();
    for ended in running {
        assert_eq!(output(ended.await.unwrap()), json!({ "text": "" }));
    }
}
