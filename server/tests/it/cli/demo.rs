//! `actbook demo`, the first command that a new user runs.

use super::*;

#[test]
fn the_demo_tells_its_story_and_leaves_the_folder_as_it_was() {
    let house = House::new();
    let story = house.expect(0, &["demo"]);
    for words in
        ["point of no return", "✗ mirror failed", "Recovery brief", "the folder is as before", "is whole"]
    {
        assert!(story.contains(words), "{words}\n{story}");
    }
    assert!(!house.path("data/actbook/actbook.db").exists(), "the demo must not use the default database");
}

#[test]
fn a_kept_demo_can_be_looked_at_afterwards() {
    let house = House::new();
    house.expect(0, &["demo", "--keep", "story"]);
    let listed = house.json(&["list", "--database", "story/book.db"]);
    assert_eq!(listed[0]["status"], "compensated");
    let again = house.run(&["demo", "--keep", "story"]);
    assert_eq!(again.code, Some(1), "a kept folder must not be overwritten");
    let document: Value =
        serde_json::from_str(house.expect(0, &["demo", "--json"]).lines().last().unwrap()).unwrap();
    assert_eq!((&document["folder_as_before"], &document["verified"]["ok"]), (&json!(true), &json!(true)));
}
