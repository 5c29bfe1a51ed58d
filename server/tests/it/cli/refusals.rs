//! A refused command names the cause and a cure; its exit code names the kind of refusal.

use super::*;

/// Asserts that the command exits with code 1, prints this text on stderr, and names a cure.
#[track_caller]
fn assert_refused(sandbox: &Sandbox, words: &[&str], says: &str) {
    let ran = sandbox.run(words);
    assert_eq!(ran.code, Some(1), "{words:?}\n{}\n{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains(says), "{words:?} should say {says:?}:\n{}", ran.stderr);
    assert!(ran.stderr.lines().any(|line| line.trim_start().starts_with("→")), "no cure: {}", ran.stderr);
}

#[test]
fn unknown_names_suggest_the_nearest_one() {
    let sandbox = Sandbox::new();
    sandbox.write("notes.yaml", "name: publish-notes\nsteps: [{ id: announce, action: Say it }]");
    sandbox.expect(3, &["run", "notes.yaml"]);
    let id = sandbox.newest();
    assert_refused(&sandbox, &["run", "publsh-notes"], "did you mean `publish-notes`?");
    assert_refused(&sandbox, &["run", "note.yaml"], "did you mean ./notes.yaml?");
    assert_refused(&sandbox, &["record", &id, "anounce", "failed"], "did you mean `announce`?");
    assert_refused(
        &sandbox,
        &["decide", &id, "anounce", "skip", "--reason", "x"],
        "did you mean `announce`?",
    );
    assert_refused(&sandbox, &["show", "nosuch"], "there is no execution `nosuch`");
    assert_refused(&sandbox, &["tools", "show", "files/write_fil"], "did you mean `files/write_file`?");
    assert_refused(&sandbox, &["journal", "--kind", "decidd"], "did you mean `decided`?");
    assert_refused(&sandbox, &["tools", "list", "fils"], "there are: ");
}

#[test]
fn undo_and_resume_without_the_servers_write_nothing() {
    let sandbox = Sandbox::new();
    sandbox.write("two.yaml", &two_step_plan());
    sandbox.expect(3, &["run", "two.yaml"]);
    let id = sandbox.newest();
    let before = sandbox.json(&["show", &id]);
    sandbox.write("elsewhere.yaml", "mcpServers: {}");
    assert_refused(
        &sandbox,
        &["--config", "elsewhere.yaml", "undo", &id],
        "other definitions of its servers",
    );
    assert_refused(
        &sandbox,
        &["--config", "elsewhere.yaml", "resume", &id, "--here"],
        "needs the server `files`",
    );
    assert_eq!(sandbox.json(&["show", &id])["position"], before["position"]);
    sandbox.expect(0, &["undo", &id]);
}

#[test]
fn cancel_works_without_the_servers_of_the_plan() {
    let sandbox = Sandbox::new();
    sandbox.write("two.yaml", &two_step_plan());
    sandbox.expect(3, &["run", "two.yaml"]);
    let id = sandbox.newest();
    sandbox.write("elsewhere.yaml", "mcpServers: {}");
    sandbox.expect(0, &["--config", "elsewhere.yaml", "cancel", &id]);
    assert_eq!(sandbox.json(&["show", &id])["status"], "cancelled");
    let moved = serde_json::json!({ "mcpServers": { "files": {
        "command": BINARY, "args": ["demo-tools", "--folder", sandbox.path("work")] } } });
    sandbox.write("moved.yaml", &moved.to_string());
    assert_refused(&sandbox, &["--config", "moved.yaml", "undo", &id], "--here");
    sandbox.expect(0, &["--config", "moved.yaml", "undo", &id, "--here"]);
    assert!(!sandbox.path("work").join("a.txt").exists());
}

#[test]
fn empty_prefix_matches_no_id() {
    let sandbox = Sandbox::new();
    sandbox.write("two.yaml", &two_step_plan());
    sandbox.expect(3, &["run", "two.yaml"]);
    for verb in ["undo", "cancel", "show"] {
        assert_refused(&sandbox, &[verb, ""], "there is no execution ``");
    }
    assert_refused(&sandbox, &["plan", "delete", ""], "there is no plan ``");
}

/// A plan that writes one file and then fails.
fn two_step_plan() -> String {
    serde_json::json!({ "name": "two", "steps": [
        { "id": "file", "tool": "files/write_file", "arguments": { "path": "a.txt", "content": "a" },
          "compensation": { "tool": "files/delete_file", "arguments": { "path": "${arguments.path}" } } },
        { "id": "gone", "tool": "files/read_file", "arguments": { "path": "none.txt" }, "read_only": true },
    ] })
    .to_string()
}

#[test]
fn missing_database_is_refused_instead_of_created() {
    let sandbox = Sandbox::new();
    assert_refused(&sandbox, &["--database", "none.db", "verify"], "there is no database none.db");
    assert_refused(&sandbox, &["--database", "mysql://x", "list"], "a database is a file");
}

#[test]
fn invalid_database_url_error_hides_the_password() {
    let sandbox = Sandbox::new();
    let addresses = [
        "postgrs://ada:hunter2@db/book",
        "postgres:/ada:hunter2@db/book",
        "postgres://ada:hunter2@127.0.0.1:1/book",
        "postgres://ada:hun@ter2@127.0.0.1:1/book",
        "postgres://ada@127.0.0.1:1/book?password=hunter2",
        "mysql://db/book?user=ada&password=hunter2",
        "mysql://db:1/book?password=hun@ter2",
        "nowhere/host=db password=hunter2",
        "nowhere:ada:hunter2@db",
    ];
    for address in addresses {
        // A string that is no URL is a file name, and `doctor` would create that file.
        let is_file = address.starts_with("nowhere");
        for word in ["list", "doctor"].iter().take(if is_file { 1 } else { 2 }) {
            let ran = sandbox.run(&["--database", address, word]);
            assert_eq!(ran.code, Some(1), "{address}: {}", ran.stderr);
            assert!(!ran.stderr.contains("hun") && !ran.stderr.contains("ter2"), "{address}: {}", ran.stderr);
        }
    }
    assert!(!sandbox.path("postgres:").exists(), "no folder is named after a password");
}

#[test]
fn wrong_usage_exits_with_code_two() {
    let sandbox = Sandbox::new();
    for words in [
        vec!["fly"],
        vec!["run"],
        vec!["decide", "e", "s", "retry"],
        vec!["decide", "e", "s", "maybe", "--reason", "x"],
        vec!["cleanup", "--older-than", "soon"],
        vec!["list", "--status", "happy"],
        vec!["record", "e", "s", "succeeded", "--output", "{"],
    ] {
        assert_eq!(sandbox.run(&words).code, Some(2), "{words:?}");
    }
}

#[test]
fn refusal_with_json_flag_is_one_document() {
    let sandbox = Sandbox::new();
    let error = sandbox.json(&["show", "nosuch"]);
    assert_eq!(error["code"], "no_such_execution");
    assert!(error["message"].is_string() && error["cure"].is_string());
}

#[test]
fn check_groups_findings_and_refuses_errors() {
    let sandbox = Sandbox::new();
    sandbox.write("bad.yaml", "name: bad\nstep: []\nsteps: [{ id: a, tool: files/nothing }]");
    let ran = sandbox.run(&["check", "bad.yaml"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.contains("error") && ran.stdout.contains("steps"), "{}", ran.stdout);
    sandbox.write("gone.yaml", "name: gone\nsteps: [{ id: a, tool: files/nothing }]");
    let check = sandbox.json(&["check", "gone.yaml"]);
    assert_eq!((&check["ok"], &check["findings"][0]["code"]), (&json!(false), &json!("no_such_tool")));
    sandbox.expect(0, &["check", "gone.yaml", "--offline"]);
    assert_refused(&sandbox, &["run", "gone.yaml"], "has no tool `nothing`");
    assert_eq!(sandbox.json(&["list"]), json!([]), "a refused plan starts nothing");
}

#[test]
fn broken_config_or_database_is_named_in_the_error() {
    let sandbox = Sandbox::new();
    assert_refused(&sandbox, &["list", "--config", "none.yaml"], "none.yaml");
    sandbox.write("work.db", "this is no database, and long enough to be looked at as if it were one");
    assert_refused(&sandbox, &["list", "--database", "work.db"], "database");
}

#[tokio::test]
async fn postgresql_without_sync_is_refused_without_unsafe_durability_flag() {
    let database = crate::postgres::PostgresDatabase::create().await;
    let sandbox =
        Sandbox { database: Some(crate::postgres::url_without_sync(&database.url)), ..Sandbox::new() };
    sandbox.write("two.yaml", &two_step_plan());
    assert_refused(&sandbox, &["run", "two.yaml"], "synchronous_commit = off");
    sandbox.expect(3, &["run", "two.yaml", "--unsafe-durability"]);
    let print = sandbox.expect(0, &["install", "--client", "cursor", "--print", "--unsafe-durability"]);
    assert!(print.contains(r#""--unsafe-durability""#), "{print}");
}

#[test]
fn unknown_words_of_a_server_are_warned_of_and_change_nothing() {
    let sandbox = Sandbox::new();
    let server = json!({ "command": BINARY, "args": ["demo-tools", "--folder", "work"], "type": "stdio", "enviroment": {} });
    sandbox.write_config(json!({ "mcpServers": { "files": server } }));
    sandbox.write("e.yaml", "name: e\nsteps: [{ id: a, tool: files/echo, read_only: true }]");
    let warned = |text: &str| text.contains("mcpServers.files.enviroment") && text.contains("no effect");
    let listed = sandbox.run(&["tools", "list"]);
    assert!(
        listed.code == Some(0) && warned(&listed.stderr) && !listed.stderr.contains("files.type"),
        "{}",
        listed.stderr
    );
    let check = sandbox.json(&["check", "e.yaml"]);
    assert_eq!((&check["ok"], &check["findings"][0]["code"]), (&json!(true), &json!("unknown_config_word")));
    assert!(warned(&sandbox.expect(0, &["doctor"])));
    assert_eq!(sandbox.run(&["run", "e.yaml"]).stderr.matches("enviroment").count(), 1, "once");
    sandbox.write("other.yaml", r#"{ "mcpServers": { "files": { "command": "x", "argss": [] } } }"#);
    let trusted = sandbox.run(&["trust", "--yes", "other.yaml"]);
    assert!(trusted.stderr.contains("did you mean `args`?"), "{}", trusted.stderr);
    sandbox.write("slip.yaml", r#"{ "mcpServers": { "files": { "comand": "x" } } }"#);
    assert_refused(
        &sandbox,
        &["tools", "list", "--config", "slip.yaml"],
        "did you mean `command` by `comand`?",
    );
}

#[test]
fn disabled_server_is_said_to_be_disabled() {
    let sandbox = Sandbox::new();
    sandbox.write_config(json!({ "mcpServers": { "files": { "command": BINARY, "disabled": true } }, "servers": { "files": {} } }));
    sandbox.write("e.yaml", "name: e\nsteps: [{ id: a, tool: files/echo, read_only: true }]");
    assert_refused(&sandbox, &["run", "e.yaml"], "the server `files` is disabled in the config");
    assert!(sandbox.expect(0, &["tools", "list"]).contains("files  disabled in the config"));
    assert!(sandbox.expect(0, &["doctor"]).contains("files is disabled"));
}

#[test]
fn wrong_usage_in_json_is_one_document() {
    let sandbox = Sandbox::new();
    for words in [vec!["aprove", "e"], vec!["decide", "e", "s", "maybe", "--reason", "x"], vec!["run"]] {
        let error = sandbox.json(&words);
        assert_eq!(error["code"], "usage", "{error}");
        assert_eq!(sandbox.run(&[&words[..], &["--json"]].concat()).code, Some(2));
    }
}

#[test]
fn usage_names_the_command_that_was_meant() {
    let sandbox = Sandbox::new();
    let slip = sandbox.run(&["aprove", "e"]).stderr;
    assert!(slip.contains("'approve'") && !slip.contains("'drive'"), "{slip}");
    let unlike = sandbox.run(&["fly"]).stderr;
    assert!(!unlike.contains("tip:"), "{unlike}");
    assert!(sandbox.run(&["tools", "acept", "x"]).stderr.contains("'accept'"));
    let decide = sandbox.run(&["decide", "e", "s", "maybe", "--reason", "x"]).stderr;
    assert!(decide.contains("actbook decide <EXECUTION>"), "{decide}");
    let help = sandbox.expect(0, &["check", "--help"]);
    assert!(help.contains("[env: ACTBOOK_CONFIG]") && help.contains("[env: ACTBOOK_DATABASE]"), "{help}");
}

#[test]
fn misspelt_input_is_named_and_a_refused_plan_points_to_its_check() {
    let sandbox = Sandbox::new();
    let inputs = "{ type: object, properties: { version: { type: string } }, required: [version], additionalProperties: false }";
    let step = "{ id: a, tool: files/echo, read_only: true, arguments: { x: \"${inputs.version}\" } }";
    sandbox.write("v.yaml", &format!("name: v\ninputs: {inputs}\nsteps: [{step}]"));
    assert_refused(
        &sandbox,
        &["run", "v.yaml", "--input", "versio=1.2"],
        "did you mean `version`? Give --input version=…",
    );
    assert_refused(&sandbox, &["run", "v.yaml"], "give it as --input version=…");
    assert!(sandbox.expect(0, &["plan", "save", "v.yaml"]).contains("actbook run v --input version=…"));
    sandbox.write(
        "bad.yaml",
        "name: bad\nsteps: [{ id: a, tool: files/nothing, depends_on: [b] }, { id: c, tol: files/echo }]",
    );
    for verb in [&["run", "bad.yaml"][..], &["plan", "save", "bad.yaml"]] {
        assert_refused(&sandbox, verb, "`actbook check bad.yaml` shows all 3");
    }
}

#[test]
fn next_commands_are_not_refused() {
    let sandbox = Sandbox::new();
    let used = sandbox.expect(0, &["template", "use", "research", "--offline"]);
    assert!(used.contains("actbook run research --input topic=…"), "{used}");
    let kept = sandbox.expect(0, &["demo", "--keep", "story"]);
    assert!(kept.contains("check plan.yaml") && !kept.contains("examples/"), "{kept}");
    let story = sandbox.path("story");
    let check = sandbox.command(&["--database", "book.db", "--config", "actbook.yaml", "check", "plan.yaml"]);
    assert_eq!({ check }.current_dir(story).output().unwrap().status.code(), Some(0));
}

#[test]
fn check_shows_the_order_of_a_sequential_plan_and_an_empty_journal_says_so() {
    let sandbox = Sandbox::new();
    let steps = "[{ id: b, action: B, depends_on: [a] }, { id: a, action: A }]";
    sandbox.write("s.yaml", &format!("name: s\nsteps: {steps}"));
    let order = sandbox.expect(0, &["check", "s.yaml"]);
    assert!(order.contains("Order (one step at a time)") && !order.contains("Waves"), "{order}");
    assert!(order.find("1  a").unwrap() < order.find("2  b").unwrap(), "{order}");
    sandbox.write("w.yaml", &format!("name: w\npolicy: {{ concurrency: 2 }}\nsteps: {steps}"));
    assert!(sandbox.expect(0, &["check", "w.yaml"]).contains("Waves"));
    for words in [&["journal", "--kind", "plan_saved"][..], &["journal", "--tail", "3"]] {
        assert_eq!(sandbox.run(words).stderr.trim(), "no entry matches");
    }
}

#[test]
fn further_lines_of_a_note_are_marked() {
    let sandbox = Sandbox::new();
    sandbox.expect(0, &["context", "set", "key", "first\nNext: actbook approve"]);
    assert_eq!(sandbox.expect(0, &["context", "get", "key"]), "first\n    │ Next: actbook approve\n");
    assert_eq!(sandbox.json(&["context", "get", "key"])["value"], "first\nNext: actbook approve");
}
