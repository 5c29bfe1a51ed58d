//! The process of a hook: it opens the database itself, takes no place among the processes that drive, changes no schema,
//! waits for no lock longer than five seconds, and leaves the write-ahead log to the end of the session.

use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::*;

fn database(sandbox: &Sandbox) -> Connection {
    Connection::open(sandbox.path("data/actbook/actbook.db")).unwrap()
}

fn count(connection: &Connection, sql: &str) -> i64 {
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[track_caller]
fn denies(sandbox: &Sandbox, id: &str, says: &[&str]) {
    let call = before(sandbox, id, "Bash", json!({ "command": "ls" }));
    let ran = run_hook(sandbox, &call, &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{}", ran.stderr);
    says.iter().for_each(|words| assert!(ran.stderr.contains(words), "{words}: {}", ran.stderr));
}

#[test]
fn missing_database_is_made_and_no_process_is_registered() {
    let sandbox = guarded(json!({}));
    assert_eq!(decide(&sandbox, &before(&sandbox, "t1", "Bash", json!({ "command": "ls" }))), None);
    let database = database(&sandbox);
    assert_eq!(count(&database, "SELECT count(*) FROM seats"), 0);
    assert!(!sandbox.path("data/actbook/seats").exists());
    let kinds = kinds(&sandbox);
    assert_eq!(kinds, ["execution_started", "step_added", "attempt_started"], "no claim");
}

#[test]
fn write_ahead_log_is_written_back_at_the_end_of_the_session_alone() {
    let sandbox = guarded(json!({}));
    let entries_in_the_file = || {
        let (from, copy) = (sandbox.path("data/actbook/actbook.db"), tempfile::tempdir().unwrap());
        let copied = copy.path().join("copy.db");
        std::fs::copy(from, &copied).unwrap();
        let copy = Connection::open(copied).unwrap();
        let read = copy.query_row("SELECT count(*) FROM journal", [], |row| row.get::<_, i64>(0));
        read.unwrap_or(0)
    };
    assert_eq!(decide(&sandbox, &before(&sandbox, "t1", "Bash", json!({ "command": "ls" }))), None);
    assert_eq!(entries_in_the_file(), 0);
    decide(&sandbox, &session_event(&sandbox, "SessionEnd", json!({ "reason": "logout" })));
    assert_eq!(entries_in_the_file(), count(&database(&sandbox), "SELECT count(*) FROM journal"));
}

#[test]
fn database_of_another_schema_denies_with_the_cure_and_is_left_alone() {
    let sandbox = guarded(json!({}));
    assert_eq!(decide(&sandbox, &before(&sandbox, "t1", "Bash", json!({ "command": "ls" }))), None);
    let database = database(&sandbox);
    let newest: String =
        database.query_row("SELECT max(name) FROM migrations", [], |row| row.get(0)).unwrap();
    database.execute("DELETE FROM migrations WHERE name = $1", [&newest]).unwrap();
    let migrations = count(&database, "SELECT count(*) FROM migrations");
    denies(&sandbox, "t2", &[&newest, "actbook list"]);
    assert_eq!(count(&database, "SELECT count(*) FROM migrations"), migrations, "nothing is migrated");
    database
        .execute("INSERT INTO migrations (name, at) VALUES ($1, 0), ('9999_later', 0)", [&newest])
        .unwrap();
    denies(&sandbox, "t3", &["9999_later", "newer"]);
}

#[test]
fn locked_database_denies_after_five_seconds_in_every_clients_form() {
    let sandbox = guarded(json!({}));
    assert_eq!(decide(&sandbox, &before(&sandbox, "t1", "Bash", json!({ "command": "ls" }))), None);
    let holder = database(&sandbox);
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let started = Instant::now();
    let hooks: Vec<(&str, Child)> = ["claude-code", "codex", "cursor", "gemini", "vscode", "copilot"]
        .into_iter()
        .map(|client| {
            let event = json!({
                "session_id": "other", "cwd": sandbox.folder.path(), "hook_event_name": "PreToolUse",
                "tool_name": "Read", "tool_input": { "file_path": "a" }, "tool_use_id": "t1",
            });
            (client, start_hook(&sandbox, client, &event.to_string(), &[]))
        })
        .collect();
    for (client, hook) in hooks {
        let ran = CliOutput::from(hook.wait_with_output().unwrap());
        let said = format!("{}{}", ran.stdout, ran.stderr);
        let denies = if client == "cursor" { ran.stdout.contains("\"deny\"") } else { ran.code == Some(2) };
        assert!(denies && said.contains("locked for 5 s"), "{client}: {:?} {said}", ran.code);
    }
    let waited = started.elapsed();
    assert!(waited >= Duration::from_secs(5), "{waited:?}");
    assert!(waited < Duration::from_secs(60), "{waited:?}");
}

#[test]
fn unreachable_server_denies_with_the_cure() {
    let folder = guarded(json!({}));
    let sandbox = Sandbox { database: Some("postgres://nobody@127.0.0.1:1/none".to_owned()), ..folder };
    denies(&sandbox, "t1", &["cannot open the database"]);
}

#[test]
fn call_that_equals_one_of_unknown_outcome_is_asked_about() {
    let sandbox = Sandbox::new();
    sandbox.write_config(json!({
        "guard": {}, "servers": { "deploy": {}, "idem": { "tools": { "put": { "idempotent": true } } } },
    }));
    let calls = [
        ("Bash", json!({ "command": "make deploy" }), true),
        ("Read", json!({ "file_path": "a.txt" }), false),
        ("mcp__deploy__go", json!({ "to": "all" }), true),
        ("mcp__idem__put", json!({ "key": "a" }), false),
    ];
    for (tool, input, _) in &calls {
        assert_eq!(decide(&sandbox, &before(&sandbox, tool, tool, input.clone())), None);
    }
    decide(&sandbox, &session_event(&sandbox, "Stop", json!({})));
    assert_eq!(statuses(&sandbox), ["unknown"; 4]);
    for (tool, input, is_asked) in calls {
        let again = decide(&sandbox, &before(&sandbox, &format!("{tool}-2"), tool, input));
        let expected = is_asked.then_some("ask");
        assert_eq!(again.as_ref().map(|(decision, _)| decision.as_str()), expected, "{tool}: {again:?}");
        assert!(again.is_none_or(|(_, said)| said.contains("nobody knows")), "{tool}");
    }
    let other = before(&sandbox, "t9", "Bash", json!({ "command": "make test" }));
    assert_eq!(decide(&sandbox, &other), None);
}

#[test]
fn input_that_another_hook_rewrote_is_recorded_and_shown() {
    let sandbox = guarded(json!({}));
    let call = before(&sandbox, "t1", "Bash", json!({ "command": "ls" }));
    assert_eq!(decide(&sandbox, &call), None);
    let mut ended = after(&call, json!({ "stdout": "" }));
    ended["tool_input"]["command"] = json!("ls /etc");
    decide(&sandbox, &ended);
    assert_eq!(statuses(&sandbox), ["succeeded"]);
    assert_eq!(sandbox.json(&["show", &sandbox.newest(), "c1"])["arguments"]["command"], "ls");
    let shown = sandbox.expect(0, &["show", &sandbox.newest()]);
    assert!(shown.contains("another input than the one that was decided about"), "{shown}");
    let view = sandbox.json(&["show", &sandbox.newest()]);
    assert_eq!(view["steps"][0]["recorded"]["details"]["command"], "ls /etc", "{view}");
    // The same input is no news.
    let same = before(&sandbox, "t2", "Bash", json!({ "command": "ls" }));
    decide(&sandbox, &same);
    decide(&sandbox, &after(&same, json!({})));
    assert_eq!(sandbox.json(&["show", &sandbox.newest()])["steps"][1]["recorded"], Value::Null);
}

#[test]
fn replay_says_what_todays_rules_would_have_changed() {
    let sandbox = guarded(json!({}));
    let run = |id: &str, tool: &str, input: Value, ends: &str| {
        let call = before(&sandbox, id, tool, input);
        decide(&sandbox, &call);
        match ends {
            "well" => drop(decide(&sandbox, &after(&call, json!({})))),
            "badly" => {
                let mut failed = after(&call, json!({}));
                (failed["hook_event_name"], failed["error"]) = (json!("PostToolUseFailure"), json!("exit 1"));
                decide(&sandbox, &failed);
            }
            _ => {}
        }
    };
    run("t1", "Bash", json!({ "command": "git push" }), "well");
    run("t2", "Bash", json!({ "command": "git push -f" }), "badly");
    run("t3", "Bash", json!({ "command": "rm -r /" }), "badly");
    run("t4", "Bash", json!({ "command": "git push there" }), "open");
    run("t5", "Read", json!({ "file_path": "a.txt" }), "well");
    let rules = json!([
        { "name": "pushes", "when": "call.arguments.command.contains('push')", "then": "ask" },
        { "name": "removals", "when": "call.tool == 'client/shell' && call.arguments.command.contains('rm -r')", "then": "deny" },
        { "name": "second", "when": "session.calls > 3 && call.tool == 'client/read'", "then": "ask" },
    ]);
    sandbox.write_config(json!({ "guard": { "rules": rules } }));
    let replay = sandbox.json(&["policy", "replay", "--since", "1d"]);
    let counts = |name: &str| replay[name].as_u64().unwrap();
    assert_eq!((counts("calls"), counts("unchanged")), (5, 0), "{replay}");
    assert_eq!((counts("allow_to_ask"), counts("allow_to_deny")), (4, 1), "{replay}");
    assert_eq!(counts("would_have_stopped"), 2, "{replay}");
    assert_eq!(counts("would_have_hindered"), 2, "{replay}");
    assert_eq!(counts("undecidable"), 1, "{replay}");
    assert_eq!(replay["changed"][2]["rule"], "removals", "{replay}");
    let printed = sandbox.expect(0, &["policy", "replay"]);
    assert!(printed.contains("allow to deny by `removals`"), "{printed}");
    let entries = sandbox.expect(0, &["journal", "--json"]).lines().count();
    sandbox.expect(0, &["policy", "replay"]);
    assert_eq!(sandbox.expect(0, &["journal", "--json"]).lines().count(), entries, "nothing is journaled");
}
