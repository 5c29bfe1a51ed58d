//! Listing servers and tools, the toolset digest, and in-process executors.

use std::collections::BTreeSet;

use actbook::tools::Annotations;
use actbook_engine::policy::ErrorCategory;
use futures_util::FutureExt;
use serde_json::{Value, json};
use tempfile::tempdir;

use super::*;

#[tokio::test]
async fn server_list_includes_unreachable_servers_with_errors() {
    let folder = tempdir().unwrap();
    let config = json!({
        "mcpServers": {
            "demo": demo_server(folder.path()),
            "gone": { "command": "no-such-program" },
            "web": { "url": "http://127.0.0.1:1/mcp" },
        },
        "commands": { "make": { "argv": ["make", "${arguments.target}"] } },
    });
    let tools = tools(folder.path(), config);
    let listed = tools.list_servers().await;
    let names: Vec<&str> = listed.iter().map(|server| server.server.as_str()).collect();
    assert_eq!(names, ["command", "demo", "gone", "web"]);
    assert_eq!(listed[0].tools[0].name, "command/make");
    let write = listed[1].tools.iter().find(|tool| tool.name == "demo/write_file").unwrap();
    let hints = Annotations {
        read_only: Some(false),
        destructive: Some(true),
        idempotent: Some(true),
        open_world: Some(false),
    };
    assert_eq!(write.annotations, hints);
    assert!(listed[2].error.as_ref().unwrap().contains("cannot be started"));
    assert!(listed[3].error.as_ref().unwrap().contains("cannot be reached"));
    assert!(tools.has_server("demo") && tools.has_server("web") && !tools.has_server("nobody"));

    let described = tools.describe("demo/write_file").await.unwrap();
    assert_eq!(described.digest, write.digest);
    assert_eq!(described.input_schema["required"], json!(["path", "content"]));
    for unknown in ["demo/nothing", "nobody/x", "noslash", "command/none", "web/x"] {
        tools.describe(unknown).await.unwrap_err();
    }
    tools.shutdown().await;
}

#[tokio::test]
async fn unconfigured_tool_is_not_found_and_not_sent() {
    let folder = tempdir().unwrap();
    let tools = tools(folder.path(), json!({ "commands": { "make": { "argv": ["make"] } } }));
    let cases = [("nobody/x", "nobody"), ("noslash", "server/tool"), ("command/none", "none")];
    for (tool, words) in cases {
        let (ended, processes) = watched_call(&tools, new_call(tool, json!({}))).await;
        let (category, message, sent) = expect_failure(ended);
        assert_eq!((category, sent, processes), (ErrorCategory::NotFound, false, vec![]));
        assert!(message.contains(words), "{message}");
    }
}

fn toolset_digest(folder: &str, config: Value, servers: &[&str]) -> String {
    let servers: BTreeSet<String> = servers.iter().map(|name| (*name).to_owned()).collect();
    tools(Path::new(folder), config).toolset_digest(&servers).to_string()
}

#[test]
fn toolset_digest_covers_server_definitions_only() {
    let config = |args: Value, key: &str| {
        json!({
            "mcpServers": { "a": { "command": "x", "args": args, "env": { "KEY": key } }, "b": { "url": "https://b" } },
            "commands": { "one": { "argv": ["one"] } },
        })
    };
    let base = || config(json!(["1"]), "v");
    let with_command = |argv: Value| {
        let mut config = base();
        config["commands"]["two"] = json!({ "argv": argv });
        config
    };
    let here = toolset_digest("/f", base(), &["a"]);
    assert_eq!(
        here,
        toolset_digest("/f", config(json!(["1"]), "other"), &["a"]),
        "a variable's value is not part of the digest"
    );
    let others = [
        toolset_digest("/f", config(json!(["2"]), "v"), &["a"]),
        toolset_digest("/g", base(), &["a"]),
        toolset_digest("/f", base(), &["a", "b"]),
        toolset_digest("/f", base(), &["a", "unknown"]),
        toolset_digest("/f", base(), &[]),
    ];
    for other in others {
        assert_ne!(here, other);
    }
    let all = |config| toolset_digest("/f", config, &["command"]);
    assert_ne!(all(base()), all(with_command(json!(["two"]))));
    let one = |config| toolset_digest("/f", config, &["command/one"]);
    assert_eq!(one(base()), one(with_command(json!(["two"]))), "only the named command counts");
}

#[tokio::test]
async fn in_process_executor_answers_for_its_server() {
    let tools = tools(Path::new("/"), json!({})).with_server_executor("own", |call| {
        async move {
            match call.tool.as_str() {
                "own/never" => std::future::pending().await,
                _ => CallOutcome::Succeeded { output: json!({ "key": call.key, "got": call.arguments }) },
            }
        }
        .boxed()
    });
    let (ended, processes) = watched_call(&tools, new_call("own/any", json!({ "x": 1 }))).await;
    assert_eq!((expect_output(ended), processes), (json!({ "key": "key-1", "got": { "x": 1 } }), vec![None]));
    let ended = call_within(&tools, "own/never", Duration::from_millis(10)).await;
    assert_eq!(expect_unknown(ended).0, ErrorCategory::Timeout);
    assert!(tools.has_server("own") && tools.describe("own/any").await.is_ok());
}
