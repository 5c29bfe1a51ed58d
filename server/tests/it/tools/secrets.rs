//! Secrets from the environment reach the child process and are redacted everywhere else.

use actbook_engine::policy::ErrorCategory;
use serde_json::{Value, json};
use tempfile::tempdir;

use super::*;

fn tools_with_secrets(config: Value) -> Tools {
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
async fn secret_reaches_the_child_and_is_redacted_from_its_output() {
    let tools = tools_with_secrets(json!({ "commands": {
        "length": { "argv": ["sh", "-c", "printf %s \"$K\" | wc -c"], "env": { "K": "${env:API_KEY}" } },
        "told": { "argv": ["printf", "%s", "key=${env:API_KEY}."] },
        "failed": { "argv": ["sh", "-c", "echo \"bad key $0\" >&2; exit 1", "${env:API_KEY}"] },
        "json": { "argv": ["printf", "%s", "{\"${env:PIN}\": ${env:PIN}, \"in\": [\"a${env:PIN}b\"]}"] },
    }}));
    assert_eq!(expect_output(call(&tools, "command/length", json!({})).await)["text"], "14\n");
    assert_eq!(expect_output(call(&tools, "command/told", json!({})).await)["text"], "key=[redacted].");
    let structured = expect_output(call(&tools, "command/json", json!({})).await);
    assert_eq!(structured, json!({ "[redacted]": "[redacted]", "in": ["a[redacted]b"] }));
    let ended = call(&tools, "command/failed", json!({})).await;
    assert!(!format!("{ended:?}").contains("s3cr3t"), "{ended:?}");
    assert!(expect_failure(ended).1.contains("bad key [redacted]"));
}

#[tokio::test]
async fn mcp_server_secret_is_redacted() {
    let folder = tempdir().unwrap();
    let mut demo = demo_server(folder.path());
    demo["env"] = json!({ "TOKEN": "${API_KEY}", "LITERAL_TOKEN": "written-down", "MODE": "production" });
    let tools = tools_with_secrets(json!({ "mcpServers": { "demo": demo } }));
    let arguments = json!({ "text": "s3cr3t-\"value\" and written-down in production", "json": "{\"k\": \"s3cr3t-\\\"value\\\"\"}" });
    let expected =
        json!({ "text": "[redacted] and [redacted] in production", "json": "{\"k\": \"[redacted]\"}" });
    assert_eq!(expect_output(call(&tools, "demo/echo", arguments).await), expected);
    tools.shutdown().await;
}

#[tokio::test]
async fn arguments_are_redacted_before_any_server_starts() {
    let tools = tools_with_secrets(json!({ "mcpServers": {
        "a": { "command": "x", "args": ["${env:API_KEY}", "${HOME}"] },
        "b": { "url": "https://x/${env:PIN}", "headers": { "Authorization": "Bearer abcdef" } },
    }}));
    let mut arguments = json!({ "a": "s3cr3t-\"value\"", "b": 123456, "c": "abcdef", "d": "/people/ada/x" });
    tools.redact(&mut arguments);
    let expected = json!({ "a": "[redacted]", "b": "[redacted]", "c": "[redacted]", "d": "/people/ada/x" });
    assert_eq!(arguments, expected, "HOME is not a secret");
}

#[test]
fn literal_secrets_under_usual_names_are_redacted() {
    let marked = |number: usize| format!("written-{number:02}");
    let config = json!({
        "mcpServers": {
            "web": { "url": "https://ada:written-00@x.example/mcp?api_key=written-01&v=plain-1&t=aB3dE5gH7jK9x", "headers": {
                "X-API-Key": marked(2), "Cookie": "session=written-03; theme=written-04", "authorization": "Bearer written-05",
                "X-Auth": marked(6), "Accept": "plain-2" } },
            "stdio": { "command": "x", "args": [
                "--api-key", marked(7), "--token=written-08", "-e", "GITHUB_PAT=written-09",
                "--header", "Authorization: Bearer written-10", "plain-3",
            ], "env": {
                "GITLAB_PAT": marked(11), "SIGNING_KEY": marked(12), "DATABASE_URL": "postgres://ada:written-13@db/x",
                "SSH_PASSPHRASE": marked(14), "DB_PASSWORD": marked(15), "CLIENT_SECRET": marked(16),
                "SERVICE_URL": "https://written-17@x.example/", "MODE": "plain-4",
                "A": "${env:API_TOKEN:-written-18}", "B": "${env:LEVEL:-plain-5}", "C": "${env:ANY:-aB3dE5gH7jK9y}",
            } },
        },
        "commands": { "c": { "argv": ["x", "--password", marked(19)], "env": { "NPM_TOKEN": marked(20) } } },
        "http": { "h": { "url": "https://x.example/?token=written-21", "headers": { "X-Key": marked(22) },
            "body": { "in": [{ "apiKey": marked(23) }], "text": "plain-6" } } },
    });
    let folder = std::env::temp_dir();
    let tools = Tools::with_environment(&Config::parse(&config.to_string(), &folder).unwrap(), |_| None);
    let mut secrets: Vec<String> = (0..24).map(marked).collect();
    secrets.extend(["aB3dE5gH7jK9x".to_owned(), "aB3dE5gH7jK9y".to_owned()]);
    for secret in secrets {
        let mut text = format!("it is {secret}.");
        tools.redact_text(&mut text);
        assert_eq!(text, "it is [redacted].", "{secret}");
    }
    let mut plain = "plain-1 plain-2 plain-3 plain-4 plain-5 plain-6 x.example".to_owned();
    tools.redact_text(&mut plain);
    assert_eq!(plain, "plain-1 plain-2 plain-3 plain-4 plain-5 plain-6 x.example");
}

const KEY_FILE: &str = "-----BEGIN PRIVATE KEY-----\r\nMIIEvQIBADANBgkq\r\nhkiG9w0BAQEFAASC\r\nshort\r\n-----END PRIVATE KEY-----\r\n";

/// Tools return a key file as a list of lines, each a text of its own.
#[tokio::test]
async fn each_long_line_of_a_secret_of_several_lines_is_struck_out() {
    let config = json!({ "commands": { "lines": { "argv": ["printf", "%s", "${env:KEY_FILE}"] } } });
    let config = Config::parse(&config.to_string(), &std::env::temp_dir()).unwrap();
    let tools = Tools::with_environment(&config, |name| (name == "KEY_FILE").then(|| KEY_FILE.to_owned()));
    let mut output = json!({ "lines": KEY_FILE.lines().collect::<Vec<_>>(), "whole": KEY_FILE });
    tools.redact(&mut output);
    let header = ["-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"];
    let lines = [header[0], "[redacted]", "[redacted]", "short", header[1]];
    assert_eq!(output, json!({ "lines": lines, "whole": "[redacted]" }));
    let line = json!({ "arguments": { "key": KEY_FILE.lines().nth(1) } });
    let (path, origin) = tools.find_secret(&line).expect("a plan with one of its lines is refused");
    assert_eq!((path.as_str(), &*origin), ("arguments.key", "the environment variable KEY_FILE"));
    assert!(tools.find_secret(&json!(header)).is_none(), "every key file begins and ends so");
}

/// Values that are shorter than the least length that is redacted occur in ordinary text.
#[test]
fn value_of_three_characters_is_no_secret_and_one_of_four_is() {
    let config = json!({ "commands": { "a": { "argv": ["x", "${env:THREE_TOKEN}", "${env:FOUR_TOKEN}"] } } });
    let config = Config::parse(&config.to_string(), &std::env::temp_dir()).unwrap();
    let tools = Tools::with_environment(&config, |name| {
        Some(if name == "FOUR_TOKEN" { "qx7z" } else { "abc" }.to_owned())
    });
    let mut text = "abc qx7z".to_owned();
    tools.redact_text(&mut text);
    assert_eq!(text, "abc [redacted]");
}

#[tokio::test]
async fn unset_variable_error_names_it() {
    let tools = tools_with_secrets(json!({
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
        let (ended, processes) = watched_call(&tools, new_call(tool, json!({}))).await;
        let (category, message, sent) = expect_failure(ended);
        assert_eq!((category, sent, processes), (ErrorCategory::Unavailable, false, vec![]), "{message}");
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn secret_is_redacted_in_display_and_debug() {
    let secret = actbook::tools::Secret::new("hunter2");
    assert_eq!(
        (format!("{secret} {secret:?}"), secret.expose()),
        ("[redacted] [redacted]".to_owned(), "hunter2")
    );
}
