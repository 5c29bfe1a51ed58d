//! `actbook demo`, the first command that a new user runs.

use super::*;

#[test]
fn demo_prints_every_stage_and_restores_the_folder() {
    let sandbox = Sandbox::new();
    let story = sandbox.expect(0, &["demo"]);
    for words in
        ["point of no return", "✗ mirror failed", "Recovery brief", "the folder is as before", "is whole"]
    {
        assert!(story.contains(words), "{words}\n{story}");
    }
    assert!(!sandbox.path("data/actbook/actbook.db").exists(), "the demo must not use the default database");
}

#[test]
fn demo_with_keep_leaves_a_readable_database() {
    let sandbox = Sandbox::new();
    sandbox.expect(0, &["demo", "--keep", "story"]);
    let listed = sandbox.json(&["list", "--database", "story/book.db"]);
    assert_eq!(listed[0]["status"], "compensated");
    let again = sandbox.run(&["demo", "--keep", "story"]);
    assert_eq!(again.code, Some(1), "a kept folder must not be overwritten");
    let document: Value =
        serde_json::from_str(sandbox.expect(0, &["demo", "--json"]).lines().last().unwrap()).unwrap();
    assert_eq!((&document["folder_as_before"], &document["verified"]["ok"]), (&json!(true), &json!(true)));
}

#[test]
fn demo_of_the_guard_stops_one_call_and_restores_the_folder() {
    let sandbox = Sandbox::new();
    let story = sandbox.expect(0, &["demo", "--guard"]);
    for words in [
        "✗ denied mcp__mail__write_file",
        "untrusted text and private data",
        "c2 client/shell restore",
        "the folder is as before",
    ] {
        assert!(story.contains(words), "{words}\n{story}");
    }
    let shown = sandbox.expect(0, &["demo", "--guard", "--json"]);
    let document: Value = serde_json::from_str(shown.lines().last().unwrap()).unwrap();
    assert_eq!((&document["folder_as_before"], &document["verified"]), (&json!(true), &json!(true)));
    assert!(
        !sandbox.path("data/actbook/snapshots").exists(),
        "the demo must not use the default data folder"
    );
}
