//! What comes from the environment goes to the child and nowhere else.

use actbook_engine::policy::Category;
use serde_json::{Value, json};
use tempfile::tempdir;

use super::*;

fn with_secret(config: Value) -> Tools {
    let folder = std::env::temp_dir();
    let config = Config::parse(&config.to_string(), &folder).unwrap();
    Tools::with_environment(&config, |name| match name {
        "API_KEY" => Some("s3cr3t-\"value\"".to_owned()),
        "PIN" => Some("123456".to_owned()),
        "HOME" => Some("/people/ada".to_owned()),
        _ => None,
    })
}

#[tokio::test]
async fn a_secret_reaches_the_child_and_is_struck_out_of_what_comes_back() {
    let tools = with_secret(json!({ "commands": {
        "length": { "argv": ["sh", "-c", "printf %s \"$K\" | wc -c"], "env": { "K": "${env:API_KEY}" } },
        "told": { "argv": ["printf", "%s", "key=${env:API_KEY}."] },
        "failed": { "argv": ["sh", "-c", "echo \"bad key $0\" >&2; exit 1", "${env:API_KEY}"] },
        "json": { "argv": ["printf", "%s", "{\"${env:PIN}\": ${env:PIN}, \"in\": [\"a${env:PIN}b\"]}"] },
    }}));
    assert_eq!(output(call(&tools, "command/length", json!({})).await)["text"], "14\n");
    assert_eq!(output(call(&tools, "command/told", json!({})).await)["text"], "key=[redacted].");
    let structured = output(call(&tools, "command/json", json!({})).await);
    assert_eq!(structured, json!({ "[redacted]": "[redacted]", "in": ["a[redacted]b"] }));
    let ended = call(&tools, "command/failed", json!({})).await;
    assert!(!format!("{ended:?}").contains("s3cr3t"), "{ended:?}");
    assert!(failure(ended).1.contains("bad key [redacted]"));
}

#[tokio::test]
async fn an_mcp_servers_secret_is_struck_out_too() {
    let folder = tempdir().unwrap();
    let mut demo = demo_server(folder.path());
    demo["env"] = json!({ "TOKEN": "${API_KEY}", "LITERAL_TOKEN": "written-down", "MODE": "production" });
    let tools = with_secret(json!({ "mcpServers": { "demo": demo } }));
    let said = json!({ "text": "s3cr3t-\"value\" and written-down in production", "json": "{\"k\": \"s3cr3t-\\\"value\\\"\"}" });
    let expected =
        json!({ "text": "[redacted] and [redacted] in production", "json": "{\"k\": \"[redacted]\"}" });
    assert_eq!(output(call(&tools, "demo/echo", said).await), expected);
    tools.shutdown().await;
}

#[tokio::test]
async fn arguments_can_be_struck_out_before_anything_was_started() {
    let tools = with_secret(json!({ "mcpServers": {
        "a": { "command": "x", "args": ["${env:API_KEY}", "${HOME}"] },
        "b": { "url": "https://x/${env:PIN}", "headers": { "Authorization": "Bearer abcdef" } },
    }}));
    let mut arguments = json!({ "a": "s3cr3t-\"value\"", "b": 123456, "c": "abcdef", "d": "/people/ada/x" });
    tools.redact(&mut arguments);
    let expected = json!({ "a": "[redacted]", "b": "[redacted]", "c": "[redacted]", "d": "/people/ada/x" });
    assert_eq!(arguments, expected, "a machine's own variables are no secrets");
}

#[tokio::test]
async fn an_unset_variable_is_an_error_that_names_it() {
    let tools = with_secret(json!({
        "mcpServers": {
            "unset": { "command": "x", "args": ["${env:NOT_THERE}"] },
            "foreign": { "command": "x", "args": ["${input:token}"] },
            "defaulted": { "command": "/nowhere/${NOT_THERE:-fallback}" },
        },
        "commands": { "unset": { "argv": ["printf", "%s", "${env:NOT_THERE}"] } },
    }));
    let cases = [
        ("unset/x", "NOT_THERE is not set"),
        ("command/unset", "NOT_THERE is not set"),
        ("foreign/x", "input:token"),
        ("defaulted/x", "No such file"),
    ];
    for (tool, words) in cases {
        let (ended, told) = watched_call(&tools, a_call(tool, json!({}))).await;
        let (category, message, sent) = failure(ended);
        assert_eq!((category, sent, told), (Category::Unavailable, false, vec![]), "{message}");
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn a_secret_does_not_print() {
    let secret = actbook::tools::Secret::new("hunter2");
    assert_eq!(
        (format!("{secret} {secret:?}"), secret.expose()),
        ("[redacted] [redacted]".to_owned(), "hunter2")
    );
}
