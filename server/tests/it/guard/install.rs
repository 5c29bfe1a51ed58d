//! `install --hooks`, `uninstall --hooks` and what `doctor` says: only our entries change, and the command line that is
//! written denies where this binary cannot answer.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

const CLIENTS: [(&str, &str, &str); 6] = [
    ("claude-code", ".claude/settings.json", "PreToolUse"),
    ("codex", ".codex/hooks.json", "PreToolUse"),
    ("cursor", ".cursor/hooks.json", "preToolUse"),
    ("gemini", ".gemini/settings.json", "BeforeTool"),
    ("vscode", ".github/hooks/actbook-vscode.json", "PreToolUse"),
    ("copilot", ".github/hooks/actbook-copilot.json", "preToolUse"),
];

fn install(sandbox: &Sandbox, client: &str) -> CliOutput {
    sandbox.run(&["install", "--client", client, "--hooks", "--scope", "project"])
}

fn uninstall(sandbox: &Sandbox, client: &str) -> CliOutput {
    sandbox.run(&["uninstall", "--client", client, "--hooks", "--scope", "project"])
}

fn read(sandbox: &Sandbox, file: &str) -> String {
    std::fs::read_to_string(sandbox.path(file)).unwrap_or_default()
}

/// The hook before a call, as the file says it: the command line, or program and arguments.
fn hook_before(document: &Value, event: &str) -> Value {
    let entry = document["hooks"][event].as_array().unwrap().last().unwrap().clone();
    entry.pointer("/hooks/0").cloned().unwrap_or(entry)
}

#[test]
fn file_that_is_missing_is_made_and_removed_again() {
    for (client, file, event) in CLIENTS {
        let sandbox = guarded(json!({}));
        let ran = install(&sandbox, client);
        assert_eq!(ran.code, Some(0), "{client}: {}", ran.stderr);
        let first = read(&sandbox, file);
        let document: Value = serde_json::from_str(&first).unwrap();
        assert!(hook_before(&document, event).to_string().contains(client), "{first}");
        assert_eq!(install(&sandbox, client).code, Some(0));
        assert_eq!(read(&sandbox, file), first, "{client}: again, it changes nothing");
        let printed =
            sandbox.expect(0, &["install", "--client", client, "--hooks", "--scope", "project", "--print"]);
        assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), document, "{client}");
        assert_eq!(uninstall(&sandbox, client).code, Some(0));
        assert!(!sandbox.path(file).exists(), "{client}");
        assert!(uninstall(&sandbox, client).stderr.contains("no hook of Actbook"), "{client}");
    }
}

#[test]
fn settings_keep_their_bytes_but_for_our_entries() {
    let texts = [
        "{}",
        "{ }\n",
        "{\"model\": \"opus\"}",
        "{\n  // mine\n  \"model\": \"opus\", // really\n  \"hooks\": {\n    \"Stop\": [\n      /* bell */ { \"hooks\": [{ \"type\": \"command\", \"command\": \"bell\" }] }\n    ]\n  }\n}\n",
        "{\n\t\"hooks\": {\n\t\t\"PreToolUse\": [\n\t\t\t{ \"matcher\": \"Bash\", \"hooks\": [ { \"type\": \"command\", \"command\": \"other hook claude-code\" } ] },\n\t\t],\n\t},\n\t\"env\": { \"A\": \"// no comment\" },\n}",
    ];
    for text in texts {
        let sandbox = guarded(json!({}));
        std::fs::create_dir_all(sandbox.path(".claude")).unwrap();
        sandbox.write(".claude/settings.json", text);
        let file = sandbox.path(".claude/settings.json");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(install(&sandbox, "claude-code").code, Some(0), "{text}");
        let installed = read(&sandbox, ".claude/settings.json");
        let kept = text.lines().filter(|line| !line.trim().is_empty() && line.trim() != "{}");
        kept.filter(|line| line.len() > 3).for_each(|line| {
            assert!(installed.contains(line.trim().trim_end_matches([',', '}', ' '])), "{line}: {installed}");
        });
        assert!(installed.contains("PostToolUseFailure"), "{installed}");
        assert_eq!(install(&sandbox, "claude-code").code, Some(0));
        assert_eq!(read(&sandbox, ".claude/settings.json"), installed, "again, it changes nothing");
        assert_eq!(uninstall(&sandbox, "claude-code").code, Some(0));
        if text.trim() == "{}" || text.trim() == "{ }" {
            assert!(!file.exists(), "{text}");
            continue;
        }
        assert_eq!(read(&sandbox, ".claude/settings.json"), text);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn hooks_written_by_hand_count_as_ours_and_are_replaced_alone() {
    let sandbox = guarded(json!({}));
    std::fs::create_dir_all(sandbox.path(".claude")).unwrap();
    let by_hand = json!({ "hooks": { "PreToolUse": [{ "matcher": "*", "hooks": [
        { "type": "command", "command": "actbook", "args": ["hook", "claude-code"], "timeout": 600 },
        { "type": "command", "command": "other" },
    ] }] } });
    sandbox.write(".claude/settings.json", &by_hand.to_string());
    let doctor = sandbox.run(&["doctor"]).stdout;
    assert!(doctor.contains("its hooks are not as `install` writes them"), "{doctor}");
    assert_eq!(install(&sandbox, "claude-code").code, Some(0));
    let document: Value = serde_json::from_str(&read(&sandbox, ".claude/settings.json")).unwrap();
    let before = document["hooks"]["PreToolUse"].as_array().unwrap();
    assert_eq!(before[0]["hooks"], json!([{ "type": "command", "command": "other" }]), "{document}");
    assert_eq!(before.len(), 2, "{document}");
    uninstall(&sandbox, "claude-code");
    let document: Value = serde_json::from_str(&read(&sandbox, ".claude/settings.json")).unwrap();
    let rest = json!({ "hooks": { "PreToolUse": [{ "matcher": "*", "hooks": [{ "type": "command", "command": "other" }] }] } });
    assert_eq!(document, rest);
}

#[test]
fn file_that_is_no_settings_is_refused_and_kept() {
    for text in ["[]", "{\"hooks\": []}", "{\"hooks\": {\"PreToolUse\": {}}}", "{", "not json", "{} {}"] {
        let sandbox = guarded(json!({}));
        std::fs::create_dir_all(sandbox.path(".claude")).unwrap();
        sandbox.write(".claude/settings.json", text);
        let ran = install(&sandbox, "claude-code");
        assert!(ran.code == Some(1) && ran.stderr.contains("--print"), "{text}: {}", ran.stderr);
        assert_eq!(read(&sandbox, ".claude/settings.json"), text);
    }
}

/// Runs the hook before a call as the client does: by a shell, or with the arguments as they are.
fn run_as_client(sandbox: &Sandbox, hook: &Value, event: &str) -> CliOutput {
    let mut command = match hook["command"].as_str() {
        Some(line) => {
            let mut shell = Command::new("sh");
            shell.args(["-c", line]);
            shell
        }
        None => {
            let mut program = Command::new(hook["exec"].as_str().unwrap());
            program.args(hook["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()));
            program
        }
    };
    let like = sandbox.command(&[]);
    command
        .current_dir(sandbox.folder.path())
        .envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    run_with_event(command, event)
}

#[test]
fn installed_command_answers_and_denies_where_this_binary_is_missing_or_dies() {
    for (client, file, event) in CLIENTS {
        let sandbox = guarded(json!({ "unknown": "allow" }));
        assert_eq!(install(&sandbox, client).code, Some(0));
        let document: Value = serde_json::from_str(&read(&sandbox, file)).unwrap();
        let hook = hook_before(&document, event);
        let ran = run_as_client(&sandbox, &hook, "garbage");
        let denied = if client == "cursor" { ran.stdout.contains("\"deny\"") } else { ran.code == Some(2) };
        assert!(denied, "{client}: {:?} {} {}", ran.code, ran.stdout, ran.stderr);
        let Some(line) = hook["command"].as_str() else {
            // Copilot starts the program itself, and denies where it cannot or where the program fails.
            assert_eq!((client, &hook["args"][0]), ("copilot", &json!("hook")));
            continue;
        };
        assert!(line.starts_with(crate::cli::BINARY), "{line}");
        std::fs::write(sandbox.path("dies"), "#!/bin/sh\nkill -9 $$\n").unwrap();
        std::fs::set_permissions(sandbox.path("dies"), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::write(sandbox.path("fails"), "#!/bin/sh\nexit 101\n").unwrap();
        std::fs::set_permissions(sandbox.path("fails"), std::fs::Permissions::from_mode(0o755)).unwrap();
        for program in ["missing", "dies", "fails"] {
            let broken = line.replace(crate::cli::BINARY, sandbox.path(program).to_str().unwrap());
            let ran = run_as_client(&sandbox, &json!({ "command": broken }), "{}");
            assert_eq!(ran.code, Some(2), "{client}, {program}: {}", ran.stderr);
            assert!(ran.stdout.is_empty(), "{client}, {program}: {}", ran.stdout);
            assert!(ran.stderr.contains("this call is denied"), "{client}, {program}: {}", ran.stderr);
        }
        // After a call, a failure must hold nothing up: Gemini CLI would ask its model again and again.
        for (name, entries) in
            document["hooks"].as_object().unwrap().iter().filter(|(name, _)| *name != event)
        {
            let line =
                entries[0].pointer("/hooks/0/command").unwrap_or(&entries[0]["command"]).as_str().unwrap();
            let broken = line.replace(crate::cli::BINARY, sandbox.path("fails").to_str().unwrap());
            let ran = run_as_client(&sandbox, &json!({ "command": broken }), "{}");
            assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{client}, {name}");
        }
    }
}

#[test]
fn doctor_says_whether_hooks_are_present_unchanged_and_trusted() {
    let sandbox = guarded(json!({}));
    let lines = |sandbox: &Sandbox| {
        let doctor = sandbox.json(&["doctor"]);
        let hooks = doctor.as_array().unwrap().iter().filter(|line| line["what"] == "hooks");
        hooks.map(|line| (line["ok"] == true, line["says"].as_str().unwrap().to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(lines(&sandbox), []);
    install(&sandbox, "cursor");
    let found = lines(&sandbox);
    assert!(found[0].0 && found[0].1.contains("present and unchanged"), "{found:?}");
    assert!(found[0].1.contains("denies a call whose hook fails or times out"), "{found:?}");
    let changed =
        read(&sandbox, ".cursor/hooks.json").replace("\"failClosed\": true", "\"failClosed\": false");
    sandbox.write(".cursor/hooks.json", &changed);
    let found = lines(&sandbox);
    assert!(!found[0].0 && found[0].1.contains("not as `install` writes them"), "{found:?}");
    uninstall(&sandbox, "cursor");

    // Codex runs no hook that its user has not approved.
    sandbox.expect(0, &["install", "--client", "codex", "--hooks"]);
    let found = lines(&sandbox);
    assert!(!found[0].0 && found[0].1.contains("does not trust its hooks"), "{found:?}");
    let file = sandbox.path(".codex/hooks.json");
    let approval = format!(
        "model = \"m\"\n\n[hooks.state.\"{}:pre_tool_use:0:0\"]\ntrusted_hash = \"sha256:a\"\n",
        file.display()
    );
    sandbox.write(".codex/config.toml", &approval);
    let found = lines(&sandbox);
    assert!(found[0].0 && found[0].1.contains("makes one whose hook times out"), "{found:?}");
}

#[test]
fn installed_proxy_offers_the_tools_of_the_servers() {
    use crate::mcp::agent::Agent;
    let sandbox = super::proxy::sandbox(json!({}), json!({}));
    sandbox.expect(0, &["install", "--client", "cursor", "--guard", "--with-config", "actbook.yaml"]);
    let text = std::fs::read_to_string(sandbox.path(".cursor/mcp.json")).unwrap();
    let entry = serde_json::from_str::<Value>(&text).unwrap()["mcpServers"]["actbook"].clone();
    let words: Vec<&str> =
        entry["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(words[..2], ["mcp", "--guard"], "{entry}");
    let mut agent = Agent::legacy(&sandbox, &words, "2025-11-25", json!({}));
    let written = super::proxy::call(&mut agent, "files__write_file", super::proxy::write("a.txt"));
    assert_ne!(written["isError"], true, "{written}");
    let printed = sandbox.expect(0, &["install", "--client", "claude-code", "--guard", "--print"]);
    assert!(printed.ends_with(" mcp --guard\n"), "{printed}");
}
