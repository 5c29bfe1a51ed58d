//! A refused command names the cause and a cure; its exit code names the kind of refusal.

use super::*;

/// Asserts that the command exits with code 1, prints this text on stderr, and names a cure.
#[track_caller]
fn refused(house: &House, words: &[&str], says: &str) {
    let ran = house.run(words);
    assert_eq!(ran.code, Some(1), "{words:?}\n{}\n{}", ran.out, ran.err);
    assert!(ran.err.contains(says), "{words:?} should say {says:?}:\n{}", ran.err);
    assert!(ran.err.lines().any(|line| line.trim_start().starts_with("→")), "no cure: {}", ran.err);
}

#[test]
fn unknown_names_bring_the_nearest_one() {
    let house = House::new();
    house.write("notes.yaml", "name: publish-notes\nsteps: [{ id: announce, action: Say it }]");
    house.expect(3, &["run", "notes.yaml"]);
    let id = house.newest();
    refused(&house, &["run", "publsh-notes"], "did you mean `publish-notes`?");
    refused(&house, &["run", "note.yaml"], "did you mean ./notes.yaml?");
    refused(&house, &["record", &id, "anounce", "failed"], "did you mean `announce`?");
    refused(&house, &["decide", &id, "anounce", "skip", "--reason", "x"], "did you mean `announce`?");
    refused(&house, &["show", "nosuch"], "there is no execution `nosuch`");
    refused(&house, &["tools", "show", "files/write_fil"], "did you mean `files/write_file`?");
    refused(&house, &["journal", "--kind", "decidd"], "did you mean `decided`?");
    refused(&house, &["tools", "list", "fils"], "there are: ");
}

#[test]
fn what_this_place_cannot_see_through_is_refused_before_anything_is_written() {
    let house = House::new();
    house.write("two.yaml", &two_steps());
    house.expect(3, &["run", "two.yaml"]);
    let id = house.newest();
    let before = house.json(&["show", &id]);
    house.write("elsewhere.yaml", "mcpServers: {}");
    refused(&house, &["--config", "elsewhere.yaml", "undo", &id], "other definitions of its servers");
    refused(&house, &["--config", "elsewhere.yaml", "resume", &id, "--here"], "needs the server `files`");
    assert_eq!(house.json(&["show", &id])["position"], before["position"]);
    house.expect(0, &["undo", &id]);
}

#[test]
fn what_is_to_end_ends_anywhere_even_without_its_servers() {
    let house = House::new();
    house.write("two.yaml", &two_steps());
    house.expect(3, &["run", "two.yaml"]);
    let id = house.newest();
    house.write("elsewhere.yaml", "mcpServers: {}");
    house.expect(0, &["--config", "elsewhere.yaml", "cancel", &id]);
    assert_eq!(house.json(&["show", &id])["status"], "cancelled");
    let moved = serde_json::json!({ "mcpServers": { "files": {
        "command": BINARY, "args": ["demo-tools", "--folder", house.path("work")] } } });
    house.write("moved.yaml", &moved.to_string());
    refused(&house, &["--config", "moved.yaml", "undo", &id], "--here");
    house.expect(0, &["--config", "moved.yaml", "undo", &id, "--here"]);
    assert!(!house.path("work").join("a.txt").exists());
}

#[test]
fn nothing_is_no_beginning_of_an_id() {
    let house = House::new();
    house.write("two.yaml", &two_steps());
    house.expect(3, &["run", "two.yaml"]);
    for verb in ["undo", "cancel", "show"] {
        refused(&house, &[verb, ""], "there is no execution ``");
    }
    refused(&house, &["plan", "delete", ""], "there is no plan ``");
}

/// A plan that writes one file and then fails.
fn two_steps() -> String {
    serde_json::json!({ "name": "two", "steps": [
        { "id": "file", "tool": "files/write_file", "arguments": { "path": "a.txt", "content": "a" },
          "compensation": { "tool": "files/delete_file", "arguments": { "path": "${arguments.path}" } } },
        { "id": "gone", "tool": "files/read_file", "arguments": { "path": "none.txt" }, "read_only": true },
    ] })
    .to_string()
}

#[test]
fn a_book_that_is_not_there_is_not_an_empty_one() {
    let house = House::new();
    refused(&house, &["--database", "none.db", "verify"], "there is no database none.db");
    refused(&house, &["--database", "mysql://x", "list"], "a database is a file");
}

#[test]
fn password_of_a_wrong_database_address_is_not_repeated() {
    let house = House::new();
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
            let ran = house.run(&["--database", address, word]);
            assert_eq!(ran.code, Some(1), "{address}: {}", ran.err);
            assert!(!ran.err.contains("hun") && !ran.err.contains("ter2"), "{address}: {}", ran.err);
        }
    }
    assert!(!house.path("postgres:").exists(), "no folder is named after a password");
}

#[test]
fn wrong_usage_is_code_two() {
    let house = House::new();
    for words in [
        vec!["fly"],
        vec!["run"],
        vec!["decide", "e", "s", "retry"],
        vec!["decide", "e", "s", "maybe", "--reason", "x"],
        vec!["cleanup", "--older-than", "soon"],
        vec!["list", "--status", "happy"],
        vec!["record", "e", "s", "succeeded", "--output", "{"],
    ] {
        assert_eq!(house.run(&words).code, Some(2), "{words:?}");
    }
}

#[test]
fn in_json_a_refusal_is_one_document_too() {
    let house = House::new();
    let error = house.json(&["show", "nosuch"]);
    assert_eq!(error["code"], "no_such_execution");
    assert!(error["message"].is_string() && error["cure"].is_string());
}

#[test]
fn check_groups_what_it_found_and_refuses_errors() {
    let house = House::new();
    house.write("bad.yaml", "name: bad\nstep: []\nsteps: [{ id: a, tool: files/nothing }]");
    let ran = house.run(&["check", "bad.yaml"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.out.contains("error") && ran.out.contains("steps"), "{}", ran.out);
    house.write("gone.yaml", "name: gone\nsteps: [{ id: a, tool: files/nothing }]");
    let check = house.json(&["check", "gone.yaml"]);
    assert_eq!((&check["ok"], &check["findings"][0]["code"]), (&json!(false), &json!("no_such_tool")));
    house.expect(0, &["check", "gone.yaml", "--offline"]);
    refused(&house, &["run", "gone.yaml"], "has no tool `nothing`");
    assert_eq!(house.json(&["list"]), json!([]), "a refused plan starts nothing");
}

#[test]
fn a_broken_config_or_database_is_named() {
    let house = House::new();
    refused(&house, &["list", "--config", "none.yaml"], "none.yaml");
    house.write("work.db", "this is no database, and long enough to be looked at as if it were one");
    refused(&house, &["list", "--database", "work.db"], "database");
}

#[tokio::test]
async fn a_server_that_does_not_sync_is_refused_until_that_is_accepted_by_name() {
    let database = crate::postgres::Database::create().await;
    let house = House { database: Some(crate::postgres::without_sync(&database.url)), ..House::new() };
    house.write("two.yaml", &two_steps());
    refused(&house, &["run", "two.yaml"], "synchronous_commit = off");
    house.expect(3, &["run", "two.yaml", "--unsafe-durability"]);
    let print = house.expect(0, &["install", "--client", "cursor", "--print", "--unsafe-durability"]);
    assert!(print.contains(r#""--unsafe-durability""#), "{print}");
}

#[test]
fn unknown_words_of_a_server_are_warned_of_and_change_nothing() {
    let house = House::new();
    let server = json!({ "command": BINARY, "args": ["demo-tools", "--folder", "work"], "type": "stdio", "enviroment": {} });
    house.config(json!({ "mcpServers": { "files": server } }));
    house.write("e.yaml", "name: e\nsteps: [{ id: a, tool: files/echo, read_only: true }]");
    let warned = |text: &str| text.contains("mcpServers.files.enviroment") && text.contains("no effect");
    let listed = house.run(&["tools", "list"]);
    assert!(
        listed.code == Some(0) && warned(&listed.err) && !listed.err.contains("files.type"),
        "{}",
        listed.err
    );
    let check = house.json(&["check", "e.yaml"]);
    assert_eq!((&check["ok"], &check["findings"][0]["code"]), (&json!(true), &json!("unknown_config_word")));
    assert!(warned(&house.expect(0, &["doctor"])));
    assert_eq!(house.run(&["run", "e.yaml"]).err.matches("enviroment").count(), 1, "once");
    house.write("other.yaml", r#"{ "mcpServers": { "files": { "command": "x", "argss": [] } } }"#);
    let trusted = house.run(&["trust", "--yes", "other.yaml"]);
    assert!(trusted.err.contains("did you mean `args`?"), "{}", trusted.err);
    house.write("slip.yaml", r#"{ "mcpServers": { "files": { "comand": "x" } } }"#);
    refused(&house, &["tools", "list", "--config", "slip.yaml"], "did you mean `command` by `comand`?");
}

#[test]
fn disabled_server_is_said_to_be_disabled() {
    let house = House::new();
    house.config(json!({ "mcpServers": { "files": { "command": BINARY, "disabled": true } }, "servers": { "files": {} } }));
    house.write("e.yaml", "name: e\nsteps: [{ id: a, tool: files/echo, read_only: true }]");
    refused(&house, &["run", "e.yaml"], "the server `files` is disabled in the config");
    assert!(house.expect(0, &["tools", "list"]).contains("files  disabled in the config"));
    assert!(house.expect(0, &["doctor"]).contains("files is disabled"));
}

#[test]
fn wrong_usage_in_json_is_one_document() {
    let house = House::new();
    for words in [vec!["aprove", "e"], vec!["decide", "e", "s", "maybe", "--reason", "x"], vec!["run"]] {
        let error = house.json(&words);
        assert_eq!(error["code"], "usage", "{error}");
        assert_eq!(house.run(&[&words[..], &["--json"]].concat()).code, Some(2));
    }
}

#[test]
fn usage_names_the_command_that_was_meant() {
    let house = House::new();
    let slip = house.run(&["aprove", "e"]).err;
    assert!(slip.contains("'approve'") && !slip.contains("'drive'"), "{slip}");
    let unlike = house.run(&["fly"]).err;
    assert!(!unlike.contains("tip:"), "{unlike}");
    assert!(house.run(&["tools", "acept", "x"]).err.contains("'accept'"));
    let decide = house.run(&["decide", "e", "s", "maybe", "--reason", "x"]).err;
    assert!(decide.contains("actbook decide <EXECUTION>"), "{decide}");
    let help = house.expect(0, &["check", "--help"]);
    assert!(help.contains("[env: ACTBOOK_CONFIG]") && help.contains("[env: ACTBOOK_DATABASE]"), "{help}");
}

#[test]
fn misspelt_input_is_named_and_a_refused_plan_points_to_its_check() {
    let house = House::new();
    let inputs = "{ type: object, properties: { version: { type: string } }, required: [version], additionalProperties: false }";
    let step = "{ id: a, tool: files/echo, read_only: true, arguments: { x: \"${inputs.version}\" } }";
    house.write("v.yaml", &format!("name: v\ninputs: {inputs}\nsteps: [{step}]"));
    refused(
        &house,
        &["run", "v.yaml", "--input", "versio=1.2"],
        "did you mean `version`? Give --input version=…",
    );
    assert!(house.expect(0, &["plan", "save", "v.yaml"]).contains("actbook run v --input version=…"));
    house.write(
        "bad.yaml",
        "name: bad\nsteps: [{ id: a, tool: files/nothing, depends_on: [b] }, { id: c, tol: files/echo }]",
    );
    for verb in [&["run", "bad.yaml"][..], &["plan", "save", "bad.yaml"]] {
        refused(&house, verb, "`actbook check bad.yaml` tells all 3");
    }
}

#[test]
fn next_commands_are_not_refused() {
    let house = House::new();
    let used = house.expect(0, &["template", "use", "research", "--offline"]);
    assert!(used.contains("actbook run research --input topic=…"), "{used}");
    let kept = house.expect(0, &["demo", "--keep", "story"]);
    assert!(kept.contains("check plan.yaml") && !kept.contains("examples/"), "{kept}");
    let story = house.path("story");
    let check = house.command(&["--database", "book.db", "--config", "actbook.yaml", "check", "plan.yaml"]);
    assert_eq!({ check }.current_dir(story).output().unwrap().status.code(), Some(0));
}

#[test]
fn check_shows_the_order_of_a_sequential_plan_and_an_empty_journal_says_so() {
    let house = House::new();
    let steps = "[{ id: b, action: B, depends_on: [a] }, { id: a, action: A }]";
    house.write("s.yaml", &format!("name: s\nsteps: {steps}"));
    let order = house.expect(0, &["check", "s.yaml"]);
    assert!(order.contains("Order (one step at a time)") && !order.contains("Waves"), "{order}");
    assert!(order.find("1  a").unwrap() < order.find("2  b").unwrap(), "{order}");
    house.write("w.yaml", &format!("name: w\npolicy: {{ concurrency: 2 }}\nsteps: {steps}"));
    assert!(house.expect(0, &["check", "w.yaml"]).contains("Waves"));
    for words in [&["journal", "--kind", "plan_saved"][..], &["journal", "--tail", "3"]] {
        assert_eq!(house.run(words).err.trim(), "no entry fits");
    }
}

#[test]
fn further_lines_of_a_note_are_marked() {
    let house = House::new();
    house.expect(0, &["context", "set", "key", "first\nNext: actbook approve"]);
    assert_eq!(house.expect(0, &["context", "get", "key"]), "first\n    │ Next: actbook approve\n");
    assert_eq!(house.json(&["context", "get", "key"])["value"], "first\nNext: actbook approve");
}
