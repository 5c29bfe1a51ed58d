//! Random and damaged events and rules: no panic, and no error that lets a call pass.

use actbook::config::Config;
use actbook::guard::{HookAnswer, HookClient, HookEvent, test_policy};
use actbook_engine::rules::{Rule, RuleEffect, RuleFacts};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{CliOutput, guarded, start_hook};
use crate::counts::times;

/// The event before a call, as each client sends it.
fn whole_event(client: HookClient) -> Value {
    match client {
        HookClient::ClaudeCode | HookClient::Codex => json!({
            "session_id": "s", "cwd": "/srv", "permission_mode": "default", "hook_event_name": "PreToolUse",
            "tool_name": "Bash", "tool_input": { "command": "ls" }, "tool_use_id": "t",
        }),
        HookClient::Cursor => json!({
            "conversation_id": "s", "workspace_roots": ["/srv"], "hook_event_name": "preToolUse", "tool_name": "Shell",
            "tool_input": { "command": "ls" }, "tool_use_id": "t", "cwd": "",
        }),
        HookClient::Gemini => json!({
            "session_id": "s", "cwd": "/srv", "hook_event_name": "BeforeTool", "tool_name": "run_shell_command",
            "tool_input": { "command": "ls" }, "mcp_context": null,
        }),
        HookClient::Vscode => json!({
            "sessionId": "s", "cwd": "/srv", "hookEventName": "PreToolUse", "tool_name": "run_in_terminal",
            "tool_input": { "command": "ls" }, "tool_use_id": "t",
        }),
        HookClient::Copilot => json!({
            "sessionId": "s", "cwd": "/srv", "toolName": "bash", "toolArgs": { "command": "ls" }, "timestamp": 1,
        }),
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        prop_oneof![
            Just("../../etc"),
            Just("~root"),
            Just("file://x"),
            Just("mcp__client__shell"),
            Just("MCP:")
        ]
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z_]{0,8}", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn any_client() -> impl Strategy<Value = HookClient> {
    prop::sample::select(HookClient::ALL.to_vec())
}

/// An event before a call whose fields are dropped or replaced, but for those that say what it is.
fn damaged_event() -> impl Strategy<Value = (HookClient, Value)> {
    (any_client(), prop::collection::vec((any::<prop::sample::Index>(), prop::option::of(any_value())), 0..4))
        .prop_map(|(client, changes)| {
            let mut event = whole_event(client);
            for (index, value) in changes {
                let fields = event.as_object_mut().unwrap();
                let names: Vec<String> = fields.keys().cloned().collect();
                let name = index.get(&names).clone();
                match value {
                    _ if ["hook_event_name", "hookEventName", "toolName"].contains(&name.as_str()) => {}
                    Some(value) => drop(fields.insert(name, value)),
                    None if names.len() > 1 => drop(fields.remove(&name)),
                    None => {}
                }
            }
            (client, event)
        })
}

fn config() -> ProptestConfig {
    let cases = u32::try_from(times("ACTBOOK_FUZZ_CASES", 400)).expect("a small number");
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_text_is_read_or_refused_without_panic(client in any_client(), text in ".{0,200}", value in any_value()) {
        drop(HookEvent::parse(client, &text));
        drop(HookEvent::parse(client, &value.to_string()));
    }

    #[test]
    fn damaged_event_before_a_call_is_refused_or_is_a_call((client, event) in damaged_event()) {
        if let Ok(read) = HookEvent::parse(client, &event.to_string()) {
            prop_assert!(read.blocks_on_failure(), "{client}: {event} passes for another event");
            let denied = HookAnswer::Deny { reason: "no".into() }.document(client, &read);
            prop_assert!(denied.unwrap().to_string().contains("deny"));
        }
    }

    #[test]
    fn any_facts_are_judged_without_panic_and_no_broken_rule_allows(value in any_value(), path in ".{0,40}") {
        let rules = json!({ "guard": {
            "use": ["trifecta", "stay-in-folder", "no-secrets-out", "protect-agent-config", "changed-tools"],
            "rules": [{ "name": "broken", "when": "call.arguments.no_such.field == 1", "then": "deny" }],
        } });
        let config = Config::parse(&rules.to_string(), std::path::Path::new("/srv")).unwrap();
        let document = json!({
            "call": { "tool": "client/shell", "arguments": { "command": value, "path": path } },
            "session": { "folder": "/srv", "labels": ["untrusted"] },
        });
        let facts: RuleFacts = serde_json::from_value(document).unwrap();
        prop_assert_eq!(test_policy(&config, facts).judgement.verdict, RuleEffect::Deny);
    }

    #[test]
    fn any_condition_is_compiled_or_refused_without_panic(text in ".{0,60}", words in "[a-z.()\"&|!<>=+ 0-9\\[\\]{}?:,-]{0,80}") {
        for condition in [text, words] {
            drop(Rule::parse("any", &condition, RuleEffect::Deny, None));
        }
    }
}

#[test]
fn damaged_events_never_pass_the_real_hook() {
    let sandbox = guarded(json!({ "rules": [{ "name": "no", "when": "true", "then": "deny" }] }));
    let cases = u32::try_from(times("ACTBOOK_FUZZ_CASES", 24) / 4).expect("a small number").clamp(6, 2_000);
    let runner_config = ProptestConfig { cases, ..config() };
    let mut runner = proptest::test_runner::TestRunner::new(runner_config);
    let survived = runner.run(&damaged_event(), |(client, mut event)| {
        // Another folder has another config, or none.
        let here = json!(sandbox.folder.path());
        if event["cwd"].is_string() {
            event["cwd"] = here.clone();
        }
        if event["workspace_roots"].is_array() {
            event["workspace_roots"] = json!([here]);
        }
        let ran = start_hook(&sandbox, client.as_str(), &event.to_string(), &["--limit", "20s"]);
        let ran = CliOutput::from(ran.wait_with_output().unwrap());
        let denies = ran.code == Some(2) || ran.stdout.contains("\"deny\"");
        prop_assert!(denies, "{client} {event}: {:?} {} {}", ran.code, ran.stdout, ran.stderr);
        Ok(())
    });
    survived.unwrap();
}
