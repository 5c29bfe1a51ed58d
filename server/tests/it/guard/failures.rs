//! Whatever goes wrong before a call, the call is denied: exit code 2 and a text on stderr, as the clients expect.

use super::*;

#[track_caller]
fn blocks(sandbox: &Sandbox, event: &str) -> String {
    for client in ["claude-code", "codex"] {
        let ran = CliOutput::from(start_hook(sandbox, client, event, &[]).wait_with_output().unwrap());
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{client}: {}", ran.stderr);
        assert!(ran.stderr.contains("Actbook denies this call"), "{client}: {}", ran.stderr);
    }
    CliOutput::from(start_hook(sandbox, "codex", event, &[]).wait_with_output().unwrap()).stderr
}

#[test]
fn event_that_cannot_be_read_blocks() {
    let sandbox = guarded(json!({}));
    let whole = before(&sandbox, "t1", "Bash", json!({ "command": "ls" }));
    for text in ["", "{", "null", "[]", "{}", "\u{0}"] {
        blocks(&sandbox, text);
    }
    for missing in ["session_id", "hook_event_name", "tool_name", "tool_input"] {
        let mut event = whole.clone();
        event.as_object_mut().unwrap().remove(missing);
        let said = blocks(&sandbox, &event.to_string());
        assert!(said.contains(missing), "{missing}: {said}");
    }
}

#[test]
fn database_that_cannot_be_opened_blocks_a_call_and_lets_other_events_fail() {
    let folder = guarded(json!({}));
    let sandbox = Sandbox { database: Some(folder.folder.path().to_str().unwrap().to_owned()), ..folder };
    let call = before(&sandbox, "t1", "Bash", json!({ "command": "ls" }));
    blocks(&sandbox, &call.to_string());
    let ended = run_hook(&sandbox, &after(&call, json!({})), &[]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
}

#[test]
fn config_that_is_not_trusted_or_broken_blocks() {
    let sandbox = guarded(json!({}));
    let call = before(&sandbox, "t1", "Bash", json!({ "command": "ls" })).to_string();
    std::fs::write(sandbox.path("actbook.yaml"), "guard: { mode: enforcing }").unwrap();
    let never_trusted = Sandbox::new();
    std::fs::remove_dir_all(never_trusted.path("data")).unwrap();
    blocks(&never_trusted, &call);
    let named = Sandbox { variables: vec![("ACTBOOK_CONFIG", "actbook.yaml")], ..sandbox };
    let said = blocks(&named, &call);
    assert!(said.contains("`guard.mode`") && said.contains("enforce, observe"), "{said}");
}

#[test]
fn changed_config_has_no_effect_until_it_is_trusted_again() {
    let sandbox = guarded(json!({ "use": ["stay-in-folder"] }));
    std::fs::write(sandbox.path("actbook.yaml"), "guard: {}").unwrap();
    let call = before(&sandbox, "t1", "Write", json!({ "file_path": "/etc/motd", "content": "x" }));
    assert_eq!(decide(&sandbox, &call).unwrap().0, "deny");
}
