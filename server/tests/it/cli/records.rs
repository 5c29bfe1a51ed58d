//! `actbook record`: steps reported by hand with all their details.

use super::*;

const PLAN: &str = r#"
name: by-hand
steps:
  - { id: draft, action: Write it, compensation: { action: Throw it away } }
  - { id: tell, action: Tell them, depends_on: [draft], compensation: { action: Tell them otherwise } }
"#;

#[test]
fn what_is_told_of_an_act_is_kept_and_shown() {
    let house = House::new();
    house.write("p.yaml", PLAN);
    house.expect(3, &["run", "p.yaml"]);
    let id = house.newest();
    let facts = ["--description", "wrote three lines", "--type", "file_edit", "--entity", "a.md"];
    let states = ["--before", r#"{"lines": 0}"#, "--after", "three lines", "--confidence", "0.8"];
    let record =
        |step: &str, status: &str, more: &[&str]| house.run(&[&["record", &id, step, status], more].concat());
    let early = record("tell", "started", &[]);
    assert_eq!(early.code, Some(1));
    assert!(early.err.contains("`draft`"), "the error names the step that is due: {}", early.err);
    assert_eq!(record("draft", "started", &["--reason", "it is time"]).code, Some(0));
    let sure = record("draft", "succeeded", &["--confidence", "2"]);
    assert!(sure.err.contains("0 to 1"), "{}", sure.err);
    let done = record("draft", "succeeded", &[&facts[..], &states, &["--reason", "asked for"]].concat());
    assert_eq!(done.code, Some(0), "{}", done.err);

    let draft = step(&house.json(&["show", &id]), "draft")["recorded"].clone();
    assert_eq!(draft["description"], "wrote three lines");
    assert_eq!(
        (&draft["before_state"], &draft["after_state"]),
        (&json!({"lines": 0}), &json!("three lines"))
    );
    assert_eq!((&draft["confidence"], &draft["reason"]), (&json!(0.8), &json!("asked for")));
    let shown = house.expect(0, &["show", &id]);
    assert!(shown.contains("On record") && shown.contains("wrote three lines, after state"), "{shown}");
    house.expect(0, &["journal", "--kind", "action_recorded"]);
    house.expect(0, &["verify"]);
}

#[test]
fn a_step_can_be_undone_by_hand_after_the_end() {
    let house = House::new();
    house.write("p.yaml", PLAN);
    house.expect(3, &["run", "p.yaml"]);
    let id = house.newest();
    house.expect(0, &["record", &id, "draft", "succeeded"]);
    house.expect(3, &["resume", &id]);
    house.expect(0, &["record", &id, "tell", "succeeded"]);
    house.expect(0, &["resume", &id]);
    let early = house.run(&["record", &id, "draft", "compensated", "--description", "threw it away"]);
    assert!(early.err.contains("`tell`"), "dependants are compensated first: {}", early.err);
    house.expect(0, &["record", &id, "tell", "compensated", "--description", "told them otherwise"]);
    house.expect(0, &["record", &id, "draft", "compensated", "--description", "threw it away"]);
    assert_eq!(step(&house.json(&["show", &id]), "draft")["status"], "compensated");
    let again = house.run(&["undo", &id]);
    assert!(again.err.contains("nothing that ran is left"), "{}", again.err);
}

#[test]
fn execution_whose_steps_were_all_undone_by_hand_is_compensated_in_every_list() {
    let house = House::new();
    house.write("p.yaml", PLAN);
    let id = finished(&house);
    house.expect(0, &["record", &id, "tell", "compensated", "--description", "told them otherwise"]);
    assert_eq!(house.json(&["show", &id])["status"], "succeeded", "the draft is not compensated yet");
    house.expect(0, &["record", &id, "draft", "compensated", "--description", "threw it away"]);
    assert_eq!(house.json(&["show", &id])["status"], "compensated");
    assert_eq!(house.json(&["list"])[0]["status"], "compensated");
    assert_eq!(house.json(&["stats"])["executions"]["by_status"], json!({ "compensated": 1 }));
    house.expect(0, &["rebuild"]);
    assert_eq!(house.json(&["list"])[0]["status"], "compensated", "a rebuild keeps the status");
    house.expect(0, &["verify"]);
}

#[test]
fn irreversible_dependant_does_not_block_undoing_by_hand() {
    let house = House::new();
    let irreversible = "depends_on: [draft], cancellable: irreversible }";
    house.write(
        "p.yaml",
        &PLAN.replace("depends_on: [draft], compensation: { action: Tell them otherwise } }", irreversible),
    );
    let id = finished(&house);
    house.expect(0, &["record", &id, "draft", "compensated", "--description", "threw it away"]);
    let shown = house.json(&["show", &id]);
    assert_eq!((&shown["status"], &step(&shown, "tell")["status"]), (&json!("failed"), &json!("succeeded")));
    assert_eq!(shown["brief"]["cannot_undo"][0]["step"], "tell");
}

/// Runs the plan and records both steps as succeeded; returns the execution id.
fn finished(house: &House) -> String {
    house.expect(3, &["run", "p.yaml"]);
    let id = house.newest();
    house.expect(0, &["record", &id, "draft", "succeeded"]);
    house.expect(3, &["resume", &id]);
    house.expect(0, &["record", &id, "tell", "succeeded"]);
    house.expect(0, &["resume", &id]);
    id
}

#[test]
fn nothing_is_undone_where_nothing_ran() {
    let house = House::new();
    house
        .write("p.yaml", PLAN.replace("action: Write it,", "action: Write it, approval: required,").as_str());
    house.expect(3, &["run", "p.yaml"]);
    let id = house.newest();
    let refused = house.run(&["undo", &id]);
    assert!(refused.err.contains("`cancel` it"), "{}", refused.err);
}

#[test]
fn a_list_names_the_plan_as_every_view_does() {
    let house = House::new();
    house.write("p.yaml", PLAN);
    house.expect(3, &["run", "p.yaml"]);
    let (listed, shown) = (house.json(&["list"]), house.json(&["show", &house.newest()]));
    assert_eq!(listed[0]["plan"], shown["plan"]);
}
