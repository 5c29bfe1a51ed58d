//! `actbook record`: steps reported by hand with all their details.

use super::*;

const PLAN: &str = r#"
name: by-hand
steps:
  - { id: draft, action: Write it, compensation: { action: Throw it away } }
  - { id: tell, action: Tell them, depends_on: [draft], compensation: { action: Tell them otherwise } }
"#;

#[test]
fn recorded_details_of_a_step_are_stored_and_shown() {
    let sandbox = Sandbox::new();
    sandbox.write("p.yaml", PLAN);
    sandbox.expect(3, &["run", "p.yaml"]);
    let id = sandbox.newest();
    let facts = ["--description", "wrote three lines", "--type", "file_edit", "--entity", "a.md"];
    let states = ["--before", r#"{"lines": 0}"#, "--after", "three lines", "--confidence", "0.8"];
    let record = |step: &str, status: &str, more: &[&str]| {
        sandbox.run(&[&["record", &id, step, status], more].concat())
    };
    let early = record("tell", "started", &[]);
    assert_eq!(early.code, Some(1));
    assert!(early.stderr.contains("`draft`"), "the error names the step that is due: {}", early.stderr);
    assert_eq!(record("draft", "started", &["--reason", "it is time"]).code, Some(0));
    let sure = record("draft", "succeeded", &["--confidence", "2"]);
    assert!(sure.stderr.contains("0 to 1"), "{}", sure.stderr);
    let done = record("draft", "succeeded", &[&facts[..], &states, &["--reason", "asked for"]].concat());
    assert_eq!(done.code, Some(0), "{}", done.stderr);

    let draft = step(&sandbox.json(&["show", &id]), "draft")["recorded"].clone();
    assert_eq!(draft["description"], "wrote three lines");
    assert_eq!(
        (&draft["before_state"], &draft["after_state"]),
        (&json!({"lines": 0}), &json!("three lines"))
    );
    assert_eq!((&draft["confidence"], &draft["reason"]), (&json!(0.8), &json!("asked for")));
    let shown = sandbox.expect(0, &["show", &id]);
    assert!(shown.contains("On record") && shown.contains("wrote three lines, after state"), "{shown}");
    sandbox.expect(0, &["journal", "--kind", "action_recorded"]);
    sandbox.expect(0, &["verify"]);
}

#[test]
fn ended_execution_accepts_recorded_compensations_in_order() {
    let sandbox = Sandbox::new();
    sandbox.write("p.yaml", PLAN);
    let id = run_and_record_both_steps(&sandbox);
    let early = sandbox.run(&["record", &id, "draft", "compensated", "--description", "threw it away"]);
    assert!(early.stderr.contains("`tell`"), "dependants are compensated first: {}", early.stderr);
    sandbox.expect(0, &["record", &id, "tell", "compensated", "--description", "told them otherwise"]);
    sandbox.expect(0, &["record", &id, "draft", "compensated", "--description", "threw it away"]);
    assert_eq!(step(&sandbox.json(&["show", &id]), "draft")["status"], "compensated");
    let again = sandbox.run(&["undo", &id]);
    assert!(again.stderr.contains("nothing that ran is left"), "{}", again.stderr);
}

#[test]
fn execution_with_all_steps_compensated_by_record_lists_as_compensated() {
    let sandbox = Sandbox::new();
    sandbox.write("p.yaml", PLAN);
    let id = run_and_record_both_steps(&sandbox);
    sandbox.expect(0, &["record", &id, "tell", "compensated", "--description", "told them otherwise"]);
    assert_eq!(sandbox.json(&["show", &id])["status"], "succeeded", "the draft is not compensated yet");
    sandbox.expect(0, &["record", &id, "draft", "compensated", "--description", "threw it away"]);
    assert_eq!(sandbox.json(&["show", &id])["status"], "compensated");
    assert_eq!(sandbox.json(&["list"])[0]["status"], "compensated");
    assert_eq!(sandbox.json(&["stats"])["executions"]["by_status"], json!({ "compensated": 1 }));
    sandbox.expect(0, &["rebuild"]);
    assert_eq!(sandbox.json(&["list"])[0]["status"], "compensated", "a rebuild keeps the status");
    sandbox.expect(0, &["verify"]);
}

#[test]
fn irreversible_dependant_does_not_block_recorded_compensation() {
    let sandbox = Sandbox::new();
    let irreversible = "depends_on: [draft], cancellable: irreversible }";
    sandbox.write(
        "p.yaml",
        &PLAN.replace("depends_on: [draft], compensation: { action: Tell them otherwise } }", irreversible),
    );
    let id = run_and_record_both_steps(&sandbox);
    sandbox.expect(0, &["record", &id, "draft", "compensated", "--description", "threw it away"]);
    let shown = sandbox.json(&["show", &id]);
    assert_eq!((&shown["status"], &step(&shown, "tell")["status"]), (&json!("failed"), &json!("succeeded")));
    assert_eq!(shown["brief"]["cannot_undo"][0]["step"], "tell");
}

/// Runs the plan and records both steps as succeeded; returns the execution id.
fn run_and_record_both_steps(sandbox: &Sandbox) -> String {
    sandbox.expect(3, &["run", "p.yaml"]);
    let id = sandbox.newest();
    sandbox.expect(0, &["record", &id, "draft", "succeeded"]);
    sandbox.expect(3, &["resume", &id]);
    let ended = sandbox.expect(0, &["record", &id, "tell", "succeeded"]);
    assert!(ended.contains("2 of 2 steps done; everything ran"), "{ended}");
    id
}

#[test]
fn undo_of_an_execution_without_finished_steps_is_refused() {
    let sandbox = Sandbox::new();
    sandbox
        .write("p.yaml", PLAN.replace("action: Write it,", "action: Write it, approval: required,").as_str());
    sandbox.expect(3, &["run", "p.yaml"]);
    let id = sandbox.newest();
    let refused = sandbox.run(&["undo", &id]);
    assert!(refused.stderr.contains("`cancel` it"), "{}", refused.stderr);
}

#[test]
fn list_and_show_name_the_plan_alike() {
    let sandbox = Sandbox::new();
    sandbox.write("p.yaml", PLAN);
    sandbox.expect(3, &["run", "p.yaml"]);
    let (listed, shown) = (sandbox.json(&["list"]), sandbox.json(&["show", &sandbox.newest()]));
    assert_eq!(listed[0]["plan"], shown["plan"]);
}
